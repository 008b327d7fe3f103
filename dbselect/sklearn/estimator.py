"""Base classes of the estimators: the problem, and a sequence from which a prefix is chosen."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from dbselect.errors import ArgumentError, LeftOutWarning, warn_caller
from dbselect.options.conditions import CONDITIONS
from dbselect.options.kinds import COUNT, is_whole, one_of
from dbselect.pages.html import listed
from dbselect.problem.problem import Problem
from dbselect.record.policies import refuse_em
from dbselect.record.steps import longest_within, uninterrupted
from dbselect.results.glm.sequence import GlmSequence, Precision
from dbselect.results.joint import AnySequence, JointSequence
from dbselect.results.sequence import Sequence
from dbselect.sklearn.inputs import column_names, texts_of_many_levels
from dbselect.sklearn.training import Training
from dbselect.sklearn.tuning import CHOICES, Splits, chosen_step, splits_of
from dbselect.sources.partial.learn import MAX_LEVELS
from dbselect.sources.rows import Index

#: Fields of the precision that are pickled.
_PRECISION = ("degrees", "dispersion", "errors", "centre")


@dataclass(eq=False, repr=False)
class GroupedEstimator(BaseEstimator):
    """Base estimator on groups; scikit-learn reads its parameters from the dataclass signature."""

    _: KW_ONLY
    groups: Any = None
    costs: Any = None
    shared: Any = None
    needs: Any = None
    one_of: Any = None
    limits: Any = None
    ridge: float = 0.0
    scale: bool = True
    fit_intercept: bool = True
    null_policy: str = "indicator"
    max_levels: int = MAX_LEVELS

    def _training(
        self, X: Any, y: Any, kept: Index, weight: Any, *, classifier: bool = False
    ) -> tuple[Training, Splits | None]:
        """Return the rows of weight > 0 and their splits by `cv`."""
        COUNT.check("max_levels", self.max_levels)
        y = y[:, None] if y.ndim == 1 else y
        names, levels = self._names, int(self.max_levels)
        many = texts_of_many_levels(X, levels)
        if many:
            self._check_left_out(many)
            X, names = X.drop(many), [name for name in names if name not in many]
        training = Training(X[kept], y[kept], weight, names, self.null_policy, levels)
        cv = getattr(self, "cv", None)
        if cv is not None:
            refuse_em(
                self.null_policy,
                "with cv it would fill rows that are held out by their own target; give a budget",
            )
        return training, splits_of(cv, y, kept, classifier=classifier)

    def _problem(self, training: Training, family: str = "gaussian") -> Problem:
        """Return the problem of these rows: on a Gram, or for a family in passes over a frame."""
        targets: Any = training.targets
        is_linear = family == "gaussian"
        return Problem(
            training.gram() if is_linear else training.frame(),
            targets if len(targets) > 1 else targets[0],
            columns_of_groups(self.groups, training.names),
            self.costs,
            **{name: getattr(self, name) for name in CONDITIONS},
            family=family,
            weight=None if is_linear else training.weight_name,
            null_policy="skip" if is_linear else self.null_policy,
            intercept=self.fit_intercept,
            ridge=self.ridge,
            scale=self.scale,
            always=getattr(self, "always", None) or (),
            terms=None if is_linear else training.terms(),
        )

    def _check_left_out(self, many: list[str]) -> None:
        """Warn that texts of very many levels are left out; refuse them where a group names one."""
        why = f"more than max_levels={self.max_levels} levels of text"
        for group, columns in columns_of_groups(self.groups, self._names).items():
            named = [name for name in many if name in columns]
            if named and self.groups is not None and self.groups != PREFIX:
                raise ArgumentError(
                    f"group '{group}' has column '{named[0]}' of {why}; raise it, or leave it out"
                )
        warn_caller(f"columns left out: {listed(many)} ({why})", LeftOutWarning)

    @property
    def _names(self) -> list[str]:
        return column_names(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


@dataclass(eq=False, repr=False)
class SequenceEstimator(GroupedEstimator):
    """Base estimator pickled as numbers, texts and arrays, so that skops trusts only the class."""

    _KINDS: ClassVar[dict[str, Any]] = {
        kind.__name__: kind for kind in (Sequence, JointSequence, GlmSequence)
    }

    _: KW_ONLY
    rule: str = "fr"
    budget: float | None = None
    always: Any = None

    @property
    def model_(self) -> Any:
        """The model of the prefix that was chosen."""
        return self.sequence_.model(self.step_)

    @property
    def groups_(self) -> list[str]:
        """The groups of the chosen prefix, in the order added."""
        return list(self.model_.groups)

    @property
    def budget_(self) -> float:
        """The cost of the chosen prefix."""
        return float(self.sequence_.spent[self.step_])

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        sequence = state.pop("sequence_", None)
        if sequence is None:
            return state
        fields: dict[str, Any] = {
            "kind": type(sequence).__name__,
            "record": json.dumps(sequence.to_struct()),
        }
        if isinstance(sequence, GlmSequence) and sequence.precision is not None:
            precision = sequence.precision
            fields |= {name: getattr(precision, name) for name in _PRECISION}
        return state | {"sequence_": fields}

    def __setstate__(self, state: Any) -> None:
        fields = state.get("sequence_")
        if fields is not None:
            sequence = self._KINDS[fields["kind"]].from_struct(json.loads(fields["record"]))
            if "errors" in fields:
                precision = {name: fields[name] for name in _PRECISION}
                sequence = replace(sequence, precision=Precision(**precision))
            state = {**state, "sequence_": sequence}
        super().__setstate__(state)


@dataclass(eq=False, repr=False)
class AnytimeEstimator(SequenceEstimator):
    """Base estimator that chooses a prefix of `dbselect.anytime_sequence`."""

    budget: float | None = None
    _: KW_ONLY
    max_groups: int | None = None
    cv: Any = None
    choice: str = "best"

    def _find(self, training: Training, splits: Splits | None, family: str = "gaussian") -> None:
        """Search, and choose the prefix."""
        one_of(CHOICES).check("choice", self.choice)
        self._means_of_fit = training.means()
        self.sequence_ = self._search(training, family)
        self.step_ = longest_within(self.sequence_.spent, None)
        if splits is not None:
            self.step_, self.cv_results_ = chosen_step(
                self.sequence_, training, splits, partial(self._search, family=family), self.choice
            )

    def _search(self, training: Training, family: str) -> AnySequence:
        options: Any = {
            "rule": self.rule, "budget": self.budget, "max_groups": self.max_groups,
        }  # fmt: skip
        return uninterrupted(self._problem(training, family).anytime_sequence(**options))


#: Separator of ColumnTransformer and FeatureUnion between the transformer's name and a column's.
BETWEEN = "__"
#: Value of `groups` for one group per transformer.
PREFIX = "prefix"


def columns_of_groups(groups: Any, names: list[str]) -> dict[str, list[str]]:
    """Return the columns and globs of each group.

    `groups` is None, one group per column; ``"prefix"``, one group per transformer; or a mapping
    of names to a column, a glob, a number from 0, or a list of these. ArgumentError for anything
    else.
    """
    if groups is None:
        return {name: [name] for name in names}
    if isinstance(groups, str) and groups == PREFIX:
        if not any(BETWEEN in name for name in names):
            raise ArgumentError(
                f"groups is 'prefix', and no column's name begins with a transformer's and "
                f"'{BETWEEN}': they are {listed(names)}; name groups and their columns"
            )
        columns: dict[str, list[str]] = {}
        for name in names:
            columns.setdefault(name.partition(BETWEEN)[0], []).append(name)
        return columns
    if not isinstance(groups, Mapping):
        raise ArgumentError(
            f"groups is {groups!r}; it must be None, 'prefix', or map names to lists of columns"
        )
    return {name: _members(name, members, names) for name, members in groups.items()}


def _members(group: Any, members: Any, names: list[str]) -> list[str]:
    is_list = isinstance(members, Iterable) and not isinstance(members, str)
    return [_column(group, member, names) for member in (members if is_list else [members])]


def _column(group: Any, member: Any, names: list[str]) -> str:
    if isinstance(member, str):
        return member
    if not is_whole(member) or not 0 <= int(member) < len(names):
        raise ArgumentError(
            f"group {group!r} has {member!r}; it must have names of columns, or numbers from 0 to "
            f"{len(names) - 1}"
        )
    return names[int(member)]

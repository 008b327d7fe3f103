"""Problem fields, as searches, fits and results use them, and which go together."""

from collections.abc import Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import polars as pl

from dbselect._lazy import top_level
from dbselect.errors import ArgumentError, ColumnError, GroupError, shown
from dbselect.families import Family, parse
from dbselect.glm.links import family_of
from dbselect.objectives.contract import Objective, is_objective
from dbselect.options.conditions import (
    CONDITIONS,
    Conditions,
    Limits,
    Needs,
    OneOf,
    Shared,
    checked,
)
from dbselect.options.kinds import is_whole
from dbselect.options.names import FamilyName, GramName
from dbselect.options.option import is_default, options_of
from dbselect.record.columns import doubled
from dbselect.record.foreign import native
from dbselect.record.gram import Gram
from dbselect.record.groups import Costs, GroupColumns, GroupNames, costs_by_name, patterns_by_name
from dbselect.record.policies import check_policies, refuse_em
from dbselect.record.terms import Terms
from dbselect.sources.request import NullPolicy
from dbselect.sources.types import Source
from dbselect.spec.fields import Level, ProblemOptions

#: One response, or several that share groups and costs.
Target = str | list[str] | tuple[str, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Spec:
    """The checked fields of a `Problem`, without its methods; in a result without its source."""

    source: Source | Objective | None
    target: Target | None = None
    groups: GroupColumns | None = None
    costs: Costs | None = None
    _: KW_ONLY
    family: Family | FamilyName | str = "gaussian"
    weight: str | None = None
    offset: str | None = None
    exposure: str | None = None
    positive: Level | None = None
    intercept: bool = True
    ridge: float = 0.0
    scale: bool = True
    null_policy: NullPolicy = "skip"
    always: GroupNames = ()
    rows: int | None = None
    seed: int = 0
    gram: GramName = "auto"
    terms: Terms | None = None
    shared: Shared | None = None
    needs: Needs | None = None
    one_of: OneOf | None = None
    limits: Limits | None = None
    #: Cache of data read from the source; ignored by ==.
    _read: dict[Any, Any] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._set("family", parse(self.family))
        fields = vars(self)
        for name, option in options_of(ProblemOptions).items():
            if name != "family" and fields[name] is not option.default:
                self._set(name, option.checked(name, fields[name]))
        check_combination(parse(self.family), vars(self))
        self._set("always", tuple(self.always))
        for name in CONDITIONS:
            if fields[name] is not None:
                self._set(name, checked(name, fields[name]))
        if self.groups is not None:
            self._set("groups", patterns_by_name(self.groups))
        self._read_formula()
        if self.groups is not None:
            self.told.check(list(self.groups))
        if self.costs is not None:
            self._set("costs", _costs(self.costs, self.groups, self.told.with_set_up))
        self._check_target()

    @property
    def told(self) -> Conditions:
        """The conditions on sets of groups."""
        fields = {name: getattr(self, name) for name in CONDITIONS}
        return Conditions(**{name: value for name, value in fields.items() if value})

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        names = (name for name in self.__dataclass_fields__ if name[0] != "_")
        return all(_equal(getattr(self, name), getattr(other, name)) for name in names)

    __hash__ = None  # type: ignore[assignment]  # mappings and frames are not hashable

    def _check_target(self) -> None:
        if is_objective(self.source):
            self._check_objective()
        elif isinstance(self.target, list | tuple):
            check_targets(self.target)
        elif not isinstance(self.target, str):
            message = f"target is {shown(self.target)}; it must be the name of a column"
            if is_whole(self.target):
                message += f", which is '{self.target}' where pandas numbers its columns"
            if isinstance(self.source, str):
                message += f": the table comes first, as in Problem(table, {self.source!r})"
            raise ColumnError(message)

    def _read_formula(self) -> None:
        """Expand a formula into target, terms and groups; here nothing, without a table."""

    def _check_objective(self) -> None:
        fields = {"target": self.target, "groups": self.groups} | self._changed_words()
        for name, value in fields.items():
            if value is not None and name not in ("always", "seed", *CONDITIONS):
                raise ArgumentError(f"{name} is {shown(value)}; it is for tables, and source is an "
                                    "objective, which has its own")  # fmt: skip

    def __repr__(self) -> str:
        if is_objective(self.source):
            return f"Problem({self.source!r}{self._costs_words()})"
        groups = "all columns" if self.groups is None else f"{len(self.groups)} groups"
        target = self.target if isinstance(self.target, str) else ", ".join(self.target or ())
        fields = "".join(f", {n} {shown(value)}" for n, value in self._changed_words().items())
        formula = (self.terms and self.terms.formula) or f"{target} ~ {groups}"
        return f"Problem({formula}{self._costs_words()}{fields}; {_kind(self.source)})"

    def _changed_words(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults, as `repr` shows them."""
        fields: dict[str, Any] = dict(self.changed())
        if "family" in fields:
            fields["family"] = str(fields["family"])
        if "terms" in fields:
            terms = fields.pop("terms")
            fields |= {} if terms.formula else {"terms": terms.made}
        return fields

    def _costs_words(self) -> str:
        if not isinstance(self.costs, Mapping) or not self.costs:
            return ""
        least, most = min(self.costs.values()), max(self.costs.values())
        return f", costs {least:g} to {most:g}" if least < most else f", costs {least:g}"

    @property
    def is_linear(self) -> bool:
        """Whether the models are linear, so that a Gram matrix suffices."""
        return parse(self.family).is_linear and self.offset is None

    @property
    def targets(self) -> list[str]:
        """The responses."""
        return [self.target] if isinstance(self.target, str) else list(self.target or ())

    def changed(self) -> dict[str, Any]:
        """Return the fields that differ from defaults, except source, target, groups and costs."""
        changed, fields = {}, vars(self)
        for name, option in options_of(ProblemOptions).items():
            value = fields[name]
            if value is not option.default and not is_default(
                option, str(value) if name == "family" else value
            ):
                changed[name] = value
        return changed

    def replace(self, **changes: Any) -> Self:
        """Return the problem with changed fields.

        Raises
        ------
        TypeError : there is no such field
        """
        return replace(self, **changes)

    def of_columns(self, **changes: Any) -> Self:
        """Return the problem of a fit on columns, which need not be groups and have no prices."""
        none = dict.fromkeys(("groups", "costs", *CONDITIONS))
        return self.replace(**none, always=(), **changes)

    def without_rows(self) -> Self:
        """Return the problem without its source, as results keep it."""
        copied = object.__new__(type(self))  # no __post_init__: the fields are already checked
        vars(copied).update(vars(self), source=None, _read={})
        return copied

    def on(self, source: Any) -> Self:
        """Return the problem with another source."""
        return replace(self, source=source)

    def on_gram(self, gram: Gram) -> Self:
        """Return the problem with this Gram, read by its options, as source."""
        return replace(
            self, source=gram, weight=None, null_policy="skip", rows=None, terms=None, gram="auto"
        )


def problem_of(*values: Any, **fields: Any) -> Spec:
    """Make a `Problem`, whose class is above this layer."""
    problem: Spec = top_level("Problem")(*values, **fields)
    return problem


def answer_of(problem: Spec, method: str, /, *values: Any, **options: Any) -> Any:
    """Call a method of a problem by name, from a layer below its class."""
    return getattr(problem, method)(*values, **options)


def _equal(value: Any, other: Any) -> bool:
    """Whether two fields are equal; frames and arrays only if they are the same object."""
    if value is other:
        return True
    if isinstance(value, pl.Series) and isinstance(other, pl.Series):
        return value.equals(other)
    try:
        return type(value) is type(other) and bool(value == other)
    except (TypeError, ValueError):
        return False


def check_targets(targets: Any) -> None:
    """Refuse a list of responses that is empty or has duplicates."""
    if not targets:
        raise ArgumentError(f"target is {targets!r}; it must name at least one column")
    for name in targets:
        if not isinstance(name, str):
            raise ColumnError(f"target has {shown(name)}; it must list names of columns")
    if (twice := doubled(targets)) is not None:
        raise ColumnError(f"target names column '{twice}' twice")


def _costs(costs: Any, groups: Any, free: Collection[str]) -> Any:
    """Return costs by name; a Series without labels is matched later, to the groups."""
    costs = native(costs)
    if isinstance(costs, pl.Series):
        return costs
    if isinstance(costs, int | float | str):
        raise GroupError(f"costs is {shown(costs)}; it must map group names to numbers > 0")
    return costs_by_name(costs, list(groups or ()), free)


def _kind(source: Any) -> str:
    if source is None:
        return "without rows"
    return repr(source) if isinstance(source, str) else type(source).__name__


#: Error for a list of responses.
ONE_TARGET = "it must be one column here; lists of responses are for anytime_sequence and sght"


def check_combination(family: Family, fields: Mapping[str, Any]) -> None:
    """Refuse fields that do not fit the family or each other, with the reason."""
    check_policies(fields["null_policy"])
    if not (family.is_linear and fields["offset"] is None and fields["gram"] != "lazy"):
        refuse_em(
            fields["null_policy"],
            "EM completes the whole Gram of a linear model: family must be 'gaussian', without "
            "offset, and gram not 'lazy'",
        )
    if not (family.is_linear and fields["offset"] is None):
        require_single_target(fields["target"])
    offset, exposure, positive = fields["offset"], fields["exposure"], fields["positive"]
    if family.has_classes and offset is not None:
        raise ArgumentError(
            f"offset is {offset!r}; added to the predictors of all classes it changes nothing"
        )
    if exposure is not None and family.link != "log":
        raise ArgumentError(
            f"exposure is {exposure!r}; its logarithm is added where the link is log, and family "
            f"'{family}' has the link {family.link}"
        )
    if positive is not None and family.name != "binomial":
        raise ArgumentError(
            f"positive is {shown(positive)}; only family 'binomial' has a level that counts as 1"
        )
    if not (fields["intercept"] or family.has_classes or family_of(str(family)).at_zero):
        raise ArgumentError(
            "intercept is False; the model without columns has the predictor 0 then, at which "
            f"family '{family}' has no mean"
        )
    if fields["gram"] == "lazy":
        _check_lazy(family, fields)


def _check_lazy(family: Family, fields: Mapping[str, Any]) -> None:
    if not (family.is_linear and fields["offset"] is None):
        raise ArgumentError(
            "gram is 'lazy'; rows of the Gram are those of a linear model: family must be "
            "'gaussian', without offset"
        )
    if not fields["intercept"]:
        raise ArgumentError("intercept is False; gram='lazy' reads rows of centred columns")
    if isinstance(fields["target"], list | tuple):
        raise ArgumentError(
            f"target is {shown(fields['target'])}; it must be one column here, as gram='lazy' "
            "reads rows for one response"
        )


def require_single_target(target: Any) -> None:
    """Refuse a list of responses, and name the methods that take one."""
    if isinstance(target, list | tuple):
        raise ArgumentError(f"target is {shown(list(target))}; {ONE_TARGET}")

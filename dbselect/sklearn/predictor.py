"""What regressor and classifier have in common: a sequence, and the prefix that predicts."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import _get_feature_names, check_array, check_is_fitted, validate_data

from dbselect.errors import ArgumentError
from dbselect.judging.evaluate import EveryPrefix
from dbselect.methods.anytime import anytime_sequence
from dbselect.record.checks import check_budget
from dbselect.record.steps import longest_within
from dbselect.sklearn.grouping import columns_of_groups
from dbselect.sklearn.portable import Portable
from dbselect.sklearn.training import Training
from dbselect.sklearn.tuning import CHOICES, Splits, chosen_step

Numbers = npt.NDArray[np.float64]


class AnytimePredictor(Portable):
    """A sequence of groups, of which a prefix predicts.

    A subclass has the parameters in its signature, as scikit-learn wants it.
    """

    budget: float | None
    groups: Any
    costs: Any
    rule: Any
    ridge: float
    scale: bool
    #: Of a subclass without this parameter.
    fit_intercept: bool = True
    max_groups: int | None
    always: Any
    cv: Any
    choice: str

    def _fit(self, training: Training, family: str, splits: Splits | None) -> Self:
        """Search, and choose the prefix that predicts."""
        self.sequence_ = self._search(training, family)
        self.step_ = len(self.sequence_.spent) - 1
        if splits is not None:
            self.step_, self.cv_results_ = chosen_step(
                self.sequence_,
                training,
                splits,
                lambda rows: self._search(rows, family),
                self.choice,
            )
        elif self.choice not in CHOICES:
            raise ArgumentError(f"choice is {self.choice!r}; it must be one of {list(CHOICES)}")
        return self

    def _search(self, training: Training, family: str) -> EveryPrefix:
        """Return the sequence of some rows: of a Gram, or of a frame in passes."""
        options: dict[str, Any] = {
            "rule": self.rule, "ridge": self.ridge, "scale": self.scale,
            "intercept": self.fit_intercept, "budget": self.budget,
            "max_groups": self.max_groups, "always": self.always or (),
        }  # fmt: skip
        groups = columns_of_groups(self.groups, training.names)
        if family == "gaussian":
            source: Any = training.gram()
        else:
            source = training.frame()
            options |= {"family": family, "weight": training.weight_name}
        targets: Any = training.targets if training.y.shape[1] > 1 else training.targets[0]
        found: EveryPrefix = anytime_sequence(source, targets, groups, self.costs, **options)
        return found

    @property
    def _names(self) -> list[str]:
        return column_names(self)

    def _means(self, X: Any, budget: float | None) -> Numbers:
        """Return what the prefix predicts, or of each row the longest prefix that it can have."""
        check_is_fitted(self)
        if budget is None:
            rows = validate_data(self, X, dtype=np.float64, reset=False)
            model = self.model_
            return np.asarray(model.predict(rows[:, self._places(model)], model.columns))
        check_budget(budget)
        rows = self._partial_rows(X)
        found = self.sequence_.model(0).predict(np.empty((len(rows), 0)))
        waiting = np.ones(len(rows), dtype=bool)
        for step in range(longest_within(self.sequence_.spent, budget), 0, -1):
            model = self.sequence_.model(step)
            needed = rows[:, self._places(model)]
            able = waiting & np.isfinite(needed).all(axis=1)
            if able.any():
                found[able] = model.predict(needed[able], model.columns)
                waiting &= ~able
        return found

    def _places(self, model: Any) -> list[int]:
        place = {name: j for j, name in enumerate(self._names)}
        return [place[name] for name in model.columns]

    def _partial_rows(self, X: Any) -> Numbers:
        """Return rows with NaN for what is not there; a frame may lack columns."""
        given = _get_feature_names(X)
        if given is None or not hasattr(self, "feature_names_in_"):
            return np.asarray(
                validate_data(self, X, dtype=np.float64, reset=False, ensure_all_finite=False)
            )
        there = [name for name in given if name in self._names]
        rows = np.full((len(X), len(self._names)), np.nan)
        if there:
            own = check_array(X[there], dtype=np.float64, ensure_all_finite=False)
            place = {name: j for j, name in enumerate(self._names)}
            rows[:, [place[name] for name in there]] = own
        return rows


def column_names(estimator: Any) -> list[str]:
    """Return the names of the columns that an estimator was fitted to."""
    named = getattr(estimator, "feature_names_in_", None)
    if named is not None:
        return [str(name) for name in named]
    return [f"x{j}" for j in range(estimator.n_features_in_)]


def coefficients_on(names: list[str], coefficients: Any) -> Numbers:
    """Return coefficients on all columns, 0 where the model has none; shape (d,)."""
    return np.array([float(coefficients.get(name, 0.0)) for name in names])

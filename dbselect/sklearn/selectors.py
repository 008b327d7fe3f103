"""Selectors of columns: anytime, FoBa and SGHT."""

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.feature_selection import SelectorMixin
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from dbselect.record.steps import longest_within, uninterrupted
from dbselect.sklearn.estimator import AnytimeEstimator, GroupedEstimator, SequenceEstimator
from dbselect.sklearn.inputs import rows_that_count, validated
from dbselect.sklearn.training import Training
from dbselect.sklearn.tuning import Splits


class GramSelector(SelectorMixin, GroupedEstimator):
    """Base class of selectors: the columns of the groups that a method chooses on a Gram."""

    model_: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose columns.

        Parameters
        ----------
        X : as in `AnytimeRegressor.fit`
        y : shape (n,), numbers; two classes as 0 and 1
        sample_weight : shape (n,), >= 0; rows of weight 0 are ignored

        Returns
        -------
        The estimator

        Raises
        ------
        ValueError : a parameter is out of range, or the rows have nothing to explain
        """
        X, y = validated(self, X, y)
        kept, weight = rows_that_count(X, sample_weight)
        self._choose(*self._training(X, np.asarray(y, dtype=np.float64), kept, weight))
        held = {x for name in self.model_.columns for x in (name, name.rpartition(".")[0])}
        self.support_ = np.isin(self._names, list(held))
        return self

    def transform(self, X: Any) -> Any:
        """Return the chosen columns; with ``set_output`` a Polars frame keeps its types."""
        is_kept = _get_output_config("transform", self)["dense"] != "default"
        if not (is_kept and isinstance(X, pl.DataFrame)):
            return super().transform(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        return X.select(self.get_feature_names_out())

    @abstractmethod
    def _choose(self, training: Training, splits: Splits | None) -> None:
        """Set the fitted attributes; `splits` choose the prefix of a sequence."""

    def _get_support_mask(self) -> npt.NDArray[np.bool_]:
        check_is_fitted(self)
        return self.support_


@dataclass(eq=False, repr=False)
class AnytimeSelector(GramSelector, AnytimeEstimator):
    """Columns of the groups within a budget, by `dbselect.anytime_sequence`.

    Parameters
    ----------
    budget, groups, costs, shared, needs, one_of, limits, ridge, scale, fit_intercept, null_policy,
        max_levels : as in `AnytimeRegressor`
    rule, always, max_groups, cv, choice : as in `AnytimeRegressor`

    Attributes
    ----------
    sequence_ : sequence of groups
    model_, groups_, step_, budget_ : linear model on the columns kept, their groups, the step
        of the sequence, and its cost
    support_ : shape (d,), whether a column is kept
    cv_results_ : with `cv`, as in `AnytimeRegressor`
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Notes
    -----
    The columns are chosen by a linear model, with two classes as 0 and 1. The Gram of the rows is
    cached, as in `AnytimeRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from dbselect.sklearn import AnytimeSelector
    >>> X = np.array([[1, 1], [2, -1], [3, -1], [4, 1]])
    >>> selector = AnytimeSelector(budget=1.0).fit(X, [3, 4, 6, 9])
    >>> selector.get_feature_names_out().tolist(), selector.transform(X)[:, 0].tolist()
    (['x0'], [1, 2, 3, 4])
    """

    def _choose(self, training: Training, splits: Splits | None) -> None:
        self._find(training, splits)


@dataclass(eq=False, repr=False)
class FoBaSelector(GramSelector, SequenceEstimator):
    """Columns of the groups that `dbselect.foba` holds at its end.

    Parameters
    ----------
    epsilon : share of the target's variance that a group must gain, >= 0
    groups, costs, shared, needs, one_of, limits, ridge, scale, fit_intercept, null_policy,
        max_levels : as in `AnytimeRegressor`
    rule, budget, always : as in `dbselect.foba`
    nu : share of a gain that a removal may lose, in (0, 1)
    backward, max_steps : as in `dbselect.foba`

    Attributes
    ----------
    sequence_ : sequence of additions and removals of groups
    model_, groups_, support_, n_features_in_, feature_names_in_ : as in `AnytimeSelector`

    Examples
    --------
    >>> import numpy as np
    >>> from dbselect.sklearn import FoBaSelector
    >>> X = np.array([[1, 1], [2, -1], [3, -1], [4, 1]])
    >>> FoBaSelector(epsilon=0.1).fit(X, [3, 4, 6, 9]).get_support().tolist()
    [True, False]
    """

    epsilon: float = 0.0
    _: KW_ONLY
    nu: float = 0.5
    backward: str = "loss"
    max_steps: int | None = None

    def _choose(self, training: Training, splits: Splits | None) -> None:
        options: dict[str, Any] = {
            "epsilon": self.epsilon, "nu": self.nu, "rule": self.rule, "backward": self.backward,
            "max_steps": self.max_steps, "budget": self.budget,
        }  # fmt: skip
        self.sequence_ = uninterrupted(self._problem(training).foba(**options))
        self.step_ = longest_within(self.sequence_.spent, None)


@dataclass(eq=False, repr=False)
class SGHTSelector(GramSelector):
    """At most `max_columns` columns in at most `max_groups` groups, by `dbselect.sght`.

    Parameters
    ----------
    max_columns, max_groups : limits; default: half of all, at least 1, as in RFE
    groups, costs, shared, needs, one_of, limits, ridge, scale, fit_intercept, null_policy,
        max_levels : as in `AnytimeRegressor`
    variant, start, refit, polish, tol, max_iter : as in `dbselect.sght`

    Attributes
    ----------
    selected_ : the model and how it was found
    n_iter_ : steps of the descent
    model_, groups_, support_, n_features_in_, feature_names_in_ : as in `AnytimeSelector`

    Examples
    --------
    >>> import numpy as np
    >>> from dbselect.sklearn import SGHTSelector
    >>> X = np.array([[1, 1], [2, -1], [3, -1], [4, 1]])
    >>> SGHTSelector(max_columns=1).fit(X, [3, 4, 6, 9]).get_support().tolist()
    [True, False]
    """

    max_columns: int | None = None
    max_groups: int | None = None
    _: KW_ONLY
    variant: str = "ista"
    start: Any = "ridge"
    refit: bool = True
    polish: bool = True
    tol: float = 1e-8
    max_iter: int = 500

    def _choose(self, training: Training, splits: Splits | None) -> None:
        problem = self._problem(training)
        options: dict[str, Any] = {
            "variant": self.variant, "start": self.start, "refit": self.refit,
            "polish": self.polish, "tol": self.tol, "max_iter": self.max_iter,
        }  # fmt: skip
        groups: Any = problem.groups
        columns = sum(len(members) for members in groups.values())
        self.selected_ = problem.sght(
            **options,
            max_columns=max(columns // 2, 1) if self.max_columns is None else self.max_columns,
            max_groups=max(len(groups) // 2, 1) if self.max_groups is None else self.max_groups,
        )  # fmt: skip
        self.n_iter_ = max(self.selected_.iterations, 1)

    @property
    def model_(self) -> Any:
        """The model on the columns kept."""
        return self.selected_.model

    @property
    def groups_(self) -> list[str]:
        """The groups of the columns kept."""
        return list(self.selected_.groups)

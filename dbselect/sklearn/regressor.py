"""A regressor on groups of features within a budget."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from dbselect.options.kinds import one_of
from dbselect.record.inputs import MissingColumns
from dbselect.sklearn.inputs import rows_that_count, validated
from dbselect.sklearn.predictor import PredictingEstimator

#: Families of the regressor.
FAMILIES = ("gaussian", "poisson")


@dataclass(eq=False, repr=False)
class AnytimeRegressor(RegressorMixin, PredictingEstimator):
    """Least squares, or Poisson regression, on the groups within a budget.

    Parameters
    ----------
    budget : limit on the summed cost, as in `dbselect.anytime_sequence`; None = no limit
    groups : None, one group per column; ``"prefix"``, one group per transformer of a
        ColumnTransformer; or name -> columns, globs or numbers from 0
    costs : name of a group -> cost > 0; default 1 each
    shared, needs, one_of, limits : conditions on sets of groups, as in `dbselect.Problem`
    ridge, scale : as in `dbselect.anytime_sequence`
    fit_intercept : False for models through the origin
    null_policy : policy for missing values, as in `dbselect.Problem`; default ``"indicator"``:
        0, with a column of the same group that is 1 there; with ``"em"`` a row is predicted from
        the groups that it has
    max_levels : most levels of a column of text; one of more is left out, with a warning
    rule, always, max_groups : as in `dbselect.anytime_sequence`
    cv : as in GridSearchCV, to choose the prefix whose cost as budget explains most on held-out
        rows; None takes the whole sequence
    choice : with `cv`, ``"best"``, or ``"one_standard_error"``, the cheapest within one of the best
    handle_unknown : how `predict` treats a level of a text that the fit has not seen, and, with the
        policies ``"mean"`` and ``"indicator"``, a gap in a column without gaps in the fit:
        ``"mean"`` takes the mean effect of the levels, or the mean of the column, over the rows of
        the fit, and warns; ``"error"`` refuses the row
    family : ``"gaussian"``, on a Gram, or ``"poisson"``, in passes over the rows

    Attributes
    ----------
    sequence_ : sequence of groups, as returned by `dbselect.anytime_sequence`
    model_ : model of the chosen prefix
    step_, budget_ : step and cost of the chosen prefix
    groups_ : groups of the chosen prefix
    coef_, intercept_ : coefficients on the columns of X, 0 for columns not in the model; if texts
        or missing values added columns, on ``sequence_.columns``
    cv_results_ : with `cv`, DataFrame: step, spent, mean, std_error
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Notes
    -----
    Fitted to a Gram, which is cached: for a grid of budgets, GridSearchCV reads each fold once in
    each process. Sparse rows are summed in dense parts of 64 MB, and predictions use only the
    columns of the model; a family, and a budget in `predict`, make them dense.

    Examples
    --------
    >>> import numpy as np
    >>> from dbselect.sklearn import AnytimeRegressor
    >>> X = np.array([[1, 1], [2, -1], [3, -1], [4, 1]])
    >>> regressor = AnytimeRegressor(budget=1.0).fit(X, [3, 4, 6, 9])
    >>> regressor.groups_, regressor.predict([[10, 0]]).round(3).tolist()
    (['x0'], [20.5])
    """

    _: KW_ONLY
    family: str = "gaussian"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search, and fit the model of the chosen prefix.

        Parameters
        ----------
        X : shape (n, d): an array or sparse matrix, or a frame of pandas or Polars, whose texts
            are categories; values may be missing
        y : shape (n,), or (n, K) for several responses
        sample_weight : shape (n,), >= 0; rows of weight 0 are ignored

        Returns
        -------
        The estimator

        Raises
        ------
        ValueError : a parameter is out of range, or the rows have nothing to explain
        """
        one_of(FAMILIES).check("family", self.family)
        X, y = validated(self, X, y, several=self.family == "gaussian")
        kept, weight = rows_that_count(X, sample_weight)
        y = np.asarray(y, dtype=np.float64)
        self._is_joint = y.ndim > 1
        self._find(*self._training(X, y, kept, weight), self.family)
        has_responses = self._is_joint and y.shape[1] > 1
        models = list(self.model_.responses.values()) if has_responses else [self.model_]
        coef = np.array([self._coefficients(model.coefficients) for model in models])
        intercept = np.array([model.intercept for model in models])
        self.coef_ = coef if self._is_joint else coef[0]
        self.intercept_ = intercept if self._is_joint else float(intercept[0])
        return self

    def predict(
        self,
        X: Any,
        budget: float | None = None,
        *,
        missing_columns: MissingColumns = "error",
        available: bool = False,
    ) -> npt.NDArray[np.float64]:
        """Return predictions.

        Parameters
        ----------
        X : shape (n, d); with `budget` values may be missing, and a frame may lack columns that
            the budget does not buy
        budget : limit on the cost at prediction time, or one for each row: each row is predicted
            by the longest prefix within it whose columns are all available, at least by the one
            without columns; None = the chosen prefix on complete rows
        missing_columns : ``"unavailable"`` lets a frame lack columns: their groups are not
            available; without a budget each row then has the longest part of the chosen prefix
        available : whether to predict each row from all groups of the chosen prefix that it has,
            as `dbselect.AnytimePredictor`; for one response of family gaussian

        Returns
        -------
        shape (n,), or (n, K)

        Raises
        ------
        ValueError : X does not match the rows of the fit; without `budget` a value is missing
        ColumnError : the frame lacks a column of a prefix within the budget
        """
        if available:
            return self._predict_by_groups(X, budget)
        predictions = self._predict(X, budget, missing_columns)
        return predictions.reshape(len(predictions), -1) if self._is_joint else predictions

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.family == "gaussian"
        tags.target_tags.single_output = True
        tags.target_tags.positive_only = self.family == "poisson"
        return tags

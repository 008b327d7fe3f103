"""A regressor that buys groups of features for a budget."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin

from dbselect.options.kinds import one_of
from dbselect.record.inputs import MissingColumns
from dbselect.sklearn.inputs import rows_that_count, validated
from dbselect.sklearn.predictor import PredictingEstimator

#: What a number may be modelled by.
FAMILIES = ("gaussian", "poisson")


@dataclass(eq=False, repr=False)
class AnytimeRegressor(RegressorMixin, PredictingEstimator):
    """Least squares, or Poisson regression, on the groups that a budget buys.

    Parameters
    ----------
    budget : limit on the summed cost, as of `dbselect.anytime_sequence`; None = no limit
    groups : None, each column alone; ``"prefix"``, columns of one transformer of a
        ColumnTransformer together; or name -> columns, globs or numbers from 0
    costs : name of a group -> cost > 0; default 1 each
    ridge, scale : as of `dbselect.anytime_sequence`
    fit_intercept : False for models through the origin
    null_policy : of missing values, as of `dbselect.Problem`, but ``"indicator"``: 0, and a column
        of the same group that is 1 there
    rule, always, max_groups : as of `dbselect.anytime_sequence`
    cv : as of GridSearchCV, but None takes the whole sequence: of what its prefixes cost, the
        budget that explains most of the rows held out
    choice : of `cv`: ``"best"``, or ``"one_standard_error"``, the cheapest within one of it
    family : ``"gaussian"``, of one Gram, or ``"poisson"``, in passes over the rows
    handle_unknown : how `predict` treats a level of a text that the fit has not seen, and with the
        policies ``"mean"`` and ``"indicator"`` the first gap of a column: ``"mean"`` takes the
        mean effect of the levels, or the mean of the column, over the rows of the fit, and warns;
        ``"error"`` refuses the row

    Attributes
    ----------
    sequence_ : of all groups in order, as `dbselect.anytime_sequence` returns it
    model_ : the prefix that predicts
    step_, budget_ : its step, and what it costs
    groups_ : its groups
    coef_, intercept_ : of the columns, 0 where they are not bought; where texts or missing values
        make others of them, of ``sequence_.columns``
    cv_results_ : with `cv`, DataFrame: step, spent, mean, std_error
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Notes
    -----
    Fitted to a Gram, which is kept for the same rows: of a grid of budgets in GridSearchCV
    each fold is read once in each process. Sparse rows are summed in dense parts of 64 MB, and
    predicted of the columns that are bought; a family, and a budget in `predict`, make them dense.

    Examples
    --------
    >>> import numpy as np
    >>> from dbselect.sklearn import AnytimeRegressor
    >>> X = np.array([[1, 1], [2, -1], [3, -1], [4, 1]])
    >>> found = AnytimeRegressor(budget=1.0).fit(X, [3, 4, 6, 9])
    >>> found.groups_, found.predict([[10, 0]]).round(3).tolist()
    (['x0'], [20.5])
    """

    _: KW_ONLY
    family: str = "gaussian"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search, and fit the groups that are bought.

        Parameters
        ----------
        X : shape (n, d): an array or sparse matrix, or a frame of pandas or Polars, whose texts
            are categories; values may be missing
        y : shape (n,), or (n, K) of several responses
        sample_weight : shape (n,), >= 0; rows of weight 0 are as if they were not there

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
        several = self._is_joint and y.shape[1] > 1
        models = list(self.model_.responses.values()) if several else [self.model_]
        coef = np.array([self._coefficients(one.coefficients) for one in models])
        intercept = np.array([one.intercept for one in models])
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
        budget : what may be spent at prediction time, or one for each row: each row has the
            longest prefix within it whose columns are all available, at least the one without
            columns; None = the chosen prefix on complete rows
        missing_columns : ``"unavailable"`` lets a frame lack columns: their groups are not
            available; without a budget each row then has the longest prefix of the chosen one
        available : whether each row is predicted from all groups of the chosen prefix that it
            has, as by `dbselect.AnytimePredictor`, of one response of family gaussian

        Returns
        -------
        shape (n,), or (n, K)

        Raises
        ------
        ValueError : X is not as the rows of the fit; without `budget` a value is missing
        ColumnError : the frame lacks a column that the budget buys
        """
        if available:
            return self._by_groups(X, budget)
        found = self._means(X, budget, missing_columns)
        return found.reshape(len(found), -1) if self._is_joint else found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.family == "gaussian"
        tags.target_tags.single_output = True
        tags.target_tags.positive_only = self.family == "poisson"
        return tags

"""A classifier that buys groups of features for a budget."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight

from dbselect.errors import DataError
from dbselect.options.kinds import one_of
from dbselect.record.inputs import MissingColumns
from dbselect.sklearn.inputs import rows_that_count, validated
from dbselect.sklearn.predictor import PredictingEstimator

#: What classes may be modelled by.
FAMILIES = ("auto", "binomial", "multinomial")


@dataclass(eq=False, repr=False)
class AnytimeClassifier(ClassifierMixin, PredictingEstimator):
    """Logistic regression on the groups that a budget buys.

    Parameters
    ----------
    budget, groups, costs, ridge, scale, fit_intercept, null_policy : as of `AnytimeRegressor`
    rule : as of `dbselect.anytime_sequence` with a family; default ``"score"``, which is
        nearly as good as the exact gain and needs no refit of every group
    always, max_groups : as of `dbselect.anytime_sequence`
    cv, choice : as of `AnytimeRegressor`; what is explained is a share of the null deviance
    family : ``"binomial"`` of two classes, ``"multinomial"``, or ``"auto"``, by their number
    handle_unknown : as of `AnytimeRegressor`
    class_weight : class -> weight of its rows, or ``"balanced"``, as everywhere in scikit-learn

    Attributes
    ----------
    classes_ : labels, in order
    sequence_, model_, step_, budget_, groups_, cv_results_ : as of `AnytimeRegressor`; the
        models are of 0 and 1, or of the numbers of the classes
    coef_, intercept_ : shapes (1, d) and (1,) of two classes of ``"binomial"``, otherwise
        (K, d) and (K,)
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Notes
    -----
    Fitted in passes over the rows in memory: a Gram does not hold what a deviance needs, so
    that of a grid of budgets every point reads its rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dbselect.sklearn import AnytimeClassifier
    >>> X = np.array([[0], [0], [0], [1], [1], [1], [1]])
    >>> found = AnytimeClassifier().fit(X, ["no", "no", "yes", "no", "yes", "yes", "yes"])
    >>> found.predict([[0], [1]]).tolist(), found.predict_proba([[1]]).round(3).tolist()
    (['no', 'yes'], [[0.25, 0.75]])
    """

    _: KW_ONLY
    rule: str = "score"
    family: str = "auto"
    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search, and fit the groups that are bought.

        Parameters
        ----------
        X : as of `AnytimeRegressor.fit`
        y : n labels
        sample_weight : shape (n,), >= 0; rows of weight 0 are as if they were not there

        Returns
        -------
        The estimator

        Raises
        ------
        ValueError : a parameter is out of range, there is one class, or more than two of
            family binomial

        Warns
        -----
        SeparationWarning : columns determine the class of some rows; give a ridge
        """
        one_of(FAMILIES).check("family", self.family)
        X, y = validated(self, X, y, numeric=False)
        check_classification_targets(y)
        if self.class_weight is not None:
            by_class = compute_sample_weight(self.class_weight, y)
            given = 1.0 if sample_weight is None else _check_sample_weight(sample_weight, X)
            sample_weight = by_class * given
        kept, weight = rows_that_count(X, sample_weight)
        self.classes_, codes = np.unique(y[kept], return_inverse=True)
        family = self._family()
        numbers = np.zeros(len(y), np.float64 if family == "binomial" else np.int64)
        numbers[kept] = codes
        self._find(*self._training(X, numbers, kept, weight, classifier=True), family)
        each = [self.model_.coefficients]
        constants = [self.model_.intercept]
        if family == "multinomial":
            each = list(self.model_.coefficients.values())
            constants = list(self.model_.intercept.values())
        self.coef_ = np.array([self._coefficients(one) for one in each])
        self.intercept_ = np.array(constants)
        return self

    def predict_proba(
        self,
        X: Any,
        budget: float | None = None,
        *,
        missing_columns: MissingColumns = "error",
    ) -> npt.NDArray[np.float64]:
        """Return the probabilities of the classes; shape (n, K).

        Parameters
        ----------
        X, budget, missing_columns : as of `AnytimeRegressor.predict`
        """
        found = self._means(X, budget, missing_columns)
        return np.column_stack([1.0 - found, found]) if found.ndim == 1 else found

    def predict(
        self,
        X: Any,
        budget: float | None = None,
        *,
        missing_columns: MissingColumns = "error",
    ) -> npt.NDArray[Any]:
        """Return the likeliest classes; shape (n,).

        Parameters
        ----------
        X, budget, missing_columns : as of `AnytimeRegressor.predict`
        """
        probabilities = self.predict_proba(X, budget, missing_columns=missing_columns)
        return np.asarray(self.classes_[probabilities.argmax(axis=1)])

    def _family(self) -> str:
        count = len(self.classes_)
        if count < 2:
            raise DataError(f"y has one class, {self.classes_[0]!r}; classes must differ")
        if self.family == "binomial" and count > 2:
            raise DataError(f"y has {count} classes; family 'binomial' takes 2")
        if self.family != "auto":
            return self.family
        return "binomial" if count == 2 else "multinomial"

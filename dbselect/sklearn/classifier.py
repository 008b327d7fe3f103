"""A classifier on groups of features within a budget."""

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

#: Families of the classifier.
FAMILIES = ("auto", "binomial", "multinomial")


@dataclass(eq=False, repr=False)
class AnytimeClassifier(ClassifierMixin, PredictingEstimator):
    """Logistic regression on the groups within a budget.

    Parameters
    ----------
    budget, groups, costs, shared, needs, one_of, limits, ridge, scale, fit_intercept, null_policy,
        max_levels : as in `AnytimeRegressor`
    rule : as in `dbselect.anytime_sequence` with a family; default ``"score"``, which is
        nearly as good as the exact gain and needs no refit of every group
    always, max_groups : as in `dbselect.anytime_sequence`
    cv, choice : as in `AnytimeRegressor`; shares are of the null deviance
    handle_unknown : as in `AnytimeRegressor`
    family : ``"binomial"`` for two classes, ``"multinomial"``, or ``"auto"``, by their number
    class_weight : class -> weight of its rows, or ``"balanced"``, as everywhere in scikit-learn

    Attributes
    ----------
    classes_ : labels, in order
    sequence_, model_, step_, budget_, groups_, cv_results_ : as in `AnytimeRegressor`; the
        target of the models is 0 and 1, or the number of the class
    coef_, intercept_ : shapes (1, d) and (1,) for ``"binomial"``, otherwise (K, d) and (K,)
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Notes
    -----
    Fitted in passes over the rows in memory, because a Gram is not enough for a deviance; each
    point of a grid of budgets reads its rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dbselect.sklearn import AnytimeClassifier
    >>> X = np.array([[0], [0], [0], [1], [1], [1], [1]])
    >>> clf = AnytimeClassifier().fit(X, ["no", "no", "yes", "no", "yes", "yes", "yes"])
    >>> clf.predict([[0], [1]]).tolist(), clf.predict_proba([[1]]).round(3).tolist()
    (['no', 'yes'], [[0.25, 0.75]])
    """

    _: KW_ONLY
    rule: str = "score"
    family: str = "auto"
    class_weight: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Search, and fit the model of the chosen prefix.

        Parameters
        ----------
        X : as in `AnytimeRegressor.fit`
        y : n labels
        sample_weight : shape (n,), >= 0; rows of weight 0 are ignored

        Returns
        -------
        The estimator

        Raises
        ------
        ValueError : a parameter is out of range, there is one class, or more than two for
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
            row_weight = 1.0 if sample_weight is None else _check_sample_weight(sample_weight, X)
            sample_weight = by_class * row_weight
        kept, weight = rows_that_count(X, sample_weight)
        self.classes_, codes = np.unique(y[kept], return_inverse=True)
        family = self._family()
        numbers = np.zeros(len(y), np.float64 if family == "binomial" else np.int64)
        numbers[kept] = codes
        self._find(*self._training(X, numbers, kept, weight, classifier=True), family)
        coefs = [self.model_.coefficients]
        constants = [self.model_.intercept]
        if family == "multinomial":
            coefs = list(self.model_.coefficients.values())
            constants = list(self.model_.intercept.values())
        self.coef_ = np.array([self._coefficients(coef) for coef in coefs])
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
        X, budget, missing_columns : as in `AnytimeRegressor.predict`
        """
        p = self._predict(X, budget, missing_columns)
        return np.column_stack([1.0 - p, p]) if p.ndim == 1 else p

    def predict(
        self,
        X: Any,
        budget: float | None = None,
        *,
        missing_columns: MissingColumns = "error",
    ) -> npt.NDArray[Any]:
        """Return the most probable classes; shape (n,).

        Parameters
        ----------
        X, budget, missing_columns : as in `AnytimeRegressor.predict`
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

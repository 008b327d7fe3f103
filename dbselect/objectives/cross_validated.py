"""Cross-validated score of an estimator on sets of columns, with the same folds for all."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, ColumnError, EngineError, shown, unknown
from dbselect.objectives.fingerprint import fingerprint
from dbselect.options.kinds import FOLDS_OF_SKLEARN, is_whole
from dbselect.record.columns import numbers_among
from dbselect.record.foreign import in_memory, is_frame, is_of, native
from dbselect.record.gram import Vector


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """Function from columns to the score on each fold; can be sent to other processes."""

    estimator: Any  # as of ``cross_val_score``
    # X, y: rows
    X: Any
    y: Any
    folds: list[Any]  # (train, test) of each
    scoring: Any  # as of ``cross_val_score``
    columns: list[str]  # names of the columns of X
    name: str | None  # digest of the fields above; None if one has none

    @property
    def label(self) -> str:
        """The score and the estimator, by name."""
        scoring = self.scoring if isinstance(self.scoring, str) else "score"
        return f"{scoring} of {type(self.estimator).__name__}"

    @property
    def classifies(self) -> bool:
        """Whether the estimator predicts classes."""
        from sklearn.base import is_classifier

        return bool(is_classifier(self.estimator))

    def __call__(self, columns: list[str]) -> Vector:
        """Return the score on each fold; without columns, that of a constant."""
        from sklearn.dummy import DummyClassifier, DummyRegressor
        from sklearn.model_selection import cross_val_score

        estimator, X = self.estimator, self.rows(columns)
        if not columns:
            classifies = self.classifies
            estimator = DummyClassifier(strategy="prior") if classifies else DummyRegressor()
            X = np.zeros((len(self.y), 1))
        scores: Vector = cross_val_score(
            estimator, X, self.y, cv=self.folds, scoring=self.scoring, error_score="raise"
        )
        return scores

    def rows(self, columns: list[str], X: Any = None) -> Any:
        """Return columns of the rows, or of `X`, in the container of the caller."""
        X = self.X if X is None else X
        if isinstance(X, np.ndarray):
            return X[:, numbers_among(columns, self.columns)]
        return X[list(columns)]

    def fitted(self, columns: list[str]) -> Any:
        """Return the estimator, fitted to all rows of some columns."""
        from sklearn.base import clone

        return clone(self.estimator).fit(self.rows(columns), self.y)


def scorer_of(estimator: Any, X: Any, y: Any, cv: Any, scoring: Any) -> CrossValidated:
    """Return the score function of an estimator, with the arguments of `Score.of`."""
    try:
        from sklearn.base import is_classifier
        from sklearn.metrics import get_scorer_names
        from sklearn.model_selection import check_cv
    except ImportError:
        raise EngineError(
            "Score.of needs scikit-learn: pip install 'dbselect[sklearn]'; Score(function, groups) "
            "takes any function"
        ) from None
    if not hasattr(estimator, "fit") or isinstance(estimator, type):
        raise ArgumentError(
            f"estimator is {shown(estimator)}; it must be an object with fit, as RandomForest...()"
        )
    if isinstance(scoring, str) and scoring not in get_scorer_names():
        raise ArgumentError(f"scoring names {unknown('score', scoring, get_scorer_names())}")
    if isinstance(X, np.ndarray) and X.ndim == 2:
        columns = [f"x{at}" for at in range(X.shape[1])]
    elif is_frame(X):
        X = native(X) if is_of(native(X), "pandas") else in_memory(X)
        columns = list(X.columns)
    else:
        raise ArgumentError(f"X is {shown(X)}; it must be a frame, or an array of shape (n, d)")
    if not all(isinstance(name, str) for name in columns):
        raise ColumnError(f"X has columns {columns[:5]}; names of columns are text")
    if isinstance(y, str):
        raise ArgumentError(f"y is {y!r}; it must be values, one a row, as X[{y!r}]")
    y = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    if y.ndim != 1 or len(y) != len(X):
        raise ArgumentError(f"y has shape {y.shape}; it must be one value a row of {len(X)}")
    if is_whole(cv) or isinstance(cv, str):
        FOLDS_OF_SKLEARN.check("cv", cv)
    splitter = check_cv(cv, y, classifier=is_classifier(estimator))
    try:
        folds = list(splitter.split(np.zeros((len(y), 1)), y))
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"cv is {shown(cv)}, which cannot split the rows: {error} A splitter that needs groups "
            "gives pairs of row numbers: cv=list(splitter.split(X, y, groups))"
        ) from error
    key = fingerprint(estimator, scoring, X, y, folds)
    name = None if key is None else f"{type(estimator).__name__}-{key}"
    return CrossValidated(estimator, X, y, folds, scoring, columns, name)

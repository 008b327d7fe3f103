"""What regressor and classifier have in common: a sequence, and the prefix that predicts."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.sparse import issparse
from sklearn.utils.validation import _get_feature_names, check_array, check_is_fitted

from dbselect.errors import ArgumentError, UnknownLevelWarning, warn_caller
from dbselect.options.kinds import one_of
from dbselect.record.categories import Category
from dbselect.record.columns import SUFFIX
from dbselect.record.inputs import HandleUnknown, MissingColumns, check_missing_columns
from dbselect.results.sequence import Sequence
from dbselect.sklearn.estimator import AnytimeEstimator
from dbselect.sklearn.inputs import as_polars, complete, dense, has_text, rows_to_predict
from dbselect.spec.spec import answer_of

Numbers = npt.NDArray[np.float64]


def _unseen(category: Category) -> str:
    """Return a text that is no level of a category."""
    text = "unseen"
    while text in category.levels:
        text += "_"
    return text


@dataclass(eq=False, repr=False)
class PredictingEstimator(AnytimeEstimator):
    """A sequence of groups, of which a prefix predicts."""

    _: KW_ONLY
    handle_unknown: str = "mean"

    def _means(self, X: Any, budget: Any, missing_columns: MissingColumns) -> Numbers:
        """Return what the prefix predicts, or of each row the longest prefix that it can have."""
        check_is_fitted(self)
        check_missing_columns(missing_columns)
        one_of(HandleUnknown).check("handle_unknown", self.handle_unknown)
        if budget is None and missing_columns == "error":
            rows, given, model = rows_to_predict(self, X), self._names, self.model_
            if isinstance(rows, pl.DataFrame):
                return self._complete(np.asarray(model.predict(rows)), rows, None)
            if issparse(rows):
                read = [j for j, name in enumerate(given) if name in model.columns]
                rows, given = rows[:, read].toarray(), [given[j] for j in read]
            return self._complete(np.asarray(model.predict(rows, given)), rows, given)
        if budget is None:
            budget = float(self.sequence_.spent[self.step_])
        rows, names = self._partial_rows(X)
        return np.asarray(
            self.sequence_.predict(rows, budget, columns=names, missing_columns=missing_columns)
        )

    def _complete(self, predictions: Numbers, rows: Any, names: list[str] | None) -> Numbers:
        """Return predictions, where one is missing with means of the fit; else DataError."""
        lacking = np.atleast_1d(np.isnan(predictions.reshape(len(predictions), -1)).any(axis=1))
        if self.handle_unknown != "mean" or not lacking.any():
            return complete(predictions)
        filled: Any
        if names is None:
            filled = self._filled_frame(rows.filter(lacking))
        else:
            filled = np.array(rows[lacking], dtype=np.float64)
            for at in range(len(names)):
                if self._is_filled(names[at]):
                    filled[~np.isfinite(filled[:, at]), at] = self._means_of_fit[names[at]]
        predictions[lacking] = self.model_.predict(filled, names, handle_unknown="mean")
        complete(predictions)
        warn_caller(
            f"{lacking.sum():,} of {len(lacking):,} rows have a level that the fit has not seen, "
            "or lack a value that no row of the fit lacked; they are predicted with the mean "
            "effect of the levels, or the mean of the column, over the rows of the fit",
            UnknownLevelWarning,
        )
        return predictions

    def _filled_frame(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows whose gaps have the mean of the fit, or of text a level that it has not."""
        texts = {category.column: category for category in self.sequence_.terms.categories}
        fills = []
        for name in rows.columns:
            if name in texts and texts[name].missing not in self.sequence_.columns:
                fills.append(pl.col(name).cast(pl.String).fill_null(_unseen(texts[name])))
            elif self._is_filled(name):
                mean = self._means_of_fit[name]
                fills.append(pl.col(name).cast(pl.Float64).fill_nan(None).fill_null(mean))
        return rows.with_columns(fills)

    def _is_filled(self, name: str) -> bool:
        """Whether a gap of a column, of which the fit had none, has the mean."""
        sequence, policies = self.sequence_, ("mean", "indicator")
        has_gaps = name + SUFFIX in sequence.columns or name in sequence.terms.plain_means
        return self.null_policy in policies and name in self._means_of_fit and not has_gaps

    def _by_groups(self, X: Any, budget: Any) -> Numbers:
        """Return what is predicted of each row from all groups of the prefix that it has."""
        check_is_fitted(self)
        if budget is not None or not isinstance(self.sequence_, Sequence):
            told = f"budget is {budget}" if budget is not None else f"the fit is {self.sequence_!r}"
            raise ArgumentError(
                f"available is True and {told}; one linear model predicts a row from the groups "
                "that it has, whatever they cost"
            )
        if getattr(self, "_arrived", (None,))[0] is not self.sequence_:
            model, own = self.model_, self.sequence_
            groups = {name: own.groups.columns[name] for name in model.groups}
            problem = own.problem.on_gram(own.gram).replace(groups=groups, costs=None, always=())
            self._arrived = own, answer_of(problem, "predictor")
        rows, names = self._partial_rows(X)
        found = self._arrived[1].predict(rows, columns=names, missing_columns="unavailable")
        return np.asarray(found["prediction"].to_numpy())

    def _partial_rows(self, X: Any) -> tuple[Any, list[str] | None]:
        """Return rows in which values may be missing, and their columns; a frame may lack some."""
        given = _get_feature_names(X)
        if given is None or not hasattr(self, "feature_names_in_"):
            return dense(rows_to_predict(self, X)), self._names
        there = [name for name in given if name in self._names]
        if not there:
            return np.empty((len(X), 0)), there
        if has_text(X[there]):
            return as_polars(X[there]), None
        return check_array(X[there], dtype=np.float64, ensure_all_finite=False), there

    def _coefficients(self, model: Any) -> Numbers:
        """Return the coefficients of a model on the columns of the rows, 0 where it has none."""
        return np.array([float(model.get(name, 0.0)) for name in self._columns])

    @property
    def _columns(self) -> list[str]:
        """The columns of the rows; where texts or gaps make others of them, those of the search."""
        found = list(self.sequence_.columns)
        return self._names if set(found) <= set(self._names) else found

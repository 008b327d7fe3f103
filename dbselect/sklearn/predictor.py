"""Base class of regressor and classifier: predictions by a prefix of a sequence."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy.sparse import issparse
from sklearn.utils.validation import _get_feature_names, check_array, check_is_fitted

from dbselect.errors import ArgumentError, UnknownLevelWarning, warn_caller
from dbselect.options.conditions import CONDITIONS
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
    """Return a text that is not a level of a category."""
    text = "unseen"
    while text in category.levels:
        text += "_"
    return text


@dataclass(eq=False, repr=False)
class PredictingEstimator(AnytimeEstimator):
    """Base estimator that predicts by the chosen prefix of a sequence."""

    _: KW_ONLY
    handle_unknown: str = "mean"

    def _predict(self, X: Any, budget: Any, missing_columns: MissingColumns) -> Numbers:
        """Predict by the chosen prefix, or each row by its longest available prefix."""
        check_is_fitted(self)
        check_missing_columns(missing_columns)
        one_of(HandleUnknown).check("handle_unknown", self.handle_unknown)
        if budget is None and missing_columns == "error":
            rows, names, model = rows_to_predict(self, X), self._names, self.model_
            if isinstance(rows, pl.DataFrame):
                return self._complete(np.asarray(model.predict(rows)), rows, None)
            if issparse(rows):
                used = [j for j, name in enumerate(names) if name in model.columns]
                rows, names = rows[:, used].toarray(), [names[j] for j in used]
            return self._complete(np.asarray(model.predict(rows, names)), rows, names)
        if budget is None:
            budget = float(self.sequence_.spent[self.step_])
        rows, columns = self._partial_rows(X)
        return np.asarray(
            self.sequence_.predict(rows, budget, columns=columns, missing_columns=missing_columns)
        )

    def _complete(self, predictions: Numbers, rows: Any, names: list[str] | None) -> Numbers:
        """Return predictions, missing ones with means of the fit; DataError if not allowed."""
        lacking = np.atleast_1d(np.isnan(predictions.reshape(len(predictions), -1)).any(axis=1))
        is_by_em = self.null_policy == "em" and isinstance(self.sequence_, Sequence)
        if is_by_em and lacking.any():
            part = rows.filter(lacking) if names is None else rows[lacking]
            predictions[lacking] = self._by_groups(part, names)
        if self.handle_unknown != "mean" or is_by_em or not lacking.any():
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
            "or lack a value that all rows of the fit had; they are predicted with the mean "
            "effect of the levels, or the mean of the column, over the rows of the fit",
            UnknownLevelWarning,
        )
        return predictions

    def _filled_frame(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Fill gaps with the mean of the fit, in text with a level that it has not seen."""
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
        """Whether gaps of a column, which had none in the fit, are filled with its mean."""
        sequence, policies = self.sequence_, ("mean", "indicator")
        has_gaps = name + SUFFIX in sequence.columns or name in sequence.terms.plain_means
        return self.null_policy in policies and name in self._means_of_fit and not has_gaps

    def _predict_by_groups(self, X: Any, budget: Any) -> Numbers:
        """Predict each row from all groups of the chosen prefix that it has."""
        check_is_fitted(self)
        if budget is not None or not isinstance(self.sequence_, Sequence):
            text = f"budget is {budget}" if budget is not None else f"the fit is {self.sequence_!r}"
            raise ArgumentError(
                f"available is True and {text}; one linear model predicts a row from the groups "
                "that it has, whatever they cost"
            )
        return self._by_groups(*self._partial_rows(X))

    def _by_groups(self, rows: Any, names: list[str] | None) -> Numbers:
        """Predict rows, whose gaps are groups that they lack."""
        if getattr(self, "_available", (None,))[0] is not self.sequence_:
            model, seq = self.model_, cast(Sequence, self.sequence_)
            groups = {name: seq.groups.columns[name] for name in model.groups}
            problem = seq.problem.on_gram(seq.gram).replace(
                groups=groups, costs=None, always=(), **dict.fromkeys(CONDITIONS)
            )
            self._available = seq, answer_of(problem, "predictor")
        predictions = self._available[1].predict(rows, columns=names, missing_columns="unavailable")
        return np.asarray(predictions["prediction"].to_numpy())

    def _partial_rows(self, X: Any) -> tuple[Any, list[str] | None]:
        """Return rows with gaps, and their columns; a frame may lack some columns."""
        names = _get_feature_names(X)
        if names is None or not hasattr(self, "feature_names_in_"):
            return dense(rows_to_predict(self, X)), self._names
        present = [name for name in names if name in self._names]
        if not present:
            return np.empty((len(X), 0)), present
        if has_text(X[present]):
            return as_polars(X[present]), None
        return check_array(X[present], dtype=np.float64, ensure_all_finite=False), present

    def _coefficients(self, coefficients: Any) -> Numbers:
        """Return the coefficients on the columns of the rows, 0 for columns not in the model."""
        return np.array([float(coefficients.get(name, 0.0)) for name in self._columns])

    @property
    def _columns(self) -> list[str]:
        """The columns of the rows, or those of the search if texts or gaps added columns."""
        columns = list(self.sequence_.columns)
        return self._names if set(columns) <= set(self._names) else columns

"""Score every prefix of a result on the rows of a table, in one pass.

Metrics that sort rows keep 8 (M + 2) bytes a row, with K classes 8 K (M + 1) + 8, and its key.

A row whose level was not in the fit gets the mean effect m of the levels over the rows of the fit,
so that the dropped level does not matter. With the columns x of a category, all 0 in such a row::

    b0 + sum b_l x_l + m (1 - sum x_l)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import DataError, SourceError, UnknownLevelWarning, warn_caller
from dbselect.glm.families import BINOMIAL, Offset
from dbselect.glm.links import kind_of_family
from dbselect.glm.passes import INTERCEPT_PASSES, SETTLED, shift_of
from dbselect.linear.problem import is_constant, no_rows
from dbselect.record.categories import Category
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.policies import warn_of_skipped
from dbselect.record.terms import Terms
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import JointSequence
from dbselect.results.model import JointModel, Model
from dbselect.results.prediction.contributions import LinearPredictors
from dbselect.results.prediction.predict import Predictor
from dbselect.results.sequence import Sequence as LinearSequence
from dbselect.validation.scoring.metrics import CLASSES, Numbers, RowsSeen, summed_of
from dbselect.validation.scoring.reading import RowReading, Sums, UsedRows, fields_read

#: Share of the weight that counts as 0, for the rounding of a sum of shares.
ROUNDING_SHARE = 1e-9


def unseen_in(gram: Gram, terms: Terms) -> list[Category]:
    """Return categories with unseen levels, with a warning; DataError if shares are missing."""
    if not gram.rows:
        return []
    mean = dict(zip(gram.columns, gram.mean.tolist(), strict=True))
    by_column = {category.column: category for category in gram.terms.categories}
    unseen = []
    for category in terms.categories:
        levels = by_column.get(category.column, category).names
        # A Gram with only some of the level columns says nothing about the other rows.
        if {*levels} <= mean.keys():
            seen_share = sum(mean.get(name, 0.0) for name in {*category.marked_names})
            if warn_of_share(category, seen_share):
                unseen.append(category)
    return unseen


def warn_of_share(category: Category, known: float) -> bool:
    """Whether rows have unseen levels, with a warning; DataError if shares are missing."""
    if category.rest or 1.0 - known <= ROUNDING_SHARE:
        return False
    text = (
        f"{1.0 - known:.2%} of the rows have a level of '{category.column}' that the fit has not "
        "seen"
    )
    if category.shares is None:
        raise DataError(
            f"{text}, and the sequence was stored without the share of each level in the rows of "
            "the fit, whose mean effect such a level counts as; search again"
        )
    warn_caller(f"{text}; they are judged with the mean effect of its levels", UnknownLevelWarning)
    return True


def with_mean_effects(
    columns: Sequence[str],
    intercept: Numbers,
    coef: Numbers,
    categories: Sequence[Category],
) -> tuple[list[str], Numbers, Numbers]:
    """Rewrite models so that a row that is 0 in all levels gets the category's mean effect.

    Intercepts have shape (..., K), coefficients (..., D, K); missing level columns are added.
    """
    names_of = {category: category.marked_names for category in categories}
    names = list(dict.fromkeys([*columns, *(n for levels in names_of.values() for n in levels)]))
    place = {name: at for at, name in enumerate(names)}
    intercept = intercept.copy()
    padding = [(0, 0)] * coef.ndim
    padding[-2] = (0, len(names) - len(columns))
    coef = np.pad(coef, padding)
    for category, levels in names_of.items():
        if category.rest or category.shares is None:
            continue
        at = [place[name] for name in levels]
        mean = np.einsum("...jk,j->...k", coef[..., at, :], category.shares[: len(at)])
        intercept += mean
        coef[..., at, :] -= mean[..., None, :]
    return names, intercept, coef


#: Results of one response, which metrics can score.
Measurable = LinearSequence | Model | GlmSequence | GlmModel


@dataclass(frozen=True, eq=False)
class Ranked:
    """Scores, targets, weights and keys of n rows, for metrics that sort them."""

    score: Numbers  # shape (R, n, M)
    y: Numbers  # shape (R, n)
    weight: Vector  # shape (n,)
    key: pl.Series | None  # n values; None if there is no key


@dataclass(eq=False)
class Spread:
    """Weight, means and sums of squared deviations, merged by Chan's formula."""

    weight: float
    mean: Vector
    squares: Vector

    def __iadd__(self, other: "Spread") -> "Spread":
        weight = self.weight + other.weight
        if other.weight:
            apart, share = other.mean - self.mean, other.weight / weight
            self.mean = self.mean + apart * share
            self.squares = self.squares + other.squares + apart**2 * share * self.weight
        self.weight = weight
        return self


@dataclass(eq=False, kw_only=True)
class RowSums(Sums):
    """Sums over rows for M prefixes."""

    seen_weight: Vector  # shape (C,), weight of the rows with a level of the fit, by category
    of_kind: Numbers  # shape (kinds, M), sums of each kind of contribution
    target: Spread  # of the R responses
    summed: float = 0.0  # the family's sum for its null deviance
    refused: int = 0  # rows whose target is not allowed
    ranked: list[Ranked] = field(default_factory=list)  # rows to sort


@dataclass(frozen=True)
class Judging(RowReading):
    """Sums over the rows of a table for M prefixes of K predictors each."""

    # C predictors, 1 where the category's level was in the fit; None without categories
    level_seen: LinearPredictors | None
    kinds: tuple[str, ...]  # keys of `summed_of`
    is_ranked: bool  # whether some metric sorts the rows
    zero_one: bool  # whether the target must be 0 or 1

    @property
    def prefixes(self) -> int:
        """M."""
        return len(self.predictors.each) // max(len(self.classes), 1)

    def none(self) -> RowSums:
        """Return the sums over no rows."""
        responses = np.zeros(max(len(self.classes), 1))
        return RowSums(
            seen_weight=np.zeros(0 if self.level_seen is None else len(self.level_seen.each)),
            of_kind=np.zeros((len(self.kinds), self.prefixes)),
            target=Spread(0.0, responses, responses),
        )

    def predicted(self, batch: pl.DataFrame) -> Matrix:
        """Return the linear predictors of all rows, then whether each level was in the fit."""
        predictions = self.predictors.predict(batch, handle_unknown="mean")
        if self.level_seen is None:
            return predictions
        return np.hstack([predictions, self.level_seen.predict(batch, handle_unknown="mean")])

    def sum_up(self, sums: RowSums, rows: UsedRows) -> None:
        """Set the sums over rows."""
        y, weight = rows.y, rows.weight
        eta_of_columns, level_seen = np.hsplit(rows.predictions, [len(self.predictors.each)])
        eta = np.moveaxis(eta_of_columns.reshape(len(eta_of_columns), self.prefixes, -1), 2, 0)
        rows_seen = RowsSeen(self.formulas, eta, y[:, :, None])
        sums.seen_weight = weight @ level_seen
        mean = y @ weight / sums.weight
        sums.target = Spread(sums.weight, mean, (y - mean[:, None]) ** 2 @ weight)
        family = rows_seen.family
        refused = BINOMIAL.refused if self.zero_one else family.refused
        if self.classes:
            sums.refused = int((y.sum(axis=0) == 0).sum())
        elif refused is not None:
            sums.refused = int(rows_seen.of_response(refused).sum())
        if not sums.refused:
            if family.summed is not None:
                sums.summed = float(weight @ rows_seen.of_response(family.summed))
            for number, kind in enumerate(self.kinds):
                sums.of_kind[number] = weight @ summed_of(kind)(rows_seen)
        if self.is_ranked:
            # The mean rises with its linear predictor, which keeps more digits near 0 and 1.
            score = np.ascontiguousarray(rows_seen.means if self.classes else eta)
            key = rows.keys.to_series() if self.keys else None
            sums.ranked.append(Ranked(score, y, weight, key))

    def means(self, sums: RowSums) -> dict[str, Vector]:
        """Return the mean of each kind, shape (M,)."""
        return dict(zip(self.kinds, sums.of_kind / sums.weight, strict=True))


def judged(
    result: Measurable,
    data: Any,
    kinds: Sequence[str],
    weight: str | None,
    *,
    key: str | None = None,
    is_ranked: bool = False,
    zero_one: bool = False,
    offset_alone: bool = False,
) -> tuple[Judging, RowSums, Any]:
    """Sum over the rows that all prefixes can predict, and for a model of the offset alone."""
    offsets = result.offsets if isinstance(result, GlmSequence | GlmModel) else Offset()
    names, fixed = list(result.columns), offsets.coefficients
    each = [
        Predictor(constant, fixed | dict(zip(names, slopes, strict=True)))
        for intercepts, coef in zip(*coefficients_of(result), strict=True)
        for constant, slopes in zip(intercepts.tolist(), coef.T.tolist(), strict=True)
    ]
    if offset_alone:
        classes = max(len(getattr(result, "classes", ())), 1)
        each += [Predictor(0.0, fixed | dict.fromkeys(names, 0.0))] * classes
    terms = offsets.with_log(result.terms.of({*names, *fixed}))
    keys = {} if key is None else {key: "key"}
    reading, table = fields_read(result, LinearPredictors(each, terms), data, weight, keys)
    judging = Judging(
        **reading | {"predictors": LinearPredictors(each, _fill_shares(terms))},
        level_seen=_level_predictors(list(each[0].coefficients), terms),
        kinds=tuple(dict.fromkeys(kinds)),
        is_ranked=is_ranked,
        zero_one=zero_one,
    )
    sums = judging.over(table, judging.fields)
    if sums.rows == 0:
        raise DataError(no_rows(sums.skipped))
    if sums.refused:
        raise DataError(f"target '{result.target}' has a value that is not {_allowed(judging)}")
    for category, seen in zip(result.terms.of(names).categories, sums.seen_weight, strict=True):
        warn_of_share(category, float(seen) / sums.weight)
    missing = {str(name): count for name, count in sums.missing.items() if name is not None}
    warn_of_skipped(sums.rows, sums.skipped, missing, weighted=weight is not None)
    return judging, sums, table


def beside_steps(result: Measurable, columns: dict[str, Any]) -> pl.DataFrame:
    """Add columns to the steps of a sequence, or to the cost of a model."""
    if isinstance(result, Model | GlmModel):
        return pl.select(spent=pl.lit(result.spent)).with_columns(**columns)
    return result.steps.select("step", "action", "group", "spent").with_columns(**columns)


def _level_predictors(names: Sequence[str], terms: Terms) -> LinearPredictors | None:
    """Return a predictor per category: 1 for a level of the fit, 0 for another level."""
    predictors = []
    for category in terms.categories:
        marked = {*category.marked_names}
        predictors.append(Predictor(0.0, {name: float(name in marked) for name in names}))
    return LinearPredictors(predictors, terms.with_shares({})) if predictors else None


def _fill_shares(terms: Terms) -> Terms:
    """Set missing level shares to 0; a row that would need them is refused later."""
    both = zip(terms.categories, terms.with_shares({}).categories, strict=True)
    categories = (one if one.shares is not None else filled for one, filled in both)
    return replace(terms, categories=tuple(categories))


def _allowed(judging: Judging) -> str:
    if judging.classes:
        return f"one of the model's classes {list(judging.classes)}"
    if judging.zero_one:
        return "0/1 or boolean, as auc, gini, ks, accuracy and payoff of linear models need"
    family = judging.formulas
    return f"{family.allowed}, as a {family.name} target must be"


def coefficients_of(result: Any) -> tuple[Numbers, Numbers]:
    """Return intercepts (M, K) and coefficients (M, D, K) of M prefixes with K predictors."""
    if isinstance(result, JointSequence | JointModel):
        arrays = zip(*map(coefficients_of, result.responses.values()), strict=True)
        intercept, coef = (np.concatenate(parts, axis=-1) for parts in arrays)
        return intercept, coef
    if isinstance(result, GlmSequence):
        return result.intercept, result.coef
    if isinstance(result, LinearSequence):
        return result.intercept[:, None], result.coef[:, :, None]
    classes = getattr(result, "classes", ())
    constants = [result.intercept[class_] for class_ in classes] or [result.intercept]
    by_class = [result.coefficients[class_] for class_ in classes] or [result.coefficients]
    coef = np.array([list(coefficients.values()) for coefficients in by_class], dtype=np.float64)
    return np.array([constants], dtype=np.float64), coef.T[None]


@dataclass(frozen=True, eq=False)
class RowScores:
    """Weighted mean scores of M prefixes on some rows."""

    # rows, skipped: number of rows used and skipped
    rows: int
    skipped: int
    deviance: Vector  # shape (M,)
    # of the null model fitted to these rows; 0 if it fits exactly
    null_deviance: float
    # shape (M,), share of correctly classified rows; None without classes
    accuracy: Vector | None

    @property
    def r2(self) -> Vector:
        """Share of the null deviance that is explained; shape (M,), NaN where it is 0."""
        if self.null_deviance == 0:
            return np.full(len(self.deviance), np.nan)
        return np.asarray(1.0 - self.deviance / self.null_deviance)

    @property
    def measures(self) -> dict[str, Vector]:
        """The scores of the prefixes, by name."""
        measures = {"r2": self.r2, "deviance": self.deviance}
        return measures if self.accuracy is None else measures | {"accuracy": self.accuracy}


def row_scores(result: GlmSequence | GlmModel, source: Any, weight: str | None = None) -> RowScores:
    """Score every prefix, in one pass, on the rows that all of them can predict.

    With an offset, except for poisson, further passes follow: SourceError for a stream.
    """
    offset_alone = bool(result.offsets.names) or not result.has_intercept
    kinds = ["deviance"]
    kinds += ["correct"] if kind_of_family(result.family) in CLASSES else []
    kinds += ["exposure"] if offset_alone else []
    judging, sums, table = judged(result, source, kinds, weight, offset_alone=offset_alone)
    mean = judging.means(sums)
    prefixes = judging.prefixes - offset_alone
    null = mean["deviance"][-1]
    if result.has_intercept:
        null = _null_deviance(judging, sums, mean, table, has_offset=offset_alone)
    accuracy = mean["correct"][:prefixes] if "correct" in mean else None
    return RowScores(sums.rows, sums.skipped, mean["deviance"][:prefixes], float(null), accuracy)


def _null_deviance(
    judging: Judging, sums: RowSums, mean: dict[str, Vector], table: Any, *, has_offset: bool
) -> float:
    """Return the mean deviance of the best model without columns, with an offset or not."""
    family, share = judging.formulas, sums.target.mean
    variance = sums.target.squares / sums.weight
    if family.classes:
        present = share[share > 0]
        return float(-2.0 * present @ np.log(present))
    if share[0] == 0 and kind_of_family(family.name) != "gaussian":
        return 0.0
    if not has_offset and is_constant(np.sqrt(variance), share, None).any():
        return 0.0
    null = family.null(share, variance, sums.summed / sums.weight, sums.weight)
    if not has_offset:
        return null.deviance / sums.weight
    exposure = float(mean["exposure"][-1])
    if family.name == "poisson":  # closed form, from the deviance of the offset alone
        rest = share[0] - exposure - share[0] * np.log(share[0] / exposure)
        return float(mean["deviance"][-1] + 2.0 * rest)
    if not table.again:
        raise SourceError(
            "source is a stream that can be read only once, and the model without columns beside "
            "an offset reads it again; give a table, a relation or a file"
        )
    intercept = float(null.predictors[0]) - shift_of(family, exposure)
    (offset_alone,) = judging.predictors.each[-1:]
    for _ in range(INTERCEPT_PASSES):
        predictors = LinearPredictors(
            [replace(offset_alone, intercept=intercept)], judging.predictors.terms
        )
        reading = replace(judging, predictors=predictors, kinds=("deviance", "working", "score"))
        deviance, working, score = (
            value[0] for value in reading.means(reading.over(table, reading.fields)).values()
        )
        if score**2 / working <= SETTLED * deviance:
            break
        intercept += score / working
    return float(deviance)

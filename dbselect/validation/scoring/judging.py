"""Every prefix of a result on every row of a table, in one pass.

Measures of order keep of each row 8 (M + 2) bytes, of K classes 8 K (M + 1) + 8, and its key.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import DataError
from dbselect.glm.families import BINOMIAL
from dbselect.glm.offset import Offset
from dbselect.linear.problem import no_rows
from dbselect.record.gram import Matrix, Vector
from dbselect.record.policies import warn_of_skipped
from dbselect.record.terms import Terms
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.model import Model
from dbselect.results.prediction.contributions import LinearPredictors
from dbselect.results.prediction.predict import Predictor
from dbselect.results.sequence import Sequence as LinearSequence
from dbselect.validation.scoring.coefficients import coefficients_of
from dbselect.validation.scoring.metrics import SUMMED, Numbers, RowsSeen
from dbselect.validation.scoring.reading import RowReading, Sums, UsedRows, fields_read
from dbselect.validation.unknown import warn_of_share

#: What can be judged: one response.
Measurable = LinearSequence | Model | GlmSequence | GlmModel


@dataclass(frozen=True, eq=False)
class Ranked:
    """What is kept of n rows whose order counts."""

    score: Numbers  # shape (R, n, M)
    y: Numbers  # shape (R, n)
    weight: Vector  # shape (n,)
    key: pl.Series | None  # n values; None if there is no key


@dataclass(eq=False)
class Spread:
    """Weight, means and sums of squared deviations of some numbers, added by Chan's formula."""

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
    """Sums over some rows, as M prefixes see them."""

    known: Vector  # shape (C,), weight of the rows whose level of each category the fit has seen
    of_kind: Numbers  # shape (kinds, M), sums of what the rows add
    target: Spread  # of the R responses
    summed: float = 0.0  # of what the null deviance of the family needs
    refused: int = 0  # rows whose target is not allowed
    ranked: list[Ranked] = field(default_factory=list)  # what is kept of rows whose order counts


@dataclass(frozen=True)
class Judging(RowReading):
    """What to sum over the rows of a table; the predictors are K of each of M prefixes."""

    # C predictors that are 1 where the fit has seen a category's level; None of no category
    known: LinearPredictors | None
    kinds: tuple[str, ...]  # keys of `SUMMED`
    is_ranked: bool  # whether the order of the rows counts
    zero_one: bool  # whether the target must be 0 or 1

    @property
    def prefixes(self) -> int:
        """M."""
        return len(self.predictors.each) // max(len(self.classes), 1)

    def none(self) -> RowSums:
        """Return the sums over no rows."""
        responses = np.zeros(max(len(self.classes), 1))
        return RowSums(
            known=np.zeros(0 if self.known is None else len(self.known.each)),
            of_kind=np.zeros((len(self.kinds), self.prefixes)),
            target=Spread(0.0, responses, responses),
        )

    def predicted(self, batch: pl.DataFrame) -> Matrix:
        """Return the predictors of all rows, then which levels of categories are known."""
        found = self.predictors.predict(batch, handle_unknown="mean")
        if self.known is None:
            return found
        return np.hstack([found, self.known.predict(batch, handle_unknown="mean")])

    def sum_up(self, sums: RowSums, rows: UsedRows) -> None:
        """Set the sums over rows."""
        y, weight = rows.y, rows.weight
        found, known = np.hsplit(rows.found, [len(self.predictors.each)])
        eta = np.moveaxis(found.reshape(len(found), self.prefixes, -1), 2, 0)
        seen = RowsSeen(self.told, eta, y[:, :, None])
        sums.known = weight @ known
        mean = y @ weight / sums.weight
        sums.target = Spread(sums.weight, mean, (y - mean[:, None]) ** 2 @ weight)
        family = seen.family
        refused = BINOMIAL.refused if self.zero_one else family.refused
        if self.classes:
            sums.refused = int((y.sum(axis=0) == 0).sum())
        elif refused is not None:
            sums.refused = int(seen.of_response(refused).sum())
        if not sums.refused:
            if family.summed is not None:
                sums.summed = float(weight @ seen.of_response(family.summed))
            for number, kind in enumerate(self.kinds):
                sums.of_kind[number] = weight @ SUMMED[kind](seen)
        if self.is_ranked:
            # A mean of one number rises with its predictor, which has more digits near 0 and 1.
            score = np.ascontiguousarray(seen.means if self.classes else eta)
            key = rows.keys.to_series() if self.keys else None
            sums.ranked.append(Ranked(score, y, weight, key))

    def means(self, sums: RowSums) -> dict[str, Vector]:
        """Return the mean of each kind, shape (M,)."""
        return dict(zip(self.kinds, sums.of_kind / sums.weight, strict=True))


def judged(
    found: Measurable,
    data: Any,
    kinds: Sequence[str],
    weight: str | None,
    *,
    key: str | None = None,
    is_ranked: bool = False,
    zero_one: bool = False,
    without: bool = False,
) -> tuple[Judging, RowSums, Any]:
    """Sum over the rows that all prefixes can predict; `without` adds one of the offset alone."""
    offsets = found.offsets if isinstance(found, GlmSequence | GlmModel) else Offset()
    names, fixed = list(found.columns), offsets.coefficients
    each = [
        Predictor(constant, fixed | dict(zip(names, own, strict=True)))
        for intercepts, coef in zip(*coefficients_of(found), strict=True)
        for constant, own in zip(intercepts.tolist(), coef.T.tolist(), strict=True)
    ]
    if without:
        classes = max(len(getattr(found, "classes", ())), 1)
        each += [Predictor(0.0, fixed | dict.fromkeys(names, 0.0))] * classes
    terms = offsets.with_log(found.terms.of({*names, *fixed}))
    keys = {} if key is None else {key: "key"}
    reading, table = fields_read(found, LinearPredictors(each, terms), data, weight, keys)
    judging = Judging(
        **reading | {"predictors": LinearPredictors(each, _with_some_shares(terms))},
        known=_known(list(each[0].coefficients), terms),
        kinds=tuple(dict.fromkeys(kinds)),
        is_ranked=is_ranked,
        zero_one=zero_one,
    )
    sums = judging.over(table, judging.fields)
    if sums.rows == 0:
        raise DataError(no_rows(sums.skipped))
    if sums.refused:
        raise DataError(f"target '{found.target}' has a value that is not {_allowed(judging)}")
    for category, known in zip(found.terms.of(names).categories, sums.known, strict=True):
        warn_of_share(category, float(known) / sums.weight)
    missing = {str(name): count for name, count in sums.missing.items() if name is not None}
    warn_of_skipped(sums.rows, sums.skipped, missing, weighted=weight is not None)
    return judging, sums, table


def beside_steps(found: Measurable, columns: dict[str, Any]) -> pl.DataFrame:
    """Return columns beside the steps of a sequence; of one model beside what it costs."""
    if isinstance(found, Model | GlmModel):
        return pl.select(spent=pl.lit(found.spent)).with_columns(**columns)
    return found.steps.select("step", "action", "group", "spent").with_columns(**columns)


def _known(names: Sequence[str], terms: Terms) -> LinearPredictors | None:
    """Return a predictor a category: 1 where the fit has seen the level, 0 of another level."""
    each = []
    for category in terms.categories:
        own = {*category.marked_names}
        each.append(Predictor(0.0, {name: float(name in own) for name in names}))
    return LinearPredictors(each, terms.with_shares({})) if each else None


def _with_some_shares(terms: Terms) -> Terms:
    """Return terms with 0 for shares not known; a row that needs one is refused when met."""
    nothing = zip(terms.categories, terms.with_shares({}).categories, strict=True)
    some = (one if one.shares is not None else other for one, other in nothing)
    return replace(terms, categories=tuple(some))


def _allowed(judging: Judging) -> str:
    if judging.classes:
        return f"one of the model's classes {list(judging.classes)}"
    if judging.zero_one:
        return "0/1 or boolean, as an auc and an accuracy of linear models need"
    family = judging.told
    return f"{family.allowed}, as a {family.name} target must be"

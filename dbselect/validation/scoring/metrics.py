"""Metrics by name: the contribution of a row, rankings, and the families that have them.

In AUC and NDCG, predictions that differ only by rounding are ties, as the same row may differ
between batches. All orders of a tie count alike, as in scikit-learn, which ties only identical
numbers.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import ArgumentError, DataError, did_you_mean, shown
from dbselect.glm.families import FamilyFormulas
from dbselect.glm.links import kind_of_family
from dbselect.options.kinds import PAYOFF
from dbselect.record.formulas import Formula, arrays, column, translate
from dbselect.record.gram import Matrix, Vector
from dbselect.results.prediction.stakes import Stake

Numbers = npt.NDArray[np.float64]

#: Families with a numeric target, with classes, and with targets of 0 and 1.
NUMBERS = (
    "gaussian", "poisson", "gamma", "inverse_gaussian", "tweedie", "negative_binomial", "binomial",
)  # fmt: skip
CLASSES = ("binomial", "multinomial")
ZERO_ONE = ("gaussian", *CLASSES)


@dataclass(frozen=True, eq=False)
class RowsSeen:
    """Linear predictors of M prefixes, and responses, of n rows."""

    family: FamilyFormulas  # of the prefixes
    eta: Numbers  # K linear predictors, shape (K, n, M)
    y: Numbers  # R responses, shape (R, n, 1); classes are one-hot

    @cached_property
    def means(self) -> Numbers:
        """Predicted means; shape (R, n, M)."""
        return np.stack([self.of(mean) for mean in self.family.means(self._predictors)])

    @property
    def _predictors(self) -> list[Formula]:
        return [column(("eta", k)) for k in range(len(self.eta))]

    def of(self, formula: Formula) -> Numbers:
        """Evaluate a formula of predictors and responses; shape (n, M)."""
        named = {"eta": self.eta, "y": self.y}
        algebra = arrays(lambda path: named[str(path[0])][int(path[1])])
        with np.errstate(all="ignore"):  # an infinite predictor gives a mean or NaN
            return np.broadcast_to(translate(formula, algebra), self.eta.shape[1:])

    def of_response(self, formula: Callable[[Formula], Formula]) -> Numbers:
        """Evaluate a function of one response; shape (n,)."""
        return self.of(formula(column(("y", 0))))[:, 0]

    def of_both(
        self, formula: Callable[[Sequence[Formula], Sequence[Formula]], Formula]
    ) -> Numbers:
        """Evaluate a function of predictors and responses; shape (n, M)."""
        return self.of(formula(self._predictors, [column(("y", r)) for r in range(len(self.y))]))


@dataclass(frozen=True)
class Metric:
    """Definition of a metric."""

    families: tuple[str, ...]  # for which it is defined
    summed: str | None = None  # key in `SUMMED`; None for metrics that sort rows
    finished: Callable[[Any], Any] | None = None  # mean -> metric; None for the mean itself
    more: bool = False  # whether more is better
    zero_one: bool = False  # whether a numeric target must be 0 or 1


def _correct(rows: RowsSeen) -> Numbers:
    """Return 1 where the likeliest class is the row's; ties go to the first class."""
    if rows.family.classes:
        correct = np.take_along_axis(rows.y, rows.eta.argmax(axis=0)[None], axis=0)
        return np.asarray(correct[0])
    is_binomial = kind_of_family(rows.family.name) == "binomial"
    threshold = 0.0 if is_binomial and rows.family.is_canonical else 0.5
    likely = rows.eta[0] if threshold == 0.0 or not is_binomial else rows.means[0]
    return np.asarray((likely > threshold) == (rows.y[0] > 0.5))


def _pair(index: int, rows: RowsSeen) -> Numbers:
    return rows.of_both(lambda eta, y: rows.family.row(eta, y).pairs[0][index])


#: Contributions of a row to a sum, shape (n, M).
SUMMED: dict[str, Callable[[RowsSeen], Numbers]] = {
    "squares": lambda rows: np.square(rows.y - rows.means).sum(axis=0),
    "absolute": lambda rows: np.abs(rows.y[0] - rows.means[0]),
    "correct": _correct,
    "deviance": lambda rows: rows.of_both(lambda eta, y: rows.family.row(eta, y).deviance),
    # working: the weight of one response; score: that times its residual
    "working": partial(_pair, 0),
    "score": lambda rows: _pair(0, rows) * _pair(1, rows),
    # exposure: contribution of an offset to the mean (log link), or to the predictor
    "exposure": lambda rows: rows.means[0] if rows.family.is_log else rows.eta[0],
}


def summed_of(kind: str) -> Callable[[RowsSeen], Numbers]:
    """Return a contribution by its key, which for a payoff has its amounts."""
    name, _, amounts = kind.partition("@")
    if name != "payoff":
        return SUMMED[kind]
    stake = Stake.of(payoff=_amounts(amounts))
    return lambda rows: stake.earned(rows.means[0], rows.y[0])


#: Metrics by name. r2 is computed from mse and the target's variance.
METRICS = {
    "mse": Metric(NUMBERS, "squares"),
    "rmse": Metric(NUMBERS, "squares", finished=np.sqrt),
    "r2": Metric(NUMBERS, "squares", more=True),
    "mae": Metric(NUMBERS, "absolute"),
    "accuracy": Metric(ZERO_ONE, "correct", more=True, zero_one=True),
    "log_loss": Metric(CLASSES, "deviance", finished=lambda mean: mean / 2.0),
    "brier": Metric(CLASSES, "squares"),
    "auc": Metric(ZERO_ONE, more=True, zero_one=True),
    "gini": Metric(ZERO_ONE, more=True, zero_one=True),
    "ks": Metric(ZERO_ONE, more=True, zero_one=True),
    "payoff": Metric(("gaussian", "binomial"), "payoff", more=True, zero_one=True),
    "ndcg": Metric(NUMBERS, more=True),
    "exponential_ndcg": Metric(NUMBERS, more=True),
}
#: Metrics of the rows within a query.
OF_QUERIES = ("ndcg", "exponential_ndcg")
#: Names of scikit-learn -> names here.
_MEANT = {
    "roc_auc": "auc", "neg_log_loss": "log_loss", "neg_brier_score": "brier",
    "neg_mean_squared_error": "mse", "neg_root_mean_squared_error": "rmse",
    "neg_mean_absolute_error": "mae", "r2_score": "r2",
}  # fmt: skip
#: A metric, and the number of places of a query that count.
_NAME = re.compile(r"(\w+?)(?:@([1-9]\d*))?")


@dataclass(frozen=True)
class MetricRequest:
    """A requested metric."""

    name: str  # as given, ``"ndcg@10"``
    kind: str  # key in `METRICS`
    most: int | None  # places of a query that count; None = all
    amounts: str = ""  # of a payoff, as given

    @property
    def metric(self) -> Metric:
        """Definition of the metric."""
        return METRICS[self.kind]

    @property
    def summed(self) -> str | None:
        """What rows are summed, a key of `summed_of`; None for metrics that sort rows."""
        return f"{self.kind}@{self.amounts}" if self.amounts else self.metric.summed


def requests_of(metric: Any) -> list[MetricRequest]:
    """Parse the names of metrics; ArgumentError for unknown or repeated names."""
    names = list(metric) if isinstance(metric, list | tuple) else [metric]
    are_names = all(isinstance(name, str) for name in names)
    if not names or not are_names or len(set(names)) < len(names):
        raise ArgumentError(
            f"metric is {shown(metric)}; it must be a name, or a list of different ones, of "
            f"{list(METRICS)}"
        )
    return [_request_of(name) for name in names]


def with_payoff(metric: Any, payoff: tuple[float, float] | None) -> Any:
    """Return metrics with a payoff among them, by its name with its amounts."""
    if payoff is None:
        return metric
    PAYOFF.check("payoff", payoff)
    names = [*metric] if isinstance(metric, list | tuple) else [metric]
    gain, loss = (float(amount) for amount in payoff)
    return [*(name for name in names if name is not None), f"payoff@{gain!r}:{loss!r}"]


def _amounts(text: str) -> tuple[float, float]:
    """Return the two amounts of a payoff."""
    try:
        gain, loss = map(float, text.split(":"))
        PAYOFF.check("payoff", (gain, loss))
    except ValueError as error:
        raise ArgumentError(
            f"metric is 'payoff{'@' if text else ''}{text}'; it needs what a row earns if its "
            "target is 1, and loses if it is 0: payoff=(30, -500), or 'payoff@30:-500'"
        ) from error
    return gain, loss


def _request_of(name: str) -> MetricRequest:
    kind, _, amounts = name.partition("@")
    if kind == "payoff":
        _amounts(amounts)
        return MetricRequest(kind, kind, None, amounts)
    parts = _NAME.fullmatch(name)
    if parts is None or parts[1] not in METRICS:
        more = did_you_mean(name, METRICS, _MEANT)
        raise ArgumentError(
            f"metric is {name!r}; it must be one of {list(METRICS)}, or ndcg with its places as in "
            f"'ndcg@10'{more}"
        )
    kind, most = parts[1], parts[2]
    if most is not None and kind not in OF_QUERIES:
        raise ArgumentError(f"metric is {name!r}; only {list(OF_QUERIES)} have places")
    return MetricRequest(name, kind, None if most is None else int(most))


def check_family(requests: Sequence[MetricRequest], family: str) -> None:
    """Refuse metrics that are not defined for a family."""
    kind = kind_of_family(family)
    for request in requests:
        if kind not in request.metric.families:
            defined = [name for name, metric in METRICS.items() if kind in metric.families]
            raise ArgumentError(
                f"metric is {request.name!r}, which a family {family!r} does not have: "
                f"{_reason(request.metric)}; it has {defined}"
            )


def _reason(metric: Metric) -> str:
    if metric.families == CLASSES:
        return "it is of probabilities of classes"
    return "it is of a number" if "multinomial" not in metric.families else "it is of classes"


#: Predictions nearer than this, as a share of the smaller or of the median size, are ties: sums
#: of some thousand products in another order differ by less.
EQUAL_SHARE = 1e-12

Counts = npt.NDArray[np.intp]


def auc(score: Vector, positive: Vector, weight: Vector) -> float:
    """Return the weighted AUC: P(row of 1 scores above row of 0); DataError for one class."""
    ones, zeros = _shares(score, positive, weight)
    return float(ones @ (np.cumsum(zeros) - zeros / 2.0))


def gini(score: Vector, positive: Vector, weight: Vector) -> float:
    """Return the Gini coefficient of the scores, 2 AUC - 1; as `auc`."""
    return 2.0 * auc(score, positive, weight) - 1.0


def ks(score: Vector, positive: Vector, weight: Vector) -> float:
    """Return the largest distance of the distributions of scores of both classes; as `auc`.

    Kolmogorov, Smirnov: the two-sample statistic.
    """
    ones, zeros = _shares(score, positive, weight)
    return float(np.abs(np.cumsum(zeros) - np.cumsum(ones)).max())


#: Metrics of two classes that sort rows.
OF_CLASSES = {"auc": auc, "gini": gini, "ks": ks}


def _shares(score: Vector, positive: Vector, weight: Vector) -> tuple[Vector, Vector]:
    """Return the shares of the rows of 1, and of those of 0, at each score, ascending."""
    if positive.min() == positive.max():
        raise DataError(
            f"all {len(positive)} usable rows are of one class; an AUC compares rows of two"
        )
    order = np.argsort(score)
    tie = np.cumsum(_starts(score[order], _typical(score))) - 1
    ones = np.bincount(tie, (weight * positive)[order])
    zeros = np.bincount(tie, (weight * (1.0 - positive))[order])
    return ones / ones.sum(), zeros / zeros.sum()


def ndcg(scores: Iterable[Vector], gain: Vector, query: Counts, most: int | None) -> Matrix:
    """Return the normalised discounted cumulative gain of each query of M rankings; shape (M, Q).

    Place p, from 1, is discounted by ``1 / log2(1 + p)``; the first `most` places count, None
    for all. A query without gain has 0, as in scikit-learn's ``ndcg_score``. O(M n log n).

    Jarvelin, Kekalainen (2002), ACM TOIS 20; McSherry, Najork (2008), ECIR, for ties.
    """
    ideal = _gained(gain, gain, query, most, 0.0)
    gained = np.array([_gained(score, gain, query, most, _typical(score)) for score in scores])
    return np.asarray(np.divide(gained, ideal, out=np.zeros(gained.shape), where=ideal > 0))


def _gained(score: Vector, gain: Vector, query: Counts, most: int | None, typical: float) -> Vector:
    """Return the discounted gain of each query, averaged over the orders of ties."""
    columns = pl.DataFrame({"query": query, "score": score})
    order = columns.select(pl.arg_sort_by("query", -pl.col("score"))).to_series().to_numpy()
    query, gain = query[order], gain[order]
    is_first = np.diff(query, prepend=-1) > 0
    place = np.arange(len(query)) - np.flatnonzero(is_first)[query]
    discount = 1.0 / np.log2(2.0 + place)
    if most is not None:
        discount[place >= most] = 0.0
    tie = np.cumsum(is_first | _starts(-score[order], typical)) - 1
    mean = np.bincount(tie, gain) / np.bincount(tie)
    return np.asarray(np.bincount(query, mean[tie] * discount), dtype=np.float64)


def _starts(ascending: Vector, typical: float) -> npt.NDArray[np.bool_]:
    """Return where a value exceeds its predecessor by more than rounding."""
    size = np.abs(ascending)
    near = EQUAL_SHARE * np.maximum(np.minimum(size[1:], size[:-1]), typical)
    with np.errstate(invalid="ignore"):  # two infinite values are equal
        return np.append(True, np.diff(ascending) > near)


def _typical(score: Vector) -> float:
    return float(np.median(np.abs(score)))

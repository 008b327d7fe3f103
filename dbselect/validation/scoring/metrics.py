"""Metrics by name: what a row adds to each, and for which models they are defined."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect.errors import ArgumentError, did_you_mean, shown
from dbselect.glm.families import FamilyFormulas
from dbselect.glm.named import kind_of_family
from dbselect.record.formulas import (
    Formula,
    arrays,
    choose,
    column,
    kept,
    largest,
    total,
    translate,
)

Numbers = npt.NDArray[np.float64]

#: Families whose target is a number, has classes, and is 0 or 1.
NUMBERS = (
    "gaussian", "poisson", "gamma", "inverse_gaussian", "tweedie", "negative_binomial", "binomial",
)  # fmt: skip
CLASSES = ("binomial", "multinomial")
ZERO_ONE = ("gaussian", *CLASSES)


@dataclass(frozen=True, eq=False)
class RowsSeen:
    """n rows as M prefixes see them."""

    family: FamilyFormulas  # of the prefixes
    eta: Numbers  # K linear predictors, shape (K, n, M)
    y: Numbers  # R responses, shape (R, n, 1); of classes 1 in the row's own

    @cached_property
    def means(self) -> Numbers:
        """What is predicted: shape (R, n, M)."""
        return np.stack([self.of(mean) for mean in self.family.means(self._predictors)])

    @property
    def _predictors(self) -> list[Formula]:
        return [column(("eta", k)) for k in range(len(self.eta))]

    def of(self, formula: Formula) -> Numbers:
        """Return a formula of predictors and responses; shape (n, M)."""
        named = {"eta": self.eta, "y": self.y}
        algebra = arrays(lambda path: named[str(path[0])][int(path[1])])
        with np.errstate(all="ignore"):  # an infinite predictor has a mean, or none
            return np.broadcast_to(translate(formula, algebra), self.eta.shape[1:])

    def of_both(
        self, formula: Callable[[Sequence[Formula], Sequence[Formula]], Formula]
    ) -> Numbers:
        """Return what a function of predictors and responses makes; shape (n, M)."""
        return self.of(formula(self._predictors, [column(("y", r)) for r in range(len(self.y))]))


@dataclass(frozen=True)
class Metric:
    """What is measured."""

    families: tuple[str, ...]  # for which it is defined
    # what a row adds, shape (n, M), to a mean; where the order of rows counts, nothing
    counts: Callable[[RowsSeen], Numbers]
    is_ranked: bool = False  # whether the order of rows counts
    finished: Callable[[Any], Any] | None = None  # mean -> metric; None where the mean is it
    more: bool = False  # whether more is better
    zero_one: bool = False  # whether a number that is predicted must be 0 or 1


def correct(family: FamilyFormulas, eta: Sequence[Formula], y: Sequence[Formula]) -> Formula | None:
    """Return 1 where the likeliest class is the row's; of equals the first is foreseen.

    None where there are no classes.
    """
    if kind_of_family(family.name) == "binomial":
        likely = eta[0] if family.is_canonical else family.means(eta)[0] - 0.5
        return choose(likely, y[0], y[0] * -1.0 + 1.0)
    if not family.classes:
        return None
    top = kept(largest(eta))
    are_top = [kept(choose(top - one, 0.0, 1.0)) for one in eta]
    foreseen = [
        one if k == 0 else choose(total(are_top[:k]), 0.0, one) for k, one in enumerate(are_top)
    ]
    return total([response * one for response, one in zip(y, foreseen, strict=True)])


def _is_correct(rows: RowsSeen) -> Numbers:
    def formula(eta: Sequence[Formula], y: Sequence[Formula]) -> Formula:
        found = correct(rows.family, eta, y)
        return choose(eta[0] - 0.5, y[0], y[0] * -1.0 + 1.0) if found is None else found

    return rows.of_both(formula)


def _log_loss(rows: RowsSeen) -> Numbers:
    return rows.of_both(lambda eta, y: rows.family.row(eta, y).deviance) / 2.0


def _squares(rows: RowsSeen) -> Numbers:
    return np.asarray(np.square(rows.y - rows.means).sum(axis=0))


def _absolute(rows: RowsSeen) -> Numbers:
    return np.asarray(np.abs(rows.y[0] - rows.means[0]))


def _nothing(rows: RowsSeen) -> Numbers:
    return np.zeros(rows.eta.shape[1:])


#: Metrics by name. r2 is made of mse and of the target's variance.
METRICS = {
    "mse": Metric(NUMBERS, _squares),
    "rmse": Metric(NUMBERS, _squares, finished=np.sqrt),
    "r2": Metric(NUMBERS, _squares, more=True),
    "mae": Metric(NUMBERS, _absolute),
    "accuracy": Metric(ZERO_ONE, _is_correct, more=True, zero_one=True),
    "log_loss": Metric(CLASSES, _log_loss),
    "brier": Metric(CLASSES, _squares),
    "auc": Metric(ZERO_ONE, _nothing, is_ranked=True, more=True, zero_one=True),
    "ndcg": Metric(NUMBERS, _nothing, is_ranked=True, more=True),
    "exponential_ndcg": Metric(NUMBERS, _nothing, is_ranked=True, more=True),
}
#: Those that look at the rows of a query.
OF_QUERIES = ("ndcg", "exponential_ndcg")
#: What scikit-learn calls some.
_MEANT = {
    "roc_auc": "auc", "neg_log_loss": "log_loss", "neg_brier_score": "brier",
    "neg_mean_squared_error": "mse", "neg_root_mean_squared_error": "rmse",
    "neg_mean_absolute_error": "mae", "r2_score": "r2",
}  # fmt: skip
#: A metric, and how many places of a query count.
_NAME = re.compile(r"(\w+?)(?:@([1-9]\d*))?")


@dataclass(frozen=True)
class MetricRequest:
    """A metric as it was asked for."""

    name: str  # as it was given, ``"ndcg@10"``
    kind: str  # its key in `METRICS`
    most: int | None  # places of a query that count; None = all

    @property
    def metric(self) -> Metric:
        """What is measured."""
        return METRICS[self.kind]


def requests_of(metric: Any) -> list[MetricRequest]:
    """Read the names of metrics; ArgumentError for an unknown one, or one named twice."""
    names = list(metric) if isinstance(metric, list | tuple) else [metric]
    are_names = all(isinstance(name, str) for name in names)
    if not names or not are_names or len(set(names)) < len(names):
        raise ArgumentError(
            f"metric is {shown(metric)}; it must be a name, or a list of different ones, of "
            f"{list(METRICS)}"
        )
    return [_asked(name) for name in names]


def _asked(name: str) -> MetricRequest:
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


def check_family(asked: Sequence[MetricRequest], family: str) -> None:
    """Refuse metrics that mean nothing for a family."""
    for one in asked:
        kind = kind_of_family(family)
        if kind not in one.metric.families:
            able = [name for name, metric in METRICS.items() if kind in metric.families]
            raise ArgumentError(
                f"metric is {one.name!r}, which a family {family!r} does not have: {_why(one)}; "
                f"it has {able}"
            )


def _why(one: MetricRequest) -> str:
    if one.metric.families == CLASSES:
        return "it is of probabilities of classes"
    return "it is of a number" if "multinomial" not in one.metric.families else "it is of classes"

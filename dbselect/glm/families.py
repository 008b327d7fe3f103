"""Families of generalised linear models, as formulas of a row.

A row's linear predictors ``eta_k`` are K numbers (one, unless there are several classes) and its
responses ``y_r`` are R numbers. With the canonical link, the gradient of the log-likelihood
is ``X'(y - mu)``; another link has its slope over the variance as a factor, and the expected
information in the place of the curvature (Fisher's scoring). The information is a sum over
*pairs* t of weighted Grams::

    information = sum_t (X' W_t X) (x) q_t q_t'      gradient = sum_t (X' W_t r_t) (x) q_t

with a weight ``W_t > 0`` and a working residual ``r_t`` a row, and ``q_t`` a vector the
same for all rows. One response has the one pair ``W = dmu/deta``, ``r = (y - mu) / W``. K
classes have a pair for each two of them, ``W_ik = p_i p_k``, ``r_ik = y_i / p_i - y_k / p_k``,
``q_ik = e_i - e_k``, since ``diag(p) - p p'`` is the sum of ``p_i p_k (e_i - e_k)(e_i - e_k)'``
and ``y_i - p_i`` the sum over k of ``y_i p_k - y_k p_i``. So Newton's method stays exact:
some six passes of K (K - 1) / 2 Grams, where Boehning's bound needs one Gram but a hundred
passes, each as long as the table takes to read.

The K predictors of classes sum to 0 (what is added to all of them changes no
probability): they are ``basis`` times K - 1 free ones.

Digits: the residual is divided by what a weight is after its floor, so that ``W r = y - mu`` holds
in every row. No exponential can overflow.

Source: McCullagh, Nelder (1989), chapters 2, 4 to 6; Boehning (1992); Hu, Grubb, Bagnell,
Hebert (2016), appendix B.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dbselect.record.bases import Log
from dbselect.record.formulas import (
    Formula,
    Lookup,
    Path,
    absolute,
    at_least,
    choose,
    column,
    equals,
    exp,
    kept,
    largest,
    log,
    log1p,
    lookup,
    nothing,
    number,
    total,
)
from dbselect.record.gram import Matrix, Vector
from dbselect.record.terms import Terms

#: Smallest weight of a row, as that of a probability 1e-12 from certain: it keeps the
#: working residual below 1e12, which leaves sums of products far from overflow.
WEIGHT_FLOOR = 1e-12
#: Largest logarithm of a mean count, either way: no table counts to e^100, and sums of
#: products of such means stay finite, so that a step that far is seen to be a bad one.
LARGEST_LOG = 100.0
#: Deviance of a row whose predictor has no mean: more than any that has one, and its square is
#: still a number.
FAR = 1e100
#: Deviance per unit of weight from which on some row has no mean: that row has `FAR`, times its
#: share of the weight.
LARGEST_DEVIANCE = FAR**0.5
#: Distance from the last allowed mean within which a predictor counts as there, if the row's
#: likelihood is largest there: the row cannot gain more, and its weight stays finite.
BORDER = 1e-10
#: Value of a text that is neither of two levels; it is refused, as 2 is.
NO_LEVEL = 2.0


@dataclass(frozen=True)
class Null:
    """The model without columns, from the means of the responses."""

    predictors: Vector  # shape (K,)
    weights: Vector  # shape (T,), the weight that every row has in each pair
    residuals: Matrix  # shape (T, R): the working residual of a pair is ``residuals @ (y - mean)``
    deviance: float  # in all, given the sum of weights and what `FamilyFormulas.summed` sums to


@dataclass(frozen=True)
class Row:
    """Formulas that a pass computes for each row."""

    pairs: list[tuple[Formula, Formula]]  # weight and working residual of each of the T pairs
    deviance: Formula  # of the row


def _number(path: Path) -> list[Formula]:
    """Return the response of a target of numbers."""
    return [column(path)]


@dataclass(frozen=True, eq=False)
class FamilyFormulas:
    """A family with its link, as formulas of a row."""

    name: str  # as users call it
    means: Callable[[Sequence[Formula]], list[Formula]]  # K predictors -> R means
    row: Callable[[Sequence[Formula], Sequence[Formula]], Row]  # K predictors, R responses -> Row
    # means of the responses (R,), their variances (R,), mean of `summed`, sum of weights -> Null
    null: Callable[[Vector, Vector, float, float], Null]
    allowed: str  # allowed values of the target, for errors
    # path of the target -> R responses; by default one number
    responses: Callable[[Path], list[Formula]] = field(default_factory=lambda: _number)
    # response -> 1 where the value is not allowed, 0 elsewhere
    refused: Callable[[Formula], Formula] | None = None
    # response -> term whose sum the null deviance needs
    summed: Callable[[Formula], Formula] | None = None
    # shape (K, P), predictors from free ones
    basis: Matrix = field(default_factory=lambda: np.ones((1, 1)))
    # shape (T, P), q of each pair
    contrasts: Matrix = field(default_factory=lambda: np.ones((1, 1)))
    quadratic: bool = False  # whether the deviance is a quadratic function of the coefficients
    is_log: bool = False  # whether the mean is the exponential of the predictor
    # whether the expected information is the curvature itself, so that the last step of a fit errs
    # by no more than its square
    is_canonical: bool = True
    at_zero: bool = True  # whether there is a mean at the predictor 0
    has_dispersion: bool = False  # whether the variance has a factor that the family does not fix
    classes: tuple[Any, ...] = ()  # classes of the target, if there are several
    # values of the target that count as 0 and 1, if not these numbers
    levels: tuple[Any, ...] = ()


def one_pair(weight: Formula, rest: Formula, deviance: Formula) -> Row:
    """Return a row of one response; `rest` is y - mu, or with other links the score, W r."""
    weight = kept(at_least(weight, WEIGHT_FLOOR))
    return Row([(weight, rest / weight)], deviance)


def one_null(predictor: float, slope: float, weight: float, deviance: float) -> Null:
    """Return the null model of one response; `slope` is that of the mean by the predictor."""
    residual = 1.0 / slope if slope else 0.0
    return Null(np.array([predictor]), np.array([weight]), np.array([[residual]]), float(deviance))


def _gaussian_row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
    rest = kept(y[0] - eta[0])
    return Row([(number(1.0), rest)], rest * rest)


def _gaussian_null(mean: Vector, variance: Vector, _: float, weight: float) -> Null:
    return one_null(mean[0], 1.0, 1.0, weight * variance[0])


#: The mean is the predictor. The first pass determines the fit.
GAUSSIAN = FamilyFormulas(
    name="gaussian",
    means=list,
    row=_gaussian_row,
    null=_gaussian_null,
    allowed="a number",
    quadratic=True,
    has_dispersion=True,
)


def _logistic(eta: Formula) -> tuple[Formula, Formula, Formula]:
    """Return ``exp(-|eta|)``, the larger of the two probabilities, and that of 1."""
    small = kept(exp(absolute(eta) * -1.0))
    sure = kept(1.0 / (small + 1.0))
    return small, sure, choose(eta, sure, small * sure)


def _binomial_row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
    small, sure, mean = _logistic(eta[0])
    # If the model is right the two products cancel exactly, before the rest is added.
    deviance = (log1p(small) + (choose(eta[0], eta[0], 0.0) - y[0] * eta[0])) * 2.0
    return one_pair(small * sure * sure, y[0] - mean, deviance)


def _binomial_null(mean: Vector, _: Vector, __: float, weight: float) -> Null:
    p = mean[0]
    entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p))
    return one_null(np.log(p) - np.log1p(-p), p * (1 - p), p * (1 - p), 2 * weight * entropy)


#: The mean is 1 / (1 + exp(-eta)).
BINOMIAL = FamilyFormulas(
    name="binomial",
    means=lambda eta: [_logistic(eta[0])[2]],
    row=_binomial_row,
    null=_binomial_null,
    allowed="0/1 or boolean",
    refused=lambda y: choose(absolute(y * (y - 1.0)), 1.0, 0.0),
)


def of_levels(family: FamilyFormulas, levels: Sequence[Any]) -> FamilyFormulas:
    """Return a binomial family whose target has two levels, of which the second counts as 1."""
    no, yes = levels

    def responses(path: Path) -> list[Formula]:
        if isinstance(no, str):
            return [kept(lookup(Lookup(path, (no, yes), (0.0, 1.0), NO_LEVEL)))]
        return [kept((column(path) - no) / (yes - no))]  # of another number neither 0 nor 1

    return replace(family, responses=responses, allowed=f"{no!r} or {yes!r}", levels=(no, yes))


def at_most(x: Formula, ceiling: float) -> Formula:
    """Return a formula, at most the ceiling."""
    return at_least(x * -1.0, -ceiling) * -1.0


def bounded_exp(eta: Formula, ceiling: float = LARGEST_LOG) -> Formula:
    """Return exp(eta), with eta clipped to -`LARGEST_LOG` and the ceiling."""
    return kept(exp(at_least(at_most(eta, ceiling), -LARGEST_LOG)))


def count(eta: Formula) -> Formula:
    """Return exp(eta), with eta clipped to -`LARGEST_LOG` and `LARGEST_LOG`."""
    return bounded_exp(eta)


def times_log(y: Formula, x: Formula) -> Formula:
    """Return y log(x), and 0 where y is 0."""
    return choose(y, y * log(choose(y, x, 1.0)), 0.0)


def _poisson_row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
    mean = count(eta[0])
    rest = kept(y[0] - mean)
    return one_pair(mean, rest, (times_log(y[0], y[0] / mean) - rest) * 2.0)


def _poisson_null(mean: Vector, _: Vector, y_log_y: float, weight: float) -> Null:
    deviance = 2 * weight * (y_log_y - mean[0] * np.log(mean[0]))
    return one_null(np.log(mean[0]), mean[0], mean[0], deviance)


#: The mean is exp(eta).
POISSON = FamilyFormulas(
    name="poisson",
    means=lambda eta: [count(eta[0])],
    row=_poisson_row,
    null=_poisson_null,
    allowed=">= 0",
    refused=lambda y: choose(y * -1.0, 1.0, 0.0),
    summed=lambda y: times_log(y, y),
    is_log=True,
)


def _softmax(eta: Sequence[Formula]) -> tuple[list[Formula], Formula, list[Formula]]:
    """Return the predictors below the largest, the sum of their exponentials, the means."""
    top = kept(largest(eta))
    below = [kept(x - top) for x in eta]
    powers = [kept(exp(x)) for x in below]
    summed = kept(total(powers))
    return below, summed, [kept(power / summed) for power in powers]


def multinomial(classes: Sequence[Any]) -> FamilyFormulas:
    """Return the family of K classes: probabilities are exp(eta_k) over their sum."""
    size = len(classes)
    first, second = np.triu_indices(size, 1)
    two = list(zip(first.tolist(), second.tolist(), strict=True))
    # Orthonormal and orthogonal to a constant, so that a ridge treats all classes alike.
    basis = np.linalg.qr(np.eye(size) - 1.0 / size)[0][:, : size - 1]

    def row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
        below, summed, p = _softmax(eta)
        weights = [kept(at_least(p[i] * p[k], WEIGHT_FLOOR)) for i, k in two]
        rest = [y[i] * p[k] - y[k] * p[i] for i, k in two]
        pairs = [(weight, score / weight) for weight, score in zip(weights, rest, strict=True)]
        chosen = total([response * x for response, x in zip(y, below, strict=True)])
        return Row(pairs, (log(summed) - chosen) * 2.0)

    def null(mean: Vector, _: Vector, __: float, weight: float) -> Null:
        logs = np.log(mean)
        unit = np.eye(size) / mean
        deviance = float(-2 * weight * mean @ logs)
        weights = mean[first] * mean[second]
        return Null(logs - logs.mean(), weights, unit[first] - unit[second], deviance)

    return FamilyFormulas(
        name="multinomial",
        responses=lambda path: [kept(equals(path, value)) for value in classes],
        means=lambda eta: _softmax(eta)[2],
        row=row,
        null=null,
        allowed="one of several classes",
        basis=basis,
        contrasts=basis[first] - basis[second],
        classes=tuple(classes),
    )


@dataclass(frozen=True)
class Offset:
    """Columns that are added to a predictor with coefficient 1."""

    offset: str | None = None  # added as it is
    exposure: str | None = None  # of which the logarithm is added, > 0

    @property
    def named(self) -> dict[str, str]:
        """Each column and the option that names it."""
        both = {"offset": self.offset, "exposure": self.exposure}
        return {name: option for option, name in both.items() if name is not None}

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.named)

    @property
    def coefficients(self) -> dict[str, float]:
        """Coefficients of the columns that a prediction reads."""
        of_exposure = [] if self.exposure is None else Log(self.exposure).names
        return dict.fromkeys([*(n for n in self.names if n == self.offset), *of_exposure], 1.0)

    def with_log(self, terms: Terms) -> Terms:
        """Return terms with the logarithm of the exposure added."""
        if self.exposure is None:
            return terms
        return replace(terms, bases=(*terms.bases, Log(self.exposure)))

    def without_log(self, terms: Terms) -> Terms:
        """Return terms without the logarithm of the exposure."""
        return replace(
            terms,
            bases=tuple(
                basis
                for basis in terms.bases
                if not (isinstance(basis, Log) and basis.column == self.exposure)
            ),
        )

    def formula(
        self, column: Callable[[str, str], Formula], *, is_checked: bool = True
    ) -> Formula | None:
        """Return the sum of the terms, or None; an unchecked exposure that is not > 0 adds 0."""
        parts = []
        if self.offset is not None:
            parts.append(column(self.offset, "offset"))
        if self.exposure is not None:
            x = column(self.exposure, "exposure")
            parts.append(choose(x, log(choose(x, x, 1.0)), nothing() if is_checked else x * 0.0))
        return total(parts) if parts else None

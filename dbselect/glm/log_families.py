"""Families of numbers above 0 and of counts whose variance is a function of the mean; link log.

    tweedie(p)            variance phi mu^p       deviance, p not 1 or 2:
                          2 (y^(2-p) / ((1-p)(2-p)) - y mu^(1-p) / (1-p) + mu^(2-p) / (2-p))
    gamma                 p = 2                   2 (y / mu - 1 - log(y / mu))
    inverse_gaussian      p = 3                   (y - mu)^2 / (y mu^2)
    negative_binomial(a)  variance mu + a mu^2
                          2 (y log(y / mu) - (y + 1/a) log((1 + a y) / (1 + a mu)))

The mean is exp(eta). With the variance V, a row has the weight ``mu^2 / V`` and the working
residual ``(y - mu) / mu``: the expected information, which gives the standard errors.

Source: McCullagh, Nelder (1989), chapters 8 and 9; Jorgensen (1987), JRSS B 49; Hilbe (2011).
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from dbselect.glm.families import (
    POISSON,
    FamilyFormulas,
    Null,
    Row,
    count,
    one_null,
    one_pair,
    times_log,
)
from dbselect.record.formulas import Formula, choose, exp, kept, log
from dbselect.record.gram import Vector

#: Powers of the variance whose deviance has a formula of its own.
GAMMA_POWER, INVERSE_GAUSSIAN_POWER = 2.0, 3.0


def tweedie(power: float, name: str) -> FamilyFormulas:
    """Return the family of variance mean^power, power > 1; below 2 the target may be 0."""

    def row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
        mean = count(eta[0])
        # mu^(2 - p), of the clipped predictor, so that nothing overflows.
        weight = kept(exp(log(mean) * (2.0 - power)))
        return one_pair(weight, weight * (y[0] - mean) / mean, _power_deviance(power, y[0], mean))

    def null(mean: Vector, _: Vector, summed: float, weight: float) -> Null:
        m = float(mean[0])
        deviance = 2.0 * weight * _null_power_deviance(power, m, summed)
        return _null(m, m ** (2.0 - power), deviance)

    formulas = replace(
        POISSON, name=name, row=row, null=null, summed=lambda y: _summed(power, y),
        is_canonical=False, has_dispersion=True,
    )  # fmt: skip
    if power < GAMMA_POWER:
        return formulas
    return replace(formulas, allowed="> 0", refused=lambda y: choose(y, 0.0, 1.0))


def negative_binomial(dispersion: float, name: str) -> FamilyFormulas:
    """Return the family of counts whose variance is ``mu + dispersion mu^2``."""
    a = dispersion

    def row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
        mean = count(eta[0])
        more = kept(mean * a + 1.0)
        deviance = times_log(y[0], y[0] / mean) - (y[0] + 1.0 / a) * log((y[0] * a + 1.0) / more)
        return one_pair(mean / more, (y[0] - mean) / more, deviance * 2.0)

    def null(mean: Vector, _: Vector, summed: float, weight: float) -> Null:
        m = float(mean[0])
        rest = -m * math.log(m) + (m + 1.0 / a) * math.log1p(a * m) if m > 0 else 0.0
        return _null(m, m / (1.0 + a * m), 2.0 * weight * (summed + rest))

    return replace(
        POISSON,
        name=name,
        row=row,
        null=null,
        # Finite for refused values too, or their rows would be skipped before the check.
        summed=lambda y: times_log(y, y) - (y + 1.0 / a) * log(choose(y, y, 0.0) * a + 1.0),
        is_canonical=False,
    )


def _null(mean: float, weight: float, deviance: float) -> Null:
    return one_null(math.log(mean) if mean else -math.inf, mean, weight, deviance)


def _power_deviance(p: float, y: Formula, mean: Formula) -> Formula:
    if p == GAMMA_POWER:
        share = kept(y / mean)
        return (share - 1.0 - log(share)) * 2.0
    if p == INVERSE_GAUSSIAN_POWER:
        rest = kept((y - mean) / mean)
        return rest * rest / y
    logarithm = kept(log(mean))
    fitted = y * exp(logarithm * (1.0 - p)) / (1.0 - p) - exp(logarithm * (2.0 - p)) / (2.0 - p)
    return (_summed(p, y) - fitted) * 2.0


def _summed(p: float, y: Formula) -> Formula:
    """Return the term of a response in the null deviance; finite for refused values too."""
    positive = kept(choose(y, y, 1.0))
    if p == GAMMA_POWER:
        return log(positive)
    if p == INVERSE_GAUSSIAN_POWER:
        return 1.0 / positive
    return choose(y, exp(log(positive) * (2.0 - p)), 0.0) / ((1.0 - p) * (2.0 - p))


def _null_power_deviance(p: float, mean: float, summed: float) -> float:
    """Return half the deviance of the best constant, per unit of weight."""
    if not mean > 0:
        return 0.0
    if p == GAMMA_POWER:
        return math.log(mean) - summed
    if p == INVERSE_GAUSSIAN_POWER:
        return 0.5 * (summed - 1.0 / mean)
    return float(summed - mean ** (2.0 - p) * (1.0 / (1.0 - p) - 1.0 / (2.0 - p)))

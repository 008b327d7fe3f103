"""Families by their text, and with other links: a predictor as that of another, by the chain rule.

A family with one link has a weight W and a working residual r at its predictor b. If b is a
function of another link's predictor eta, of slope ``t = db/deta``, it has there::

    weight  t^2 W      working residual  r / t      the same deviance

so that b and t define a link. If a predictor has no mean that the family allows, the deviance is
`FAR`: a step that leads there is halved, as in R's ``glm``. The mean at the border is allowed if
the row's likelihood is largest there (a count of 0 with the mean 0).

Binomial families are accurate in both tails. With p the mean, q = 1 - p and s = dp/deta, a row has
the weight ``s^2 / (p q)`` and the working residual ``(y - p) / s``: the expected information, which
gives the standard errors. The smaller one of p and q is computed itself, never as 1 minus the
other. No engine has the normal distribution: its tail is ``erfc(z) = t Q(t) exp(-z^2)``, where
``t = 2 / (2 + z)`` and Q, smooth from t = 0 (z infinite) to 1, is a polynomial by Chebyshev's
interpolation, made once of SciPy's erfcx.

Source: McCullagh, Nelder (1989), sections 2.5 and 4.3; R Core Team, ``glm.fit`` (valideta); Press
et al. (2007), section 6.2.2 for t.
"""

import copyreg
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import scipy
from numpy.polynomial import chebyshev

from dbselect.families import Family, parse
from dbselect.glm.families import (
    BINOMIAL,
    BORDER,
    FAR,
    GAUSSIAN,
    POISSON,
    FamilyFormulas,
    Null,
    Row,
    bounded_exp,
    count,
    multinomial,
    of_levels,
    one_null,
    one_pair,
)
from dbselect.glm.log_families import (
    GAMMA_POWER,
    INVERSE_GAUSSIAN_POWER,
    negative_binomial,
    tweedie,
)
from dbselect.record.formulas import (
    Formula,
    absolute,
    atan,
    choose,
    exp,
    kept,
    log,
    nothing,
    number,
)
from dbselect.record.gram import Vector


@dataclass(frozen=True)
class Link:
    """A link as the predictor of another one."""

    name: str  # as users call it
    base: Callable[[Formula], tuple[Formula, Formula]]  # eta -> b, and its slope t
    means: Callable[[Formula], Formula]  # eta -> the mean; missing if there is none
    # eta -> above 0 where there is a mean; None if there always is
    within: Callable[[Formula], Formula] | None
    at: Callable[[float], tuple[float, float]]  # mean -> eta, and the slope t there
    at_zero: bool  # whether there is a mean at the predictor 0
    inside: float = 1.0  # a predictor that has a mean
    # eta, y -> above 0 where the mean is at the border and equals y; None if that is not allowed
    border: Callable[[Formula, Formula], Formula] | None = None


def power(name: str, k: float) -> Link:
    """Return the link whose mean is a power of the predictor, > 0."""

    def means(eta: Formula) -> Formula:
        mean = eta if k == 1.0 else exp(log(choose(eta, eta, 1.0)) * k)
        return choose(eta, mean, choose(eta + BORDER, eta * 0.0, nothing()) if k > 0 else nothing())

    def at(mean: float) -> tuple[float, float]:
        eta = mean ** (1.0 / k) if mean > 0 else math.nan
        return eta, k / eta

    return Link(
        name,
        base=lambda eta: (log(eta) * k, k / eta),
        means=means,
        within=lambda eta: eta,
        at=at,
        at_zero=False,
        border=(lambda eta, y: choose(y, y * 0.0, _near(eta))) if k > 0 else None,
    )


def _near(distance: Formula) -> Formula:
    """Return a formula that is above 0 where a predictor is at the border."""
    return absolute(distance) * -1.0 + BORDER


#: Links for positive means, besides the logarithm.
IDENTITY = power("identity", 1.0)
INVERSE = power("inverse", -1.0)
INVERSE_SQUARED = power("inverse_squared", -0.5)
SQRT = power("sqrt", 2.0)


def _log_base(eta: Formula) -> tuple[Formula, Formula]:
    mean = count(eta)
    return mean, mean


def _log_at(mean: float) -> tuple[float, float]:
    return (math.log(mean), mean) if mean > 0 else (math.nan, math.nan)


#: Links of family gaussian, besides the identity.
GAUSSIAN_LOG = Link("log", _log_base, count, None, _log_at, at_zero=True)
GAUSSIAN_INVERSE = Link(
    "inverse",
    base=lambda eta: (1.0 / eta, -1.0 / (eta * eta)),
    means=lambda eta: choose(eta * eta, 1.0 / eta, nothing()),
    within=lambda eta: eta * eta,
    at=lambda mean: (1.0 / mean, -(mean**2)) if mean else (math.nan, math.nan),
    at_zero=False,
)


def _probability_base(eta: Formula) -> tuple[Formula, Formula]:
    other = kept(eta * -1.0 + 1.0)
    return log(eta) - log(other), 1.0 / (eta * other)


def _probability(eta: Formula) -> Formula:
    other = kept(eta * -1.0 + 1.0)
    last = choose(_near(eta), eta * 0.0, choose(_near(other), eta * 0.0 + 1.0, nothing()))
    return choose(eta * other, eta, last)


#: Link of family binomial, besides the logit: differences of probabilities.
PROBABILITY = Link(
    "identity",
    _probability_base,
    means=_probability,
    within=lambda eta: eta * (eta * -1.0 + 1.0),
    at=lambda mean: (mean, 1.0 / (mean * (1.0 - mean))),
    at_zero=False,
    inside=0.5,
    border=lambda eta, y: _near(eta - y),
)

#: Links by name, for families with positive means and for the others.
POSITIVE_LINKS = {link.name: link for link in (IDENTITY, INVERSE, INVERSE_SQUARED, SQRT)}
OTHER_LINKS = {
    "gaussian": {link.name: link for link in (GAUSSIAN_LOG, GAUSSIAN_INVERSE)},
    "binomial": {PROBABILITY.name: PROBABILITY},
}


def by_link(family: FamilyFormulas, link: Link, *, is_canonical: bool = False) -> FamilyFormulas:
    """Return a family with another link."""

    def row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
        x, is_within, is_last = eta[0], None, None
        if link.border is not None:
            is_last = kept(link.border(x, y[0]))
            x = kept(choose(is_last, x * 0.0 + (y[0] + (y[0] * -2.0 + 1.0) * BORDER), x))
        if link.within is not None:
            is_within = kept(link.within(x))
            # Missing values stay missing.
            x = kept(choose(is_within, x, x * 0.0 + link.inside))
        base, slope = (kept(part) for part in link.base(x))
        base_row = family.row([kept(base)], y)
        ((weight, residual),) = base_row.pairs
        deviance = base_row.deviance
        if is_within is not None:
            deviance = choose(is_within, deviance, y[0] * 0.0 + FAR)
        score = slope * weight * residual
        if is_last is not None:
            score = choose(is_last, y[0] * 0.0, score)
        return one_pair(slope * slope * weight, score, deviance)

    def null(means: Vector, variance: Vector, summed: float, weight: float) -> Null:
        base = family.null(means, variance, summed, weight)
        predictor, slope = link.at(float(means[0]))
        return Null(
            np.array([predictor]), base.weights * slope**2, base.residuals / slope, base.deviance
        )

    return replace(
        family,
        name=_named(family.name, link.name),
        means=lambda eta: [link.means(eta[0])],
        row=row,
        null=null,
        quadratic=False,
        is_log=link is GAUSSIAN_LOG,
        is_canonical=is_canonical,
        at_zero=link.at_zero,
    )


def _named(family: str, link: str) -> str:
    """Return the name of a family with its link, after its number if it has one."""
    kind, _, number = family.rstrip(")").partition("(")
    return f"{kind}({number}, {link})" if number else f"{kind}({link})"


#: Terms of Q: the last ones are rounding.
TERMS = 30
#: Largest exponent of the complementary log-log: exp of it leaves a q that is not 0.
LARGEST_EXPONENT = 6.5
#: Largest predictor of the log link: the mean is at least `BORDER` short of 1.
LARGEST_LOG_MEAN = math.log1p(-BORDER)


def _normal(eta: Formula) -> tuple[Formula, Formula]:
    """Return the probability of the tail on the side of eta, and the density over it."""
    z = kept(absolute(eta) * math.sqrt(0.5))
    t = kept(2.0 / (z + 2.0))
    x = kept(t * 2.0 - 1.0)
    polynomial = number(0.0)
    for coefficient in _tail():
        polynomial = polynomial * x + coefficient
    scaled = kept(t * polynomial * 0.5)
    return kept(scaled * exp(z * z * -1.0)), 1.0 / (scaled * math.sqrt(2.0 * math.pi))


@cache
def _tail() -> tuple[float, ...]:
    """Return the coefficients of Q in powers of 2 t - 1, the highest power first."""
    x = chebyshev.chebpts1(TERMS + 1)
    t = (x + 1.0) / 2.0
    powers = chebyshev.cheb2poly(
        chebyshev.chebfit(x, scipy.special.erfcx(2.0 / t - 2.0) / t, TERMS)
    )
    return tuple(powers[::-1].tolist())


def _probit_row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
    tail, steep = _normal(eta[0])
    # Far out, where the tail is 0, its logarithm is computed from that of the density.
    of_tail = log(steep) + (eta[0] * eta[0] + math.log(2.0 * math.pi)) * 0.5
    return _odd_row(eta[0], y[0], tail, steep, kept(of_tail))


def _odd_row(eta: Formula, y: Formula, tail: Formula, steep: Formula, of_tail: Formula) -> Row:
    """Return a row of an odd link; `steep` is density over tail, `of_tail` minus log(tail)."""
    other = kept(tail * -1.0 + 1.0)
    of_other = kept(log(other) * -1.0)
    no = kept(y * -1.0 + 1.0)
    deviance = choose(eta, y * of_other + no * of_tail, y * of_tail + no * of_other)
    score = choose(eta, tail - no, y - tail) * steep / other
    return one_pair(steep * steep * tail / other, score, deviance * 2.0)


def _odd_mean(eta: Formula, tail: Formula) -> Formula:
    return choose(eta, tail * -1.0 + 1.0, tail)


def _cloglog_parts(eta: Formula) -> tuple[Formula, Formula]:
    """Return e = exp(eta), at which q = exp(-e), and the mean ``1 - exp(-e)``."""
    e = bounded_exp(eta, LARGEST_EXPONENT)
    q = kept(exp(e * -1.0))
    # Kahan's 1 - exp(-e), which keeps the digits of a small e.
    return e, kept(choose(absolute(q - 1.0), (q - 1.0) * e / choose(q, log(q), 1.0), e))


def _cloglog_row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
    e, mean = _cloglog_parts(eta[0])
    no = kept(y[0] * -1.0 + 1.0)
    deviance = no * e - y[0] * log(mean)
    q = exp(e * -1.0)
    score = y[0] * e * q / mean - no * e
    return one_pair(e * e * q / mean, score, deviance * 2.0)


def _loglog_row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
    mirrored = _cloglog_row([kept(eta[0] * -1.0)], [kept(y[0] * -1.0 + 1.0)])
    ((weight, residual),) = mirrored.pairs
    return Row([(weight, residual * -1.0)], mirrored.deviance)


def _cauchit_tail(eta: Formula) -> Formula:
    """Return the probability of the tail on the side of eta."""
    far = kept(absolute(eta))
    outside = atan(1.0 / choose(far - 1.0, far, 1.0))
    return kept(choose(far - 1.0, outside, atan(far) * -1.0 + math.pi / 2.0) * (1.0 / math.pi))


def _cauchit_row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
    tail = _cauchit_tail(eta[0])
    steep = kept(1.0 / ((eta[0] * eta[0] + 1.0) * math.pi * tail))
    return _odd_row(eta[0], y[0], tail, steep, kept(log(tail) * -1.0))


def _log_mean(eta: Formula) -> Formula:
    return bounded_exp(eta, LARGEST_LOG_MEAN)


def _log_row(eta: Sequence[Formula], y: Sequence[Formula]) -> Row:
    mean = _log_mean(eta[0])
    q = kept(mean * -1.0 + 1.0)
    no = kept(y[0] * -1.0 + 1.0)
    deviance = (y[0] * log(mean) + no * log(q)) * -2.0
    beyond = choose(eta[0] - BORDER, y[0] * 0.0 + FAR, deviance)
    of_one = choose(eta[0] + BORDER, y[0] * 0.0, y[0])
    return one_pair(mean / q, of_one - no * mean / q, beyond)


def _binomial(
    name: str,
    mean: Callable[[Formula], Formula],
    row: Callable[[Sequence[Formula], Sequence[Formula]], Row],
    link: Callable[[float], tuple[float, float]],
) -> FamilyFormulas:
    """Return the family of a link: mean -> predictor, and slope of the mean there."""

    def null(means: Vector, variance: Vector, summed: float, weight: float) -> Null:
        p = float(means[0])
        predictor, slope = link(p)
        deviance = BINOMIAL.null(means, variance, summed, weight).deviance
        return one_null(predictor, slope, slope**2 / (p * (1.0 - p)), deviance)

    return replace(
        BINOMIAL, name=f"binomial({name})", means=lambda eta: [mean(eta[0])], row=row, null=null,
        is_canonical=False,
    )  # fmt: skip


def _of_probit(p: float) -> tuple[float, float]:
    predictor = float(scipy.special.ndtri(p))
    return predictor, math.exp(-0.5 * predictor**2) / math.sqrt(2.0 * math.pi)


def _of_cloglog(p: float) -> tuple[float, float]:
    e = -math.log1p(-p)
    return math.log(e), e * (1.0 - p)


def _of_loglog(p: float) -> tuple[float, float]:
    predictor, slope = _of_cloglog(1.0 - p)
    return -predictor, slope


def _of_cauchit(p: float) -> tuple[float, float]:
    predictor = math.tan(math.pi * (p - 0.5))
    return predictor, 1.0 / (math.pi * (1.0 + predictor**2))


def _loglog_mean(eta: Formula) -> Formula:
    """Return ``exp(-exp(-eta))``."""
    return exp(_cloglog_parts(eta * -1.0)[0] * -1.0)


LOGLOG = _binomial("loglog", _loglog_mean, _loglog_row, _of_loglog)
CAUCHIT = _binomial(
    "cauchit", lambda eta: _odd_mean(eta, _cauchit_tail(eta)), _cauchit_row, _of_cauchit
)
PROBIT = _binomial("probit", lambda eta: _odd_mean(eta, _normal(eta)[0]), _probit_row, _of_probit)
CLOGLOG = _binomial("cloglog", lambda eta: _cloglog_parts(eta)[1], _cloglog_row, _of_cloglog)
#: A predictor above 0 has no mean; at 0 the mean is 1, for a target of 1.
LOG = replace(_binomial("log", _log_mean, _log_row, lambda p: (math.log(p), p)), at_zero=False)
#: The binomial families with these links.
BINOMIALS = (PROBIT, CLOGLOG, LOGLOG, CAUCHIT, LOG)


#: The family whose number a fit estimates.
ESTIMATED = "negative_binomial"
#: Families with formulas of their own.
_OWN = {
    family.name: family
    for family in (
        GAUSSIAN, BINOMIAL, *BINOMIALS, POISSON,
        tweedie(GAMMA_POWER, "gamma"), tweedie(INVERSE_GAUSSIAN_POWER, "inverse_gaussian"),
        negative_binomial(1.0, ESTIMATED),  # before its number is estimated
    )
}  # fmt: skip
#: Families with a number -> function of the number and the name.
_WITH_NUMBER = {"tweedie": tweedie, "negative_binomial": negative_binomial}
#: Families with a canonical link whose formulas come from another link.
_CANONICAL = ("gamma(inverse)", "inverse_gaussian(inverse_squared)")


def family_of(name: Family | str, classes: Sequence[Any] = ()) -> FamilyFormulas:
    """Return a family's formulas; `classes` are its classes, or a binomial target's two levels."""
    family = parse(name)
    if family.has_classes:
        return multinomial(classes)
    formulas = _formulas(family)
    return of_levels(formulas, classes) if classes else formulas


def _by_name(family: FamilyFormulas) -> tuple[Any, ...]:
    """Pickle a family by its name, as its formulas are functions."""
    return family_of, (family.name, family.classes or family.levels)


copyreg.pickle(FamilyFormulas, _by_name)


def kind_of_family(name: str) -> str:
    """Return the name of a family without its link or parameter."""
    return name.partition("(")[0]


@cache
def _formulas(family: Family) -> FamilyFormulas:
    name = str(family)
    if name in _OWN:
        return _OWN[name]
    base = _OWN[family.name] if family.number is None else _WITH_NUMBER[family.name](
        family.number, f"{family.name}({family.number!r})"
    )  # fmt: skip
    if family.link == family.links[0]:
        return base
    link = OTHER_LINKS.get(family.name, POSITIVE_LINKS)[family.link]
    return by_link(base, link, is_canonical=name in _CANONICAL)

"""Families with other links: the predictor of a link as that of another, by the chain rule.

A family with one link has a weight W and a working residual r at its predictor b. If b is a
function of another link's predictor eta, of slope ``t = db/deta``, it has there::

    weight  t^2 W      working residual  r / t      the same deviance

so that b and t define a link. If a predictor has no mean that the family allows, the deviance is
`FAR`: a step that leads there is halved, as in R's ``glm``. The mean at the border is allowed if
the row's likelihood is largest there (a count of 0 with the mean 0).

Source: McCullagh, Nelder (1989), section 2.5; R Core Team, ``glm.fit`` (valideta).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dbselect.glm.families import BORDER, FAR, FamilyFormulas, Null, Row, count, one_pair
from dbselect.record.formulas import Formula, absolute, choose, exp, kept, log, nothing
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

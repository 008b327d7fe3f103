"""The dispersion of negative binomial counts that makes them most likely, in passes.

Counts of mean mu and variance ``mu + mu^2 / theta`` have the log-likelihood, without the terms
that do not depend on theta::

    log Gamma(y + theta) - log Gamma(theta) + theta log theta - (y + theta) log(mu + theta)

Fits of the coefficients at a theta and Newton's steps of log theta at their means take turns
until theta stays, as ``glm.nb`` of MASS does. Both are nearly independent (their expected cross
information is 0), so that few turns are needed.

No engine has the digamma function. It is computed at ``z = x + SHIFT`` by Stirling's series, and
brought back to x by its recurrence, ``psi(x) = psi(x + 1) - 1 / x``.

Source: Lawless (1987), Canadian Journal of Statistics 15; Venables, Ripley (2002), section 7.4;
Abramowitz, Stegun (1964), 6.3.5, 6.3.18, 6.4.12.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import scipy

from dbselect.errors import DataError
from dbselect.glm.expansion import Coefficients
from dbselect.glm.log_families import negative_binomial
from dbselect.glm.newton import GlmFit, GlmProblem, extended, fitted_again, solved
from dbselect.glm.passes import Data
from dbselect.record.formulas import Formula, kept, log, total
from dbselect.sources.passes import PREFIX, Weighted

#: Added to an argument before Stirling's series, so that the terms left out of the series are
#: below 1e-15.
SHIFT = 10
#: Bernoulli's numbers B_2, B_4, ..., B_12.
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730)
#: Change of log theta below which it stays: the name of the family has eight digits.
SETTLED = 1e-9
#: Most turns, and most steps of a turn; five of each are many.
TURNS, STEPS = 50, 25
#: Longest step of log theta.
LONGEST = 2.0
#: Largest theta: the variance is then that of Poisson's counts to a millionth of the mean.
LARGEST = 1e6
#: Columns by formula of the pass.
SCORE, CURVATURE, SPREAD = (f"{PREFIX}{name}" for name in ("score", "curvature", "spread"))


def most_likely(data: Data, problem: GlmProblem, null: GlmFit) -> float:
    """Return the most likely 1 / theta of a model of all groups; DataError if it is 0."""
    (fit,) = solved([extended(problem, null, range(len(problem.members)))], data.read)
    theta = _at_means(data, fit.point, None)
    for _ in range(TURNS):
        family = negative_binomial(1.0 / theta, data.roles.family.name)
        data = replace(data, roles=replace(data.roles, family=family))
        (fit,) = solved([fitted_again(problem, fit)], data.read)
        before, theta = theta, _at_means(data, fit.point, theta)
        if abs(math.log(theta / before)) < SETTLED:
            break
    return 1.0 / theta


def _at_means(data: Data, point: Coefficients, theta: float | None) -> float:
    """Return the most likely theta at given means, starting from `theta` or from moments."""
    if theta is None:
        *_, spread = _theta_moments(data, point, 1.0)
        theta = 1.0 / spread
    for _ in range(STEPS):
        score, curvature, _ = _theta_moments(data, point, theta)
        # By log theta.
        slope, bend = theta * score, theta * score - theta**2 * curvature
        step = -slope / bend if bend < 0 else math.copysign(LONGEST, slope)
        theta *= math.exp(max(-LONGEST, min(LONGEST, step)))
        if theta > LARGEST:
            raise DataError(
                f"target '{data.roles.target}' varies no more than counts of family "
                "'poisson', so the most likely dispersion is 0; use that family"
            )
        if abs(step) < SETTLED:
            break
    return theta


def _theta_moments(data: Data, point: Coefficients, theta: float) -> tuple[float, float, float]:
    """Return means over the rows: score of theta, minus its derivative, ``(y / mu - 1)^2``."""
    eta, y, used = data.of_rows(point)
    (mean,) = data.roles.family.means(eta)
    x = kept(y[0] + theta)
    all_ = kept(mean + theta)
    share = kept(x / all_)
    constant = math.log(theta) + 1.0 - float(scipy.special.digamma(theta))
    score = _digamma(x) - log(all_) - share + constant
    inner = float(scipy.special.polygamma(1, theta)) - 1.0 / theta
    curvature = (share * -1.0 + 2.0) / all_ - _trigamma(x) + inner
    relative = kept(y[0] / mean - 1.0)
    added = {SCORE: score, CURVATURE: curvature, SPREAD: relative * relative}
    (gram,) = data.passes.read([Weighted(added, used, [])])
    score_, curvature_, spread = gram.mean.tolist()
    return score_, curvature_, spread


def _stirling(x: Formula, numbers: Sequence[float]) -> tuple[Formula, Formula, Formula]:
    """Return the shifted argument z, 1 / z, and the sum of numbers over even powers of z."""
    z = kept(x + float(SHIFT))
    inverse = kept(1.0 / z)
    square = kept(inverse * inverse)
    series = inverse * 0.0
    for coefficient in reversed(numbers):
        series = (series + coefficient) * square
    return z, inverse, series


def _digamma(x: Formula) -> Formula:
    numbers = [bernoulli / (2 * k) for k, bernoulli in enumerate(BERNOULLI, 1)]
    z, inverse, series = _stirling(x, numbers)
    back = total([1.0 / (x + float(i)) for i in range(SHIFT)])
    return log(z) - inverse * 0.5 - series - back


def _trigamma(x: Formula) -> Formula:
    _, inverse, series = _stirling(x, BERNOULLI)
    back = total([1.0 / ((x + float(i)) * (x + float(i))) for i in range(SHIFT)])
    return inverse + inverse * inverse * 0.5 + series * inverse + back

"""Area under the curve of the explained share against the budget, and related measures.

A curve is the step function of `explained_at`; the last segment before its cut rises linearly.
As curves plateau long before the last group, they are cut at the cost where a reference sequence
reaches a fraction (the paper's alpha) of its final height.

Source: Hu, Grubb, Bagnell, Hebert (2016), section 5.2; Karayev et al. (2012).
"""

from typing import Protocol, runtime_checkable

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.options.kinds import AT_LEAST_ZERO, FRACTION
from dbselect.record.gram import Vector
from dbselect.record.prices import BUDGET_SLACK
from dbselect.record.steps import longest_within

#: First fraction tried for the plateau; the others follow in steps of `PLATEAU_GAIN`.
PLATEAU_START = 0.95
#: A plateau begins where this share of the final height ...
PLATEAU_GAIN = 0.01
#: ... needs more than this share of the total cost.
PLATEAU_COST = 0.20
#: Relative slack of a height, for rounding.
HEIGHT_SLACK = 1e-12


@runtime_checkable
class Swept(Protocol):
    """Protocol of a sequence with a curve."""

    @property
    def spent(self) -> Vector:
        """Cost of each prefix."""

    @property
    def explained(self) -> Vector:
        """Explained share of each prefix."""

    @property
    def steps(self) -> pl.DataFrame:
        """Table with both, one row per prefix."""


#: A sequence, or a frame of `evaluate` or `oracle`, with columns spent and explained.
Curve = Swept | pl.DataFrame


def longest_heights(spent: Vector, explained: Vector) -> tuple[Vector, Vector]:
    """Return the rising budgets at which the prefix changes, and the share it explains."""
    at = serving_steps(spent)
    return spent[at], np.asarray(explained)[at]


def serving_steps(spent: Vector) -> list[int]:
    """Return the steps that are the longest prefix within some budget, by rising cost."""
    budgets = np.unique(spent[spent <= spent[longest_within(spent, None)]])
    return list(dict.fromkeys(longest_within(spent, budget) for budget in budgets.tolist()))


def cost_of_height(spent: Vector, explained: Vector, fraction: float) -> float:
    """Return the least budget that reaches a fraction of the final height."""
    budgets, heights = longest_heights(spent, explained)
    height = fraction * heights[-1] - HEIGHT_SLACK * abs(heights[-1])
    return float(budgets[np.flatnonzero(heights >= height)[0]])


def flat_from(spent: Vector, explained: Vector) -> float:
    """Return the fraction of the final height beyond which more costs much; 1 if none."""
    total = float(spent[longest_within(spent, None)])
    for fraction in np.round(np.arange(PLATEAU_START, 1.0, PLATEAU_GAIN), 2):
        more = cost_of_height(spent, explained, min(1.0, float(fraction) + PLATEAU_GAIN))
        if more - cost_of_height(spent, explained, float(fraction)) > PLATEAU_COST * total:
            return float(fraction)
    return 1.0


def explained_at(curve: Curve, budget: float) -> float:
    """Return the share explained by the longest prefix within a budget.

    Parameters
    ----------
    curve : Sequence of any family, or a DataFrame of `evaluate` or `oracle`
    budget : >= 0, in the unit of cost

    Raises
    ------
    ArgumentError : `budget` is negative or not a number

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0.0, 1.0, 4.0], "explained": [0.0, 0.6, 0.8]})
    >>> ds.reference.explained_at(curve, 3.9)
    0.6
    """
    AT_LEAST_ZERO.check("budget", budget)
    spent, explained = points(curve)
    return float(explained[longest_within(spent, budget)])


def stopping_cost(curve: Curve, fraction: float) -> float:
    """Return the cost at which a sequence reaches a fraction of its final height.

    Parameters
    ----------
    curve : Sequence of any family, or a DataFrame of `evaluate` or `oracle`
    fraction : 0 to 1, the paper's alpha

    Returns
    -------
    the least budget that reaches this height, in the unit of cost

    Raises
    ------
    ArgumentError : `fraction` is not from 0 to 1

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), section 5.2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0.0, 1.0, 4.0], "explained": [0.0, 0.6, 0.8]})
    >>> ds.reference.stopping_cost(curve, 0.7), ds.reference.stopping_cost(curve, 0.8)
    (1.0, 4.0)
    """
    FRACTION.check("fraction", fraction)
    spent, explained = points(curve)
    return cost_of_height(spent, explained, fraction)


def plateau(curve: Curve) -> float:
    """Return the fraction of the final height beyond which more costs much and adds little.

    The first of .95, .96, ... after which the next 1 % of the final height needs more
    than 20 % of the total cost; 1 if there is none.

    Parameters
    ----------
    curve : Sequence of any family, or a DataFrame of `evaluate` or `oracle`

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), section 5.2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0, 1, 2, 10], "explained": [0.0, 0.96, 0.97, 1.0]})
    >>> ds.reference.plateau(curve)  # from 97 % to 98 % costs 8 of 10
    0.97
    """
    return flat_from(*points(curve))


def timeliness(
    curve: Curve,
    fraction: float = 1.0,
    *,
    reference: Curve | None = None,
    final: float | None = None,
) -> float:
    """Return the area under a curve up to a stopping cost, as a share of its rectangle.

    Parameters
    ----------
    curve : Sequence of any family, or a DataFrame of `evaluate` or `oracle`
    fraction : 0 to 1, the paper's alpha
    reference : the curve whose stopping cost at `fraction` cuts this one; default: `curve`
    final : height of the rectangle; default: the final height of the curve

    Returns
    -------
    at most 1; 0 if the curve is cut at cost 0

    Raises
    ------
    ArgumentError : `fraction` is not from 0 to 1

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), section 5.2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0.0, 1.0, 4.0], "explained": [0.0, 0.6, 0.8]})
    >>> round(ds.reference.timeliness(curve), 4)  # 3 * 0.6 / (4 * 0.8)
    0.5625
    """
    cut = stopping_cost(curve if reference is None else reference, fraction)
    height = float(longest_heights(*points(curve))[1][-1]) if final is None else final
    return share_of(curve, cut, height)


def share_of(curve: Curve, cut: float, height: float) -> float:
    """Return the area under a curve up to a cost, as a share of a rectangle; 0 if it is empty."""
    spent, explained = longest_heights(*points(curve))
    if cut <= 0 or height <= 0:
        return 0.0
    whole = spent <= cut * (1.0 + BUDGET_SLACK)
    last = int(np.flatnonzero(whole)[-1])
    area = float(np.diff(spent[: last + 1]) @ explained[:last])
    rest = max(cut - float(spent[last]), 0.0)
    if last + 1 < len(spent):
        ends = np.interp(cut, spent[last : last + 2], explained[last : last + 2])
        area += rest * (explained[last] + float(ends)) / 2.0
    else:
        area += rest * float(explained[last])
    return float(area / (cut * height))


def points(curve: Curve) -> tuple[Vector, Vector]:
    """Return spent and explained of every prefix."""
    if isinstance(curve, Swept):
        return curve.spent, curve.explained
    table = curve_table(curve)
    return table["spent"].to_numpy(), table["explained"].to_numpy()


def curve_table(curve: Curve) -> pl.DataFrame:
    """Return a curve as a frame with columns spent and explained, checked."""
    if isinstance(curve, Swept):
        return curve.steps
    if not isinstance(curve, pl.DataFrame):
        raise ArgumentError(
            f"the curve is a {type(curve).__name__}; it must be a Sequence, or a DataFrame with "
            "the columns spent and explained"
        )
    missing = [name for name in ("spent", "explained") if name not in curve.columns]
    if missing or curve.height == 0:
        raise ArgumentError(
            f"the curve has {curve.height} rows and lacks {missing}; a curve has "
            "the columns spent and explained"
        )
    curve = curve.with_columns(pl.col("spent", "explained").cast(pl.Float64, strict=False))
    for name in ("spent", "explained"):
        if not curve[name].is_finite().fill_null(False).all():
            raise ArgumentError(f"the curve has a value in '{name}' that is not finite")
    return curve

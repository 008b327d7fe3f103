"""What stands where a value is missing, in a column with an indicator; twin of `gaps.rs`.

It is 0, unless that is far from the values present: of these 0 would leave few digits, and
their mean stands there, which the terms state. With the indicator among the columns, the
moments for one number are a linear map of those for any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect.record.columns import SUFFIX

_Array = npt.NDArray[np.float64]
_Index = npt.NDArray[np.intp]

#: Share of the weight that is treated as rounding.
NO_SHARE = 1e-14
#: Share of a column's variation below which what is left of it, once another number stands
#: where it is missing, is rounding: the column is treated as constant.
ROUNDING_SHARE = 1e-12
#: Deviations between 0 and the mean of what is present beyond which that mean stands for what
#: is missing: 0 leaves ten of 16 digits there, and two less for every factor of ten.
FAR = 1e3
#: Parts of a deviation to which such a mean is rounded: however it is summed, it is one number.
PARTS = 1024


def with_joint_fills(grams: Sequence[Any], own: Sequence[Mapping[str, float]]) -> list[Any]:
    """Give Grams of equal columns the fills of all their rows; `own` are the present ones."""
    first = grams[0]
    marked, at, on = _marked(first)
    if not marked:
        return list(grams)
    here = np.array([[means.get(name, 0.0) for name in marked] for means in own])
    gaps = np.any([gram.mean[on] for gram in grams], axis=0)
    fills = np.where(gaps, _joint(grams, at, on, here), 0.0)
    there = {name: fill for name, fill in zip(marked, fills.tolist(), strict=True) if fill}
    terms = replace(first.terms, means=first.terms.plain_means | there)
    if (here == fills).all() and all(gram.terms == terms for gram in grams):
        return list(grams)
    moved = (shifted(gram, at, on, fills - one) for gram, one in zip(grams, here, strict=True))
    return [replace(gram, terms=terms) for gram in moved]


def with_fills(gram: Any, own: Mapping[str, float], means: Mapping[str, float]) -> Any:
    """Return a Gram with the numbers `means` for `own` where indicators say it is missing."""
    marked, at, on = _marked(gram)
    step = np.array([means.get(name, 0.0) - own.get(name, 0.0) for name in marked])
    return shifted(gram, at, on, step)


def _marked(gram: Any) -> tuple[list[str], _Index, _Index]:
    """Return the columns with an indicator, and where they and their indicators are."""
    places = {name: at for at, name in enumerate(gram.columns)}
    marked = [n for n in gram.terms.indicators if n in places and n + SUFFIX in places]
    at = np.array([places[name] for name in marked], dtype=np.intp)
    return marked, at, np.array([places[name + SUFFIX] for name in marked], dtype=np.intp)


def _joint(grams: Sequence[Any], at: _Index, on: _Index, here: _Array) -> _Array:
    """Return the numbers of all rows together: 0, or means of what is present far from it."""
    base = here[0]
    weight, apart, within = (np.array(each) for each in zip(
        *(_present(gram, at, on, one, base) for gram, one in zip(grams, here, strict=True)),
        strict=True,
    ))  # fmt: skip
    total = weight.sum(axis=0)
    mean = divided((weight * apart).sum(axis=0), total)
    comoment = (within + weight * (apart - mean) ** 2).sum(axis=0)
    return fills_beside(total, base + mean, comoment)


def fills_beside(weight: _Array, mean: _Array, comoment: _Array) -> _Array:
    """Return what stands where values are missing: 0, or means present that are far from it."""
    is_far = np.abs(mean) * np.sqrt(weight) > FAR * np.sqrt(comoment)
    deviation = np.sqrt(divided(comoment, weight))
    unit = np.ldexp(1.0 / PARTS, np.frexp(deviation)[1] - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = np.rint(mean / unit) * unit
    rounded = np.where((deviation > 0) & np.isfinite(rounded), rounded, mean)
    return np.where(is_far, rounded, 0.0)


def _present(
    gram: Any, at: _Index, on: _Index, fill: _Array, base: _Array
) -> tuple[_Array, _Array, _Array]:
    """Return weight, mean less a base, and comoment of the values that are present."""
    absent = gram.mean[on]
    present = np.where(1.0 - absent > NO_SHARE, 1.0 - absent, 0.0)
    apart = (gram.mean[at] - fill) + gram.mean_low[at]
    between = gram.weight * divided(absent, present) * apart**2
    within = np.maximum(np.diagonal(gram.comoment)[at] - between, 0.0)
    return gram.weight * present, (fill - base) + divided(apart, present), within


def shifted(gram: Any, at: _Index, on: _Index, step: _Array) -> Any:
    """Add `step` times its indicator to each column."""
    if not step.any():
        return gram
    moved, comoment = np.zeros_like(gram.mean), gram.comoment.copy()
    moved[at] = step * gram.mean[on]
    mean, low = gram._moved(moved)
    comoment[at, :] += step[:, None] * comoment[on, :]
    comoment[:, at] += step * comoment[:, on]
    constant = np.diagonal(comoment) < ROUNDING_SHARE * np.diagonal(gram.comoment)
    comoment[constant, :] = comoment[:, constant] = 0.0
    return replace(gram, mean=mean, mean_low=low, comoment=(comoment + comoment.T) / 2)


def divided(a: _Array, b: _Array) -> _Array:
    """Divide, with 0 where there is nothing to divide by."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)

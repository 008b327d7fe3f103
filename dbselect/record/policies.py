"""Missing values: the policy of a column, what is filled, and which rows are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect.errors import ColumnError, DataError, SkippedRowsWarning, warn_caller
from dbselect.options.kinds import one_of
from dbselect.record.columns import SUFFIX, match

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


#: What becomes of a missing value: its row is left out, or that is an error; or it is filled.
POLICIES = ("skip", "error", "mean", "indicator")
#: Those that keep the row.
FILLS = ("mean", "indicator")
_POLICY = one_of(POLICIES)


def policies_of(null_policy: Any, columns: Sequence[str]) -> list[str]:
    """Return the policy of each column; of names and globs the last that means it holds."""
    given = null_policy if isinstance(null_policy, Mapping) else {"*": null_policy}
    policies = dict.fromkeys(columns, "skip")
    for pattern, policy in given.items():
        _POLICY.check("null_policy", policy)
        means = columns if pattern == "*" else match([pattern], columns, "null_policy")
        policies.update(dict.fromkeys(means, policy))
    for name, policy in policies.items():
        if policy == "indicator" and name + SUFFIX in policies:
            raise ColumnError(
                f"column '{name}{SUFFIX}' has the name of the indicator of '{name}'; rename it"
            )
    return list(policies.values())


def check_policies(null_policy: Any) -> None:
    """Refuse a policy that there is not, whatever the columns are."""
    given = null_policy.values() if isinstance(null_policy, Mapping) else [null_policy]
    for policy in given:
        _POLICY.check("null_policy", policy)


def check_missing(columns: Sequence[str], missing: Mapping[str, int]) -> None:
    """Refuse missing values, counted by column, in columns of policy ``"error"``."""
    for name in columns:
        if count := missing.get(name, 0):
            raise DataError(
                f"column '{name}' is missing in {count} rows; null_policy 'error' allows none"
            )


#: Share of the rows that may be left out without a warning.
SKIPPED_SHARE = 0.1
#: Columns that the warning names: those with the most missing values.
NAMED = 5


def row_counts(rows: int, skipped: int, searched: int | None = None) -> str:
    """Return the rows used and left out, in words; where a search saw some only, how many."""
    words = f"{rows} rows" if skipped == 0 else f"{rows} rows, {skipped} skipped"
    return words if searched is None else f"{words}, {searched} searched"


def is_saturated(rows: int, coefficients: float, ridge: float) -> bool:
    """Whether a model without ridge has a coefficient a row, so that it fits any target."""
    return ridge == 0 and coefficients >= rows


def clip_share(share: Any) -> npt.NDArray[np.float64]:
    """Return shares of a variance without the rounding by which sums of them exceed 1."""
    return np.asarray(np.minimum(share, 1.0))


def too_few(rows: int, skipped: int) -> bool:
    """Whether more rows are left out than may be without a warning."""
    return skipped > SKIPPED_SHARE * (rows + skipped)


def warn_of_skipped(rows: int, skipped: int, missing: Mapping[str, int], *, weighted: bool) -> None:
    """Warn where more than `SKIPPED_SHARE` of rows are left out; `missing` has causes."""
    if not too_few(rows, skipped):
        return
    columns = sorted((name for name in missing if missing[name]), key=lambda name: -missing[name])
    causes = [f"'{name}' is missing in {missing[name]}" for name in columns[:NAMED]]
    causes += [f"{len(columns) - NAMED} more columns have missing values"] * (len(columns) > NAMED)
    others = skipped - sum(missing.values())
    # A column of text without any level is none of the columns that are counted.
    rest = (
        "the weight is missing or 0" if weighted else "text of which there is no level is missing"
    )
    causes += [f"{rest} in at least {others}"] * (others > 0)
    told = ", ".join(causes)
    warn_caller(
        f"{skipped} of {rows + skipped} rows are left out: {told}; leave such columns out, or "
        "give a null_policy that fills them",
        SkippedRowsWarning,
    )

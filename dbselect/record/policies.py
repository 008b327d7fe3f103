"""Policies for missing values: fills by column, and rows that are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect.errors import ArgumentError, ColumnError, DataError, SkippedRowsWarning, warn_caller
from dbselect.options.kinds import one_of
from dbselect.record.columns import SUFFIX, match

_Array = npt.NDArray[np.float64]
_Index = npt.NDArray[np.intp]

#: Share of the weight below which a difference is rounding error.
NO_SHARE = 1e-14
#: Share of a column's variation below which the variation after a change of its fill is
#: rounding error: the column is then treated as constant.
ROUNDING_SHARE = 1e-12
#: Distance of the present mean from 0, in deviations, beyond which missing values are filled by
#: the mean: a fill of 0 leaves ten of 16 digits there, and two less for every factor of ten.
FAR = 1e3
#: Such a fill is rounded to a deviation / PARTS, so that it does not depend on summation order.
PARTS = 1024


def with_joint_fills(grams: Sequence[Any], fills: Sequence[Mapping[str, float]]) -> list[Any]:
    """Give Grams of equal columns the fills of all rows together; `fills`: their current ones."""
    first = grams[0]
    marked, at, on = _marked(first)
    if not marked:
        return list(grams)
    current = np.array([[gram_fills.get(name, 0.0) for name in marked] for gram_fills in fills])
    gaps = np.any([gram.mean[on] for gram in grams], axis=0)
    joint = np.where(gaps, _joint(grams, at, on, current), 0.0)
    means = {name: fill for name, fill in zip(marked, joint.tolist(), strict=True) if fill}
    terms = replace(first.terms, means=first.terms.plain_means | means)
    if (current == joint).all() and all(gram.terms == terms for gram in grams):
        return list(grams)
    moved = (shifted(gram, at, on, joint - fill) for gram, fill in zip(grams, current, strict=True))
    return [replace(gram, terms=terms) for gram in moved]


def with_fills(gram: Any, current: Mapping[str, float], means: Mapping[str, float]) -> Any:
    """Return a Gram whose missing values are filled by `means` instead of `current`."""
    marked, at, on = _marked(gram)
    step = np.array([means.get(name, 0.0) - current.get(name, 0.0) for name in marked])
    return shifted(gram, at, on, step)


def _marked(gram: Any) -> tuple[list[str], _Index, _Index]:
    """Return the columns with an indicator, their positions, and those of the indicators."""
    places = {name: at for at, name in enumerate(gram.columns)}
    marked = [n for n in gram.terms.indicators if n in places and n + SUFFIX in places]
    at = np.array([places[name] for name in marked], dtype=np.intp)
    return marked, at, np.array([places[name + SUFFIX] for name in marked], dtype=np.intp)


def _joint(grams: Sequence[Any], at: _Index, on: _Index, current: _Array) -> _Array:
    """Return the fills for all rows together: 0, or the present mean if it is far from 0."""
    base = current[0]
    weight, apart, within = (np.array(parts) for parts in zip(
        *(_present(gram, at, on, fill, base) for gram, fill in zip(grams, current, strict=True)),
        strict=True,
    ))  # fmt: skip
    total = weight.sum(axis=0)
    mean = divided((weight * apart).sum(axis=0), total)
    comoment = (within + weight * (apart - mean) ** 2).sum(axis=0)
    return fills_beside(total, base + mean, comoment)


def fills_beside(weight: _Array, mean: _Array, comoment: _Array) -> _Array:
    """Return the fills of missing values: 0, or the present mean if it is far from 0."""
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
    """Return weight, mean minus a base, and comoment of the present values."""
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
    """Return a / b, 0 where b is not above 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)


#: Policies: leave the row out, raise an error, fill by the mean or with an indicator, or complete
#: the moments of all rows by EM.
POLICIES = ("skip", "error", "mean", "indicator", "em")
#: Policies that keep the row.
FILLS = ("mean", "indicator")
_POLICY = one_of(POLICIES)


def policies_of(null_policy: Any, columns: Sequence[str]) -> list[str]:
    """Return the policy of each column; the last matching name or glob wins."""
    patterns = null_policy if isinstance(null_policy, Mapping) else {"*": null_policy}
    policies = dict.fromkeys(columns, "skip")
    for pattern, policy in patterns.items():
        _POLICY.check("null_policy", policy)
        matching = columns if pattern == "*" else match([pattern], columns, "null_policy")
        policies.update(dict.fromkeys(matching, policy))
    for name, policy in policies.items():
        if policy == "indicator" and name + SUFFIX in policies:
            raise ColumnError(
                f"column '{name}{SUFFIX}' has the name of the indicator of '{name}'; rename it"
            )
    return list(policies.values())


def check_policies(null_policy: Any) -> None:
    """Refuse an unknown policy, for any columns."""
    for policy in _named(null_policy):
        _POLICY.check("null_policy", policy)


def has_em(null_policy: Any) -> bool:
    """Whether some columns are completed by EM."""
    return "em" in _named(null_policy)


def refuse_em(null_policy: Any, why: str) -> None:
    """Refuse policy ``"em"`` for some columns; `why` is the end of the sentence."""
    if has_em(null_policy):
        raise ArgumentError(f"null_policy is {null_policy!r}; {why}")


def _named(null_policy: Any) -> list[Any]:
    return [*null_policy.values()] if isinstance(null_policy, Mapping) else [null_policy]


def check_missing(columns: Sequence[str], missing: Mapping[str, int]) -> None:
    """Raise DataError for missing values in columns of policy ``"error"``; counts by column."""
    for name in columns:
        if count := missing.get(name, 0):
            raise DataError(
                f"column '{name}' is missing in {count} rows; null_policy 'error' allows none"
            )


#: Share of the rows that may be left out without a warning.
SKIPPED_SHARE = 0.1
#: Number of columns in the warning: those with most missing values.
NAMED = 5


def row_counts(rows: int, skipped: int, searched: int | None = None) -> str:
    """Return counts of rows as text: used, skipped, and searched if a search used a sample."""
    words = f"{rows} rows" if skipped == 0 else f"{rows} rows, {skipped} skipped"
    return words if searched is None else f"{words}, {searched} searched"


def is_saturated(rows: int, coefficients: float, ridge: float) -> bool:
    """Whether a model without ridge has as many coefficients as rows and fits any target."""
    return ridge == 0 and coefficients >= rows


def clip_share(share: Any) -> npt.NDArray[np.float64]:
    """Clip shares of a variance, which rounding may raise above 1."""
    return np.asarray(np.minimum(share, 1.0))


def too_few(rows: int, skipped: int) -> bool:
    """Whether so many rows are left out that a warning is due."""
    return skipped > SKIPPED_SHARE * (rows + skipped)


def warn_of_skipped(rows: int, skipped: int, missing: Mapping[str, int], *, weighted: bool) -> None:
    """Warn if more than `SKIPPED_SHARE` of the rows are left out; `missing` counts by column."""
    if not too_few(rows, skipped):
        return
    columns = sorted((name for name in missing if missing[name]), key=lambda name: -missing[name])
    causes = [f"'{name}' is missing in {missing[name]}" for name in columns[:NAMED]]
    causes += [f"{len(columns) - NAMED} more columns have missing values"] * (len(columns) > NAMED)
    other_rows = skipped - sum(missing.values())
    # `missing` has no counts for a text column without levels, so it is named here.
    other_cause = (
        "the weight is missing or 0" if weighted else "text of which there is no level is missing"
    )
    causes += [f"{other_cause} in at least {other_rows}"] * (other_rows > 0)
    listed = ", ".join(causes)
    warn_caller(
        f"{skipped} of {rows + skipped} rows are left out: {listed}; leave such columns out, or "
        "give a null_policy that fills them",
        SkippedRowsWarning,
    )

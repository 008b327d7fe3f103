"""Grams of a table in a warehouse: queries of ibis compute the sums, this module combines them.

One query counts and finds the means; the others sum products of deviations from these (Chan,
Golub and LeVeque 1983, the corrected two-pass algorithm): a mean far from zero costs no digits.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import DataError, SourceError
from dbselect.record.bases import infinite
from dbselect.record.columns import SUFFIX
from dbselect.record.gram import RECORD_DTYPE, Gram, Matrix, Vector
from dbselect.record.missing import fill_jointly
from dbselect.record.policies import FILLS, with_joint_fills
from dbselect.sources.engines.warehouse_rows import Centred, Part, Rows
from dbselect.sources.request import Request

#: Most columns of the result of a query: PostgreSQL allows 1,664, SQLite 2,000.
WIDTH = 1500
#: Columns of a table whose products with as many others fit into one query.
TILE = 36
#: Relative tolerance, as a share of the sum of absolute values, for equal sums: above the
#: rounding of 1e12 values, and below the change by one row of 1e9.
ROUNDING = 1e-10


@dataclass(frozen=True)
class Counts:
    """Counts and approximate means of each of G groups, from the first query."""

    groups: "_Groups"
    #: shape (G,)
    rows: npt.NDArray[np.int64]
    skipped: npt.NDArray[np.int64]
    weight: Vector
    #: Column of the table -> shape (G,), rows in which it is missing
    missing: Mapping[str, npt.NDArray[np.int64]]
    gaps: Mapping[str, npt.NDArray[np.int64]]  # the same for the rows used
    centres: Mapping[str, Vector]  # column of numbers -> shape (G,), its approximate mean

    @property
    def divisor(self) -> Vector:
        """The weights, with 1 for groups of weight 0."""
        return np.where(self.weight > 0, self.weight, 1.0)

    def numbers_of(self, frame: pl.DataFrame) -> npt.NDArray[np.int64]:
        """Return the group number of each row; refuse other row counts than in the first query."""
        at, rows = self.groups.of(frame), np.zeros(len(self.rows), dtype=np.int64)
        np.add.at(rows, at, frame["rows"].to_numpy())
        _check_same(self.rows, rows)
        return at


def records_of(table: Any, request: Request) -> pl.DataFrame:
    """Return the keys and ``gram`` of each group, for a request without folds and bases.

    With d numbers and c categories: 1 + q + c + c (c - 1) / 2 queries, each over the whole
    table, where q is 1 up to d = 51 and about (d / 36)^2 / 2 beyond.
    """
    rows = Rows(table, _near(request))
    counts = _counted(rows)
    grams = [
        with_joint_fills([_with_means(gram, request)], [centres])[0]
        for gram, centres in _grams(rows, counts)
    ]
    column = pl.Series("gram", [gram.to_struct() for gram in grams], RECORD_DTYPE)
    keys = counts.groups.keys.rename(dict(zip(rows.keys, request.by, strict=True)))
    return pl.DataFrame([*keys, column])


def _near(request: Request) -> Request:
    """Return the request with approximate means, not 0, in the gaps of columns with indicators."""
    marked, width = request.marked(), len(request.names)
    numbers = ["near" if policy == "indicator" else policy for policy in marked.policies[:width]]
    return replace(marked, policies=[*numbers, *marked.policies[width:]])


def _with_means(gram: Gram, request: Request) -> Gram:
    """Fill the gaps of a Gram, which was read with indicators, with means."""
    if "mean" not in request.policies:
        return gram
    filled = fill_jointly([gram], request.marks_of(gram.columns))[0]
    means = dict(zip(filled.columns, filled.mean.tolist(), strict=True))
    categories = zip(request.terms.categories, request.policies[len(request.names) :], strict=True)
    names = [
        *(
            n
            for n, policy in zip(request.names, request.policies, strict=False)
            if policy == "mean"
        ),
        *(name for category, policy in categories if policy == "mean" for name in category.names),
    ]
    terms = replace(filled.terms, means={name: means[name] for name in names})
    return replace(filled, terms=terms)


def _counted(rows: Rows) -> Counts:
    """Run the first query, split if there are very many columns."""
    keys = rows.keys
    frames = [rows.counts(part) for part in rows.parts_of(WIDTH)]
    first = frames[0]
    groups = _Groups(first.select(keys).unique(maintain_order=True))
    size = groups.keys.height if keys else 1

    def total(frame: pl.DataFrame, name: str, *, used: bool = False) -> Any:
        """Add a column by group, over the rows used or over all rows."""
        kept = frame.filter("used") if used else frame
        sums = np.zeros(size, dtype=kept[name].to_numpy().dtype)
        np.add.at(sums, groups.of(kept), kept[name].fill_null(0).to_numpy())
        return sums

    for frame in frames:
        _check_values(rows, frame)
    used, read = total(first, "rows", used=True), total(first, "rows")
    for frame in frames:
        _check_same(read, total(frame, "rows"))
    weight = total(first, "weight", used=True)
    missing, gaps, centres = {}, {}, {}
    for frame in frames:
        for name, label in rows.labels.items():
            if f"missing_{label}" in frame.columns:
                missing[name] = total(frame, f"missing_{label}")
                gaps[name] = total(frame, f"missing_{label}", used=True)
            if f"sum_{label}" in frame.columns:
                weights = f"weight_{label}"
                divisor = total(frame, weights, used=True) if weights in frame.columns else weight
                sums = total(frame, f"sum_{label}", used=True)
                centres[name] = np.divide(sums, divisor, out=np.zeros(size), where=divisor > 0)
    return Counts(groups, used, read - used, weight, missing, gaps, centres)


def _check_values(rows: Rows, frame: pl.DataFrame) -> None:
    odd = frame.filter("used")
    for name, label in rows.labels.items():
        if f"infinite_{label}" in odd.columns and odd[f"infinite_{label}"].sum():
            raise DataError(infinite(name))
        if f"text_{label}" in frame.columns and frame[f"text_{label}"].sum():
            raise SourceError(f"column '{name}' has text in some rows; it must be numeric")
    weight = rows.request.weight
    if weight is not None:
        least = _numbers(frame, "least").min(initial=0.0)
        if least < 0:
            raise DataError(f"weight '{weight}' is negative ({least:g}); weights must be >= 0")
        if np.isinf(_numbers(odd, "most").max(initial=0.0)):
            raise DataError(f"weight '{weight}' has an infinite value (inf); values must be finite")


def _check_same(before: npt.NDArray[np.int64], now: npt.NDArray[np.int64]) -> None:
    """Refuse a table whose number of rows differs from that of an earlier query."""
    if not np.array_equal(before, now):
        raise SourceError(
            f"the table changed from one query to the next, from {before.sum()} to {now.sum()} "
            "rows in some groups; read a snapshot or a copy of it"
        )


def _check_sums(before: Matrix, now: Matrix, size: Matrix) -> None:
    """Refuse a table whose sums have changed; `size` is the sum of absolute values."""
    if (np.abs(before - now) > ROUNDING * size).any():
        raise SourceError(
            "the table changed from one query to the next: the values of some column add up to "
            "other sums; read a snapshot or a copy of it"
        )


class _Groups:
    """The keys of all groups, by which the number of a group is found."""

    def __init__(self, keys: pl.DataFrame) -> None:
        self.keys = keys
        self._numbered = keys.with_row_index("__dbselect_index")

    def of(self, frame: pl.DataFrame) -> npt.NDArray[np.int64]:
        """Return the group number of each row."""
        names = self.keys.columns
        if not names:
            return np.zeros(frame.height, dtype=np.int64)
        numbers = frame.select(names).join(
            self._numbered, on=names, how="left", nulls_equal=True, maintain_order="left"
        )["__dbselect_index"]
        if numbers.null_count():
            raise SourceError(
                "the groups of one query are not those of the next: the table changed, so read a "
                "snapshot or a copy of it; or its collation takes texts of other case as equal, "
                "so cast them to one that does not"
            )
        return numbers.to_numpy().astype(np.int64)


@dataclass(frozen=True)
class _Products:
    """Sums over the rows used, of G groups and p parts."""

    #: shape (G, p), the centres, and the sums of deviations from them
    centre: Matrix
    sums: Matrix
    comoment: npt.NDArray[np.float64]  # shape (G, p, p)
    size: Matrix  # shape (G, p), upper bound of the sum of absolute values


def _grams(rows: Rows, counts: Counts) -> Iterator[tuple[Gram, dict[str, float]]]:
    """Build the Gram of each group, and the number put in the gaps of each part, its centre."""
    parts = rows.parts(counts.gaps)
    size, width = len(counts.weight), len(parts)
    centred = Centred(rows, parts, counts.centres)
    products = _products(centred, counts)
    levels = [_levels(rows, at, counts) for at in range(len(rows.request.terms.categories))]
    names = [part.name for part in parts] + [name for names in levels for name in names]
    starts = np.cumsum([width, *map(len, levels)])
    d = len(names)
    mean, low, comoment = np.zeros((size, d)), np.zeros((size, d)), np.zeros((size, d, d))
    weight = counts.divisor
    step = products.sums / weight[:, None]
    mean[:, :width], low[:, :width] = _two_sum(products.centre, step)
    comoment[:, :width, :width] = products.comoment
    shares: list[Matrix] = []
    totals: list[Matrix] = []
    for at, count in enumerate(map(len, levels)):
        block = slice(starts[at], starts[at] + count)
        total, crossed = _by_level(centred, at, counts, count, products)
        totals.append(total)
        share = total / weight[:, None]
        shares.append(share)
        mean[:, block] = share
        comoment[:, block, :width] = crossed
        comoment[:, :width, block] = crossed.transpose(0, 2, 1)
        within = -total[:, :, None] * share[:, None, :]
        within[:, np.arange(count), np.arange(count)] += total
        comoment[:, block, block] = within
    for a, b in combinations(range(len(levels)), 2):
        table = _cross_table(centred, a, b, counts, [totals[a], totals[b]])
        table -= shares[a][:, :, None] * shares[b][:, None, :] * weight[:, None, None]
        rows_of = slice(starts[a], starts[a] + len(levels[a]))
        columns_of = slice(starts[b], starts[b] + len(levels[b]))
        comoment[:, rows_of, columns_of] = table
        comoment[:, columns_of, rows_of] = table.transpose(0, 2, 1)
    order = _order(rows.request, parts, levels, starts)
    diagonal = np.arange(d)
    comoment[:, diagonal, diagonal] = np.maximum(comoment[:, diagonal, diagonal], 0.0)
    marks = tuple(part.name.removesuffix(SUFFIX) for part in parts if part.is_mark)
    terms = replace(rows.request.base, indicators=marks)
    for g in range(size):
        _check_range(names, comoment[g])
        gram = Gram(
            [names[j] for j in order],
            int(counts.rows[g]),
            int(counts.skipped[g]),
            float(counts.weight[g]),
            mean[g, order],
            comoment[g][np.ix_(order, order)],
            {name: int(missing[g]) for name, missing in counts.missing.items()},
            low[g, order],
            terms,
        )
        yield gram, dict(zip(names, products.centre[g].tolist(), strict=False))


def _check_range(names: Sequence[str], comoment: Matrix) -> None:
    spread = np.diagonal(comoment)
    for j, name in enumerate(names):
        if not np.isfinite(spread[j]):
            raise DataError(f"column '{name}' is too large: its sum of squares overflows a double")
        if spread[j] == 0 and np.abs(comoment[j][spread > 0]).max(initial=0.0) > 0:
            raise DataError(
                f"column '{name}' is too small: its sum of squares underflows a double; scale it"
            )


def _levels(rows: Rows, at: int, counts: Counts) -> list[str]:
    category = rows.request.terms.categories[at]
    policy = rows.request.policies[len(rows.request.names) + at]
    has_gaps = policy in FILLS and counts.gaps[category.column].any()
    return [*category.names, *([category.missing] if has_gaps else [])]


def _order(
    request: Request, parts: Sequence[Part], levels: Sequence[Sequence[str]], starts: Any
) -> list[int]:
    width = len(request.names)
    positions: dict[int, list[int]] = {}
    for position, part in enumerate(parts):
        positions.setdefault(part.column, []).append(position)
    for at, names in enumerate(levels):
        positions[width + at] = [starts[at] + j for j in range(len(names))]
    return [j for at in request.order or sorted(positions) for j in positions[at]]


def _products(centred: Centred, counts: Counts) -> _Products:
    size, width = len(counts.weight), len(centred.parts)
    weight = counts.divisor
    centre, sums = np.zeros((size, width)), np.zeros((size, width))
    comoment = np.zeros((size, width, width))
    squares = np.zeros((size, width))
    for first, second in _tiles(width):
        columns = sorted({*first, *second})
        frame = centred.products(columns, [(i, j) for i in first for j in second if j <= i])
        at = counts.numbers_of(frame)
        block_sums = np.zeros((size, width))
        for j in columns:
            block_sums[at, j] = _numbers(frame, f"sum_{j}")
            centre[at, j], sums[at, j] = _numbers(frame, f"centre_{j}"), block_sums[at, j]
        for i in first:
            for j in (j for j in second if j <= i):
                product = np.zeros(size)
                product[at] = _numbers(frame, f"product_{i}_{j}")
                with np.errstate(over="ignore", invalid="ignore"):  # `_check_range` reports it
                    comoment[:, i, j] = product - block_sums[:, i] * block_sums[:, j] / weight
                comoment[:, j, i] = comoment[:, i, j]
                if i == j:
                    squares[:, i] = product
    # Bound on the sum of absolute values by the Cauchy-Schwarz and triangle inequalities.
    with np.errstate(over="ignore"):
        extent = np.sqrt(weight[:, None] * squares) + weight[:, None] * np.abs(centre)
    for j, part in enumerate(centred.parts):
        if not part.is_mark:
            earlier = counts.centres[part.name]
            mean = centre[:, j] if centred.rows.keys else earlier + sums[:, j] / weight
            _check_sums(earlier * weight, mean * weight, extent[:, j])
    return _Products(centre, sums, comoment, extent)


def _tiles(width: int) -> Iterator[tuple[range, range]]:
    """Cut the lower triangle of products into blocks that fit into a query."""
    if width * (width + 1) // 2 + 2 * width <= WIDTH:
        yield range(width), range(width)
        return
    blocks = [range(start, min(start + TILE, width)) for start in range(0, width, TILE)]
    for i, first in enumerate(blocks):
        for second in blocks[: i + 1]:
            yield first, second


def _by_level(
    centred: Centred, at: int, counts: Counts, levels: int, products: _Products
) -> tuple[Matrix, npt.NDArray[np.float64]]:
    """Return the weight of each level, (G, L), and its products with the parts, (G, L, p)."""
    size, width = len(counts.weight), len(centred.parts)
    total, crossed = np.zeros((size, levels)), np.zeros((size, levels, width))
    part_sums = np.zeros((size, width))
    for start in range(0, max(width, 1), WIDTH):
        columns = range(start, min(start + WIDTH, width))
        frame = centred.by_levels([at], columns)
        groups, codes = counts.numbers_of(frame), centred.rows.codes(frame, at)
        has_level = codes < levels
        weights = _numbers(frame, "weight")
        total[:] = 0.0
        np.add.at(total, (groups[has_level], codes[has_level]), weights[has_level])
        for j in columns:
            sums = _numbers(frame, f"sum_{j}")
            np.add.at(crossed[:, :, j], (groups[has_level], codes[has_level]), sums[has_level])
            np.add.at(part_sums[:, j], groups, sums)
    _check_sums(products.sums, part_sums, products.size)
    weight = counts.divisor
    crossed -= (total / weight[:, None])[:, :, None] * part_sums[:, None, :]
    return total, crossed


def _cross_table(
    centred: Centred, a: int, b: int, counts: Counts, totals: Sequence[Matrix]
) -> npt.NDArray[np.float64]:
    """Return the weight of each pair of levels, (G, La, Lb); `totals` are those of each level."""
    levels = [total.shape[1] for total in totals]
    table = np.zeros((len(counts.weight), *levels))
    frame = centred.by_levels([a, b], [])
    groups = counts.numbers_of(frame)
    left, right = centred.rows.codes(frame, a), centred.rows.codes(frame, b)
    has_levels = (left < levels[0]) & (right < levels[1])
    weight = _numbers(frame, "weight")
    np.add.at(table, (groups[has_levels], left[has_levels], right[has_levels]), weight[has_levels])
    for codes, total in ((left, totals[0]), (right, totals[1])):
        has_level, now = codes < total.shape[1], np.zeros_like(total)
        np.add.at(now, (groups[has_level], codes[has_level]), weight[has_level])
        _check_sums(total, now, counts.weight[:, None])
    return table


def _numbers(frame: pl.DataFrame, name: str) -> Vector:
    return frame[name].cast(pl.Float64).fill_null(0.0).to_numpy()


def _two_sum(a: Matrix, b: Matrix) -> tuple[Matrix, Matrix]:
    """Return the rounded sum of two numbers and its rounding error (Knuth 1969, 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)

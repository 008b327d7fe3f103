"""Random tables whose sums are known exactly, and names that have broken programs."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

import dbselect as ds

#: Share of sqrt(c_ii c_jj) by which c_ij may be off, and of a mean.
ROUNDING = 1e-12
#: Share of the weight times a mean squared by which a column that hardly varies may be off.
LAST_BITS = 1e-30
#: Widest number: doubles hold it.
MOST = 2**52
NAMES = [
    "a", "B", "a.b", "a[1]", "^a$", "*", "x*", "[ab]", 'a"b', "a'b", "`", "a;DROP TABLE t", "a\nb",
    "a\\", "--", "x.missing_", "k.\U0001f600", "\u202eabc", "e\u0301", "{}", "%s", "$1", " ",
    "select", "rows", "long" * 60,
]  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of whole numbers times a power of two; None is missing."""

    values: list[int | None]
    power: int
    dtype: pl.DataType

    def series(self, name: str, nan: bool) -> pl.Series:
        """Return the column as Polars has it, with NaN or NULL where a value is missing."""
        unit = Fraction(2) ** self.power
        missing = float("nan") if nan and self.dtype.is_float() else None
        number = float if self.dtype.is_float() else (bool if self.dtype == pl.Boolean else int)
        values = [missing if x is None else number(x * unit) for x in self.values]
        return pl.Series(name, values, self.dtype)


@dataclass(frozen=True)
class Table:
    """A table, its columns and the column of weights, if it has one."""

    frame: pl.DataFrame
    columns: dict[str, Column]
    weight: str | None

    def compare(self, gram: ds.Gram) -> None:
        """Raise an AssertionError where a Gram differs from the exact sums."""
        own = {name: one for name, one in self.columns.items() if name != self.weight}
        assert gram.columns == list(own), f"columns are {gram.columns}, not {list(own)}"
        height = self.frame.height
        weights = [Fraction(1)] * height
        if self.weight is not None:
            given = self.columns[self.weight]
            weights = [Fraction(w or 0) * Fraction(2) ** given.power for w in given.values]
        used = [
            row
            for row in range(height)
            if weights[row] > 0 and all(one.values[row] is not None for one in own.values())
        ]
        assert (gram.rows, gram.skipped) == (len(used), height - len(used)), "rows and skipped"
        for name, one in own.items():
            assert gram.missing.get(name, 0) == one.values.count(None), f"missing of {name!r}"
        total = sum((weights[row] for row in used), Fraction(0))
        assert gram.weight == float(total), f"weight {gram.weight}, not {float(total)}"
        if used:
            self._compare_moments(gram, list(own.values()), used, weights)

    def _compare_moments(
        self, gram: ds.Gram, columns: list[Column], used: list[int], weights: list[Fraction]
    ) -> None:
        total = sum(weights[row] for row in used)
        values = [[x.values[row] * Fraction(2) ** x.power for row in used] for x in columns]
        pairs = [list(zip(each, (weights[row] for row in used), strict=True)) for each in values]
        means = [sum(w * x for x, w in each) / total for each in pairs]
        centred = [[x - mean for x in each] for each, mean in zip(values, means, strict=True)]

        def exact(i: int, j: int) -> Fraction:
            rows = zip(centred[i], centred[j], (weights[row] for row in used), strict=True)
            return sum(w * x * y for x, y, w in rows)

        diagonal = [exact(i, i) for i in range(len(columns))]
        last = [float(total * mean**2) * LAST_BITS for mean in means]
        for i, mean in enumerate(means):
            off = abs(Fraction(float(gram.mean[i])) - mean)
            spread = np.sqrt(float(diagonal[i] / total))
            assert off <= 1e-15 * abs(mean) + ROUNDING * spread, f"mean {i}: {gram.mean[i]}"
            for j in range(i + 1):
                # In two factors: of huge weights the product of both is no double.
                allowed = ROUNDING * np.sqrt(float(diagonal[i])) * np.sqrt(float(diagonal[j]))
                allowed += np.sqrt(last[i]) * np.sqrt(last[j])
                wanted = float(exact(i, j))
                found = float(gram.comoment[i, j])
                assert abs(found - wanted) <= allowed, f"comoment {i}, {j}: {found}, not {wanted}"


def names(draw: random.Random, count: int) -> list[str]:
    """Draw names of which no two are one to SQL."""
    found: list[str] = []
    while len(found) < count:
        name = draw.choice(NAMES) + draw.choice(["", "", str(draw.randrange(100))])
        if name.casefold() not in {other.casefold() for other in found}:
            found.append(name)
    return found


#: Types, and the least and the greatest that they hold of what doubles hold.
_TYPES: list[tuple[pl.DataType, int, int]] = [
    (pl.Int8(), -100, 100), (pl.Int16(), -30_000, 30_000), (pl.Int32(), -(2**30), 2**30),
    (pl.Int64(), -MOST, MOST), (pl.UInt8(), 0, 200), (pl.UInt16(), 0, 60_000),
    (pl.UInt32(), 0, 2**31), (pl.UInt64(), 0, MOST), (pl.Boolean(), 0, 1),
    (pl.Float32(), -(2**23), 2**23), (pl.Float64(), -MOST, MOST), (pl.Decimal(30, 0), -MOST, MOST),
]  # fmt: skip


def column(draw: random.Random, rows: int) -> Column:
    """Draw a column with a mean that may be far from 0."""
    dtype, low, high = draw.choice(_TYPES)
    power = draw.randint(-60, 60) if dtype == pl.Float64 else 0
    center, spread = draw.randint(low, high), 2 ** draw.randrange((high - low).bit_length())
    gaps = draw.choice([0.0, 0.0, 0.05, 0.3])

    def value() -> int | None:
        if draw.random() < gaps:
            return None
        return min(max(center + draw.randint(-spread, spread), low), high)

    return Column([value() for _ in range(rows)], power, dtype)


def table(draw: random.Random, most_rows: int = 60) -> Table:
    """Draw a table of some columns, one of which may be the weight."""
    rows = draw.randint(1, most_rows)
    called = names(draw, draw.randint(1, 5) + 1)
    columns = {name: column(draw, rows) for name in called[:-1]}
    weight = called[-1] if draw.random() < 0.4 else None
    if weight is not None:
        values = [draw.choice([None, 0, 1, 2, 7, 16]) for _ in range(rows)]
        columns[weight] = Column(values, draw.choice([0, 0, -200, 200]), pl.Float64())
    nan = draw.random() < 0.5
    frame = pl.DataFrame([one.series(name, nan) for name, one in columns.items()])
    return Table(frame, columns, weight)


def altered_bytes(draw: random.Random, whole: bytes) -> bytes:
    """Flip a bit of some bytes, cut them, or put other bytes into them."""
    at = draw.randrange(len(whole))
    changes: list[Callable[[], bytes]] = [
        lambda: whole[:at] + bytes([whole[at] ^ 1 << draw.randrange(8)]) + whole[at + 1 :],
        lambda: whole[:at],
        lambda: whole[:at] + draw.randbytes(8) + whole[at:],
        lambda: whole[:at] + whole[at + draw.randint(1, 16) :],
        lambda: whole[:at] + bytes(min(8, len(whole) - at)) + whole[at + 8 :],
    ]
    return draw.choice(changes)()

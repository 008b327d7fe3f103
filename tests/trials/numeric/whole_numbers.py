"""Fits on whole numbers, decimals and timestamps of many digits, against exact rationals."""

import random
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import polars as pl
from rationals import comoments, fitted

import dbselect as ds

#: Share of what a column explains by which sums of whole numbers may be off, and of decimals
#: and times, whose mean has 106 bits and whose last digits doubles may round.
WHOLE, DECIMAL = 1e-9, 1e-5
#: Type, the largest size of a value in units, and digits behind the point.
TYPES: list[tuple[pl.DataType, int, int]] = [
    (pl.Int64(), 2**63 - 1, 0), (pl.UInt64(), 2**64 - 1, 0), (pl.Int32(), 2**31 - 1, 0),
    (pl.Decimal(38, 0), 10**27, 0), (pl.Decimal(38, 6), 10**27, 6), (pl.Decimal(18, 2), 10**17, 2),
    (pl.Datetime("us"), 2**52, 6), (pl.Datetime("ns"), 2**61, 9), (pl.Float64(), 2**53, 0),
]  # fmt: skip


def case(draw: random.Random) -> None:
    """Fit a line on one or two such columns, by a Gram and by a search."""
    rows = draw.randint(4, 60)
    columns = [Column(draw, rows) for _ in range(draw.randint(1, 2))]
    weights = [Fraction(draw.choice([1, 1, 2, 3])) for _ in range(rows)]
    target = Column(draw, rows, columns[0])
    names = [f"x{at}" for at in range(len(columns))]
    series = [one.series(name) for one, name in zip(columns, names, strict=True)]
    w = pl.Series("w", [float(weight) for weight in weights])
    frame = pl.DataFrame([*series, target.series("y"), w])
    means, comoment = comoments([*(one.values for one in columns), target.values], weights)
    total = sum(weights)
    if any(is_one(mean, comoment[at][at] / total) for at, mean in enumerate(means)):
        return
    solved = fitted([one.values for one in columns], target.values, weights)
    if solved is None:
        return
    share = explained(comoment, solved[1:])
    # What columns have in common costs the digits of a Gram.
    within = [comoment[i][i] for i in range(len(columns))]
    common = comoment[0][1] ** 2 / (within[0] * within[1]) if len(columns) > 1 else 0
    if common > 0.9:
        return
    rounds = any(isinstance(one.dtype, pl.Decimal | pl.Datetime) for one in (*columns, target))
    allowed = DECIMAL if rounds else WHOLE
    gram = ds.gram(frame, weight="w")
    grouped = ds.gram_by(frame.with_columns(k=pl.int_range(pl.len()) % 3), ["k"], weight="w")
    merged = sum(ds.Gram.from_struct(record) for record in grouped["gram"])
    for source in (gram, merged):
        model = ds.fit(source, "y")
        assert abs(model.r2 - share) <= allowed, f"r2 of a Gram is {model.r2}, not {share}"
        for name, slope, own in zip(names, solved[1:], within, strict=True):
            apart = abs(Fraction(model.coefficients[name]) - slope)
            most = allowed * float(comoment[-1][-1] / own) ** 0.5
            assert apart <= most, f"slope of {name} is off by {float(apart)}, not {most}"
        found = ds.anytime_sequence(source, "y").steps["r2"][-1]
        assert abs(found - share) <= allowed, f"r2 of a search is {found}, not {share}"


def is_one(mean: Fraction, variance: Fraction) -> bool:
    """Whether values are one number to a Gram: those below 1e9 differ by their rounding."""
    return variance == 0 or (abs(mean) < 1e9 and variance < (1e-14 * mean) ** 2)


class Column:
    """Values that a type holds, near one another and far from 0 or not."""

    def __init__(self, draw: random.Random, rows: int, other: "Column | None" = None) -> None:
        self.dtype, largest, self.digits = draw.choice(TYPES)
        spread = 2 ** draw.randint(1, 20)
        least = 0 if self.dtype == pl.UInt64 else -largest
        centre = draw.randint(least, largest)
        if draw.random() < 0.5:
            centre = draw.choice([largest, 2 ** draw.randint(0, largest.bit_length() - 1)])
        own = [draw.randint(-spread, spread) for _ in range(rows)]
        if draw.random() < 0.3:  # their mean is that of the centre
            own = [-own[-1 - at] if at < rows // 2 else x for at, x in enumerate(own)]
        if other is not None:
            inner = other.inner
            own = [x + draw.randint(-1, 1) * (1 + spread // 8) for x in inner]
        centre = min(max(centre, least + 2**23), largest - 2**23)
        self.inner = own
        self.units = [centre + x for x in own]
        self.values = [self._value(unit) for unit in self.units]

    def _value(self, unit: int) -> Fraction:
        value = Fraction(unit, 10**self.digits)
        return Fraction(float(value)) if self.dtype == pl.Float64 else value

    def series(self, name: str) -> pl.Series:
        """Return the values as Polars has them."""
        if isinstance(self.dtype, pl.Datetime):
            return pl.Series(name, self.units, pl.Int64).cast(self.dtype)
        return pl.Series(name, [self._one(unit) for unit in self.units], self.dtype)

    def _one(self, unit: int) -> Any:
        if isinstance(self.dtype, pl.Decimal):
            return Decimal(unit).scaleb(-self.digits, Context(prec=60))
        return float(unit) if self.dtype == pl.Float64 else unit


def explained(comoment: list[list[Fraction]], slopes: list[Fraction]) -> float:
    """Return the share of the target's variation that the slopes explain."""
    width = len(slopes)
    return float(sum(b * comoment[k][width] for k, b in enumerate(slopes)) / comoment[width][width])

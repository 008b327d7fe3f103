"""Missing values that are filled, far from zero and in parts, against exact rationals."""

import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache
from pathlib import Path
from warnings import catch_warnings, simplefilter

import duckdb
import numpy as np
import polars as pl
from rationals import comoments, fitted

import dbselect as ds

#: Share of two deviations by which a comoment may be off: 0 in the place of a missing value
#: leaves ten of 16 digits where it is a thousand deviations away.
SHARE = 1e-8
#: Share of a mean that is its rounding.
LAST = 1e-15
#: Roundings of the largest summand by which a prediction may be off.
ROUNDINGS = 16
#: Share of cases that a store is made of, which takes files.
STORED = 0.05


def case(draw: random.Random) -> None:
    """Fill a table in one pass and in parts, by every door, and predict from it."""
    frame = table(draw)
    parts = [part.drop("k") for part in frame.partition_by("k", maintain_order=True)]
    draw.shuffle(parts)
    for name, gram in means(draw, frame, parts):
        check(gram, frame, name)
    marked = [ds.gram(part, weight="w", null_policy="indicator") for part in parts]
    for name, gram in [
        ("indicator", ds.gram(frame.drop("k"), weight="w", null_policy="indicator")),
        ("indicator, merged", sum(marked[1:], start=marked[0])),
        ("indicator, in SQL", in_sql(frame, "gram_merge(g)")),
        ("indicator, lazy", lazy(frame)),
    ]:
        check(gram, frame, name)
        check_predictions(gram, frame, name)
    if len(marked) > 1 and marked[0].rows < frame.height / 4:
        with suppress(ds.errors.RecordError):  # what is left may be rounding
            left = sum(marked[1:], start=marked[0]) - marked[0]
            check(left, pl.concat(parts[1:]), "indicator, less a part")


def table(draw: random.Random) -> pl.DataFrame:
    """Draw columns x, v and y, of which x and v have gaps, weights w and parts k."""
    rows = draw.randint(8, 60)
    ratio = draw.choice([0.0, 10 ** draw.uniform(0, 10), 10 ** draw.uniform(4, 10)])
    unit = 2.0 ** draw.randint(-20, 20)
    z = [draw.gauss(0, 1) for _ in range(rows)]
    gaps = draw.choice([0.05, 0.3, 0.7])
    n_parts = draw.randint(1, 5)
    part = [draw.randrange(n_parts) for _ in range(rows)]
    # Parts may lie apart, and one of them may have no value at all.
    apart = [draw.choice([0.0, 0.0, draw.gauss(0, 10)]) for _ in range(n_parts)]
    empty = draw.choice([None, *range(n_parts)])

    def holed(values: Sequence[float]) -> list[float | None]:
        pairs = zip(values, part, strict=True)
        return [None if k == empty or draw.random() < gaps else x for x, k in pairs]

    x = holed([(ratio + own + apart[k]) * unit for own, k in zip(z, part, strict=True)])
    v = [draw.gauss(0, 1) for _ in range(rows)]
    y = [0.963 * own + 0.5 * other + draw.gauss(0, 0.3) for own, other in zip(z, v, strict=True)]
    weights = [draw.choice([1.0, 1.0, 2.0, 0.5]) for _ in range(rows)]
    if draw.random() < 0.5:
        weights = [1.0] * rows
    columns = {"x": x, "v": holed(v), "y": y, "w": weights, "k": part}
    return pl.DataFrame(columns, schema_overrides={"x": pl.Float64, "v": pl.Float64})


def means(
    draw: random.Random, frame: pl.DataFrame, parts: Sequence[pl.DataFrame]
) -> Iterator[tuple[str, ds.Gram]]:
    """Yield the Gram with means in the place of what is missing, from every door."""
    whole = frame.drop("k")
    marked = [ds.gram(part, weight="w", null_policy="indicator") for part in parts]
    imputed = ds.io.impute_mean(marked)
    merged = ds.io.impute_mean([sum(marked[1:], start=marked[0])])
    by = ds.gram_by(frame, ["k"], weight="w", null_policy="indicator")
    records = by.select(pl.col("gram").dbselect.merge().dbselect.impute_mean())
    yield "mean", ds.gram(whole, weight="w", null_policy="mean")
    yield "impute_mean, merged", merged[0]
    yield "impute_mean, summed", sum(imputed[1:], start=imputed[0])
    yield "gram_by, merged in Polars", ds.Gram.from_struct(records["gram"][0])
    yield "gram_impute", in_sql(frame, "gram_impute(gram_merge(g))")
    if draw.random() < STORED:
        with tempfile.TemporaryDirectory() as folder:
            store = ds.GramStore(Path(folder) / "stats")
            store.refresh(frame, by="k", weight="w", null_policy="mean")
            yield "a store", store.total()


def lazy(frame: pl.DataFrame) -> ds.Gram:
    """Return the Gram that a search reads of the groups that it takes."""
    given = {"weight": "w", "null_policy": "indicator", "gram": "lazy"}
    with catch_warnings():
        simplefilter("ignore", ds.errors.SelectionWarning)
        return ds.anytime_sequence(frame.drop("k"), "y", **given).gram


def in_sql(frame: pl.DataFrame, call: str) -> ds.Gram:
    """Return a record of the records ``g`` of the parts."""
    con = connection()
    con.register("t", frame.to_arrow())
    row = "gram_missing({'x': x, 'v': v, 'y': y}, w) AS g"
    query = f"SELECT {call} FROM (SELECT {row} FROM t GROUP BY k)"
    ((record,),) = con.execute(query).fetchall()
    return ds.Gram.from_struct(record)


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """Return the connection of all cases."""
    return ds.connect()


def filled(gram: ds.Gram, frame: pl.DataFrame) -> list[list[Fraction]]:
    """Return the columns of a Gram as it says that they are; a mean is that of the rows."""
    weights = [Fraction(w) for w in frame["w"]]
    found = []
    for name in gram.columns:
        own = frame[name.removesuffix(".missing")].to_list()
        if name.endswith(".missing"):
            found.append([Fraction(value is None) for value in own])
            continue
        present = [(Fraction(x), w) for x, w in zip(own, weights, strict=True) if x is not None]
        fill = Fraction(gram.terms.means.get(name, 0.0))
        if name not in gram.terms.indicators and present:
            fill = sum(x * w for x, w in present) / sum(w for _, w in present)
        found.append([fill if x is None else Fraction(x) for x in own])
    return found


def check(gram: ds.Gram, frame: pl.DataFrame, name: str) -> None:
    """Raise where a Gram differs from the exact sums of its columns."""
    weights = [Fraction(w) for w in frame["w"]]
    columns = filled(gram, frame)
    mean, comoment = comoments(columns, weights)
    assert gram.rows == frame.height, f"{name}: {gram.rows} rows of {frame.height}"
    spread = [float(comoment[i][i]) ** 0.5 for i in range(len(columns))]
    for i, one in enumerate(gram.columns):
        apart = abs(Fraction(float(gram.mean[i])) + Fraction(float(gram.mean_low[i])) - mean[i])
        deviation = spread[i] / float(sum(weights)) ** 0.5
        # What is constant has a mean of one double; a share may be a difference of two.
        allowed = SHARE * deviation + LAST * max(1.0, abs(float(mean[i])))
        assert apart <= allowed, f"{name}: mean of {one} is off by {float(apart)}, not {allowed}"
        for j, other in enumerate(gram.columns[: i + 1]):
            wanted, here = float(comoment[i][j]), float(gram.comoment[i, j])
            allowed = SHARE * spread[i] * spread[j]
            off = abs(here - wanted)
            assert off <= allowed, f"{name}: {one}, {other}: {here}, not {wanted}"


def check_predictions(gram: ds.Gram, frame: pl.DataFrame, name: str) -> None:
    """Raise where the fit of a Gram with indicators predicts other than that in rationals."""
    columns = filled(gram, frame)
    y = gram.columns.index("y")
    features = [column for at, column in enumerate(columns) if at != y]
    weights = [Fraction(w) for w in frame["w"]]
    solved = fitted(features, columns[y], weights)
    if solved is None:
        return
    model = ds.fit(gram, "y")
    if model.aliased:
        return
    predicted = np.asarray(model.predict(frame.select("x", "v")))
    intercept, *slopes = solved
    size = max(
        abs(float(b)) * max(abs(float(x)) for x in column)
        for b, column in zip(slopes, features, strict=True)
    )
    spread = max(1.0, *(abs(float(value)) for value in columns[y]))
    allowed = SHARE * 100 * spread + ROUNDINGS * np.finfo(float).eps * size
    for row, found in enumerate(predicted.tolist()):
        wanted = intercept + sum(b * x[row] for b, x in zip(slopes, features, strict=True))
        off = abs(found - float(wanted))
        assert off <= allowed, f"{name}: row {row} is {found}, not {float(wanted)}"

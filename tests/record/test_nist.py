"""NIST's eleven certified linear sets, through every engine.

The log relative error (LRE) is the number of right digits. The plain Gram has comoments of
16 digits, of which polynomials of degree 5 on 0..20 (condition 3e6 of their correlations)
keep 6.9 in the worst rounding of their fifth powers; Filip (condition 7e16) keeps none.
"""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.record.gram import RECORD_DTYPE

NIST = Path(__file__).parents[1] / "data" / "nist"

#: Digits of the coefficients that a Gram keeps; the certified values have 15.
DIGITS = {"Norris": 11, "Pontius": 11, "NoInt1": 11, "NoInt2": 11, "Longley": 11} | {
    f"Wampler{i}": 6.5 for i in range(1, 6)
}
#: Sets whose residuals are not rounding: the others have certified errors of 0.
WITH_RESIDUALS = [name for name in DIGITS if name not in ("Wampler1", "Wampler2")]
#: Sets with an intercept, which every search has.
SEARCHED = [name for name in DIGITS if not name.startswith("NoInt")]
#: Digits of Wampler's sets where records are merged: Polars cuts a LazyFrame into as many
#: batches as it has threads, and their records are rounded.
MERGED = 6.0


#: The same however else a record is composed: roots of weights are rounded as well.
COMPOSED_POWERS = 5.0


class Certified(NamedTuple):
    frame: pl.DataFrame
    intercept: bool
    coef: list[float]
    errors: list[float]
    r2: float

    @property
    def columns(self) -> list[str]:
        return self.frame.columns[1:]


def certified(name: str) -> Certified:
    """Read a data set: y first, then x or its powers, as the model of the set has them."""
    lines = (NIST / f"{name}.dat").read_text().splitlines()
    first, last = map(int, re.search(r"Data +\(lines (\d+) to (\d+)\)", "\n".join(lines)).groups())
    data = np.array([line.split() for line in lines[first - 1 : last]], dtype=float)
    head = "\n".join(lines[: first - 1])
    terms = re.findall(r"^ +B(\d+) +(\S+) +(\S+)", head, re.MULTILINE)
    intercept = terms[0][0] == "0"
    powers = len(terms) - intercept
    X = data[:, 1:]
    if X.shape[1] < powers:
        X = X ** np.arange(1, powers + 1)
    frame = pl.DataFrame(
        np.column_stack([data[:, 0], X]), schema=["y", *(f"x{j}" for j in range(1, powers + 1))]
    )
    r2 = float(re.search(r"R-Squared +(\S+)", head)[1])
    coef, errors = ([float(term[at]) for term in terms] for at in (1, 2))
    return Certified(frame, intercept, coef, errors, r2)


def digits(found: Any, expected: Any) -> float:
    """Return the least LRE of some numbers, at most 15; NULL has none."""
    found, expected = np.array([*found], dtype=float), np.array([*expected], dtype=float)
    scale = np.where(expected == 0, 1.0, np.abs(expected))
    return float((-np.log10(np.maximum(np.abs(found - expected) / scale, 1e-15))).min())


def relation(frame: pl.DataFrame, con: Any) -> Any:
    return con.from_arrow(frame.to_arrow())


def sql_record(frame: pl.DataFrame, con: Any) -> Any:
    con.register("nist", frame.to_arrow())
    try:
        return con.execute("SELECT gram(nist) FROM nist").fetchall()[0][0]
    finally:
        con.unregister("nist")


#: What each engine makes of a frame; a DuckDB connection with the extension is at hand.
ENGINES: dict[str, Callable[[pl.DataFrame, Any, Path], Any]] = {
    "parquet": lambda frame, _, folder: _written(frame, folder),
    "LazyFrame": lambda frame, *_: frame.lazy(),
    "DuckDB relation": lambda frame, con, _: relation(frame, con),
    "DuckDB function": lambda frame, con, _: sql_record(frame, con),
    "Polars expression": lambda frame, *_: frame.select(
        pl.struct(pl.all()).dbselect.gram()
    ).to_series()[0],
    "Polars method": lambda frame, *_: frame.lazy().dbselect.gram().collect(),
    "Arrow": lambda frame, *_: frame.to_arrow(),
    "NumPy": lambda frame, *_: ds.gram(frame.to_numpy(), columns=frame.columns),
}


def _written(frame: pl.DataFrame, folder: Path) -> str:
    frame.write_parquet(folder / "nist.parquet")
    return str(folder / "nist.parquet")


@pytest.mark.parametrize("engine", list(ENGINES))
@pytest.mark.parametrize("name", list(DIGITS))
def test_every_engine_keeps_the_digits(name, engine, database, tmp_path):
    data = certified(name)
    source = ENGINES[engine](data.frame, database, tmp_path)
    model = ds.fit(source, "y", data.columns, intercept=data.intercept)
    found = [model.intercept, *model.coefficients.values()][not data.intercept :]
    merged = engine == "Polars method" and name.startswith("Wampler")
    assert digits(found, data.coef) >= (MERGED if merged else DIGITS[name])
    assert digits([model.r2], [data.r2]) >= 11
    assert model.aliased == ()


def rows_of(frame: pl.DataFrame) -> list[pl.DataFrame]:
    return [frame[row : row + 1] for row in range(frame.height)]


def merged_in_sql(frame: pl.DataFrame, con: Any) -> Any:
    con.register("nist", frame.to_arrow())
    fields = ", ".join(f"{name} := {name}" for name in frame.columns)
    parts = f"SELECT gram(struct_pack({fields})) AS g FROM nist GROUP BY (y * 1e6)::HUGEINT % 5"
    try:
        return con.execute(f"SELECT gram_merge(g) FROM ({parts})").fetchall()[0][0]
    finally:
        con.unregister("nist")


def merged_in_polars(frame: pl.DataFrame) -> Any:
    parts = frame.group_by(pl.int_range(pl.len()) % 4).agg(
        g=pl.struct(frame.columns).dbselect.gram()
    )
    return parts.select(pl.col("g").dbselect.merge()).to_series()[0]


def removed_in_sql(frame: pl.DataFrame, con: Any) -> Any:
    whole, part = (ds.gram(one).to_struct() for one in (pl.concat([frame, frame[:3]]), frame[:3]))
    pairs = pl.DataFrame({"a": [whole], "b": [part]}, schema={"a": RECORD_DTYPE, "b": RECORD_DTYPE})
    query = "SELECT gram_remove(a, b) FROM t"
    return con.from_arrow(pairs.to_arrow()).query("t", query).fetchall()[0][0]


def of_states(frame: pl.DataFrame) -> ds.Gram:
    plan = ds.io.plan_gram(frame.to_arrow().schema)
    parts = [plan.partial(row) for row in rows_of(frame)]
    return plan.finish([plan.merge(parts[::2]), plan.merge(parts[1::2])])


def with_weights(frame: pl.DataFrame, weight: float) -> ds.Gram:
    # A row of weight 0 says nothing, whatever is in it.
    wild = frame[:1].with_columns(pl.all() * 1e9)
    weighted = pl.concat([frame.with_columns(w=weight), wild.with_columns(w=0.0)])
    return ds.gram(weighted, weight="w")


#: Ways to the record of the same rows that are not one pass over them.
COMPOSED: dict[str, Callable[[pl.DataFrame, Any], Any]] = {
    "two records": lambda frame, _: ds.gram(frame[::2]) + ds.gram(frame[1::2]),
    "a record a row": lambda frame, _: sum(map(ds.gram, rows_of(frame))),
    "gram_merge": merged_in_sql,
    "merge": lambda frame, _: merged_in_polars(frame),
    "removal": lambda frame, _: ds.gram(pl.concat([frame, frame[:3]])) - ds.gram(frame[:3]),
    "gram_remove": removed_in_sql,
    "states": lambda frame, _: of_states(frame),
    "equal weights": lambda frame, _: with_weights(frame, 3.0),
    "tiny weights": lambda frame, _: with_weights(frame, 1e-300),
    "huge weights": lambda frame, _: with_weights(frame, 1e280),
}


@pytest.mark.sample(40)
@pytest.mark.parametrize("way", list(COMPOSED))
@pytest.mark.parametrize("name", list(DIGITS))
def test_what_is_composed_keeps_the_digits(name, way, database):
    data = certified(name)
    gram = COMPOSED[way](data.frame, database)
    model = ds.fit(gram, "y", data.columns, intercept=data.intercept)
    found = [model.intercept, *model.coefficients.values()][not data.intercept :]
    assert digits(found, data.coef) >= (COMPOSED_POWERS if name.startswith("Wampler") else 10.9)
    assert digits([model.r2], [data.r2]) >= 11
    assert model.aliased == ()


@pytest.mark.parametrize("way", list(COMPOSED))
def test_filip_is_never_silent_however_it_is_composed(way, database):
    data = certified("Filip")
    gram = COMPOSED[way](data.frame, database)
    with pytest.warns(ds.errors.ConditionWarning, match="condition number"):
        ds.fit(gram, "y", data.columns)


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("name", SEARCHED)
def test_searches_keep_the_digits_of_the_fit(name, together):
    data = certified(name)
    groups = {"all": data.columns} if together else None
    model = ds.anytime_sequence(data.frame, "y", groups).at()
    coefficients = [model.coefficients[column] for column in data.columns]
    assert digits([model.intercept, *coefficients], data.coef) >= DIGITS[name]


@pytest.mark.parametrize("name", WITH_RESIDUALS)
def test_standard_errors_of_a_gram(name):
    data = certified(name)
    errors = ds.fit(data.frame, "y", intercept=data.intercept).summary()["std_error"]
    # RSS is TSS less what is explained, and loses the digits of 1 - r2: 7 for Pontius. A
    # standard error has half the relative error of a diagonal of C^-1, which loses as many
    # digits as the coefficients.
    kept = min(16 + math.log10(1 - data.r2), DIGITS[name])
    assert digits(errors, data.errors) >= kept - 0.5

"""Every door gives the same numbers for the same table."""

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds

GROUPS = {"plane": ["seats", "engines"], "emb": ["emb[*"], "weather": ["wind", "visib"]}
COSTS = {"plane": 5.0, "emb": 0.5, "weather": 12.5}
OPTIONS = {"ridge": 0.05, "always": ["weather"]}
SQL_OPTIONS = """'delay', groups := {'plane': ['seats', 'engines'], 'emb': ['emb[*'],
    'weather': ['wind', 'visib']}, costs := {'plane': 5.0, 'emb': 0.5, 'weather': 12.5},
    rule := 'fr', ridge := 0.05, always := ['weather']"""
COLUMNS = ["delay", "seats", "engines", "emb", "wind", "visib"]


def flights(rng, rows=4000):
    """Correlated columns of several types, with gaps and weights, around a distant mean."""
    wind = rng.standard_normal(rows)
    seats = rng.integers(50, 400, rows)
    emb = rng.standard_normal((rows, 3)) + wind[:, None]
    delay = 1000 + wind - 0.02 * seats + emb @ [0.5, 0.0, -1.0] + rng.standard_normal(rows)
    return pl.DataFrame(
        {
            "delay": delay,
            "seats": pl.Series(seats, dtype=pl.Int16),
            "engines": seats > 200,
            "emb": pl.Series(emb, dtype=pl.Array(pl.Float64, 3)),
            "wind": pl.Series(np.where(rng.random(rows) < 0.05, np.nan, wind)).fill_nan(None),
            "visib": wind**2,
            "w": rng.integers(0, 3, rows) / 2.0,
        }
    )


def from_python(sequence):
    """Return the steps of a Python result in the form of SQL and Polars."""
    steps = sequence.steps.to_dicts()
    for step in steps:
        model = sequence.at(step["spent"])
        step["intercept"], step["coefficients"] = model.intercept, model.coefficients
        step["terms"] = None
    return steps


def from_sql(con, table):
    row = "{" + ", ".join(f"'{name}': {name}" for name in COLUMNS) + "}"
    query = f"SELECT anytime_sequence(gram({row}, w), {SQL_OPTIONS}) FROM {table}"
    return con.execute(query).fetchall()[0][0]


def from_polars(lf):
    sequence = pl.col("gram").dbselect.anytime_sequence("delay", GROUPS, COSTS, **OPTIONS)
    steps = lf.select(sequence).collect()["gram"].explode().to_list()
    for step in steps:
        step["coefficients"] = {e["key"]: e["value"] for e in step["coefficients"]}
    return steps


def through_every_door(frame, folder):
    """Yield the name of a door and the steps that it gives."""
    path = folder / "flights.parquet"
    frame.write_parquet(path, row_group_size=700)

    def python(source):
        gram = ds.gram(source, columns=COLUMNS, weight="w")
        return from_python(ds.anytime_sequence(gram, "delay", GROUPS, COSTS, **OPTIONS))

    yield "DataFrame", python(frame)
    yield "Parquet", python(path)
    yield "LazyFrame", from_polars(pl.scan_parquet(path).dbselect.gram(*COLUMNS, weight="w"))
    expression = pl.struct(COLUMNS).dbselect.gram(weight="w")
    yield "expression", from_polars(frame.lazy().select(gram=expression))
    merged = frame.group_by("engines").agg(gram=expression).select(
        pl.col("gram").dbselect.merge())  # fmt: skip
    yield "merged groups", from_polars(merged.lazy())
    with ds.connect() as con, duckdb.connect() as plain:
        # Parquet has no arrays of fixed size: DuckDB reads a LIST.
        table = f"(SELECT * REPLACE (emb::DOUBLE[3] AS emb) FROM '{path}')"
        yield "SQL", from_sql(con, table)
        yield "relation", python(con.sql(f"FROM {table}"))
        yield "plain relation", python(plain.sql(f"FROM {table}"))
        con.register("grams", frame.select(gram=expression).to_arrow())
        query = f"SELECT anytime_sequence(gram, {SQL_OPTIONS}) FROM grams"
        yield "Polars to SQL", con.execute(query).fetchall()[0][0]


@pytest.mark.slow
def test_all_doors_give_the_same_steps_and_models(tmp_path):
    doors = through_every_door(flights(np.random.default_rng(1)), tmp_path)
    _, expected = next(doors)
    assert [step["group"] for step in expected] == [None, "weather", "emb", "plane"]
    assert len(expected[-1]["coefficients"]) == 7
    seen = ["DataFrame"]
    for door, steps in doors:
        seen.append(door)
        assert len(steps) == len(expected), door
        for found, step in zip(steps, expected, strict=True):
            assert list(found) == list(step), door
            assert list(found["coefficients"]) == list(step["coefficients"]), door
            for name, value in step.items():
                numeric = isinstance(value, float | dict)
                same = pytest.approx(value, rel=1e-12, abs=1e-13) if numeric else value
                assert found[name] == same, (door, name)
    assert len(seen) == 9


def test_all_doors_predict_the_same(tmp_path):
    frame = flights(np.random.default_rng(2), rows=500)
    table = frame.select(pl.all().exclude("w"))
    sequence = ds.anytime_sequence(
        ds.gram(frame, columns=COLUMNS, weight="w"), "delay", GROUPS, COSTS
    )
    budgets = frame.select(budget=pl.int_range(pl.len()) % 20 + 0.0)["budget"]
    record = frame.select(gram=pl.struct(COLUMNS).dbselect.gram(weight="w"))
    steps = record.select(pl.col("gram").dbselect.anytime_sequence("delay", GROUPS, COSTS))
    polars = table.with_columns(s=pl.lit(steps["gram"]).first(), budget=budgets).select(
        p=pl.col("s").dbselect.predict(pl.struct(table.columns), "budget")
    )
    with ds.connect() as con:
        con.register("t", table.with_columns(budget=budgets).to_arrow())
        con.register("s", steps.to_arrow())
        # Polars has no MAP: its list of key and value casts to one.
        kind = con.execute("SELECT typeof(anytime_sequence(NULL, ''))").fetchall()[0][0]
        fields = ", ".join(
            f"'{name}': " + ("map_from_entries(x.coefficients)" if name == "coefficients"
                             else f'x."{name}"')
            for name in [*sequence.steps.columns, "intercept", "coefficients", "terms"]
        )  # fmt: skip
        steps = f"list_transform(gram, lambda x: {{{fields}}})::{kind}"
        query = f"SELECT unnest(anytime_predict({steps}, t, budget := budget)) FROM t, s"
        sql = con.execute(query).fetchall()
    for row, budget, mine, theirs in zip(table.to_dicts(), budgets, polars["p"], sql, strict=True):
        values = {**row, **{f"emb[{j + 1}]": x for j, x in enumerate(row["emb"])}}
        affordable = [k for k, spent in enumerate(sequence.spent) if spent <= budget]
        models = [sequence.at(sequence.spent[k]) for k in affordable]
        present = [
            k for k, model in zip(affordable, models, strict=True)
            if all(values[name] is not None for name in model.columns)
        ]  # fmt: skip
        model = models[present[-1]]
        expected = model.intercept + sum(x * values[name] for name, x in model.coefficients.items())
        assert (mine["step"], mine["spent"]) == (present[-1], model.spent)
        assert mine["prediction"] == pytest.approx(expected, rel=1e-12)
        assert tuple(mine.values())[1:] == theirs[1:]
        assert theirs[0] == pytest.approx(expected, rel=1e-12)

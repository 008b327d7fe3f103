"""Every door gives the same numbers for the same table."""

import numpy as np
import polars as pl
import pytest

import dbselect as ds

GROUPS = {"plane": ["seats", "engines"], "emb": ["emb[*"], "weather": ["wind", "visib"]}
COSTS = {"plane": 5.0, "emb": 0.5, "weather": 12.5}
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

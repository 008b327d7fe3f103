"""Sets near the best and sets for several records, against enumeration of all sets."""

import re
from itertools import combinations

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds

#: Sums of squares by lstsq and by a Gram agree to this, on columns of any dependence here.
NEAR = 1e-8


def drawn(seed: int, rows: int = 40, width: int = 6) -> pl.DataFrame:
    """Return correlated columns; of some seeds one depends on two others."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width)) + rng.uniform(0, 2) * rng.normal(size=(rows, 1))
    if seed % 4 == 0:
        x[:, -1] = x[:, 0] - x[:, 1]
    y = 0.5 * x @ rng.normal(size=width) + rng.normal(size=rows)
    watched = x[:, 0] + rng.normal(size=rows)
    return pl.DataFrame({**{f"x{j}": x[:, j] for j in range(width)}, "w": watched, "y": y})


def explained(table: pl.DataFrame, columns: list[str]) -> tuple[float, np.ndarray]:
    """Return r2 and the fitted values of least squares."""
    y = table["y"].to_numpy()
    x = np.column_stack([np.ones(len(y)), *(table[name] for name in columns)])
    fitted = x @ np.linalg.lstsq(x, y, rcond=1e-10)[0]
    return 1.0 - ((y - fitted) ** 2).sum() / ((y - y.mean()) ** 2).sum(), fitted


def every_set(costs, budget):
    for size in range(len(costs) + 1):
        for chosen in combinations(costs, size):
            if sum(costs[name] for name in chosen) <= budget:
                yield chosen


GROUPS = {"a": ["x0"], "b": ["x1", "x2"], "c": ["x3"], "d": ["x4"], "e": ["x5"]}


@pytest.mark.parametrize("seed", range(24))
def test_the_sets_are_those_of_an_enumeration(seed):
    table, rng = drawn(seed), np.random.default_rng(seed)
    costs = {name: float(rng.integers(1, 4)) for name in GROUPS}
    budget, within = float(rng.integers(1, 9)), float(rng.choice([0.0, 0.05, 0.3]))
    near = ds.near_best(table, "y", budget, GROUPS, costs, within=within, watch=["w"])
    values = {
        frozenset(chosen): explained(table, [c for name in chosen for c in GROUPS[name]])
        for chosen in every_set(costs, budget)
    }
    best = max(value for value, _ in values.values())
    expected = {s for s, (value, _) in values.items() if value >= (1 - within) * best - 1e-9}
    rows = near.table.to_dicts()
    assert {frozenset(row["groups"]) for row in rows} == expected
    assert (near.complete, near.cut, len(rows)) == (True, 0, len(expected))
    for row in rows:
        value, fitted = values[frozenset(row["groups"])]
        assert row["r2"] == pytest.approx(value, abs=NEAR)
        assert row["spent"] == sum(costs[name] for name in row["groups"])
        if row["groups"]:
            correlation = np.corrcoef(fitted, table["w"])[0, 1]
            assert row["w"] == pytest.approx(correlation, abs=1e-6)
    assert max(np.diff([row["r2"] for row in rows]), default=0.0) < NEAR


def test_what_is_cut_is_counted_and_bounded():
    table = drawn(1)
    whole = ds.near_best(table, "y", 5.0, GROUPS, within=0.9)
    some = ds.near_best(table, "y", 5.0, GROUPS, within=0.9, limit=3)
    assert some.table["groups"].to_list() == whole.table["groups"].to_list()[:3]
    assert (some.complete, some.cut) == (False, len(whole) - 3)
    assert some.bound == pytest.approx(whole.table["explained"][3])


def test_a_ridge_and_always_hold_for_every_set():
    near = ds.near_best(drawn(3), "y", 3.0, GROUPS, within=1.0, always=["c"], ridge=0.5)
    assert len(near) == 11  # c, and at most two of four others
    for row in near.table.to_dicts():
        columns = [c for name in row["groups"] for c in GROUPS[name]]
        assert "c" in row["groups"]
        model = ds.fit(drawn(3), "y", columns, ridge=0.5)
        assert row["explained"] == pytest.approx(model.explained, abs=NEAR)
        assert row["r2"] == pytest.approx(model.r2, abs=NEAR)


def test_sql_lists_the_same_sets():
    table = drawn(5)
    near = ds.near_best(table, "y", 3.0, within=0.2, watch=["w"])
    connection = ds.connect()
    connection.register("t", table)
    query = "SELECT unnest(near_best(gram(t), 'y', 3, {'within': 0.2, 'watch': ['w']})) AS s FROM t"
    rows = [row for (row,) in connection.execute(query).fetchall()]
    assert [row["groups"] for row in rows] == near.table["groups"].to_list()
    correlations = [row["correlations"]["w"] for row in rows]
    assert correlations == pytest.approx(near.table["w"].to_list(), abs=1e-14)
    named = "SELECT dbselect.near_best(gram(t), 'y', 3, \"limit\" := 1) FROM t"
    ((found,),) = connection.execute(named).fetchall()
    assert found[0]["groups"] == rows[0]["groups"]


@pytest.mark.parametrize("share", ["worst", "mean"])
@pytest.mark.parametrize("seed", range(8))
def test_one_set_for_several_records_is_that_of_an_enumeration(seed, share):
    tables = [drawn(10 * seed + k, rows=30 + 5 * k).drop("w") for k in range(3)]
    costs = {name: 1.0 + (seed + k) % 3 for k, name in enumerate(tables[0].columns[:-1])}
    of = {"worst": min, "mean": np.mean}[share]
    best = max(
        of([explained(table, list(chosen))[0] for table in tables])
        for chosen in every_set(costs, 6.0)
    )
    found = ds.best_within([ds.gram(t) for t in tables], "y", 6.0, costs=costs, share=share)
    assert found.explained == pytest.approx(best, abs=NEAR)
    assert found.proof.proven
    assert found.spent <= 6.0
    for table, model in zip(tables, found.models, strict=True):
        assert model.r2 == pytest.approx(explained(table, found.groups)[0], abs=NEAR)
    with ds.connect() as connection:
        for k, table in enumerate(tables):
            connection.register(f"t{k}", table)
        records = ", ".join(f"(SELECT gram(t) FROM t{k} AS t)" for k in range(3))
        query = f"SELECT dbselect.best_within([{records}], 'y', 6, costs := ?, share := ?)"
        ((in_sql,),) = connection.execute(query, [costs, share]).fetchall()
    assert in_sql["explained"] == pytest.approx(best, abs=NEAR)
    assert (in_sql["groups"], in_sql["proven"]) == (found.groups, True)
    models = [one["coefficients"] for one in in_sql["models"]]
    for model, expected in zip(models, found.models, strict=True):
        assert model == pytest.approx(expected.coefficients, abs=NEAR)


def test_without_a_budget_nothing_is_explained_and_no_zero_is_negative():
    near = ds.near_best(drawn(1), "y", 0)
    assert "explains 0.0000" in repr(near)
    assert "-" not in str(near.table.select("spent", "explained", "r2").row(0))


LISTS = (
    "SELECT dbselect.best_within({}) FROM (SELECT [gram(t), gram(t)] AS g, gram(t) AS one FROM t)"
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("g, 'y', 2, share := 'best'", "share is 'best'; it must be one of ['worst', 'mean']"),
        ("one, 'y', 2, share := 'mean'", "share is 'mean'; it is for several records"),
        ("g, 'y', 2, {'shares': 'mean'}", "best_within has unknown option 'shares'"),
        ("g, 'y', 2, ridge := 1, scale := false", "the columns of several records have variance 1"),
        ("g, 'q', 2", "target names unknown column 'q'"),
        ("[g[1], gram_select(one, ['x0', 'y'])], 'y', 2", "record 1 has other columns"),
        ("g[:0], 'y', 2", "there is no record; give at least one"),
    ],
)
def test_sql_refuses_what_is_wrong_with_a_list(call, message):
    with ds.connect() as connection:
        connection.register("t", drawn(1))
        with pytest.raises(duckdb.Error, match=re.escape(message)):
            connection.execute(LISTS.format(call))
        unusable = LISTS.format("[one, NULL], 'y', 2")
        assert connection.execute(unusable).fetchall() == [(None,)]


def test_one_order_for_several_records_takes_the_largest_gain_of_the_worst():
    tables = [drawn(20 + k).drop("w") for k in range(3)]
    grams = [ds.gram(table) for table in tables]
    order = ds.anytime_sequence(grams, "y", share="worst", max_groups=3)
    held: list[str] = []
    for name in order.groups:
        gains = {
            other: min(explained(table, [*held, other])[0] for table in tables)
            for other in tables[0].columns[:-1]
            if other not in held
        }
        assert gains[name] == pytest.approx(max(gains.values()), abs=NEAR)
        held.append(name)
    assert order.steps["explained"][-1] == pytest.approx(gains[name], abs=NEAR)
    # Without share, a list of records is one record, as for other methods.
    merged = ds.anytime_sequence(pl.concat(tables), "y")
    assert ds.anytime_sequence(grams, "y").steps["group"].equals(merged.steps["group"])


def test_swaps_of_a_group_are_those_of_refits():
    table = drawn(7).drop("w")
    seq = ds.anytime_sequence(table, "y", GROUPS)
    inside = seq.steps["group"][1:4].to_list()
    swaps = seq.swaps(inside[1], budget=3.0)
    outside = [name for name in GROUPS if name not in inside]
    assert sorted(swaps["by"]) == sorted(outside)
    assert set(swaps["replaced"]) == {inside[1]}
    for row in [*swaps.to_dicts(), *seq.swaps(outside[0], budget=3.0).to_dicts()]:
        after = [name for name in inside if name != row["replaced"]] + [row["by"]]
        value = explained(table, [c for name in after for c in GROUPS[name]])[0]
        before = explained(table, [c for name in inside for c in GROUPS[name]])[0]
        assert row["change"] == pytest.approx(value - before, abs=NEAR)
        word = "more" if row["change"] > 0 else "less"
        assert row["says"].startswith(f"{row['by']} replaces {row['replaced']} at ")
        assert word in row["says"]
    assert seq.why(inside[1], budget=3.0).endswith(swaps["says"][0])
    with pytest.raises(ds.errors.GroupError, match="'q'"):
        seq.swaps("q")


GRAM = ds.gram(drawn(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ds.near_best(GRAM, "y", 2, within=1.5), "within is 1.5; it must be a number from"),
        (lambda: ds.near_best(GRAM, "y", 2, limit=0), "limit is 0; it must be a whole number >= 1"),
        (lambda: ds.near_best(GRAM, "y", -1), "budget is -1; it must be a number >= 0"),
        (lambda: ds.near_best(GRAM, "y", 2, watch=["q"]), "watch names unknown column 'q'"),
        (lambda: ds.near_best(GRAM, "y", 2, intercept=False), "correlations are about means"),
        (lambda: ds.best_within(GRAM, "y", 2, share="mean"), "source must be a list of Grams"),
        (lambda: ds.best_within([GRAM, 5], "y", 2), "source has 5 at 1"),
        (
            lambda: ds.best_within([GRAM, GRAM.select(["x0", "y"])], "y", 2),
            "record 1 has other columns than record 0",
        ),
        (
            lambda: ds.anytime_sequence([GRAM, GRAM], "y", share="worst", rule="omp"),
            "an order for several records takes budget, max_groups and share",
        ),
    ],
)
def test_what_is_wrong_is_refused_in_a_sentence(call, message):
    with pytest.raises(ds.errors.DbselectError, match=re.escape(message)):
        call()


def test_sets_are_kept_in_files(tmp_path):
    table = drawn(1).drop("w")
    none = ds.near_best(table, "y", 0.0)
    assert repr(none) == "NearBest(1 sets; best none explains 0.0000; complete)"
    halves = [ds.gram(table[:20]), ds.gram(table[20:])]
    near, best = ds.near_best(table, "y", 2.0), ds.best_within(halves, "y", 2.0)
    for result in (near, best, ds.anytime_sequence(halves, "y", share="mean")):
        for kind in ("json", "parquet"):
            getattr(result, f"write_{kind}")(tmp_path / "one")
            read = getattr(type(result), f"read_{kind}")(tmp_path / "one")
            assert repr(read) == repr(result)
    assert near.table.equals(type(near).from_struct(near.to_struct()).table)

"""The order in which to buy tables: that of a search on the join of all of them."""

import re

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbselect as ds
from dbselect.methods.candidates import CandidateTable

SKIPPED = "ignore::dbselect.errors.SkippedRowsWarning"
GROUPS = {"hour": ["h"], "place": ["x", "c"]}
COSTS = {"hour": 0.5, "place": 2.0}
#: Tables by a key of few values are nearly dependent, with conditions up to 1e10, so that both
#: orders keep six digits or more: `lstsq` lies between them.
NEARLY = 1e-7
#: Key of each table, as the facts call it and as the table does.
KEYS = {
    "a1": (["a"], ["a"]),
    "a2": (["a"], ["a"]),
    "b1": (["b"], ["id"]),
    "ab": (["b", "a"], ["b", "a"]),
    "bc": (["b", "c"], ["b", "c"]),
}


def gaps(name: str, size: int, rng: np.random.Generator, share: float = 0.08) -> pl.Expr:
    return pl.when(pl.Series(rng.random(size) >= share)).then(name).alias(name)


def lake(seed: int, dense: bool = False) -> tuple[pl.DataFrame, dict[str, pl.DataFrame]]:
    """Return facts and tables by several keys, some of several columns, that bear on y."""
    rng = np.random.default_rng(seed)
    rows = 400
    facts = pl.DataFrame(
        {
            "a": rng.integers(0, 9, rows),
            "b": rng.choice(["p", "q", "r", "s"], rows),
            "c": rng.choice(["u", "v"], rows),
            "h": rng.normal(size=rows),
            "x": rng.normal(size=rows),
            "w": rng.integers(0, 3, rows) / 2,
        }
    )
    tables = {}
    effect = np.zeros(rows)
    for name, (ours, theirs) in KEYS.items():
        keys = facts.select(ours).unique(maintain_order=True)
        size = keys.height
        values = keys.with_columns(
            z=pl.Series(rng.normal(size=size)),
            u=pl.Series(rng.normal(size=size) + 10),
            t=pl.Series(rng.choice(["one", "two", "three"], size)),
        )
        found = facts.join(values, on=ours, how="left", maintain_order="left")
        effect += rng.normal() * found["z"].to_numpy() + (found["t"].to_numpy() == "one")
        if not dense:
            values = values.with_columns(gaps("u", size, rng), gaps("t", size, rng)).head(size - 1)
        tables[name] = values.rename(dict(zip(ours, theirs, strict=True)))
    noise = rng.normal(size=rows)
    facts = facts.with_columns(y=pl.Series(effect + 0.3 * facts["h"].to_numpy() + noise))
    if not dense:
        facts = facts.with_columns(gaps("a", rows, rng), gaps("x", rows, rng))
    return facts, tables


def candidates(tables, costs):
    return {
        name: (tables[name], dict(zip(ours, theirs, strict=True)), costs[name])
        for name, (ours, theirs) in KEYS.items()
    }


def everything(facts, tables) -> pl.DataFrame:
    """Return the facts joined with all tables, each a struct of its name."""
    for name, (ours, theirs) in KEYS.items():
        values = tables[name].select(*theirs, pl.struct("z", "u", "t").alias(name))
        facts = facts.join(values, left_on=ours, right_on=theirs, how="left")
    return facts


def assert_same(found: ds.results.Sequence, expected: ds.results.Sequence) -> None:
    steps = found.steps.height
    assert found.steps["group"].to_list() == expected.steps["group"].to_list()[:steps]
    for name in ("cost", "spent", "score", "gain", "explained", "r2"):
        assert np.allclose(found.steps[name][1:], expected.steps[name][1:steps], atol=NEARLY)
    one, two = found.model(steps - 1), expected.model(steps - 1)
    assert one.r2 == pytest.approx(two.r2, abs=NEARLY)


@pytest.mark.slow
@pytest.mark.filterwarnings(SKIPPED)
@settings(max_examples=12)
@given(
    seed=st.integers(0, 10_000),
    policy=st.sampled_from(["indicator", "skip"]),
    budget=st.sampled_from([None, 4.0, 9.0]),
    weight=st.sampled_from([None, "w"]),
    ridge=st.sampled_from([0.0, 0.1]),
)
def test_the_order_is_that_of_a_search_on_the_join_of_all(seed, policy, budget, weight, ridge):
    facts, tables = lake(seed)
    rng = np.random.default_rng(seed)
    costs = {name: float(rng.integers(1, 6)) for name in KEYS}
    if policy == "skip":
        # What is over the budget is never read, and leaves no row out.
        costs = {name: min(cost, 4.0) for name, cost in costs.items()}
    groups = {**GROUPS, **{name: [name] for name in KEYS}}
    policies = {f"{name}.*": policy for name in KEYS}
    rows = everything(facts, tables)
    if policy == "skip" and not ds.gram(rows, ["y", "h", "x", "c", *KEYS], weight).rows > 60:
        return
    expected = ds.anytime_sequence(
        rows, "y", groups, {**COSTS, **costs}, budget=budget, weight=weight, ridge=ridge,
        null_policy={"*": "skip", **policies},
    )  # fmt: skip
    found = ds.anytime_tables(
        facts, "y", candidates(tables, costs), GROUPS, COSTS, budget=budget, weight=weight,
        ridge=ridge, unmatched=policy,
    )  # fmt: skip
    assert (found.gram.rows, found.gram.skipped) == (expected.gram.rows, expected.gram.skipped)
    assert_same(found, expected)


def test_every_engine_is_asked_the_same():
    facts, tables = lake(3)
    costs = dict.fromkeys(KEYS, 1.0)
    expected = ds.anytime_tables(facts, "y", candidates(tables, costs), max_groups=3)
    with duckdb.connect() as con:
        relations = {}
        for name, table in tables.items():
            con.register(name, table)
            relations[name] = con.sql(f"FROM {name}")
        con.register("facts_of_all", facts)
        found = ds.anytime_tables(
            con.sql("FROM facts_of_all"), "y", candidates(relations, costs), max_groups=3
        )
        assert_same(found, expected)
    streams = {name: table.to_arrow().to_reader() for name, table in tables.items()}
    numbers = {
        name: ds.io.Candidate(stream, dict(zip(*KEYS[name], strict=True)), 1.0, columns=["z", "u"])
        for name, stream in streams.items()
    }
    again = {
        name: ds.io.Candidate(tables[name], one.key, 1.0, columns=["z", "u"])
        for name, one in numbers.items()
    }
    assert_same(
        ds.anytime_tables(facts, "y", numbers, max_groups=3),
        ds.anytime_tables(facts, "y", again, max_groups=3),
    )


def test_tables_that_memory_does_not_hold_are_read_again(monkeypatch):
    facts, tables = lake(4)
    all_of_them = candidates(tables, dict.fromkeys(KEYS, 1.0))
    expected = ds.anytime_tables(facts, "y", all_of_them)
    monkeypatch.setattr("dbselect.methods.anytime_tables.MEMORY", 0)
    assert_same(ds.anytime_tables(facts, "y", all_of_them), expected)


def test_tables_over_the_budget_are_never_read():
    facts, tables = lake(5)
    unread = pl.LazyFrame({"a": [0], "z": [0.0]}).map_batches(lambda _: pytest.fail("it was read"))
    given = {"cheap": (tables["a1"], "a", 1.0), "dear": (unread, "a", 100.0)}
    found = ds.anytime_tables(facts, "y", given, budget=5.0)
    assert found.steps["group"].to_list() == [None, "cheap"]
    assert found.unused == ("dear",)
    assert found.stop.value == "no other group fits the budget"


def test_tables_that_could_not_win_are_not_read():
    area = np.linspace(-1, 1, 9)
    facts = pl.DataFrame({"a": list(range(9)) * 2, "y": [*area, *(area + 0.01)]})
    unread = pl.LazyFrame({"a": [0], "z": [0.0]}).map_batches(lambda _: pytest.fail("it was read"))
    shops = pl.DataFrame({"a": range(9), "area": area})
    given = {"cheap": (shops, "a", 1.0), "dear": (unread, "a", 100.0)}
    found = ds.anytime_tables(facts, "y", given, max_groups=1)
    assert found.steps["group"].to_list() == [None, "cheap"]


def test_what_is_held_comes_first_and_what_gains_too_little_is_not_bought():
    facts, tables = lake(6, dense=True)
    costs = dict.fromkeys(KEYS, 1.0)
    every = candidates(tables, costs)
    found = ds.anytime_tables(facts, "y", every, GROUPS, always=["b1", "hour"])
    assert found.steps["group"].to_list()[1:3] == ["b1", "hour"]
    gains = ds.anytime_tables(facts, "y", every).steps["gain"].to_list()[1:]
    epsilon = sorted(gains)[-2]
    few = ds.anytime_tables(facts, "y", every, epsilon=epsilon * 0.999)
    assert min(few.steps["gain"].to_list()[1:]) >= epsilon * 0.999
    assert len(few.unused) + few.steps.height - 1 == len(KEYS)
    assert few.stop.value == "no other group gains enough"


def test_a_cheap_table_that_gains_too_little_does_not_end_the_search():
    x, z = np.tile([1.0, -1.0], 8), np.repeat([1.0, -1.0], 8)
    facts = pl.DataFrame({"k": range(16), "y": 3 * x + z})
    given = {
        "cheap": (pl.DataFrame({"k": range(16), "z": z}), "k", 0.001),
        "dear": (pl.DataFrame({"k": range(16), "x": x}), "k", 1.0),
    }
    # x and z are orthogonal: they explain 9 and 1 of 10.
    found = ds.anytime_tables(facts, "y", given, epsilon=0.5)
    assert found.steps["group"].to_list() == [None, "dear"]
    assert found.r2[-1] == pytest.approx(0.9)


def test_an_interrupt_leaves_what_was_bought(monkeypatch):
    facts, tables = lake(8, dense=True)
    every = candidates(tables, dict.fromkeys(KEYS, 1.0))
    whole = ds.anytime_tables(facts, "y", every)
    looked_up = []
    read = CandidateTable.read

    def interrupted(offer, *arguments):
        looked_up.append(offer.name)
        if len(looked_up) > len(KEYS) + 3:
            raise KeyboardInterrupt
        return read(offer, *arguments)

    monkeypatch.setattr(CandidateTable, "read", interrupted)
    found = ds.anytime_tables(facts, "y", every)
    assert found.stop.value == "the search was interrupted"
    assert found.steps["group"].to_list() == whole.steps["group"].to_list()[: found.steps.height]


@pytest.mark.parametrize(
    ("changed", "error", "told"),
    [
        ({"candidates": []}, ds.errors.ArgumentError, "candidates is []"),
        ({"candidates": {"t": ("table", "a")}},
         ds.errors.ArgumentError, "candidate 't': it is a tuple"),
        ({"candidates": {"t": (pl.DataFrame(), "a", 0)}}, ds.errors.GroupError, "cost is 0"),
        ({"candidates": {"t.u": (pl.DataFrame(), "a", 1)}},
         ds.errors.ArgumentError, "name is 't.u'"),
        ({"candidates": {"t": (pl.DataFrame({"a": ["1"], "z": [1]}), "a", 1)}},
         ds.errors.ColumnError, "candidate 't': key 'a' of the facts is integer"),
        ({"candidates": {"t": (pl.DataFrame({"a": [1, 1], "z": [1, 2]}), "a", 1)}},
         ds.errors.DataError, "candidate 't': the table has several rows with a = 1"),
        ({"candidates": {"t": (pl.DataFrame({"a": [1], "z": [1]}), "q", 1)}},
         ds.errors.ColumnError, "candidate 't': key names unknown column 'q'"),
        ({"candidates": {"t": ("a", pl.DataFrame({"a": [1]}), 1)}},
         ds.errors.ArgumentError,
         "candidate 't': key is a DataFrame; it must be the name of a column"),
        ({"candidates": {"t": ("none.parquet", "a", 1)}},
         ds.errors.SourceError, "candidate 't': no file is at 'none.parquet'"),
        ({"groups": {"g": ["y"]}}, ds.errors.GroupError, "group 'g' names the target 'y'"),
        ({"target": "b"}, ds.errors.ColumnError, "target 'b' is text"),
        ({"target": "yy"}, ds.errors.ColumnError, "unknown column 'yy'"),
        ({"groups": {"t": ["x"]}}, ds.errors.GroupError, "'t' is a candidate and a group"),
        ({"costs": {"t": 3}}, ds.errors.GroupError, "costs are those of the groups of the facts"),
        ({"epsilon": 0.99}, ds.errors.DataError, "nothing was bought, as no candidate gains"),
        ({"always": ["nobody"]}, ds.errors.GroupError, "always names unknown group 'nobody'"),
        ({"budget": 0.5}, ds.errors.ArgumentError, "the cheapest candidate costs 1"),
        ({"budget": -1}, ds.errors.ArgumentError, "budget is -1"),
        ({"epsilon": -1}, ds.errors.ArgumentError, "epsilon is -1"),
        ({"unmatched": "drop"}, ds.errors.ArgumentError, "unmatched is 'drop'"),
        ({"unmatched": "error"}, ds.errors.DataError, "candidate 't': the table has no value for"),
    ],
)  # fmt: skip
def test_mistakes_are_told(changed, error, told):
    facts, _ = lake(9)
    tables = {"t": (pl.DataFrame({"a": [1, 2], "z": [0.5, 1.0]}), "a", 1.0)}
    arguments = {"facts": facts, "target": "y", "candidates": tables, **changed}
    with pytest.raises(error, match=re.escape(told)):
        ds.anytime_tables(**arguments)

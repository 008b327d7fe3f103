"""Grams that tables are added to by their keys: they equal those of the joined rows."""

from datetime import date, datetime

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbselect as ds

#: Largest difference to the joined rows, as a share of two deviations.
EXACT = 1e-12
SKIPPED = "ignore::dbselect.errors.SkippedRowsWarning"


def gaps(name: str, size: int, rng: np.random.Generator) -> pl.Expr:
    """Return a column with NULLs in a tenth of its rows."""
    return pl.when(pl.Series(rng.random(size) >= 0.1)).then(name).alias(name)


def tables(seed: int, far: float = 0.0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return facts and a table by the fields k and s, with NULLs and keys that do not match."""
    rng = np.random.default_rng(seed)
    rows, keys = int(rng.integers(40, 200)), int(rng.integers(3, 12))
    facts = pl.DataFrame(
        {
            "k": rng.integers(0, keys, rows),
            "s": rng.choice(["north", "south"], rows),
            "x": rng.normal(size=rows) + far,
            "c": rng.choice(["a", "b"], rows),
            "y": rng.normal(size=rows),
            "w": rng.integers(0, 4, rows) / 2,
        }
    ).with_columns(gaps("k", rows, rng), gaps("x", rows, rng))
    every = pl.DataFrame({"k": range(1, keys + 3)}).join(
        pl.DataFrame({"s": ["north", "south"]}), how="cross"
    )
    size = every.height
    other = every.with_columns(
        z=pl.Series(rng.normal(size=size) + far),
        t=pl.Series(rng.choice(["u", "v", "rare"], size, p=[0.6, 0.3, 0.1])),
        b=pl.Series(rng.random(size) < 0.5),
        d=pl.Series([date(2024, 1, int(day)) for day in rng.integers(1, 28, size)]),
    ).with_columns(gaps("z", size, rng), gaps("t", size, rng))
    return facts, other.sample(fraction=0.9, shuffle=True, seed=seed)


def assert_same(found: ds.Gram, expected: ds.Gram) -> None:
    assert found.columns == expected.columns
    assert (found.rows, found.skipped, found.missing) == (
        expected.rows, expected.skipped, expected.missing,
    )  # fmt: skip
    assert found.terms == expected.terms
    assert found.weight == pytest.approx(expected.weight, rel=EXACT)
    spread = np.sqrt(np.diagonal(expected.comoment))
    spread[spread == 0] = 1.0
    difference = np.abs(found.comoment - expected.comoment) / np.outer(spread, spread)
    assert difference.max() < EXACT
    means = (found.mean - expected.mean) + (found.mean_low - expected.mean_low)
    assert np.abs(means / spread).max() < EXACT


def joined(facts, other, key, own, columns, policy, weight=None) -> ds.Gram:
    """Return the Gram of the joined rows, which Polars makes."""
    rows = facts.join(other, on=key, how="left")
    return ds.gram(rows, [*own, *columns], weight, null_policy=dict.fromkeys(columns, policy))


@pytest.mark.slow
@pytest.mark.filterwarnings(SKIPPED)
@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    policy=st.sampled_from(["indicator", "skip"]),
    weight=st.sampled_from([None, "w"]),
    far=st.sampled_from([0.0, 1e7]),
)
def test_a_table_by_its_key_is_the_join(seed, policy, weight, far):
    facts, other = tables(seed, far)
    key, own, columns = ["k", "s"], ["x", "c", "y"], ["z", "t", "b", "d"]
    expected = joined(facts, other, key, own, columns, policy, weight)
    sums = ds.key_sums(facts, key, own, weight, products=policy == "skip")
    if not expected.rows:
        with pytest.raises(ds.errors.DataError, match="nothing left"):
            sums.gram.extend(sums, other, unmatched=policy)
        return
    assert_same(sums.gram.extend(sums, other, unmatched=policy), expected)


@pytest.mark.slow
@pytest.mark.filterwarnings(SKIPPED)
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), policy=st.sampled_from(["indicator", "skip"]))
def test_tables_by_one_key_after_each_other(seed, policy):
    facts, other = tables(seed, far=1e5)
    key, own, columns = ["k", "s"], ["x", "y"], ["z", "d", "t"]
    expected = joined(facts, other, key, own, columns, policy)
    if expected.rows < 2:
        return
    sums = ds.key_sums(facts, key, own, products=policy == "skip")
    first, second = other.select(*key, "z", "d"), other.select(*key, "t")
    extended = sums.extend(first, unmatched=policy)
    assert_same(extended.gram.extend(extended, second, unmatched=policy), expected)
    if policy == "skip":
        both = extended.extend(second, unmatched=policy)
        whole = both.products.sum(axis=0)
        assert np.allclose(whole, both.gram.comoment[np.tril_indices(len(both.columns))], atol=1e-6)


@pytest.mark.parametrize("far", [0.0, 1e8])
def test_digits_of_columns_far_from_zero(far):
    rng = np.random.default_rng(1)
    facts = pl.DataFrame({"k": rng.integers(0, 50, 5000), "y": rng.normal(size=5000) + far})
    other = pl.DataFrame({"k": range(50), "z": rng.normal(size=50) + far, "one": [far] * 50})
    sums = ds.key_sums(facts, "k")
    found = sums.gram.extend(sums, other)
    rows = facts.join(other, on="k")
    y, z = (rows[name].to_numpy() - far for name in ("y", "z"))
    expected = np.cov(y, z, bias=True) * len(y)
    assert np.abs(found.comoment[:2, :2] - expected).max() < 1e-11 * expected.max()
    assert found.comoment[2].tolist() == [0.0, 0.0, 0.0]


def test_every_engine_reads_facts_and_table(as_source):
    facts, other = tables(3)
    gram = ds.gram(facts, ["x", "y"])
    sums = ds.key_sums(as_source(facts), ["k", "s"], ["x", "y"], gram=gram)
    expected = joined(facts, other, ["k", "s"], ["x", "y"], ["z", "t", "b", "d"], "indicator")
    assert_same(gram.extend(sums, other), expected)


def test_a_name_makes_a_field_of_the_table():
    facts, other = tables(4)
    key = ["k", "s"]
    sums = ds.key_sums(facts, key, ["x", "y"])
    found = sums.gram.extend(sums, other, name="table", columns=["z", "t"])
    rows = facts.join(other.select(*key, table=pl.struct("z", "t")), on=key, how="left")
    expected = ds.gram(rows, ["x", "y", "table"], null_policy={"table.*": "indicator"})
    assert_same(found, expected)


def test_the_table_may_call_its_key_otherwise():
    facts, other = tables(5)
    other = other.select("k", "s", "z")
    expected = joined(facts, other, ["k", "s"], ["x", "y"], ["z"], "indicator")
    sums = ds.key_sums(facts, ["k", "s"], ["x", "y"])
    renamed = other.rename({"k": "s", "s": "region"})
    assert_same(sums.gram.extend(sums, renamed, key=["s", "region"]), expected)
    assert_same(sums.gram.extend(sums, renamed, key={"s": "region", "k": "s"}), expected)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (pl.Series([1, 2, 2], dtype=pl.Int8), pl.Series([2, 1], dtype=pl.UInt64)),
        (pl.Series(["a", "b", "b"]), pl.Series(["b", "a"], dtype=pl.Categorical)),
        (pl.Series([1.5, 2.5, 2.5]), pl.Series([2.5, 1.5], dtype=pl.Float32)),
        (pl.Series([True, False, False]), pl.Series([False, True])),
        (pl.Series([date(2024, 1, 1), *[date(2024, 1, 2)] * 2]),
         pl.Series([date(2024, 1, 2), date(2024, 1, 1)])),
        (pl.Series([datetime(2024, 1, 1), *[datetime(2024, 1, 2)] * 2]),
         pl.Series([datetime(2024, 1, 2), datetime(2024, 1, 1)]).cast(pl.Datetime("ns"))),
    ],
)  # fmt: skip
def test_keys_of_one_kind_match_whatever_their_width(ours, theirs):
    facts = pl.DataFrame({"k": ours, "y": [1.0, 2.0, 4.0]})
    sums = ds.key_sums(facts, "k", ["y"])
    table = pl.DataFrame({"k": theirs, "z": [5.0, 3.0]})
    assert sums.gram.extend(sums, table, unmatched="error").mean[1] == pytest.approx(13 / 3)


def test_keys_of_different_kinds_are_refused_before_the_table_is_read():
    sums = ds.key_sums(pl.DataFrame({"k": [1, 2], "y": [1.0, 2.0]}), "k")
    unread = pl.LazyFrame({"k": ["1"], "z": [0]}).map_batches(lambda _: pytest.fail("it was read"))
    with pytest.raises(
        ds.errors.ColumnError, match="'k' of the facts is integer, and 'k' of the table"
    ):
        sums.gram.extend(sums, unread)


def test_two_rows_of_a_key_are_refused_and_their_summaries_taken():
    facts = pl.DataFrame({"k": [1, 1, 2, 3], "y": [1.0, 2.0, 4.0, 4.0]})
    visits = pl.DataFrame(
        {"k": [1, 1, 2], "day": [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 1)],
         "paid": [2.0, None, 6.0], "how": ["card", "cash", "card"]}
    )  # fmt: skip
    sums = ds.key_sums(facts, "k", ["y"])
    with pytest.raises(ds.errors.DataError, match="several rows with k = 1"):
        sums.gram.extend(sums, visits)
    by_hand = pl.DataFrame(
        {"k": [1, 2], "paid_mean": [2.0, 6.0], "rows": [2, 1],
         "paid_latest": [None, 6.0], "how_latest": ["cash", "card"]}
    )  # fmt: skip
    found = sums.gram.extend(sums, visits, many=["mean", "count", "latest"], order="day")
    columns = ["paid_mean", "rows", "paid_latest", "how_latest"]
    assert_same(found, joined(facts, by_hand, ["k"], ["y"], columns, "indicator"))
    with pytest.warns(ds.errors.LeftOutWarning, match="'day', 'how'"):
        sums.gram.extend(sums, visits, many="mean")
    tied = visits.with_columns(day=date(2024, 1, 1))
    with pytest.raises(ds.errors.DataError, match="none has the largest 'day' alone"):
        sums.gram.extend(sums, tied, many="latest", order="day")


def test_missing_is_an_error_where_that_is_wanted():
    facts = pl.DataFrame({"k": [1, 2, None], "y": [1.0, 2.0, 4.0]})
    sums = ds.key_sums(facts, "k", ["y"])
    table = pl.DataFrame({"k": [1, None], "z": [1.0, 2.0]})
    with (
        pytest.raises(ds.errors.DataError, match="for 2 rows of the facts, as of 'z' where k = 2"),
        pytest.warns(ds.errors.LeftOutWarning, match="1 rows of the table are left out"),
    ):
        sums.gram.extend(sums, table, unmatched="error")


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"unmatched": "drop"}, ds.errors.ArgumentError, "unmatched is 'drop'"),
        ({"unmatched": "skip"}, ds.errors.RecordError, "products=True"),
        ({"many": "median"}, ds.errors.ArgumentError, "many is 'median'"),
        ({"many": "latest"}, ds.errors.ArgumentError, "order is None"),
        (
            {"many": "latest", "order": "day"},
            ds.errors.ColumnError,
            "order names unknown column 'day'",
        ),
        ({"key": "id"}, ds.errors.ColumnError, "key names unknown column 'id'"),
        ({"key": ["k", "z"]}, ds.errors.ArgumentError, "key has 2 columns"),
        ({"key": {"j": "k"}}, ds.errors.ArgumentError, "key maps columns"),
        ({"key": 3}, ds.errors.ArgumentError, "key is 3"),
        ({"columns": ["zz"]}, ds.errors.ColumnError, "unknown column 'zz'"),
        ({"name": "a.b"}, ds.errors.ArgumentError, "name is 'a.b'"),
        ({"max_levels": 0}, ds.errors.ArgumentError, "max_levels is 0"),
    ],
)  # fmt: skip
def test_what_no_table_makes_right_is_refused(given, error, told):
    facts = pl.DataFrame({"k": [1, 2, 3], "y": [1.0, 2.0, 4.0]})
    sums = ds.key_sums(facts, "k", ["y"])
    table = pl.DataFrame({"k": [1, 2], "z": [1.0, 2.0]})
    with pytest.raises(error, match=told):
        sums.gram.extend(sums, table, **given)


def test_a_column_of_the_gram_needs_a_name_and_sums():
    facts = pl.DataFrame({"k": [1, 2, 2], "x": [1.0, 5.0, 2.0], "y": [1.0, 2.0, 4.0]})
    sums = ds.key_sums(facts, "k", ["y"])
    with pytest.raises(ds.errors.ColumnError, match="a column 'y', which the Gram has"):
        sums.gram.extend(sums, pl.DataFrame({"k": [1], "y": [1.0]}))
    with pytest.raises(ds.errors.RecordError, match=r"lack columns \['x'\]"):
        ds.gram(facts, ["x", "y"]).extend(sums, pl.DataFrame({"k": [1], "z": [1.0]}))
    with pytest.raises(ds.errors.RecordError, match="of 2 rows"):
        ds.gram(facts.head(2), ["y"]).extend(sums, pl.DataFrame({"k": [1], "z": [1.0]}))
    with pytest.raises(ds.errors.RecordError, match="the same rows"):
        ds.key_sums(facts, "k", gram=ds.gram(facts.head(2), ["y"]))


@pytest.mark.filterwarnings(SKIPPED)
@pytest.mark.parametrize("policy", ["indicator", "skip"])
def test_records_by_key_are_sums_too(policy):
    facts, other = tables(7, far=1e6)
    key, own = ["k", "s"], ["x", "c", "y"]
    by = ds.gram_by(facts, by=key, columns=own, weight="w")
    sums = ds.results.KeySums.from_records(by)
    expected = joined(facts, other, key, own, ["z", "t"], policy, "w")
    found = sums.gram.extend(sums, other, columns=["z", "t"], unmatched=policy)
    assert_same(found, expected)
    numbers = ds.results.KeySums.from_records(ds.gram_by(facts, by=key, columns=["x", "y"]))
    direct = ds.key_sums(facts, key, ["x", "y"], products=True)
    assert_same(numbers.gram, direct.gram)
    assert np.allclose(numbers.sums, direct.sums, atol=1e-8)
    assert np.allclose(numbers.products, direct.products, atol=1e-6)
    with pytest.raises(ds.errors.RecordError, match="column 'gram' beside its key"):
        ds.results.KeySums.from_records(by.select("gram"))


def test_polars_and_sql_extend_records(connection):
    facts, other = tables(8)
    key = ["k", "s"]
    expected = joined(facts, other, key, ["x", "y"], ["z", "t", "b", "d"], "indicator")
    sums = facts.lazy().dbselect.key_sums(key, "x", "y").collect()
    total = sums.select(pl.col("gram").dbselect.merge())
    by_polars = total.select(pl.col("gram").dbselect.extend(sums, other))["gram"]
    assert_same(ds.Gram.from_struct(by_polars[0]), expected)
    connection.execute("CREATE TABLE facts AS FROM facts")
    connection.execute("CREATE TABLE other AS FROM other")
    ((record,),) = connection.execute("""
        SELECT gram_extend(
            gram_merge(g), key_sums({'k': k, 's': s}, g), (SELECT list(o) FROM other o)
        ) FROM (SELECT k, s, gram({'x': x, 'y': y}) AS g FROM facts GROUP BY k, s)
    """).fetchall()
    assert_same(ds.Gram.from_struct(record), expected)


def test_polars_refuses_a_misspelt_option_before_it_reads():
    facts, other = tables(8)
    sums = ds.key_sums(facts, ["k", "s"], ["x", "y"])
    with pytest.raises(TypeError, match="filling"):
        pl.col("gram").dbselect.extend(sums, other, filling="skip")


@pytest.mark.parametrize(
    "keys",
    [
        pl.Series([1, 2, 1000]).cast(pl.Datetime("ns")),
        pl.Series([2**53, 2**53 + 1, 1]).cast(pl.Decimal(38, 0)),
        pl.Series([2**63, 1, 2], dtype=pl.UInt64),
    ],
)
def test_keys_that_would_be_rounded_are_refused(keys):
    facts = pl.DataFrame({"k": keys, "x": [1.0, 2.0, 4.0]})
    for table in (facts, facts.lazy()):
        with pytest.raises(ds.errors.ColumnError, match="equals its neighbours as"):
            ds.key_sums(table, "k")


def test_keys_of_nanoseconds_and_decimals_that_are_whole_are_found():
    z = pl.DataFrame({"z": [1.0, 5.0, 7.0]})
    facts = pl.DataFrame({"k": pl.Series([1000, 2000, 3000]), "x": [1.0, 2.0, 4.0]})
    for fine, other in ((pl.Datetime("ns"), pl.Datetime("ns")), (pl.Decimal(38, 2), pl.Float64)):
        rows = facts.with_columns(pl.col("k").cast(fine))
        found = ds.key_sums(rows, "k").extend(rows.select(pl.col("k").cast(other)).hstack(z))
        assert_same(found.gram, ds.gram(facts.select("x").hstack(z)))


def test_a_gram_of_as_many_other_rows_is_refused():
    facts = pl.DataFrame({"k": [1, 2, 2], "x": [1.0, 2.0, 4.0]})
    other = ds.gram(pl.DataFrame({"x": [1.0, 2.0, 5.0]}))
    with pytest.raises(ds.errors.RecordError, match="the mean of 'x'"):
        ds.key_sums(facts, "k", gram=other)
    with pytest.raises(ds.errors.RecordError, match="the mean of 'x'"):
        ds.key_sums(facts, "k").of(other)


def test_products_of_the_facts_stay_computed_beside_a_table():
    rng = np.random.default_rng(3)
    facts = pl.DataFrame(rng.normal(size=(200, 3)), ["a", "b", "noise"])
    facts = facts.with_columns(shop=pl.int_range(200) % 9).with_columns(
        y=pl.col("a") * pl.col("b") + pl.col("noise")
    )
    shops = pl.DataFrame({"shop": range(9), "area": rng.normal(size=9)})
    gram = ds.gram(facts.drop("shop", "noise"), terms=ds.terms(facts, interactions=["a", "b"]))
    sums = ds.key_sums(facts, "shop", gram=gram)
    model = ds.fit(sums.gram.extend(sums, shops), "y", ["a", "b", "a:b", "area"])
    joined = facts.join(shops, on="shop")
    ones = pl.lit(1.0).alias("one")
    X = joined.select(ones, "a", "b", (pl.col("a") * pl.col("b")).alias("ab"), "area").to_numpy()
    fitted = X @ np.linalg.lstsq(X, joined["y"].to_numpy(), rcond=None)[0]
    assert model.predict(joined) == pytest.approx(fitted)

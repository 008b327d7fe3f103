"""Missing values filled in the pass are those filled by hand in Polars beforehand."""

import functools
import itertools
import operator
import tempfile
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from tables import assert_gram, typed

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.errors import ArgumentError, ColumnError, DataError, RecordError
from dbselect.record.gram import RECORD_DTYPE

#: Values are 1e8 spreads from zero. Deviations from a constant near them are exact, so only
#: sums round: 300,000 of them, and their share that cancels between parts.
FAR = 2.0**27
FAR_TOLERANCE = 1e-10


def by_hand(
    names: list[str], X: np.ndarray, policies: list[str], weight: np.ndarray | None = None
) -> tuple[list[str], np.ndarray]:
    """Fill missing values in Polars; missing values of policy skip stay NaN."""
    flat = pl.DataFrame(X, schema=names, orient="row").fill_nan(None)
    w = pl.Series("w", np.ones(len(X)) if weight is None else weight)
    skipped = [name for name, policy in zip(names, policies, strict=True) if policy == "skip"]
    used = w > 0
    for name in skipped:
        used &= flat[name].is_not_null()
    filled: list[pl.Series] = []
    for name, policy in zip(names, policies, strict=True):
        column = flat[name]
        if policy == "mean":
            here = column.is_not_null() & used
            mean = (column.filter(here) * w.filter(here)).sum() / w.filter(here).sum()
            filled.append(column.fill_null(mean))
        elif policy == "indicator":
            filled.append(column.fill_null(0.0))
            if (column.is_null() & used).any():
                filled.append(column.is_null().cast(pl.Float64).alias(f"{name}.missing"))
        else:
            filled.append(column)
    done = pl.DataFrame(filled)
    return done.columns, done.fill_null(float("nan")).to_numpy()


def holes_of(table):
    counts = dict(zip(table.names, np.isnan(table.X).sum(axis=0), strict=True))
    return {name: count for name, count in counts.items() if count}


@pytest.mark.slow
@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_every_source_fills_what_is_filled_by_hand(as_any_source, policy, weight):
    table = typed(np.random.default_rng(1))
    w = table.weight if weight else None
    found = ds.gram(as_any_source(table.frame), table.names, weight, null_policy=policy)
    names, X = by_hand(table.names, table.X, [policy] * len(table.names), w)
    assert_gram(found, names, X, w)
    assert found.missing == holes_of(table)


def test_a_mapping_gives_columns_policies_of_their_own(as_source):
    table = typed(np.random.default_rng(2))
    mapping = {"*": "mean", "demo": "indicator", "emb[2]": "indicator", "c*": "skip"}
    special = {"demo.age", "demo.body.height", "emb[2]"}
    policies = [
        "indicator" if name in special else "skip" if name == "count" else "mean"
        for name in table.names
    ]
    found = ds.gram(as_source(table.frame), table.names, "weight", null_policy=mapping)
    assert_gram(found, *by_hand(table.names, table.X, policies, table.weight), table.weight)
    assert found.missing == holes_of(table)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_every_source_fills_group_by_group(as_any_source, policy):
    rng = np.random.default_rng(4)
    table = typed(rng, 900)
    key = rng.integers(0, 3, 900)
    # Only the last group lacks a value of y.
    table.X[np.flatnonzero(key == 2)[:5], 0] = np.nan
    y = pl.Series(table.column("y")).fill_nan(None)
    frame = table.frame.with_columns(y=y, key=pl.Series(key))
    found = ds.gram_by(as_any_source(frame), ["key"], table.names, "weight", null_policy=policy)
    assert found["key"].to_list() == [0, 1, 2]
    policies = [policy] * len(table.names)
    everywhere = by_hand(table.names, table.X, policies, table.weight)[0]
    assert ("y.missing" in everywhere) == (policy == "indicator")
    for k, record in enumerate(found["gram"]):
        mine = key == k
        names, X = by_hand(table.names, table.X[mine], policies, table.weight[mine])
        assert record["columns"] == everywhere
        gram = ds.Gram.from_struct(record)
        assert_gram(gram.select(names), names, X, table.weight[mine])
        lacking = [name for name in everywhere if name not in names]
        assert not gram.mean[[everywhere.index(name) for name in lacking]].any()


READERS = [ds.gram, functools.partial(ds.gram_by, by=["region"])]


@pytest.mark.parametrize("read", READERS, ids=["gram", "gram_by"])
def test_an_error_names_the_first_column_and_its_rows(as_source, read):
    table = typed(np.random.default_rng(5))
    rows = holes_of(table)["demo.age"]
    columns, policy = ["y", "demo.age", "ratio"], {"*": "error", "ratio": "skip"}
    with pytest.raises(DataError, match=rf"'demo.age' is missing in {rows} rows; null_policy"):
        read(as_source(table.frame), columns=columns, null_policy=policy)


@pytest.mark.parametrize("policy", ["skip", "error", "mean", "indicator"])
def test_an_empty_table_has_no_rows_under_any_policy(as_source, policy):
    table = typed(np.random.default_rng(8))
    found = ds.gram(as_source(table.frame.clear()), table.names, null_policy=policy)
    assert_gram(found, table.names, np.empty((0, len(table.names))))


@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_a_column_without_any_value_is_zero(as_source, policy):
    frame = pl.DataFrame({"x": [1.0, 2.0, 4.0], "z": pl.Series([None] * 3, dtype=pl.Float64)})
    names = ["x", "z", "z.missing"] if policy == "indicator" else ["x", "z"]
    X = np.array([[1.0, 0.0, 1.0], [2.0, 0.0, 1.0], [4.0, 0.0, 1.0]])[:, : len(names)]
    found = ds.gram(as_source(frame), null_policy=policy)
    assert_gram(found, names, X)
    assert found.missing == {"z": 3}


def test_columns_of_nothing_missing_get_no_indicator(as_source):
    # z is missing only where the target, whose rows are left out, is missing too.
    frame = pl.DataFrame({"y": [None, 2.0, 3.0], "z": [None, 1.0, 5.0]})
    found = ds.gram(as_source(frame), null_policy={"z": "indicator"})
    assert found.columns == ["y", "z"]
    assert found.missing == {"y": 1, "z": 1}


def far(rng, rows, missing, at=FAR):
    """Return exact deviations with a trend, and the table of them around `at`."""
    D = (rng.integers(-64, 65, (rows, 3)) + 64 * np.arange(rows)[:, None] // rows) / 64
    D[:, 1] += D[:, 0]
    D[missing, 1] = np.nan
    return D, pl.DataFrame(D + at, schema=["a", "b", "c"], orient="row").fill_nan(None)


def assert_comoment(found, X):
    """Compare comoments by the size of the columns; X is given without its offset."""
    gram = found if isinstance(found, ds.Gram) else ds.Gram.from_struct(found)
    centred = X - X.mean(axis=0)
    spread = np.sqrt((centred**2).sum(axis=0))
    error = np.abs(gram.comoment - centred.T @ centred) / np.outer(spread, spread)
    assert error.max() < FAR_TOLERANCE


PATTERNS = {
    "at random": lambda rng, n: rng.random(n) < 0.3,
    "at first": lambda rng, n: np.arange(n) < n // 3,
    "but the last": lambda rng, n: np.arange(n) < n - 3,
    "one": lambda rng, n: np.arange(n) == n // 2,
}


@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_a_mean_far_from_zero_costs_no_digits(as_source, pattern):
    rng = np.random.default_rng(9)
    D, frame = far(rng, 30_000, PATTERNS[pattern](rng, 30_000))
    X = by_hand(["a", "b", "c"], D, ["mean"] * 3)[1]
    assert_comoment(ds.gram(as_source(frame), null_policy="mean"), X)


@pytest.mark.slow
def test_many_threads_and_chunks_agree_on_a_fill_far_from_zero():
    rng = np.random.default_rng(10)
    n = 300_000
    missing = (np.arange(n) // 20_000 % 3 == 0) | (rng.random(n) < 0.1)
    D, frame = far(rng, n, missing)
    X = by_hand(["a", "b", "c"], D, ["mean"] * 3)[1]
    with ds.connect(config={"threads": 4}) as con:
        con.register("t", frame)
        con.execute("CREATE TABLE stored AS FROM t")
        (record,) = con.execute("SELECT gram_mean({'a': a, 'b': b, 'c': c}) FROM stored").fetchone()
    for found in (ds.gram(frame, null_policy="mean"), record):
        assert_comoment(found, X)
    lazy = frame.lazy().dbselect.gram(null_policy="mean").collect()["gram"][0]
    assert_comoment(lazy, X)


def test_groups_far_from_each_other_have_fills_of_their_own():
    rng = np.random.default_rng(11)
    parts = [far(rng, 500, rng.random(500) < 0.3, at) for at in (0.0, FAR, -FAR)]
    frame = pl.concat(part.with_columns(k=pl.lit(k)) for k, (_, part) in enumerate(parts))
    frame = frame.sample(fraction=1.0, shuffle=True, seed=1)
    with ds.connect() as con:
        found = [
            ds.gram_by(source, ["k"], null_policy="mean")["gram"]
            for source in (frame, con.from_arrow(frame.to_arrow()))
        ]
    for grams in found:
        for record, (D, _) in zip(grams, parts, strict=True):
            assert_comoment(record, by_hand(["a", "b", "c"], D, ["mean"] * 3)[1])


def summed(grams):
    return functools.reduce(operator.add, grams)


def with_indicators(frames):
    return [ds.gram(frame, null_policy="indicator") for frame in frames]


def merged_in_polars(frames):
    records = [gram.to_struct() for gram in with_indicators(frames)]
    column = pl.Series("gram", records, RECORD_DTYPE)
    record = column.to_frame().select(pl.col("gram").dbselect.merge().dbselect.impute_mean())
    return ds.Gram.from_struct(record["gram"][0])


def merged_in_sql(frames):
    row = "gram_missing({'a': a, 'b': b, 'c': c}) AS g"
    with ds.connect() as con:
        con.register("t", pl.concat(part.with_columns(k=k) for k, part in enumerate(frames)))
        query = f"SELECT gram_impute(gram_merge(g)) FROM (SELECT {row} FROM t GROUP BY k)"
        return ds.Gram.from_struct(con.execute(query).fetchall()[0][0])


def stored(frames):
    frame = pl.concat(part.with_columns(k=k) for k, part in enumerate(frames))
    with tempfile.TemporaryDirectory() as folder:
        store = ds.GramStore(Path(folder) / "stats")
        store.refresh(frame, by="k", null_policy="mean")
        return store.total()


#: Ways to fill the missing values of some parts with the mean of all.
WAYS = {
    "impute_mean, summed": lambda frames: summed(ds.io.impute_mean(with_indicators(frames))),
    "summed, impute_mean": lambda frames: ds.io.impute_mean([summed(with_indicators(frames))])[0],
    "Polars": merged_in_polars,
    "SQL": merged_in_sql,
    "a store": stored,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at", [2.0**13, 2.0**20, FAR, -(2.0**33)])
def test_filling_parts_far_from_zero_costs_no_digits(way, at):
    rng = np.random.default_rng(21)
    # The second part has no value at all, the last one lacks none.
    gaps = [rng.random(300) < 0.3, np.ones(40, dtype=bool), np.zeros(60, dtype=bool)]
    drawn = [far(rng, len(missing), missing, at) for missing in gaps]
    X = by_hand(["a", "b", "c"], np.concatenate([D for D, _ in drawn]), ["mean"] * 3)[1]
    gram = WAYS[way]([frame for _, frame in drawn])
    assert gram.columns == ["a", "b", "c"]
    assert_comoment(gram, X)


@pytest.mark.parametrize("at", [2.0**13, FAR, 2.0**33])
def test_a_column_far_from_zero_explains_beside_its_indicator(at):
    rng = np.random.default_rng(22)
    D, frame = far(rng, 400, rng.random(400) < 0.3, at)
    # Whatever stands where b is missing, its indicator takes up.
    X = np.column_stack([np.ones(400), np.nan_to_num(D[:, 1]), np.isnan(D[:, 1])])
    coef = np.linalg.lstsq(X, D[:, 0], rcond=None)[0]
    rows = frame.select("b", y=pl.Series(D[:, 0]))
    gram = ds.gram(rows, null_policy={"b": "indicator"})
    model = ds.fit(gram, "y")
    assert model.coefficients["b"] == pytest.approx(coef[1], rel=1e-9)
    last_bits = 8 * np.finfo(float).eps * at
    np.testing.assert_allclose(model.predict(rows), X @ coef, rtol=0, atol=last_bits)
    record = "SELECT gram_missing({'b': b, 'y': y}) FROM t"
    with ds.connect() as con:
        con.register("t", rows)
        call = f"anytime_predict(anytime_sequence(({record}), 'y'), t).prediction"
        found = con.execute(f"SELECT {call} FROM t").fetchall()
    np.testing.assert_allclose(np.ravel(found), X @ coef, rtol=0, atol=last_bits)


def test_the_terms_say_what_stands_beside_an_indicator():
    near = pl.DataFrame({"x": [999.0, 1001.0, None, 1000.0], "y": [1.0, 2.0, 4.0, 3.0]})
    apart = near.with_columns(x=pl.col("x") * 1e3 + 4e6)
    gram = ds.gram(near.with_columns(x=pl.col("x") - 500), null_policy="indicator")
    assert gram.terms.means == {}
    assert gram.mean[0] == 375.0
    gram = ds.gram(apart, null_policy="indicator")
    assert gram.terms.means == {"x": 5e6}
    assert gram.mean[0] == 5e6
    again = ds.Gram.from_struct(gram.to_struct())
    assert again.terms == gram.terms
    assert gram.terms.policies() == {"x": "indicator"}


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_parts_with_other_numbers_beside_an_indicator_merge_in_any_order(order):
    rng = np.random.default_rng(23)
    drawn = [far(rng, 200, rng.random(200) < 0.3, at) for at in (FAR, FAR + 2.0**6, FAR - 2.0**5)]
    grams = with_indicators(frame for _, frame in drawn)
    assert len({gram.terms.means["b"] for gram in grams}) == 3
    records = pl.Series("gram", [grams[at].to_struct() for at in order], RECORD_DTYPE).to_frame()
    native = records.select(pl.col("gram").dbselect.merge())["gram"][0]
    whole = ds.gram(pl.concat(frame for _, frame in drawn), null_policy="indicator")
    shifts = np.repeat([0.0, 2.0**6, -(2.0**5)], 200)[:, None]
    D = np.concatenate([D for D, _ in drawn]) + shifts
    fill = whole.terms.means["b"] - FAR
    X = np.column_stack([D[:, 0], np.nan_to_num(D[:, 1], nan=fill), np.isnan(D[:, 1]), D[:, 2]])
    for gram in (whole, summed([grams[at] for at in order]), ds.Gram.from_struct(native)):
        assert gram.terms == whole.terms
        assert_comoment(gram, X)
    left = whole - grams[0]
    X = X[200:]
    X[X[:, 2] == 1, 1] += left.terms.means["b"] - whole.terms.means["b"]
    assert_comoment(left, X)


def parts_of(table):
    ends = [0, 50, 51, 400]
    return [table.frame[start:end] for start, end in itertools.pairwise(ends)]


def test_imputed_parts_add_up_to_the_imputed_whole():
    table = typed(np.random.default_rng(12))
    parts = [
        ds.gram(part, table.names, "weight", null_policy="indicator") for part in parts_of(table)
    ]
    whole = ds.gram(table.frame, table.names, "weight", null_policy="mean")
    imputed = ds.io.impute_mean(parts)
    total = sum(imputed)
    X = by_hand(table.names, table.X, ["mean"] * len(table.names), table.weight)[1]
    assert_gram(total, table.names, X, table.weight)
    assert_gram(imputed[2], table.names, X[51:], table.weight[51:])
    assert total.missing == whole.missing
    # What is left without a part is the joint mean in the other parts.
    assert_gram(total - imputed[0], table.names, X[50:], table.weight[50:])


def test_some_columns_can_be_imputed_and_the_others_keep_their_indicator():
    table = typed(np.random.default_rng(14))
    marked = ds.gram(table.frame, table.names, null_policy="indicator")
    (found,) = ds.io.impute_mean([marked], ["emb", "ratio"])
    imputed = {"ratio", "emb[1]", "emb[2]", "emb[3]"}
    policies = ["mean" if name in imputed else "indicator" for name in table.names]
    assert_gram(found, *by_hand(table.names, table.X, policies))


def test_imputing_a_constant_far_from_zero_leaves_it_constant():
    frame = pl.DataFrame({"x": [1e8, None, 1e8, 1e8], "y": [1.0, 2.0, 5.0, 4.0]})
    (found,) = ds.io.impute_mean([ds.gram(frame, null_policy="indicator")])
    assert found.comoment[0].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(found.mean, [1e8, 3.0], rtol=1e-15)


def test_imputation_refuses_what_does_not_fit():
    a, b = (ds.gram(pl.DataFrame({name: [1.0, None]}), null_policy="indicator") for name in "ab")
    with pytest.raises(ArgumentError, match="grams is empty"):
        ds.io.impute_mean([])
    with pytest.raises(ArgumentError, match="grams is a Gram; it must be a list"):
        ds.io.impute_mean(a)
    with pytest.raises(RecordError, match="a gram record must be a mapping"):
        ds.io.impute_mean(pl.DataFrame({"gram": [a.to_struct()]}))
    with pytest.raises(RecordError, match="unequal columns"):
        ds.io.impute_mean([a, b])
    with pytest.raises(ColumnError, match="unknown column 'z'"):
        ds.io.impute_mean([a], ["z"])


@pytest.mark.filterwarnings("ignore::dbselect.errors.SkippedRowsWarning")
def test_counts_follow_the_arithmetic_of_grams():
    a = ds.gram(pl.DataFrame({"x": [1.0, None, 3.0], "y": [None, 2.0, 3.0]}))
    b = ds.gram(pl.DataFrame({"x": [1.0, None, None], "y": [1.0, 2.0, 3.0]}))
    assert (a + b).missing == {"x": 3, "y": 1}
    assert ((a + b) - a).missing == {"x": 2}
    assert a.select(["y"]).missing == {"y": 1}
    assert ds.Gram.from_struct(a.to_struct()).missing == a.missing == {"x": 1, "y": 1}


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_expressions_fill_in_every_group(policy, weight):
    table = typed(np.random.default_rng(15))
    region = table.frame["region"].to_numpy()
    struct = pl.struct("y", "flag", "ratio", "demo", "emb")
    gram = struct.dbselect.gram(weight, null_policy=policy)
    found = table.frame.group_by("region").agg(gram.alias("gram"))
    names = ["y", "flag", "ratio", "demo.age", "demo.body.height", "emb[1]", "emb[2]", "emb[3]"]
    for key, record in found.rows():
        w = table.weight[region == key] if weight else None
        used, X = by_hand(names, table.take(names)[region == key], [policy] * len(names), w)
        every = [each for name in names for each in (name, f"{name}.missing")]
        assert record["columns"] == (names if policy == "mean" else every)
        assert_gram(ds.Gram.from_struct(record).select(used), used, X, w)


def test_expressions_refuse_missing_values_and_unknown_policies():
    frame = pl.DataFrame({"x": [1.0, None]})
    with pytest.raises(pl.exceptions.ComputeError, match="'x' is missing in 1 rows"):
        frame.select(pl.struct("x").dbselect.gram(null_policy="error"))
    with pytest.raises(ArgumentError, match="null_policy is 'median'; it must be one of"):
        pl.struct("x").dbselect.gram(null_policy="median")


@pytest.mark.parametrize("policy", ["mean", "indicator", {"ratio": "mean", "demo": "indicator"}])
def test_a_lazy_frame_gives_the_record_that_gram_gives(policy):
    table = typed(np.random.default_rng(17))
    lazy = table.frame.lazy().dbselect.gram(*table.names, weight="weight", null_policy=policy)
    assert lazy.collect_schema() == {"gram": lazy.collect().schema["gram"]}
    found = ds.gram(table.frame, table.names, "weight", null_policy=policy)
    assert lazy.collect()["gram"][0]["columns"] == found.columns
    np.testing.assert_allclose(lazy.collect()["gram"][0]["mean"], found.mean, rtol=1e-12)


@pytest.mark.parametrize(
    ("policy", "error", "words"),
    [
        ("median", ArgumentError, r"null_policy is 'median'; it must be one of \['skip'"),
        (None, ArgumentError, "null_policy is None"),
        ({"x": "median"}, ArgumentError, "null_policy is 'median'"),
        ({"q": "mean"}, ColumnError, "null_policy names unknown column 'q'"),
        ("indicator", ColumnError, r"'x\.missing' has the name of the indicator of 'x'"),
    ],
)
def test_wrong_policies_are_refused_before_reading(policy, error, words):
    frame = pl.DataFrame({"x": [1.0], "x.missing": [0.0]})
    with pytest.raises(error, match=words):
        ds.gram(frame, null_policy=policy)


@pytest.fixture
def sparse():
    """Return a table whose target and features lack values."""
    rng = np.random.default_rng(19)
    X = rng.normal(size=(500, 4)) + 10.0
    y = X @ [2.0, 0.0, 1.0, 0.5] + rng.normal(size=500)
    X[rng.random((500, 4)) < [0.1, 0.0, 0.3, 0.0]] = np.nan
    y[rng.random(500) < 0.1] = np.nan
    table = {"y": y, **{name: X[:, j] for j, name in enumerate("abcd")}}
    return pl.DataFrame(table).fill_nan(None)


METHODS = {
    "anytime_sequence": lambda source, **options: ds.anytime_sequence(source, "y", **options).at(),
    "foba": lambda source, **options: ds.foba(source, "y", **options).at(),
    "backward": lambda source, **options: ds.backward(source, "y", **options).at(size=2),
    "sght": lambda source, **options: ds.sght(source, "y", max_columns=3, max_groups=2, **options),
    "dash": lambda source, **options: ds.dash(source, "y", k=2, **options),
}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mean", "indicator"])
@pytest.mark.parametrize("method", list(METHODS))
def test_methods_read_as_gram_does_but_never_fill_the_target(sparse, method, policy):
    used = sparse.drop_nulls("y")
    policies = ["skip", *[policy] * 4]
    names, X = by_hand(sparse.columns, used.fill_null(float("nan")).to_numpy(), policies)
    gram = ds.gram(pl.DataFrame(X, schema=names, orient="row"))
    groups = {name: [each for each in names if each[0] == name] for name in "abcd"}
    expected = METHODS[method](gram, groups=groups)
    for given in (None, {name: [name] for name in "abcd"}):
        found = METHODS[method](sparse, groups=given, null_policy=policy)
        assert found.groups == expected.groups
        assert list(found.coefficients) == list(expected.coefficients)
        np.testing.assert_allclose(found.r2, expected.r2, rtol=1e-9)


def test_an_indicator_named_by_a_group_goes_to_that_group(sparse):
    gram = ds.gram(sparse, null_policy={"*": "indicator", "y": "skip"})
    groups = {"values": ["a", "b", "c"], "where": ["a.missing"]}
    sequence = ds.anytime_sequence(gram, "y", groups)
    assert sequence.groups.columns == {
        "values": ["a", "b", "c", "c.missing"],
        "where": ["a.missing"],
    }
    assert sequence.unused == ("d",)


@pytest.mark.slow
@pytest.mark.parametrize("method", [*METHODS, "fit", "fit through the origin"])
def test_a_target_of_zeros_is_refused_and_its_indicator_explains_nothing(sparse, method):
    every = METHODS | {
        "backward": lambda gram: ds.backward(gram, "y", ridge=0.1).at(size=2),
        "fit": lambda gram: ds.fit(gram, "y"),
        "fit through the origin": lambda gram: ds.fit(gram, "y", intercept=False),
    }
    with pytest.raises(DataError, match="'y' is 0 in rows where it is missing; give it null_po"):
        every[method](ds.gram(sparse, null_policy="indicator"))
    # A record of SQL has the indicator of every column, also of one that is never missing.
    present = sparse.drop_nulls("y").select(
        pl.struct(pl.all()).dbselect.gram(null_policy="indicator")
    )
    record = ds.Gram.from_struct(present.item())
    assert "y.missing" in record.columns
    without = record.select([name for name in record.columns if name != "y.missing"])
    found, expected = every[method](record), every[method](without)
    assert found.groups == expected.groups
    assert found.coefficients == expected.coefficients


def test_a_target_that_is_its_mean_where_it_is_missing_is_refused(sparse, connection):
    gram = ds.gram(sparse, null_policy="mean")
    told = f"target 'y' is its mean in {sparse['y'].null_count()} rows where it is missing; give it"
    for call in (ds.fit, ds.anytime_sequence, ds.AnytimePredictor):
        with pytest.raises(DataError, match=told):
            call(gram, "y")
    with pytest.raises(DataError, match=told):
        ds.fit(gram, "y", intercept=False)
    grams = sparse.select(gram=pl.struct(pl.all()).dbselect.gram(null_policy="mean"))
    assert told in ds.fit_by(grams, "y")["status"].item()
    assert told in ds.anytime_sequence_by(grams, "y")["status"].item()
    connection.register("t", sparse.to_arrow())
    record = "gram_mean({'y': y, 'a': a, 'b': b, 'c': c, 'd': d})"
    checks = f"SELECT gram_check({record}, 'y'), gram_check({record}, 'a') FROM t"
    (reasons,) = connection.execute(checks).fetchall()
    assert told in reasons[0]
    assert (reasons[1] is None) == (not sparse["a"].null_count())
    # Nothing of it is filled where it is never missing.
    there = sparse.drop_nulls("y")
    own, expected = (ds.gram(there, null_policy=p) for p in ("mean", {"y": "skip", "*": "mean"}))
    assert ds.fit(own, "y").coefficients == pytest.approx(ds.fit(expected, "y").coefficients)


def test_nothing_but_an_indicator_follows_a_column_into_its_group():
    rng = np.random.default_rng(22)
    table = pl.DataFrame(rng.normal(size=(40, 4)), ["y", "price", "price.log", "other"])
    for source in (table, ds.gram(table)):
        sequence = ds.anytime_sequence(source, "y", groups={"bought": ["price"]})
        assert sequence.columns == ["price"]
        assert sequence.unused == ("price.log", "other")


def test_a_fit_has_the_indicators_of_its_columns(sparse):
    gram = ds.gram(sparse, null_policy={"*": "indicator", "y": "skip"})
    model = ds.fit(gram, "y", ["c", "a"])
    assert model.columns == ["c", "c.missing", "a", "a.missing"]
    assert ds.fit(gram, "y", ["c", "c.missing"]).columns == ["c", "c.missing"]
    filled = sparse.drop_nulls("y").select(
        "y",
        *(pl.col(name).fill_null(0.0) for name in "ac"),
        *(pl.col(name).is_null().cast(float).alias(f"{name}.missing") for name in "ac"),
    )
    by_hand = ds.fit(filled, "y", ["c", "c.missing", "a", "a.missing"])
    np.testing.assert_allclose(
        list(model.coefficients.values()), list(by_hand.coefficients.values()), rtol=1e-9
    )


def test_a_gram_takes_no_policy(sparse):
    with pytest.raises(ArgumentError, match="null_policy is 'mean'; it is for tables"):
        ds.anytime_sequence(ds.gram(sparse), "y", null_policy="mean")


def test_the_command_line_takes_policies(sparse, tmp_path, capsys):
    sparse.write_parquet(tmp_path / "t.parquet")
    arguments = ["gram", f"{tmp_path}/t.parquet", "--out", f"{tmp_path}/g.parquet"]
    assert main([*arguments, "--null-policy", "mean", "c=indicator", "y=skip"]) == 0
    missing = sparse["c"].null_count()
    assert f"c: missing in {missing} rows" in capsys.readouterr().out
    found = ds.Gram.read_parquet(tmp_path / "g.parquet")
    expected = ds.gram(sparse, null_policy={"*": "mean", "c": "indicator", "y": "skip"})
    assert found.columns == expected.columns == ["y", "a", "b", "c", "c.missing", "d"]
    np.testing.assert_allclose(found.comoment, expected.comoment, rtol=1e-9)
    assert main([*arguments, "--null-policy", "error"]) == 2
    assert "column 'y' is missing in" in capsys.readouterr().err
    arguments = ["sequence", f"{tmp_path}/t.parquet", "--target", "y", "--null-policy", "mean"]
    assert main([*arguments, "--out", f"{tmp_path}/s.parquet"]) == 0
    steps = ds.anytime_sequence(sparse, "y", null_policy="mean").steps
    assert_frame_equal(
        ds.results.Sequence.read_parquet(tmp_path / "s.parquet").steps, steps, rel_tol=1e-9
    )


@pytest.mark.parametrize("columns", [None, ["carrier"], ["x", "carrier"]])
def test_categories_are_imputed_by_the_name_of_their_column(columns):
    rng = np.random.default_rng(4)
    frame = pl.DataFrame(
        {
            "carrier": rng.choice(["AA", "UA", ""], 200),
            "x": np.where(rng.random(200) < 0.2, np.nan, rng.standard_normal(200)),
        }
    ).with_columns(pl.col("carrier").replace("", None))
    parts = [ds.gram(frame[:80], null_policy="indicator")]
    parts.append(
        ds.gram(frame[80:], null_policy="indicator", terms=parts[0].terms.of(["carrier.AA"]))
    )
    imputed = ["carrier", "x"] if columns is None else columns
    expected = ds.gram(frame, null_policy={"*": "indicator"} | dict.fromkeys(imputed, "mean"))
    found = sum(ds.io.impute_mean(parts, columns))
    assert found.columns == expected.columns
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)
    np.testing.assert_allclose(found.comoment, expected.comoment, atol=1e-10)
    assert found.terms.categories == expected.terms.categories
    assert found.terms.means == pytest.approx(dict(expected.terms.means))


def test_a_mean_that_filling_brings_near_zero_keeps_what_rounding_took_from_it():
    """The rounding of a mean near 1 is more than the last bit of one near 0."""
    one, two = (
        ds.gram(pl.DataFrame({"a": a, "y": range(len(a))}), null_policy="indicator")
        for a in ([0.9, 1.1, None, None], [-1.2, -1.55] * 4)
    )
    low = np.where(np.array(one.columns) == "a", np.spacing(0.5) / 2, 0.0)
    found, _ = ds.io.impute_mean([replace(one, mean_low=low), two])
    a = found.columns.index("a")
    assert found.mean[a] == pytest.approx(0.5 - 0.9 / 2)
    assert abs(found.mean_low[a]) <= np.spacing(found.mean[a])


@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_an_infinite_value_counts_as_missing_where_that_was_filled(policy):
    rng = np.random.default_rng(31)
    x = rng.normal(size=60)
    frame = pl.DataFrame({"x": x, "z": rng.normal(size=60)}).with_columns(
        x=pl.when(pl.int_range(60) % 5 > 0).then("x")
    )
    frame = frame.with_columns(y=2.0 * pl.col("x").fill_null(0.7) - pl.col("z"))
    model = ds.fit(frame, "y", null_policy=policy)
    rows = pl.DataFrame({"x": [None, np.inf, -np.inf, np.nan], "z": [1.0] * 4})
    expected = model.predict(rows[:1])[0]
    assert np.isfinite(expected)
    assert model.predict(rows).tolist() == pytest.approx([expected] * 4)
    assert model.predict(rows.to_numpy(), ["x", "z"]).tolist() == pytest.approx([expected] * 4)
    assert rows.select(model.expr()).to_series().to_list() == pytest.approx([expected] * 4)
    found = duckdb.sql(f"SELECT {model.sql()} FROM rows").fetchall()
    assert [one for (one,) in found] == pytest.approx([expected] * 4)

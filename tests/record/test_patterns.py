"""Patterns of gaps, and EM on them, against EM on the rows, written densely."""

import itertools
import json
import operator
import pickle
from functools import reduce

import duckdb
import numpy as np
import polars as pl
import pytest
from reference import em_of_rows

import dbselect as ds
from dbselect.errors import (
    ArgumentError,
    ColumnError,
    ConditionWarning,
    LeftOutWarning,
    RecordError,
)
from dbselect.io import Patterns
from dbselect.record.columns import leaves
from dbselect.sources.partial.gaps import GapWork

#: The steps of EM end where they move by 1e-8; what is left is some tens of that.
SETTLED = 1e-6
#: Sums of some hundred rows, in another order.
ROUNDING = 1e-12
NAMES = ["y", "a", "b", "c", "d"]


def rows_of(n: int, seed: int, weighted: bool = False) -> tuple[np.ndarray, np.ndarray | None]:
    """Return correlated rows: `a` is always there, two blocks and single values are missing."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 5)) @ random.normal(size=(5, 5)) + random.normal(size=5) * 10
    X[: n // 3, 2:4] = np.nan
    X[n // 3 : n // 2, 4] = np.nan
    X[random.random(n) < 0.1, 0] = np.nan
    return X, random.integers(1, 4, n).astype(float) if weighted else None


def frame_of(X: np.ndarray, weight: np.ndarray | None = None) -> pl.DataFrame:
    frame = pl.DataFrame(X, schema=NAMES).fill_nan(None)
    return frame if weight is None else frame.with_columns(w=pl.Series(weight))


@pytest.mark.parametrize(("seed", "weighted"), [(0, False), (1, True)])
def test_em_is_that_of_the_rows(seed, weighted):
    X, weight = rows_of(150, seed, weighted)
    mean, covariance, likelihoods = em_of_rows(X, weight)
    assert all(a <= b + 1e-9 * abs(b) for a, b in itertools.pairwise(likelihoods))
    gram = ds.patterns(frame_of(X, weight), weight="w" if weighted else None).em(tolerance=1e-10)
    spread = np.sqrt(np.diagonal(covariance))
    assert gram.columns == NAMES
    assert gram.rows == len(X)
    assert gram.missing == {
        name: count for name, count in zip(NAMES, np.isnan(X).sum(0), strict=True) if count
    }
    np.testing.assert_allclose((gram.mean - mean) / spread, 0.0, atol=SETTLED)
    np.testing.assert_allclose(
        (gram.covariance() - covariance) / np.outer(spread, spread), 0.0, atol=SETTLED
    )


def test_three_vendors_of_different_rows_take_at_most_a_hundred_steps():
    random = np.random.default_rng(0)
    n = 6_000
    X = random.normal(size=(n, 4)) @ random.normal(size=(4, 12)) + 4 * random.normal(size=(n, 12))
    vendor = random.integers(0, 3, n)
    second = np.where(random.random(n) < 0.02, (vendor + random.integers(1, 3, n)) % 3, vendor)
    for k in range(3):
        X[(vendor != k) & (second != k), 3 + 3 * k : 6 + 3 * k] = np.nan
    patterns = ds.patterns(pl.DataFrame(X, schema=[f"x{j}" for j in range(12)]).fill_nan(None))
    gram = patterns.em(tolerance=1e-9, prior=0)
    assert gram.terms.em["iterations"] <= 100
    start = gram.mean, gram.covariance()
    (mean, covariance, _), spread = em_of_rows(X, steps=1, start=start), np.sqrt(np.diag(start[1]))
    np.testing.assert_allclose((mean - start[0]) / spread, 0.0, atol=1e-8)
    np.testing.assert_allclose((covariance - start[1]) / np.outer(spread, spread), 0.0, atol=1e-8)


def test_every_door_finds_the_same():
    X, _ = rows_of(400, 3)
    frame = frame_of(X)
    expected = ds.patterns(frame)
    gram = expected.em()
    con = ds.connect()
    con.register("t", frame)
    by_sql = con.sql("SELECT gram_patterns(t) AS p, gram_em(gram_patterns(t)) AS g FROM t").pl()
    by_polars = frame.select(p=pl.struct(pl.all()).dbselect.patterns())
    halves = frame.with_row_index().with_columns(s=pl.col("index") % 2)
    con.register("halves", halves.drop("index"))
    merged = con.sql(
        "SELECT gram_merge(p) AS p FROM (SELECT gram_patterns({'y': y, 'a': a, 'b': b, 'c': c,"
        " 'd': d}) AS p FROM halves GROUP BY s)"
    ).pl()
    lists = halves.group_by("s").agg(p=pl.struct(NAMES).dbselect.patterns())
    parts = [ds.patterns(frame[::2]), ds.patterns(frame[1::2])]
    found = {
        "sql": Patterns.from_struct(by_sql["p"][0].to_list()),
        "polars": Patterns.from_struct(by_polars["p"][0].to_list()),
        "gram_merge": Patterns.from_struct(merged["p"][0].to_list()),
        "merge": Patterns.from_struct(
            lists.select(pl.col("p").dbselect.merge_patterns())["p"][0].to_list()
        ),
        "sum": sum(parts),
        "difference": expected + parts[0] - parts[0],
        "relation": ds.patterns(con.sql("SELECT * FROM t")),
        "lazy": ds.patterns(frame.lazy()),
        "pickled": Patterns.from_struct(json.loads(json.dumps(expected.to_struct()))),
    }
    for name, patterns in found.items():
        assert len(patterns) == len(expected), name
        for one, other in zip(patterns, expected, strict=True):
            assert one.columns == other.columns, name
            assert one.rows == other.rows, name
            np.testing.assert_allclose(one.mean, other.mean, rtol=ROUNDING)
    answers = {
        "sql": by_sql["g"][0],
        "null_policy": ds.gram(frame, null_policy="em"),
        "frame": frame.dbselect.gram(null_policy="em")["gram"][0],
        "expression": by_polars.select(pl.col("p").dbselect.em())["p"][0],
    }
    for answer in answers.values():
        one = answer if isinstance(answer, ds.Gram) else ds.Gram.from_struct(answer)
        np.testing.assert_allclose(one.covariance(), gram.covariance(), rtol=0, atol=SETTLED)


def test_methods_take_patterns_as_a_source(tmp_path):
    frame = frame_of(rows_of(300, 4)[0])
    patterns = ds.patterns(frame)
    gram = patterns.em()
    patterns.write_parquet(tmp_path / "patterns.parquet")
    expected = ds.anytime_sequence(gram, "y").r2.tolist()
    for source in (patterns, [ds.patterns(frame[::2]), ds.patterns(frame[1::2])],
                   tmp_path / "patterns.parquet"):  # fmt: skip
        np.testing.assert_allclose(ds.anytime_sequence(source, "y").r2, expected, atol=SETTLED)
    by_policy = ds.anytime_sequence(frame, "y", null_policy="em")
    np.testing.assert_allclose(by_policy.r2, expected, atol=SETTLED)
    assert "completed by EM" in repr(by_policy)
    assert ds.best_within(patterns, "y", 2).groups == ds.best_within(gram, "y", 2).groups
    with pytest.warns(ds.errors.PromiseWarning, match="too good where much is missing"):
        assert ds.cross_validate(frame, "y", folds=3, null_policy="em").best.height == 1
    segments = ds.gram_by(frame.with_columns(s=pl.col("a") > 0), by=["s"], null_policy="em")
    assert segments.height == 2
    model = ds.fit(patterns, "y")
    path = ds.lasso_path(patterns, "y")
    assert "completed by EM" in repr(path)
    for refused in (model.summary, lambda: model.aic, lambda: ds.step(patterns, "y"),
                    path.criteria, lambda: path.best("bic")):  # fmt: skip
        with pytest.raises(ds.DbselectError, match="completed by EM"):
            refused()


def test_folds_completed_together_add_up_to_all():
    frame = frame_of(rows_of(300, 5)[0])
    folds = ds.gram_by(frame, fold=3, null_policy="em")["gram"]
    total = reduce(operator.add, map(ds.Gram.from_struct, folds))
    gram = ds.gram(frame, null_policy="em")
    assert total.rows == gram.rows == 300
    np.testing.assert_allclose(total.covariance(), gram.covariance(), rtol=0, atol=SETTLED)


def test_rows_without_gaps_are_a_plain_gram():
    frame = frame_of(np.nan_to_num(rows_of(100, 6)[0]))
    days = sum(ds.patterns(frame[at : at + 25]) for at in range(0, 100, 25))
    assert len(days) == 1
    plain = ds.gram(frame)
    assert days.em().rows == plain.rows
    np.testing.assert_allclose(days.em().comoment, plain.comoment, rtol=ROUNDING)
    assert days.em().terms.em is None


def test_vendors_without_a_common_customer_are_named():
    random = np.random.default_rng(7)
    X = random.normal(size=(900, 1)) + random.normal(size=(900, 5))
    X[:450, 2:4] = np.nan  # the first 450 have d, the others b and c
    X[450:, 4] = np.nan
    patterns = ds.patterns(frame_of(X))
    with pytest.warns(ConditionWarning, match="no row has both of 'b' and 'd', 'c' and 'd'"):
        gram = patterns.em()
    assert gram.terms.em["unseen"] == 2
    precision = np.linalg.inv(gram.covariance())
    np.testing.assert_allclose(precision[4, 2:4], 0.0, atol=1e-9)
    # What each vendor has with the target is what its own rows have, as these are half of all.
    pairs = patterns.together({"one": ["b", "c"], "two": ["d"]})
    assert pairs.row(0) == ("one", "two", 0)
    assert pairs["rows"].to_list() == [0, 450, 450]


def r2_of(covariance: np.ndarray, y: int = 0) -> float:
    """Return r2 of a column given all others."""
    return 1.0 - 1.0 / (covariance[y, y] * np.linalg.inv(covariance)[y, y])


def test_what_the_next_trial_narrows():
    # By brute force: r2 as the covariance of b and d moves that no row tells.
    random = np.random.default_rng(7)
    X = random.normal(size=(900, 1)) + random.normal(size=(900, 5))
    X[:450, 2:4], X[450:, 4] = np.nan, np.nan
    patterns = ds.patterns(frame_of(X))
    pairs = patterns.together(target="y", more=400)
    with pytest.warns(ConditionWarning, match="no row has both"):
        covariance = patterns.em().covariance()
    b, d, step = 2, 4, 1e-5
    left = [1.0 / np.linalg.inv(covariance[np.ix_(at, at)])[0, 0] for at in ([b, 0, 1], [d, 0, 1])]
    slopes = []
    for sign in (-1, 1):
        moved = covariance.copy()
        moved[b, d] += sign * step
        moved[d, b] = moved[b, d]
        slopes.append(r2_of(moved))
    expected = abs(slopes[1] - slopes[0]) / (2 * step) * np.sqrt(left[0] * left[1])
    found = pairs.row(by_predicate=(pl.col("group") == "b") & (pl.col("other") == "d"), named=True)
    assert found["rows"] == 0
    np.testing.assert_allclose(found["r2_error"], expected, rtol=1e-4)
    np.testing.assert_allclose(found["r2_error_after"], expected / 20, rtol=1e-4)
    # No pair whose columns every row has is uncertain; a group beside itself is no pair.
    certain = pairs.filter((pl.col("group") == "a") & (pl.col("other") != "a"))
    np.testing.assert_allclose(certain["r2_error"].to_numpy(), 0.0, atol=1e-6)
    assert pairs.filter(pl.col("group") == pl.col("other"))["r2_error"].null_count() == 4
    with pytest.raises(ColumnError, match="unknown column 'z'"):
        patterns.together(target="z")


def test_the_error_of_r2_is_that_over_many_draws():
    random = np.random.default_rng(5)
    load = 0.8 * random.normal(size=(5, 3))
    found, errors = [], []
    for _ in range(60):
        X = random.normal(size=(10_000, 3)) @ load.T + random.normal(size=(10_000, 5))
        X[:4_950, 2:4], X[5_050:, 4] = np.nan, np.nan  # a hundred rows have both
        patterns = ds.patterns(frame_of(X))
        found.append(r2_of(patterns.em().covariance()))
        pairs = patterns.together({"one": ["b", "c"], "two": ["d"]}, "y")
        errors.append(pairs["r2_error"][0])
    np.testing.assert_allclose(np.mean(errors), np.std(found), rtol=0.3)


def test_texts_are_missing_as_a_whole():
    X, _ = rows_of(300, 8)
    random = np.random.default_rng(8)
    frame = frame_of(X).with_columns(
        k=pl.when(pl.col("b").is_null()).then(None).otherwise(
            pl.Series(random.choice(["u", "v", "w"], 300)))
    )  # fmt: skip
    gram = ds.patterns(frame).em()
    assert gram.columns[-3:] == ["k.u", "k.v", "k.w"]
    assert gram.missing["k"] == 100
    # One of the levels in every row, those that are filled in among them.
    shares = gram.mean[-3:]
    np.testing.assert_allclose(shares.sum(), 1.0, rtol=SETTLED)
    con = ds.connect()
    con.register("t", frame)
    by_sql = ds.Gram.from_struct(
        con.sql("SELECT gram_em(gram_patterns(t)) FROM t").fetchall()[0][0]
    )
    np.testing.assert_allclose(by_sql.covariance(), gram.covariance(), rtol=0, atol=SETTLED)


def test_too_many_patterns_are_joined_and_said():
    X, _ = rows_of(400, 9)
    frame = frame_of(X)
    with pytest.warns(LeftOutWarning, match="raise max_patterns"):
        few = ds.patterns(frame, max_patterns=2)
    assert len(few) == 2
    assert few.rows == 400
    assert few.dropped
    record = duckdb_of(frame, "SELECT gram_patterns(t, {'max_patterns': 2}) FROM t")
    assert [one["rows"] for one in record] == [gram.rows for gram in few]


def duckdb_of(frame: pl.DataFrame, query: str):
    con = ds.connect()
    con.register("t", frame)
    return con.sql(query).fetchall()[0][0]


@pytest.mark.parametrize(("most", "by"), [(50, ()), (2, ()), (2, ["k"])])
def test_states_of_processes_add_up(most, by):
    from dbselect.sources.engines.polars import from_frame
    from dbselect.sources.read import prepared

    X = rows_of(200, 10)[0]
    X[np.random.default_rng(0).random(X.shape) < 0.2 * (most == 2)] = np.nan
    frame = frame_of(X).with_columns(k=pl.Series(["u", "v"] * 100))
    table = from_frame(frame)
    request, _ = prepared(table, NAMES, None, "em", by=by, gaps=True)
    gaps = tuple(leaf for leaf in leaves(table.schema) if leaf.name in NAMES)
    work = pickle.loads(pickle.dumps(GapWork(request, table.schema, gaps, most)))
    states = []
    for part in (frame[::2], frame[1::2]):
        with work.begin() as sums:
            sums.add(part)
            states.append(sums.state())
    with work.begin() as sums:
        for state in states:
            sums.load(state)
        records = sums.records()
    found = Patterns(tuple(map(ds.Gram.from_struct, records["gram"])))
    if most == 50:
        expected = ds.patterns(frame, NAMES)
        assert [gram.rows for gram in found] == [gram.rows for gram in expected]
        return
    # Few are kept in memory, of each key its own; every row is in one, and what was lost is said.
    assert records.height <= 12 * (1 + len(by))
    assert sum(gram.rows for gram in found) == 200
    assert found.dropped
    if by:
        assert set(records["k"]) == {"u", "v"}


def test_the_check_sees_rows_that_are_others():
    random = np.random.default_rng(11)
    X = random.normal(size=(2000, 5))
    missing = X.copy()
    missing[random.random(2000) < 0.3, 2] = np.nan
    there = ds.patterns(frame_of(missing)).check()
    assert there["column"].to_list() == ["y", "a", "c", "d"]
    assert there["p_value"].min() > 0.001
    missing = X.copy()
    missing[X[:, 1] > 0.5, 2] = np.nan  # by what is there
    found = ds.patterns(frame_of(missing)).check().filter(column="a")
    # scipy.stats.f_oneway of the two parts.
    from scipy.stats import f_oneway

    expected = f_oneway(X[X[:, 1] > 0.5, 1], X[X[:, 1] <= 0.5, 1])
    np.testing.assert_allclose(found["statistic"][0], expected.statistic, rtol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: ds.patterns(t, max_patterns=0), ArgumentError, "max_patterns is 0"),
        (lambda t: ds.patterns(t).em(tolerance=0), ArgumentError, "tolerance is 0"),
        (lambda t: ds.patterns(t).em(max_iterations=1.5), ArgumentError, "max_iterations is 1.5"),
        (lambda t: ds.patterns(t).em(prior=-1), ArgumentError, "prior is -1"),
        (lambda t: ds.fit(t, "y", null_policy="em", family="poisson"), ArgumentError, "EM"),
        (lambda t: ds.gram(t, null_policy={"a": "em", "b": "mean"}), ArgumentError, "beside 'em'"),
        (lambda t: ds.fit(ds.patterns(t.drop("y")), "y"), ds.DbselectError, "'y'"),
        (lambda t: ds.patterns(t) - ds.patterns(t.select("a")), RecordError, "no such pattern"),
        (lambda t: Patterns.from_struct({"a": 1}), RecordError, "list of gram records"),
        (lambda t: ds.patterns(t).em() + ds.patterns(t[:200]).em(), RecordError, "EM"),
        (lambda t: t.select(pl.struct("a").dbselect.gram(null_policy="em")), ArgumentError, "em"),
    ],
)
def test_mistakes_are_told(call, error, words):
    with pytest.raises(error, match=words):
        call(frame_of(rows_of(300, 12)[0]))


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("gram_patterns(t, {'max_pattern': 3})", "there are 'max_levels' and 'max_patterns'"),
        ("gram_patterns(t, {'max_patterns': 'x'})", "max_patterns is 'x'"),
        ("gram_em(gram_patterns(t), {'tol': 1})", "unknown option 'tol'"),
        ("gram_em(gram_patterns(t), {'prior': 'a'})", "prior is 'a'"),
        ("summary(gram_em(gram_patterns(t)), 'y')", "completed by EM"),
        ("step(gram_em(gram_patterns(t)), 'y')", "completed by EM"),
        ("lasso(gram_em(gram_patterns(t)), 'y')", "criterion that chooses the penalty would"),
        ("gram_remove(gram_patterns(t), gram_patterns({'q': a}))", "no such pattern"),
    ],
)
def test_mistakes_are_told_in_sql(query, words):
    with pytest.raises(duckdb.Error, match=words):
        duckdb_of(frame_of(rows_of(60, 13)[0]), f"SELECT {query} FROM t")


def test_a_fit_in_sql_says_that_em_completed_the_rows():
    query = "SELECT dbselect.fit(gram_em(gram_patterns(t)), 'y') FROM t"
    model = duckdb_of(frame_of(rows_of(60, 13)[0]), query)
    assert model["sigma"] is None
    assert "completed by EM" in model["note"]


def test_a_column_that_no_row_has_is_said():
    frame = frame_of(rows_of(60, 14)[0]).with_columns(e=pl.lit(None, pl.Float64))
    with pytest.warns(LeftOutWarning, match=r"\['e'\] are missing in every row"):
        assert "e" not in ds.patterns(frame).columns
    assert duckdb_of(frame, "SELECT gram_em(gram_patterns({'e': e})) FROM t") is None

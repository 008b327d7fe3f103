"""A-optimal designs against brute force, inverses and exact fractions."""

from itertools import combinations

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from conftest import Stream
from problems import EPS
from tables import typed

import dbselect as ds
import dbselect.methods.design
import dbselect.objectives.a_optimal
from dbselect._native import RowDesign
from dbselect.doors.extension import extension_path
from dbselect.methods.design import a_optimal
from dbselect.objectives.a_optimal import AOptimal
from dbselect.sources.engines.polars import LazyTable

ERRORS = (pl.exceptions.PolarsError, ds.DbselectError)
PRIORS = [(1.0, 1.0), (0.3, 2.0), (1e-4, 0.01)]


def value(X, beta2=1.0, sigma2=1.0):
    """Return Tr(Lambda^-1) - Tr(P), by the definition."""
    width = X.shape[1]
    P = np.linalg.inv(beta2 * np.eye(width) + X.T @ X / sigma2)
    return width / beta2 - np.trace(P)


def rounding(X, beta2=1.0, sigma2=1.0):
    """Bound on relative errors: sums of d terms, and the condition number of the inverse."""
    largest = np.linalg.norm(X, 2) ** 2
    return 10 * X.shape[1] * EPS * (1.0 + largest / (beta2 * sigma2))


def greedy(X, k, beta2=1.0, sigma2=1.0):
    """Choose each row by the gains of all, from a new inverse at each step."""
    chosen = []
    for _ in range(k):
        S = X[chosen]
        P = np.linalg.inv(beta2 * np.eye(X.shape[1]) + S.T @ S / sigma2)
        Y = X @ P
        gains = (Y**2).sum(axis=1) / (sigma2 + (X * Y).sum(axis=1))
        gains[chosen] = -1.0
        chosen.append(int(np.flatnonzero(gains >= gains.max() * (1 - 1e-12))[0]))
    return chosen


def names(X):
    return [f"x{j}" for j in range(X.shape[1])]


def design(X, k, **options):
    return a_optimal(X, names(X), k, **options)


def paper_rows(rng, rows, columns, correlation=0.8):
    """Return the paper's design D1: equally correlated columns, rows of norm 1."""
    X = np.sqrt(1 - correlation) * rng.standard_normal((rows, columns))
    X += np.sqrt(correlation) * rng.standard_normal((rows, 1))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize(("beta2", "sigma2"), PRIORS)
def test_value_and_gains_of_every_subset_are_those_of_the_definition(beta2, sigma2):
    X = np.random.default_rng(1).standard_normal((7, 3))
    tolerance = rounding(X, beta2, sigma2) * value(X, beta2, sigma2)
    for size in range(8):
        for subset in combinations(range(7), size):
            f = value(X[list(subset)], beta2, sigma2)
            objective = AOptimal(X, beta2, sigma2)
            assert objective.add_all(subset) == pytest.approx(f, abs=tolerance)
            gains = [
                value(X[sorted({*subset, a})], beta2, sigma2)
                - value(X[sorted({*subset} - {a})], beta2, sigma2)
                for a in range(7)
            ]
            found = objective.gains() + objective.losses()
            np.testing.assert_allclose(found, gains, atol=tolerance)


@pytest.mark.parametrize(("beta2", "sigma2"), PRIORS)
@pytest.mark.parametrize(("rows", "columns"), [(12, 2), (9, 5), (6, 11)])
def test_each_step_takes_the_row_of_the_largest_value(rows, columns, beta2, sigma2):
    X = np.random.default_rng(rows).standard_normal((rows, columns))
    found = design(X, rows, beta2=beta2, sigma2=sigma2)
    tolerance = rounding(X, beta2, sigma2)
    assert sorted(found.rows) == list(range(rows))
    for step in range(rows):
        before = found.rows[:step].tolist()
        values = {a: value(X[[*before, a]], beta2, sigma2) for a in range(rows) if a not in before}
        best = max(values.values())
        assert values[found.rows[step]] >= best * (1 - tolerance)
        assert found.value[step] == pytest.approx(best, rel=tolerance)
    np.testing.assert_allclose(np.cumsum(found.gain), found.value, rtol=rows * EPS)
    P = np.linalg.inv(beta2 * np.eye(columns) + X.T @ X / sigma2)
    np.testing.assert_allclose(found.covariance, P, atol=tolerance / beta2)


@pytest.mark.parametrize(("beta2", "sigma2"), PRIORS)
def test_rank_one_updates_follow_the_inverse_for_hundreds_of_steps(beta2, sigma2):
    X = np.random.default_rng(3).standard_normal((300, 20))
    total = 0.0
    with RowDesign(20, beta2, sigma2, 2) as design:
        for step in range(1, 301):
            total += design.take(X[step - 1])
            if step % 60 and step != 25:
                continue
            A = beta2 * np.eye(20) + X[:step].T @ X[:step] / sigma2
            P = np.linalg.inv(A)
            # The inverse loses digits by the condition number of A, the updates by how far the
            # root of P has shrunk; 20 columns, and as much again for a hundred steps.
            shrunk = np.sqrt(np.linalg.norm(A, 2) / beta2)
            tolerance = 400 * EPS * (np.linalg.cond(A) + shrunk)
            np.testing.assert_allclose(design.covariance(), P, rtol=0, atol=tolerance * P.max())
            assert total == pytest.approx(value(X[:step], beta2, sigma2), rel=tolerance)


def mixtures(rng):
    """Yield rows on which few or many can be left out, with and without ties."""
    yield rng.standard_normal((3000, 4))
    yield rng.standard_t(2, (4000, 6))
    yield rng.poisson(1.0, (5000, 5)).astype(float)
    yield paper_rows(rng, 1500, 30)
    yield rng.standard_normal((2500, 8)) * np.logspace(0, 2, 8)
    yield np.repeat(rng.standard_normal((50, 10)), 40, axis=0)


@pytest.fixture
def readings(monkeypatch):
    """Count how often Polars reads a table in order."""
    counted = []
    batches = LazyTable.batches
    monkeypatch.setattr(
        LazyTable, "batches", lambda table, fields: counted.append(1) or batches(table, fields)
    )
    return counted


@pytest.mark.slow
@pytest.mark.parametrize("memory_limit", [1, 10_000, 100_000, 2**30])
def test_rows_out_of_memory_are_chosen_as_if_in_memory(tmp_path, readings, memory_limit):
    for number, X in enumerate(mixtures(np.random.default_rng(8))):
        frame = pl.DataFrame(X, schema=names(X)).with_columns(
            key=pl.format("row {}", pl.int_range(pl.len())),
            x1=pl.when(pl.int_range(pl.len()) % 10 > 0).then("x1"),
        )
        path = tmp_path / f"{number}.parquet"
        frame.write_parquet(path, row_group_size=700)
        readings.clear()
        found = a_optimal(path, names(X), 12, key="key", memory_limit=memory_limit)
        used = np.flatnonzero(np.arange(len(X)) % 10 > 0)
        assert found.rows.tolist() == used[greedy(X[used], 12)].tolist()
        assert found.keys == [f"row {row}" for row in found.rows]
        assert found.skipped == len(X) - len(used)
        if memory_limit == 2**30:
            assert len(readings) == 1
        elif memory_limit == 1:
            # Two rows are held: nearly every step reads, none more than once.
            assert 2 < len(readings) <= 12
        else:
            assert 1 <= len(readings) <= 12


def test_every_source_gives_the_rows_of_the_definition(as_source):
    table = typed(np.random.default_rng(9))
    columns = ["demo", "emb", "ratio", "flag"]
    X = table.take(["demo.age", "demo.body.height", *(f"emb[{j}]" for j in (1, 2, 3))])
    X = np.column_stack([X, table.column("ratio"), table.column("flag")])
    frame = table.frame.with_columns(key=pl.format("{}!", pl.int_range(pl.len())))
    used = np.flatnonzero(~np.isnan(X).any(axis=1))
    found = a_optimal(as_source(frame), columns, 15, key="key", sigma2=4.0)
    assert found.columns == ["demo.age", "demo.body.height", *(f"emb[{j}]" for j in (1, 2, 3)),
                             "ratio", "flag"]  # fmt: skip
    assert found.rows.tolist() == used[greedy(X[used], 15, sigma2=4.0)].tolist()
    assert found.keys == [f"{row}!" for row in found.rows]
    assert found.skipped == len(X) - len(used)
    assert found.value[-1] == pytest.approx(
        value(X[found.rows], sigma2=4.0), rel=rounding(X[used], 1.0, 4.0)
    )


@pytest.mark.parametrize("columns", [None, ["x?"], ["x1", "x0"]])
def test_the_key_is_no_default_column_and_may_be_of_any_type(columns):
    rng = np.random.default_rng(10)
    X = rng.standard_normal((30, 2))
    frame = pl.DataFrame(X, schema=["x0", "x1"]).with_columns(id=pl.int_range(30) * 1000)
    rows = greedy(X, 5)
    found = a_optimal(frame, columns, 5, key="id")
    assert sorted(found.columns) == ["x0", "x1"]
    assert found.keys == [1000 * row for row in rows]
    days = frame.with_columns(id=pl.date_range(pl.date(2020, 1, 1), pl.date(2020, 1, 30)))
    assert a_optimal(days, columns, 5, key="id").keys == days["id"].gather(rows).to_list()
    groups = frame.with_columns(id=pl.Series(["a", "b", None] * 10, dtype=pl.Categorical))
    assert a_optimal(groups, columns, 5, key="id").keys == groups["id"].gather(rows).to_list()


@pytest.mark.parametrize("memory_limit", [1, 2**30])
def test_ties_go_to_the_lowest_row_number(memory_limit):
    rng = np.random.default_rng(11)
    orthogonal = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    twice = np.concatenate([orthogonal, -orthogonal])
    found = a_optimal(pl.DataFrame(twice, schema=names(twice)), None, 12, memory_limit=memory_limit)
    assert found.rows.tolist() == list(range(12))
    # Above the tolerance of 1e-12 the larger gain counts, below it the number.
    for share, first in [(1e-10, 4), (1e-14, 0)]:
        rows = orthogonal.copy()
        rows[4] *= 1 + share
        found = a_optimal(
            pl.DataFrame(rows, schema=names(rows)), None, 1, memory_limit=memory_limit
        )
        assert found.rows.tolist() == [first]


def test_scaled_rows_have_norm_1_and_a_row_of_zeros_stays_one():
    rng = np.random.default_rng(12)
    X = rng.standard_normal((40, 3)) * 10.0 ** rng.uniform(-3, 3, (40, 1))
    X[[3, 17]] = 0.0
    norm = np.linalg.norm(X, axis=1, keepdims=True)
    scaled = X / np.where(norm > 0, norm, 1.0)
    found = design(X, 40, scale_rows=True)
    assert found.rows.tolist()[:30] == greedy(scaled, 30)
    assert found.rows.tolist()[38:] == [3, 17]
    assert found.gain[38:].tolist() == [0.0, 0.0]
    assert found.value[29] == pytest.approx(value(scaled[found.rows[:30]]), rel=rounding(scaled))


def test_rows_with_something_missing_are_no_candidates():
    X = np.array([[9.0, np.nan], [1.0, 0.0], [np.nan, np.inf], [0.0, 3.0], [np.nan, 9.0]])
    found = design(X, 2)
    assert (found.rows.tolist(), found.skipped) == ([3, 1], 3)
    frame = pl.DataFrame({"a": [None, 1, 0], "b": [7.0, 0.0, 3.0]})
    assert a_optimal(frame, ["a", "b"], 2).rows.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k is 0; it must be a whole number >= 1"),
        ({"k": 2.0}, "k is 2.0; it must be a whole number >= 1"),
        ({"k": True}, "k is True"),
        ({"k": 4}, "k is 4; there are 3 candidates; 1 rows with NULL or NaN are none"),
        ({"beta2": 0.0}, r"beta2 is 0.0; it must be a number > 0"),
        ({"sigma2": -1}, r"sigma2 is -1; it must be a number > 0"),
        ({"sigma2": float("nan")}, "sigma2 is nan"),
        ({"method": "best"}, "method is 'best'; it must be one of"),
        ({"scale_rows": "yes"}, "scale_rows is 'yes'; it must be True or False"),
        ({"memory_limit": 0}, "memory_limit is 0; it must be a whole number >= 1"),
        ({"columns": ["x", "z"]}, "columns names unknown column 'z'"),
        ({"columns": ["name"]}, "column 'name' has type .*; columns must be numeric"),
        ({"columns": []}, "columns is empty"),
        ({"key": "names"}, "key names unknown column 'names'; there is 'name'"),
        ({"key": 5}, "key is 5; it must be the name of a column"),
        ({"source": 5}, "source is an int"),
    ],
)
def test_mistakes_are_refused(options, message):
    source = pl.DataFrame({"x": [1.0, None, 3.0, 4.0], "y": [1, 2, 3, 5], "name": list("abcd")})
    arguments = {"source": source, "columns": ["x", "y"], "k": 2} | options
    with pytest.raises(ds.DbselectError, match=message):
        a_optimal(**arguments)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.finfo(float).max])
def test_values_that_cannot_be_squared_are_refused_by_name(value):
    X = np.ones((5000, 3))
    X[4321, 1] = value
    with pytest.raises(
        ds.errors.DataError, match=r"column 'x1' has the value .*; values must be finite"
    ):
        design(X, 2)


def test_a_source_that_is_read_once_must_fit_in_memory():
    X = np.random.default_rng(14).standard_normal((500, 3))
    table = pa.table(dict(zip(names(X), X.T, strict=True)))
    expected = greedy(X, 9)
    for make in (lambda: Stream(table), lambda: table.to_reader(max_chunksize=90)):
        assert a_optimal(make(), None, 9).rows.tolist() == expected
        with pytest.raises(ds.errors.SourceError, match=r"memory_limit 5000.*is read once only"):
            a_optimal(make(), None, 9, memory_limit=5000)
    # A table in memory has no such limit.
    assert a_optimal(table, None, 9, memory_limit=5000).rows.tolist() == expected


class Changing:
    """A table that gives other rows each time."""

    def __init__(self, table, change):
        self._table = table
        self._change = change
        self._times = 0

    def __len__(self):
        return len(self._table)

    def __arrow_c_stream__(self, requested_schema=None):
        self._times += 1
        rows = self._change(np.arange(len(self)), self._times)
        return self._table.take(rows).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows, times: np.random.default_rng(times).permutation(rows),
        lambda rows, times: rows if times == 1 else rows[:400],
        lambda rows, times: rows if times == 1 else rows[:0],
    ],
    ids=["order", "fewer", "none"],
)
def test_a_source_that_changes_between_readings_is_refused(change):
    X = np.random.default_rng(16).standard_normal((500, 3)) * np.linspace(1, 5, 500)[:, None]
    table = pa.table(dict(zip(names(X), X.T, strict=True)))
    with pytest.raises(ds.errors.SourceError, match="each time that it is read"):
        a_optimal(Changing(table, change), None, 20, memory_limit=1)
    assert len(a_optimal(Changing(table, change), None, 20).rows) == 20


def test_steps_and_repr_show_the_design():
    frame = pl.DataFrame({"id": ["p", "q", "r"], "a": [2, 0, 1], "b": [0, 1, 1]})
    found = a_optimal(frame, ["a", "b"], 2, key="id")
    assert found.steps.columns == ["step", "row", "key", "gain", "value"]
    assert found.steps.select("step", "row", "key").rows() == [(1, 0, "p"), (2, 1, "q")]
    assert repr(found) == "Design(2 rows, 2 columns, value 1.3; 0 rows skipped)"
    assert a_optimal(frame, ["a", "b"], 2).steps.columns == ["step", "row", "gain", "value"]


def survey(rng, rows=600):
    """Return a table with segments, a text key, columns of several types and gaps."""
    emb = rng.standard_normal((rows, 2))
    return pl.DataFrame(
        {
            "id": [f"r{row:04}" for row in range(rows)],
            "segment": rng.integers(0, 5, rows),
            "age": pl.Series(rng.integers(1, 9, rows), dtype=pl.Int16),
            "member": rng.random(rows) < 0.5,
            "score": pl.Series(np.where(rng.random(rows) < 0.1, np.nan, rng.random(rows))),
            "emb": pl.Series(emb, dtype=pl.Array(pl.Float64, 2)),
        }
    )


COLUMNS = ["age", "member", "score", "emb"]
ROW = "{'age': age, 'member': member, 'score': score, 'emb': emb}"
OPTIONS = {"beta2": 0.5, "sigma2": 2.0, "scale_rows": True}


def by_segment(frame, k, **options):
    """Return the keys that the Python call chooses in each segment."""
    return {
        segment: a_optimal(part, COLUMNS, k, key="id", **options).keys
        for (segment,), part in frame.group_by("segment")
    }


@pytest.mark.parametrize("options", [{}, OPTIONS])
def test_every_client_chooses_the_rows_of_the_python_call(options):
    frame = survey(np.random.default_rng(20))
    given = "".join(f", {name} := {value}" for name, value in options.items())
    with duckdb.connect(config={"allow_unsigned_extensions": True}) as con:
        ((platform,),) = con.execute("PRAGMA platform").fetchall()
        con.execute(f"LOAD '{extension_path(platform)}'")
        con.register("survey", frame.to_arrow())
        call = f"dbselect.a_optimal(id, {ROW}, 7{given})"
        (found,) = con.execute(f"SELECT {call} FROM survey").fetchone()
        assert found == a_optimal(frame, COLUMNS, 7, key="id", **options).keys
        query = f"SELECT segment, {call} FROM survey GROUP BY segment"
        assert dict(con.execute(query).fetchall()) == by_segment(frame, 7, **options)
        with pytest.raises(duckdb.Error, match="candidates must be a LIST of STRUCT"):
            con.execute("SELECT dbselect_a_optimal([1], 1, NULL, NULL, NULL)").fetchall()
        query = "SELECT dbselect_a_optimal(NULL, 1, NULL, NULL, NULL)"
        assert con.execute(query).fetchall() == [(None,)]


def test_sql_gives_ties_to_the_lowest_key_and_keys_their_type(connection):
    connection.execute(
        "CREATE TABLE t AS SELECT * FROM (VALUES (30, 1), (10, 1), (20, 1), (5, 0)) v(id, x)"
    )
    query = "SELECT a_optimal({}, {{'x': x}}, 3) FROM t"
    assert connection.execute(query.format("id")).fetchone() == ([10, 20, 30],)
    assert connection.execute(query.format("'k' || id")).fetchone() == (["k10", "k20", "k30"],)
    (days,) = connection.execute(query.format("DATE '2020-01-01' + id::INT")).fetchone()
    assert [day.isoformat() for day in days] == ["2020-01-11", "2020-01-21", "2020-01-31"]


def test_sql_takes_what_there_is_of_small_and_empty_groups(connection):
    connection.execute(
        "CREATE TABLE t AS SELECT * FROM (VALUES (1, 1, 2), (1, 2, 3), (2, 3, NULL)) v(g, id, x)"
    )
    query = "SELECT g, a_optimal(id, {'x': x}, 5) FROM t GROUP BY g ORDER BY g"
    assert connection.execute(query).fetchall() == [(1, [2, 1]), (2, [])]
    query = "SELECT a_optimal(id, {'x': x}, 5) FROM t WHERE g > 5"
    assert connection.execute(query).fetchall() == [(None,)]
    query = "SELECT a_optimal(id, {'x': x}, 1, beta2 := NULL) FROM t WHERE g = 1"
    assert connection.execute(query).fetchall() == [([2],)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("id, {'x': x}, 0", "k is 0; it must be a whole number >= 1"),
        ("id, {'x': x}, NULL", "k is NULL"),
        ("id, {'x': x}, 1, beta2 := -1", "beta2 is -1; it must be a number > 0"),
        ("id, {'x': 'text'}, 1", "column 'x' has type"),
        ("id, x, 1", "row must be a STRUCT"),
        ("id, {'x': 'inf'::DOUBLE}, 1", "column 'x' has the value inf"),
    ],
)
def test_sql_mistakes_are_named(connection, arguments, message):
    connection.execute("CREATE TABLE t AS SELECT 1 AS id, 2 AS x")
    with pytest.raises(duckdb.Error, match=message):
        connection.execute(f"SELECT a_optimal({arguments}) FROM t").fetchall()


def ranks(height, rows):
    """Return the place of each row, as Polars gives it."""
    places = {row: place for place, row in enumerate(rows, start=1)}
    return [places.get(row) for row in range(height)]


@pytest.mark.parametrize("options", [{}, OPTIONS])
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_polars_ranks_the_rows_of_the_python_call(engine, options):
    frame = survey(np.random.default_rng(18))
    query = frame.lazy().with_columns(
        every=pl.struct(COLUMNS).dbselect.a_optimal(7, **options),
        segments=pl.struct(COLUMNS).dbselect.a_optimal(7, **options).over("segment"),
    )
    assert query.collect_schema()["every"] == pl.Int64
    found = query.collect(engine=engine)
    expected = a_optimal(frame, COLUMNS, 7, **options)
    assert found["every"].to_list() == ranks(frame.height, expected.rows)
    groups = found.filter(pl.col("segments") > 0).sort("segments").group_by("segment")
    assert {key: part["id"].to_list() for (key,), part in groups} == by_segment(frame, 7, **options)


def test_polars_takes_what_there_is():
    frame = pl.DataFrame({"x": [1, None, 2**100]}, schema={"x": pl.Int128})
    row = pl.struct("x").dbselect.a_optimal(5)
    assert frame.select(row)["x"].to_list() == [2, None, 1]
    assert frame.clear().select(row)["x"].to_list() == []
    nothing = frame.select(s=pl.struct("x")).select(pl.when(False).then("s").alias("s"))
    assert nothing.select(pl.col("s").dbselect.a_optimal(1))["s"].to_list() == [None] * 3


def test_polars_mistakes_are_named():
    frame = pl.DataFrame({"x": [1.0, 2.0], "s": ["a", "b"], "i": [1.0, np.inf]})
    with pytest.raises(ds.errors.ArgumentError, match="k is 0"):
        pl.struct("x").dbselect.a_optimal(0)
    for row, message in [
        (pl.col("x"), "a struct is needed"),
        (pl.struct("x", "s"), "column 's' has type"),
        (pl.struct("i"), "column 'i' has the value inf"),
    ]:
        with pytest.raises(ERRORS, match=message):
            frame.select(row.dbselect.a_optimal(1))


def test_sampled_sets_name_their_rows_by_key_and_follow_the_seed():
    X = paper_rows(np.random.default_rng(1), 40, 5)
    X[3, 2] = np.nan
    table = pl.DataFrame(X, schema=names(X)).with_columns(id=pl.format("r{}", pl.int_range(40)))
    first, again = (a_optimal(table, names(X), 4, key="id", method="dash", seed=3) for _ in "ab")
    assert first.keys == again.keys == [f"r{row}" for row in first.rows]
    assert 3 not in first.rows
    with pytest.raises(ds.errors.SourceError, match="method 'dash' holds all"):
        a_optimal(table, names(X), 4, method="dash", memory_limit=2000)

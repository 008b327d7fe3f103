"""Groups within a limit of memory: in parts of the keys, to a file, or with an error."""

import subprocess
import sys

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dbselect as ds

COLUMNS = ["a", "b"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(3)
    n = 20_000
    numbers = {name: rng.integers(0, 100, n).astype(float) for name in COLUMNS}
    return pl.DataFrame(
        {"k": rng.integers(0, 9_000, n), "t": rng.choice(["u", None], n).tolist(), **numbers}
    )


def unnested(records):
    return records.select(pl.exclude("gram"), pl.col("gram").struct.unnest())


@pytest.mark.parametrize("by", [["k"], ["t", "k"]])
def test_parts_of_the_keys_are_all_keys(table, tmp_path, by):
    whole = ds.gram_by(table, by, COLUMNS)
    out = tmp_path / "grams.parquet"
    with pytest.warns(ds.errors.MemoryWarning, match="memory_limit is 4.0 MB: the table is read"):
        keys = ds.gram_by(table, by, COLUMNS, memory_limit="4 MB", out=out)
    written = pl.read_parquet(out)
    assert_frame_equal(unnested(written.sort(by, nulls_last=True)), unnested(whole))
    rows = written["gram"].struct.field("rows").alias("rows")
    assert_frame_equal(keys.drop("skipped"), written.select(*by, rows))
    assert [path.name for path in tmp_path.iterdir()] == ["grams.parquet"]


def test_records_that_fit_come_back_sorted(table, tmp_path):
    whole = ds.gram_by(table, ["k"], COLUMNS)
    with pytest.warns(ds.errors.MemoryWarning, match=r"the table is read \d times"):
        parts = ds.gram_by(table, ["k"], COLUMNS, memory_limit=5_000_000)
    assert_frame_equal(unnested(parts), unnested(whole))
    assert_frame_equal(
        unnested(ds.gram_by(table, "k", COLUMNS, memory_limit="1GiB")), unnested(whole)
    )


def test_what_cannot_be_kept_within_a_limit_is_refused(table, tmp_path):
    out = tmp_path / "grams.parquet"
    for limit in ("four", 0, "-1GB", True, "4 apples"):
        with pytest.raises(ds.errors.ArgumentError, match=r"memory_limit is .*'4GB'"):
            ds.gram_by(table, ["k"], COLUMNS, memory_limit=limit)
    with pytest.raises(ds.errors.ArgumentError, match=r"give out='grams.parquet'"):
        ds.gram_by(table, ["k"], COLUMNS, memory_limit="1MB")
    for wrong, why in (
        (tmp_path / "grams.csv", "records are written as Parquet"),
        (tmp_path / "none" / "grams.parquet", "it must be a file in a folder that exists"),
        (5, "out is 5; it must be a file"),
    ):
        with pytest.raises(ds.errors.ArgumentError, match=why):
            ds.gram_by(table, ["k"], COLUMNS, out=wrong)
    stream = table.to_arrow().to_reader()
    for source, policy, limit, why in (
        (stream, "skip", "1GB", "can be read more than once, and source is a stream"),
        (table, "indicator", "4MB", "depend on all groups"),
    ):
        with pytest.raises(ds.errors.ArgumentError, match=why):
            ds.gram_by(source, ["k"], COLUMNS, null_policy=policy, memory_limit=limit, out=out)
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::dbselect.errors.MemoryWarning")
@pytest.mark.parametrize("limit", ["5MB", "1GB"])
@pytest.mark.parametrize("kind", ["relation", "Arrow", "pandas", "dictionary"])
def test_every_table_that_is_there_again_is_read_within_a_limit(table, kind, limit):
    by, arrow = "k", table.to_arrow()
    with duckdb.connect() as con:
        source = {
            "relation": lambda: con.from_arrow(arrow),
            "Arrow": lambda: arrow,
            "pandas": table.to_pandas,
            "dictionary": lambda: table.cast({"k": pl.String}).cast({"k": pl.Categorical}),
        }[kind]()
        found = ds.gram_by(source, by, COLUMNS, memory_limit=limit)
        whole = ds.gram_by(source, by, COLUMNS)
    order = pl.col(by).cast(pl.String)
    assert_frame_equal(unnested(found.sort(order)), unnested(whole.sort(order)))


def test_folds_and_indicators_that_fit_are_read_at_once(table):
    for options in ({"fold": 3}, {"by": "k", "null_policy": "indicator"}):
        whole = ds.gram_by(table, columns=COLUMNS, **options)
        assert_frame_equal(
            unnested(ds.gram_by(table, columns=COLUMNS, memory_limit="1GB", **options)),
            unnested(whole),
        )


@pytest.mark.parametrize("function", ["gram", "gram_missing", "gram_merge"])
def test_a_query_beyond_the_limit_of_its_groups_ends_with_an_error(function):
    with ds.connect() as con:
        con.execute("CREATE TABLE t AS SELECT range AS k, range % 7 AS x FROM range(60000)")
        con.execute("CREATE TABLE g AS SELECT k, gram({'x': x}) AS gram FROM t GROUP BY k")
        row, rows = ("gram", "g") if function == "gram_merge" else ("{'x': x}", "t")
        query = f"SELECT count({function}({row})) FROM {rows} GROUP BY k"
        ((before,),) = con.execute("SELECT dbselect.memory_limit()").fetchall()
        try:
            assert con.execute("SELECT dbselect.memory_limit('2MB')").fetchall() == [("2 MB",)]
            with pytest.raises(duckdb.Error, match="dbselect's limit of 2 MB; sum a part"):
                con.execute(query.replace("count", "")).fetchall()
            assert con.execute("SELECT count(*) FROM t").fetchall() == [(60000,)]
            assert con.execute("SELECT (gram({'x': x})).rows FROM t").fetchall() == [(60000,)]
        finally:
            con.execute("SELECT dbselect.memory_limit(?)", [before])
        with pytest.raises(duckdb.Error, match="limit is 'much'; it must be bytes"):
            con.execute("SELECT dbselect.memory_limit('much')")


AFTER_LOAD = """
import dbselect as ds

con = ds.connect()
con.execute("SET memory_limit = '300MB'")
grams = "SELECT dbselect.gram({'x': range}) AS g FROM range(%d) GROUP BY range"
query = f"SELECT count(g) FROM ({grams})"
con.execute(query % 9).fetchall()
print(con.execute("SELECT dbselect.memory_limit()").fetchone()[0])
try:
    con.execute(query % 2_000_000).fetchall()
except Exception as error:
    print(error)
"""


@pytest.mark.system
def test_a_limit_of_duckdb_that_is_set_after_the_extension_is_loaded_holds():
    done = subprocess.run(
        [sys.executable, "-c", AFTER_LOAD], capture_output=True, text=True, check=False
    )
    limit, error = done.stdout.split("\n", 1)
    assert limit == "150 MB", done
    assert "more than dbselect's limit of 150 MB" in error


UNDER_ULIMIT = """
import resource
import numpy as np, polars as pl
resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000,) * 2)
import dbselect as ds
keys = np.random.default_rng(0).permutation(200_000) % 100_000
frame = pl.DataFrame(np.ones((200_000, 10)), [f"x{j}" for j in range(10)])
found = ds.gram_by(frame.with_columns(k=pl.Series(keys)), by="k", memory_limit="500MB")
assert found.height == 100_000 and found["gram"].struct.field("rows").sum() == 200_000
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v limits nothing elsewhere")
def test_two_gigabytes_of_addresses_suffice_for_a_limit_of_half_a_gigabyte():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", UNDER_ULIMIT],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]

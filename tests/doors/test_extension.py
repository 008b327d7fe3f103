"""The compiled library: placed once, loaded by many, small, self-contained and without leaks."""

import ctypes
import gc
import os
import shutil
import subprocess
import sys
import time

import duckdb
import numpy as np
import polars as pl
import psutil
import pyarrow as pa
import pytest

import dbselect as ds
from dbselect._native import library_path
from dbselect.doors.extension import FILE_NAME, extension_path

#: The variable that moves the cache folder.
CACHE = "WIN_PD_OVERRIDE_LOCAL_APPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME"

#: Loads the library as a DuckDB of some version would, whose table has its version alone.
LOAD_AS = """
import ctypes, sys
version = ctypes.CFUNCTYPE(ctypes.c_char_p)(lambda: sys.argv[1].encode())
table = (ctypes.c_void_p * 404)()
table[7] = ctypes.cast(version, ctypes.c_void_p).value
told = []
class Access(ctypes.Structure):
    _fields_ = [
        ("set_error", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)),
        ("get_database", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)),
        ("get_api", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)),
    ]
access = Access(
    Access._fields_[0][1](lambda info, message: told.append(message.decode())),
    Access._fields_[1][1](lambda info: None),
    Access._fields_[2][1](lambda info, version: ctypes.addressof(table)),
)
enter = ctypes.CDLL(sys.argv[2]).dbselect_init_c_api
enter.restype = ctypes.c_bool
print(enter(None, ctypes.byref(access)), *told)
"""

COUNT_ROWS = """
import dbselect as ds
with ds.connect() as con:
    print(con.execute("SELECT gram({'x': i}).rows FROM range(7) t(i)").fetchall())
"""


def start(script, cache):
    environment = {**os.environ, CACHE: str(cache)}
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.system
def test_a_duckdb_that_breaks_the_api_is_refused_when_it_loads():
    command = [sys.executable, "-c", LOAD_AS, "v1.2.2", str(library_path())]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told == "False this is DuckDB v1.2.2; dbselect needs DuckDB 1.3 or newer\n"


@pytest.mark.slow
def test_processes_that_start_at_once_share_one_extension(tmp_path):
    started = [start(COUNT_ROWS, tmp_path) for _ in range(4)]
    ended = [process.communicate() for process in started]
    assert ended == [("[(7,)]\n", "")] * 4
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files] == [FILE_NAME]
    assert files[0].read_bytes().startswith(library_path().read_bytes())


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(CACHE, str(tmp_path))
    return tmp_path


def test_the_extension_is_written_once(cache):
    path = extension_path("some_platform")
    assert path.is_relative_to(cache)
    written = path.stat()
    assert extension_path("some_platform") == path
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (written.st_ino, written.st_mtime_ns)


def test_half_a_file_is_replaced(cache):
    path = extension_path("some_platform")
    whole = path.read_bytes()
    path.write_bytes(whole[:1000])
    assert extension_path("some_platform").read_bytes() == whole


@pytest.mark.parametrize("how", ["one byte", "a link", "a link to nothing"])
def test_what_was_planted_is_not_loaded(cache, how):
    path = extension_path("some_platform")
    whole = path.read_bytes()
    planted = whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:]
    if how == "one byte":
        path.write_bytes(planted)
    else:
        path.unlink()
        path.symlink_to(cache / "elsewhere")
    if how == "a link":
        (cache / "elsewhere").write_bytes(planted)
    assert extension_path("some_platform").read_bytes() == whole
    assert not path.is_symlink()
    if how == "a link":
        assert (cache / "elsewhere").read_bytes() == planted


def test_builds_of_long_ago_are_removed(cache):
    kept = extension_path("some_platform").parent
    now = time.time()
    names = [f"0.{n}.0-{n:012x}" for n in range(12)]
    for age, name in enumerate(names):
        (kept.parent / name).mkdir()
        (kept.parent / name / FILE_NAME).write_bytes(b"old")
        os.utime(kept.parent / name, (now - age * 86_400,) * 2)
    others = [kept.parent / name for name in ("target", "0.1.0-mine", "notes.txt")]
    others[0].mkdir()
    others[1].mkdir()
    others[2].touch()
    for other in others:
        os.utime(other, (0, 0))
    more = kept.parent / names[-1] / "not ours"
    more.touch()
    os.utime(more.parent, (0, 0))
    new = extension_path("another_platform").parent
    left = {path.name for path in kept.parent.iterdir()} - {other.name for other in others}
    # Those of the last week, and that which holds something else.
    assert left == {kept.name, new.name, *names[:7], names[-1]}
    assert all(other.exists() for other in others)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no modes")
def test_nobody_else_can_write_to_the_cache(cache):
    mask = os.umask(0)
    try:
        path = extension_path("some_platform")
    finally:
        os.umask(mask)
    for place in (path, path.parent, path.parent.parent):
        assert place.stat().st_mode & 0o077 == 0
    path.parent.chmod(0o777)
    extension_path("some_platform")
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="takes root")
def test_the_cache_of_another_user_is_refused(cache):
    path = extension_path("some_platform")
    for place in (path, path.parent, path.parent.parent):
        os.chown(place, 12345, -1)
        with pytest.raises(ds.errors.EngineError, match=r"belongs to user 12345.*XDG_CACHE_HOME"):
            extension_path("some_platform")
        os.chown(place, 0, -1)


def test_the_footer_names_the_platform_and_the_stable_api(cache):
    footer = extension_path("some_platform").read_bytes()[-512:]
    fields = [footer[i : i + 32].rstrip(b"\0").decode() for i in range(0, 256, 32)]
    release = fields[4]
    assert fields == ["", "", "", "C_STRUCT", release, "v1.2.0", "some_platform", "4"]
    assert release.startswith("v")
    assert footer[256:] == bytes(256)


def test_a_cache_that_cannot_be_written_is_an_engine_error(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("no folder")
    monkeypatch.setenv(CACHE, str(file))
    with duckdb.connect(config={"allow_unsigned_extensions": True}) as con:
        with pytest.raises(ds.errors.EngineError, match=r"cannot write.*file.*XDG_CACHE_HOME"):
            ds.register(con)
        assert con.execute("SELECT 42").fetchall() == [(42,)]


@pytest.mark.system
@pytest.mark.skipif(shutil.which("nm") is None, reason="there is no nm on this machine")
@pytest.mark.skipif(sys.platform != "linux", reason="nm -D reads ELF files")
def test_the_library_needs_no_python():
    command = ["nm", "-D", "--undefined-only", str(library_path())]
    symbols = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    names = [symbol for symbol in symbols if len(symbol) > 1]
    assert any(name.startswith("malloc") for name in names)
    assert [name for name in names if name.lstrip("_").startswith("Py")] == []


#: What the engines' own allocators and caches may come to hold: a few MB. 25 calls that
#: lose their states, records or batches of 1 to 5 MB lose more.
SLACK = 12 * 2**20


def resident():
    """Return the resident memory without what malloc keeps for later."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    return psutil.Process().memory_info().rss


def grown(work, warm_up, repeats):
    """Return the bytes by which the process has grown over repeated work.

    A leak shows in every round; what an allocator keeps back now and then does not.
    """
    for _ in range(warm_up):
        work()
    growths = []
    for _ in range(3):
        before = resident()
        for _ in range(repeats):
            work()
        growths.append(resident() - before)
    return min(growths)


FIELDS = "'a': i % 97, " + ", ".join(f"'c{j}': (i * {j + 3}) % 101" for j in range(14))


def in_duckdb(con, query):
    def work():
        con.execute(query).fetchall()

    return work


@pytest.mark.slow
@pytest.mark.parametrize(
    "query",
    [
        f"SELECT count(g.rows) FROM (SELECT gram({{{FIELDS}}}) AS g FROM range(40000) t(i) "
        "GROUP BY i % 2000)",
        f"SELECT gram_remove(gram_merge(g), any_value(g)).rows FROM (SELECT gram({{{FIELDS}}}) "
        "AS g FROM range(40000) t(i) GROUP BY i % 2000)",
        f"SELECT sum(len(anytime_sequence(g, 'a', max_groups := 1))) FROM (SELECT "
        f"gram({{{FIELDS}}}) AS g FROM range(4000) t(i) GROUP BY i % 40)",
        f"SELECT count(g) FROM (SELECT gram({{{FIELDS}}}) OVER (ORDER BY i ROWS 9 PRECEDING) AS g "
        "FROM range(2000) t(i))",
    ],
    ids=["gram", "merge and remove", "sequence", "window"],
)
def test_memory_stays_flat_over_repeated_queries(connection, query):
    assert grown(in_duckdb(connection, query), warm_up=8, repeats=25) < SLACK


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        f"gram({{{FIELDS}, 'z': if(i = 39999, 'inf'::DOUBLE, 0)}})",
        f"gram_remove(gram({{{FIELDS}}}) FILTER (i % 7 > 5), gram({{{FIELDS}}}))",
        f"gram_check(gram({{{FIELDS}}}), 'nobody')",
        "gram({'long blob that is no number': repeat('x', 100)::BLOB})",
    ],
    ids=["update", "scalar", "python", "type"],
)
def test_memory_stays_flat_over_failing_queries(connection, call):
    groups = f"SELECT {call} AS g FROM range(40000) t(i) GROUP BY i % 2000"

    def work():
        with pytest.raises(duckdb.Error):
            connection.execute(f"SELECT count(g) FROM ({groups})").fetchall()

    # On one thread: with several, DuckDB's allocator keeps more from run to run before it levels
    # off, and as much for its own list() and string_agg().
    connection.execute("SET threads = 1")
    try:
        assert grown(work, warm_up=8, repeats=25) < SLACK
    finally:
        connection.execute("RESET threads")


def wide(rng):
    x = rng.standard_normal((20_000, 30))
    names = [f"c{j}" for j in range(30)]
    return pl.DataFrame(x, schema=names).with_columns(
        k=pl.int_range(pl.len()) % 500, text=pl.lit("x")
    ), pl.struct(names)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gram", "merge", "predict", "lazy", "source"])
def test_memory_stays_flat_over_failing_polars_expressions(kind):
    frame, row = wide(np.random.default_rng(2))
    dirty = frame.with_columns(c29=pl.when(pl.col("k") == 499).then(np.inf).otherwise("c29"))
    grams = frame.group_by("k").agg(gram=row.dbselect.gram())
    other = frame.select(gram=pl.struct("c0").dbselect.gram())
    mixed = pl.concat([grams.select("gram"), other])
    work = {
        "gram": lambda: dirty.select(row.dbselect.gram()),
        "merge": lambda: mixed.select(pl.col("gram").dbselect.merge()),
        "predict": lambda: frame.select(
            pl.lit(None, dtype=pl.List(pl.Null)).dbselect.predict(pl.col("c0"))
        ),
        "lazy": lambda: dirty.lazy().dbselect.gram("c*").collect(),
        "source": lambda: ds.gram(dirty.to_arrow(), columns=["c*"]),
    }[kind]

    def fail():
        with pytest.raises((pl.exceptions.PolarsError, ds.DbselectError)):
            work()

    assert grown(fail, warm_up=8, repeats=25) < SLACK


@pytest.mark.slow
def test_memory_does_not_grow_with_the_length_of_a_stream():
    rng = np.random.default_rng(3)
    batch = pa.record_batch({f"c{j}": rng.standard_normal(50_000) for j in range(20)})

    def work():
        reader = pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(20)))
        assert ds.gram(reader).rows == 1_000_000

    # 20 batches of 8 MB pass through.
    assert grown(work, warm_up=1, repeats=3) < 2 * SLACK

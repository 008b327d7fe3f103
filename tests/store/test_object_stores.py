"""Tables and stores on an object store, on a local server of S3's protocol."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.sources.open import open_table

pytest.importorskip("obstore", reason="object stores are listed by obstore")
pytest.importorskip("moto.server", reason="moto serves the protocol of S3")
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore")]

TABLE = pl.DataFrame({"day": [1, 1, 2, 2], "x": [1.0, 2.0, 5.0, 7.0], "y": [1.0, 3.0, 1.0, 2.0]})
OTHER = TABLE.with_columns(day=pl.Series([3, 3, 3, 3]), x=pl.col("x") + 1)


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A thread would wait for the GIL, which deltalake holds while it waits for an answer.
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while running.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}"
    running.terminate()
    running.wait()


@pytest.fixture
def bucket(served, monkeypatch, request) -> str:
    import boto3

    for name, value in {
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": served, "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    name = f"bucket{abs(hash(request.node.name)) % 10**9}"
    boto3.client("s3", endpoint_url=served).create_bucket(Bucket=name)
    return f"s3://{name}"


def put(url: str, frame: pl.DataFrame | bytes) -> None:
    from io import BytesIO

    import obstore
    from obstore.store import from_url

    folder, _, name = url.rpartition("/")
    if isinstance(frame, pl.DataFrame):
        frame.write_parquet(file := BytesIO())
        frame = file.getvalue()
    obstore.put(from_url(folder), name, frame)


@pytest.fixture
def table(bucket) -> str:
    put(f"{bucket}/t/year=1/a.parquet", TABLE)
    put(f"{bucket}/t/year=2/b.parquet", OTHER)
    put(f"{bucket}/t/_temporary/0/c.parquet", TABLE)
    put(f"{bucket}/t/year=2/.staging/c.parquet", TABLE)
    put(f"{bucket}/t/year=2/_tmp.parquet", TABLE)
    put(f"{bucket}/t/_SUCCESS", b"")
    return f"{bucket}/t"


@pytest.mark.parametrize("pattern", ["", "/", "/**/*.parquet", "/*/*.parquet", "/year=*"])
def test_a_folder_and_a_glob_are_their_data(table, pattern):
    found = ds.gram(table + pattern)
    own = ds.gram(
        pl.concat([
            TABLE.with_columns(year=pl.lit(1)), OTHER.with_columns(year=pl.lit(2))
        ])
    )  # fmt: skip
    assert found.columns == own.columns
    assert found.mean.tolist() == own.mean.tolist()
    assert ds.gram(f"{table}/year=1/a.parquet").rows == 4
    assert ds.anytime_sequence(table + pattern, "y").gram.rows == 8
    with pytest.raises(ds.errors.SourceError, match="no file matches"):
        ds.gram(f"{table}/*.csv")
    with pytest.raises(ds.errors.SourceError, match="no file is at"):
        ds.gram(f"{table}/nowhere")


@pytest.mark.parametrize("place", ["folder", "s3", "s3 delta"])
def test_a_night_reads_what_is_new(table, bucket, tmp_path, place):
    where = {"folder": tmp_path / "s", "s3": f"{bucket}/s", "s3 delta": f"{bucket}/s.delta"}[place]
    store = ds.GramStore(where)
    assert store.refresh(table, by="day").added == ["year=1/a.parquet", "year=2/b.parquet"]
    put(f"{table}/year=2/b.parquet", OTHER.with_columns(pl.col("y") + 1))  # of equal size
    put(f"{table}/year=3/c.parquet", OTHER)
    done = ds.GramStore(where).refresh(f"{table}/**/*.parquet")
    assert (len(done.added), done.changed, done.unchanged) == (1, ["year=2/b.parquet"], 1)
    assert ds.GramStore(where).window(3, 3).rows == 8
    assert store.total().rows == 12


def test_small_files_are_read_side_by_side(bucket, tmp_path):
    frames = [OTHER.with_columns(pl.col("x") * n, k=pl.lit("uvw"[n % 3])) for n in range(40)]
    frames[7] = frames[7].clear()
    frames[8] = frames[8].drop("y")
    for n, frame in enumerate(frames):
        put(f"{bucket}/small/hour={n // 4}/of a day/{n}.parquet", frame)
        (here := tmp_path / "small" / f"hour={n // 4}" / "of a day").mkdir(
            parents=True, exist_ok=True
        )
        frame.write_parquet(here / f"{n}.parquet")
    put(f"{bucket}/small/hour=0/damaged.parquet", b"PAR1")
    (tmp_path / "small" / "hour=0" / "damaged.parquet").write_bytes(b"PAR1")
    stores = [ds.GramStore(tmp_path / name) for name in ("there", "here")]
    for store, source in zip(stores, (f"{bucket}/small", tmp_path / "small"), strict=True):
        done = store.refresh(source, by=["hour", "day"], on_error="skip")
        assert (len(done.added), [*done.skipped]) == (40, ["hour=0/damaged.parquet"])
    there, here = (store.show().drop("fingerprint") for store in stores)
    assert there.equals(here)
    assert stores[0].total().comoment.tolist() == stores[1].total().comoment.tolist()


@pytest.mark.parametrize("source", ["/t/**/*.parquet", "/t/year=1/a.parquet"])
def test_a_file_that_changes_between_two_passes_is_named(table, bucket, source):
    opened = open_table(f"{bucket}{source}", None)
    assert sum(batch.num_rows for batch in opened.batches(["x"])) in (4, 8)
    put(f"{table}/year=1/a.parquet", TABLE.with_columns(pl.col("y") * 2))
    with pytest.raises(ds.errors.SourceError, match=r"year=1/a\.parquet' has changed since"):
        opened.scan(["x"], print)
    batches = open_table(f"{bucket}{source}", None).batches(["x"])
    next(batches)
    put(f"{table}/year=1/a.parquet", TABLE)
    with pytest.raises(ds.errors.SourceError, match=r"a\.parquet' was written over while"):
        list(batches)


def test_a_delta_table_is_read_by_its_log(bucket, tmp_path):
    from deltalake import DeltaTable

    url = f"{bucket}/delta"
    TABLE.write_delta(url)
    TABLE.write_delta(url, mode="overwrite")
    OTHER.write_delta(url, mode="append")
    assert ds.gram(url).rows == ds.gram(DeltaTable(url)).rows == 8
    for path in (f"{url}/**/*.parquet", f"{url}/*.parquet", bucket, f"{bucket}/*"):
        with pytest.raises(ds.errors.SourceError, match=rf"files of the Delta table '{url}'"):
            ds.gram(path)
    store = ds.GramStore(tmp_path / "s")
    assert len(store.refresh(url, by="day").added) == 2
    OTHER.write_delta(url, mode="append")
    done = store.refresh(DeltaTable(url))
    assert (len(done.added), done.unchanged) == (1, 2)
    assert store.total().rows == 12


def test_of_two_writers_of_a_store_one_is_first(table, bucket):
    store = ds.GramStore(f"{bucket}/s")
    store.refresh(TABLE, by="day")
    failed, started = [], threading.Barrier(4)

    def refresh(at: int) -> None:
        started.wait()
        try:
            ds.GramStore(f"{bucket}/s").refresh(TABLE.with_columns(pl.col("x") + at))
        except ds.errors.BusyError:
            failed.append(at)

    threads = [threading.Thread(target=refresh, args=(at,)) for at in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(failed) < 4
    means = {at: ds.gram(TABLE.with_columns(pl.col("x") + at)).mean[1] for at in range(1, 5)}
    assert store.total().mean[0] in {means[at] for at in means if at not in failed}


def test_an_iceberg_table_is_read_by_its_manifests(bucket, served, tmp_path):
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    catalog = catalogs.SqlCatalog(
        "c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"{bucket}/lake",
        **{"s3.endpoint": served, "s3.access-key-id": "a", "s3.secret-access-key": "b",
           "s3.region": "us-east-1"},
    )  # fmt: skip
    _iceberg(catalog, tmp_path)


def test_an_iceberg_table_of_this_machine_is_read_by_its_manifests(tmp_path):
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    folder = tmp_path / "lake"
    folder.mkdir()
    catalog = catalogs.SqlCatalog("c", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(folder))
    _iceberg(catalog, tmp_path)


def _iceberg(catalog, tmp_path) -> None:
    catalog.create_namespace("n")
    rows = TABLE.to_arrow(compat_level=pl.CompatLevel.oldest())
    table = catalog.create_table("n.t", rows.schema)
    table.append(rows)
    table.overwrite(rows)
    table.append(OTHER.to_arrow(compat_level=pl.CompatLevel.oldest()))
    assert ds.gram(table).rows == ds.gram(table.metadata_location).rows == 8
    np.testing.assert_allclose(ds.gram(table.scan()).comoment, ds.gram(table).comoment, rtol=1e-12)
    least = ds.gram(table, ["x"]).mean[0]
    assert 0 < ds.gram(table.scan(row_filter=f"x > {least}"), ["x", "y"]).rows < 8
    root = table.location()
    for path in (f"{root}/data", f"{root}/data/*.parquet", f"{root}/**/*.parquet"):
        with pytest.raises(ds.errors.SourceError, match="files of the Iceberg table"):
            ds.gram(path)
    with pytest.raises(ds.errors.SourceError, match=r"catalog\.load_table"):
        ds.gram(root)
    store = ds.GramStore(tmp_path / "s")
    assert len(store.refresh(table, by="day").added) == 2
    with table.update_schema() as update:
        update.rename_column("x", "z")
    more = OTHER.rename({"x": "z"}).to_arrow(compat_level=pl.CompatLevel.oldest())
    table.append(more)
    done = ds.GramStore(tmp_path / "s2").refresh(table, by="day")
    assert len(done.added) == 3
    assert ds.GramStore(tmp_path / "s2").total().columns == ["z", "y"]

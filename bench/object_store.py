"""Small files on an object store: a server of S3's protocol that takes its time for an answer."""

import os
import socket
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from subprocess import DEVNULL, Popen
from typing import Any

import numpy as np
import polars as pl
from measure import once
from rows import Row

import dbselect as ds

FILES, ROWS, DELAY = 200, 20, 0.05
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
    "AWS_EC2_METADATA_DISABLED": "true",
}  # fmt: skip


def serve(port: int) -> None:
    """Answer by moto, each request after `DELAY`; ``/_count`` returns how many there were."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    app, counts = DomainDispatcherApplication(create_backend_app), Counter[str]()

    def answer(environ: dict[str, Any], start: Any) -> Any:
        if environ["PATH_INFO"] == "/_count":
            start("200 OK", [("content-type", "text/plain")])
            text = str(counts.total()).encode()
            counts.clear()
            return [text]
        counts[environ["REQUEST_METHOD"]] += 1
        if environ["REQUEST_METHOD"] != "PUT":
            time.sleep(DELAY)
        return app(environ, start)

    run_simple("127.0.0.1", port, answer, threaded=True)


@contextmanager
def served() -> Iterator[str]:
    """Run the server in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = Popen([sys.executable, __file__, str(port)], stdout=DEVNULL, stderr=DEVNULL)
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    os.environ.update(ENVIRONMENT | {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"})
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


def small_files() -> Iterator[Row]:
    """Refresh a store of small files, and read them into one Gram."""
    import boto3

    with served() as url, tempfile.TemporaryDirectory() as scratch:
        client = boto3.client("s3", endpoint_url=url)
        client.create_bucket(Bucket="bench")
        for n in range(FILES):
            values = np.random.default_rng(n).normal(size=(ROWS, 3))
            frame = pl.DataFrame(values, ["a", "b", "c"]).with_columns(day=n)
            frame.write_parquet(file := BytesIO())
            client.put_object(Bucket="bench", Key=f"t/{n // 10}/{n}.parquet", Body=file.getvalue())

        def requests() -> int:
            return int(urllib.request.urlopen(f"{url}/_count").read())

        requests()
        store = ds.GramStore(Path(scratch) / "stats")
        what = f"{FILES} files of {ROWS} rows on an object store, {DELAY * 1e3:.0f} ms an answer"
        one_by_one = FILES * DELAY
        for name, read in (
            ("first refresh", lambda: store.refresh("s3://bench/t", by="day")),
            ("nothing has changed", lambda: store.refresh("s3://bench/t")),
            ("ds.gram", lambda: ds.gram("s3://bench/t")),
        ):
            taken, _ = once(read)
            base = "an answer a file, one by one"
            yield Row(f"{what}: {name}", taken, one_by_one, base, note=f"{requests()} requests")


PARTS = (small_files,)

if __name__ == "__main__":
    serve(int(sys.argv[1]))

"""Databases for tests: SQLite in memory, and a PostgreSQL server of their own."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

#: The type of a column in either database.
TYPES: dict[Any, tuple[str, str]] = {
    pl.Float64: ("REAL", "double precision"),
    pl.Float32: ("REAL", "real"),
    pl.Int64: ("INTEGER", "bigint"),
    pl.Int32: ("INTEGER", "integer"),
    pl.Int16: ("INTEGER", "smallint"),
    pl.Boolean: ("BOOLEAN", "boolean"),
    pl.String: ("TEXT", "text"),
    pl.Date: ("DATE", "date"),
    pl.Datetime: ("TIMESTAMP", "timestamp"),
    pl.Decimal: ("REAL", "numeric(38, 9)"),
}


class Warehouse:
    """A database behind ibis.

    Parameters
    ----------
    connection : of ibis
    """

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.is_sqlite = connection.name == "sqlite"
        self._tables = 0

    def load(self, frame: pl.DataFrame, types: dict[str, str] | None = None) -> Any:
        """Write rows into a new table and return it as ibis has it."""
        self._tables += 1
        name = f"rows{self._tables}"
        columns = ", ".join(
            f'"{column}" {(types or {}).get(column) or self._type(dtype)}'
            for column, dtype in frame.schema.items()
        )
        holes = ", ".join(["?" if self.is_sqlite else "%s"] * frame.width)
        if self.is_sqlite:
            times = pl.selectors.temporal().cast(pl.String)
            frame = frame.with_columns(times, pl.selectors.decimal().cast(pl.Float64))
        cursor = self.connection.con.cursor()
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        cursor.executemany(f"INSERT INTO {name} VALUES ({holes})", frame.rows())
        self.connection.con.commit()
        return self.connection.table(name)

    def _type(self, dtype: pl.DataType) -> str:
        return TYPES[dtype.base_type()][0 if self.is_sqlite else 1]


def programs() -> Path:
    """Return where PostgreSQL's programs are; skip a test where there are none."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).resolve().parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = next((folder for folder in folders if (folder / "postgres").exists()), None)
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    return found


@contextmanager
def postgres_server() -> Iterator[str]:
    """Run a server on a socket in a temporary folder, and return the folder."""
    where = programs()
    # It refuses to run as root, who has other users to lend.
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="dbselect-") as folder:
        if user:
            shutil.chown(folder, user)
        data = f"{folder}/data"
        prepare = [where / "initdb", "-D", data, "-U", "dbselect", "-A", "trust", "--no-sync"]
        subprocess.run(
            [*prepare, "--encoding=UTF8", "--locale=C"],
            user=user,
            cwd=folder,
            check=True,
            capture_output=True,
        )
        options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "jit=off"]
        with Path(folder, "log").open("w") as log:
            server = subprocess.Popen(
                [where / "postgres", "-D", data, "-k", folder, *options],
                user=user,
                cwd=folder,
                stdout=log,
                stderr=log,
            )
        try:
            _wait_for(where, folder)
            yield folder
        finally:
            server.terminate()
            try:
                server.wait(5)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def _wait_for(where: Path, folder: str) -> None:
    for _ in range(200):
        asked = subprocess.run([where / "pg_isready", "-q", "-h", folder], check=False)
        if asked.returncode == 0:
            return
        time.sleep(0.05)
    raise RuntimeError(Path(folder, "log").read_text())


@contextmanager
def opened(name: str) -> Iterator[Warehouse]:
    """Open a database by the name of its engine."""
    ibis = pytest.importorskip("ibis")
    if name == "sqlite":
        connection = ibis.sqlite.connect()
        yield Warehouse(connection)
        connection.disconnect()
        return
    pytest.importorskip("psycopg")
    with postgres_server() as folder:
        connection = ibis.postgres.connect(host=folder, user="dbselect", database="postgres")
        yield Warehouse(connection)
        connection.disconnect()

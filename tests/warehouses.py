"""Databases for tests: SQLite in memory, and servers of PostgreSQL and MariaDB of their own."""

import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

#: The databases, and the type of a column in each.
NAMES = ("sqlite", "postgres", "mysql")
TYPES: dict[Any, tuple[str, str, str]] = {
    pl.Float64: ("REAL", "double precision", "double"),
    pl.Float32: ("REAL", "real", "float"),
    pl.Int64: ("INTEGER", "bigint", "bigint"),
    pl.Int32: ("INTEGER", "integer", "integer"),
    pl.Int16: ("INTEGER", "smallint", "smallint"),
    pl.Boolean: ("BOOLEAN", "boolean", "boolean"),
    pl.String: ("TEXT", "text", "varchar(99)"),
    pl.Date: ("DATE", "date", "date"),
    pl.Datetime: ("TIMESTAMP", "timestamp", "datetime(6)"),
    pl.Decimal: ("REAL", "numeric(38, 9)", "numeric(38, 9)"),
}
#: Fixture parameters: each database, those with a server of their own as system tests.
DATABASES = ["sqlite", *(pytest.param(name, marks=pytest.mark.system) for name in NAMES[1:])]


class Warehouse:
    """A database behind ibis.

    Parameters
    ----------
    connection : of ibis
    another : returns another connection, which commits each query
    """

    def __init__(self, connection: Any, another: Callable[[], Any] = sqlite3.connect) -> None:
        self.connection = connection
        self.another = another
        self.is_sqlite = connection.name == "sqlite"
        self._at = NAMES.index(connection.name)
        self._tables = 0

    def load(self, frame: pl.DataFrame, types: dict[str, str] | None = None) -> Any:
        """Write rows into a new table and return it as ibis has it."""
        self._tables += 1
        name = f"rows{self._tables}"
        mark = "`" if self.connection.name == "mysql" else '"'
        columns = ", ".join(
            f"{mark}{column}{mark} {(types or {}).get(column) or self._type(dtype)}"
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
        return TYPES[dtype.base_type()][self._at]


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
            _wait_for(server, [where / "pg_isready", "-q", "-h", folder], folder)
            yield folder
        finally:
            server.send_signal(signal.SIGINT)  # it ends connections that a test left open
            server.wait()


def _wait_for(server: subprocess.Popen[bytes], asking: list[Any], folder: str) -> None:
    """Wait until a server answers; RuntimeError if it has ended."""
    while server.poll() is None:
        if not subprocess.run(asking, check=False, capture_output=True).returncode:
            return
        time.sleep(0.05)
    raise RuntimeError(Path(folder, "log").read_text())


@contextmanager
def mariadb_server() -> Iterator[str]:
    """Run a server on a socket in a temporary folder, and return the socket."""
    if shutil.which("mariadbd") is None:
        pytest.skip("MariaDB is not installed")
    user = "nobody" if os.geteuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="dbselect-") as folder:
        if user:
            shutil.chown(folder, user)
        data, socket = f"--datadir={folder}/data", f"{folder}/socket"
        options: dict[str, Any] = {"user": user, "cwd": folder}
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", data, "--skip-test-db",
             "--auth-root-authentication-method=normal"],
            check=True, capture_output=True, **options,
        )  # fmt: skip
        with Path(folder, "log").open("w") as log:
            server = subprocess.Popen(
                ["mariadbd", "--no-defaults", data, f"--socket={socket}", "--skip-networking",
                 f"--pid-file={folder}/pid"],
                stdout=log, stderr=log, **options,
            )  # fmt: skip
        try:
            ping = ["mariadb-admin", "--no-defaults", "-uroot", f"--socket={socket}", "ping"]
            _wait_for(server, ping, folder)
            yield socket
        finally:
            server.kill()
            server.wait()


@contextmanager
def opened(name: str) -> Iterator[Warehouse]:
    """Open a database by the name of its engine."""
    ibis = pytest.importorskip("ibis")
    if name == "sqlite":
        connection = ibis.sqlite.connect()
        yield Warehouse(connection)
        connection.disconnect()
        return
    if name == "mysql":
        mysql = pytest.importorskip("MySQLdb")
        with mariadb_server() as socket:
            own = {"unix_socket": socket, "user": "root", "charset": "utf8mb4"}
            mysql.connect(**own).query("CREATE DATABASE tests")
            own |= {"database": "tests", "autocommit": True}
            with warnings.catch_warnings(action="ignore"):  # of a server without time zones
                connection = ibis.mysql.from_connection(mysql.connect(**own))
            yield Warehouse(connection, partial(mysql.connect, **own))
            connection.disconnect()
        return
    psycopg = pytest.importorskip("psycopg")
    with postgres_server() as folder:
        connection = ibis.postgres.connect(host=folder, user="dbselect", database="postgres")
        own = {"host": folder, "user": "dbselect", "dbname": "postgres", "autocommit": True}
        yield Warehouse(connection, partial(psycopg.connect, **own))
        connection.disconnect()

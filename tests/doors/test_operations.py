"""What a job that runs the library goes by: exit codes, and the logger ``dbselect``."""

import errno
import json
import logging
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
import pytest

import dbselect as ds
from dbselect import _log
from dbselect.doors.cli import main
from dbselect.doors.cli.out import exit_code

TABLE = pl.DataFrame({"day": [1, 1, 2], "x": [1.0, 2.0, 4.0], "y": [1.0, 3.0, 8.0]})


@pytest.fixture
def table(tmp_path):
    TABLE.write_parquet(tmp_path / "table.parquet")
    return str(tmp_path / "table.parquet")


def test_a_full_disk_is_no_mistake_of_the_user(table, tmp_path, monkeypatch, capsys):
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert main(["gram", table, "--out", str(tmp_path / "g.parquet")]) == 74
    assert "No space left on device" in capsys.readouterr().err
    assert main(["store", "refresh", str(tmp_path / "stats"), table, "--by", "day"]) == 74


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, 74), (errno.EIO, 74), (errno.EACCES, 77), (errno.EROFS, 77), (errno.ENOENT, 2)],
)
def test_what_led_to_an_error_decides_its_code(number, code):
    error = ds.errors.SourceError("cannot write")
    error.__context__ = OSError(number, os.strerror(number))
    assert exit_code(error) == code
    # Engines have only the words of the system.
    assert exit_code(RuntimeError(f"IO Error: {os.strerror(number)}")) == code
    assert exit_code(ds.errors.ArgumentError("budget is -1")) == 2


#: Runs a command as a user who may not read or write what is root's.
OTHER = """
import os
import sys
from dbselect.doors.cli import main
import pyarrow.parquet  # the other user may not read where it lies
main(["gram", sys.argv[1], "--out", "-"])
if os.geteuid() == 0:
    os.seteuid(65534)
sys.exit(main(["gram", sys.argv[1], "--out", sys.argv[2]]))
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="users of Unix")
def test_missing_rights_have_an_exit_code_of_their_own():
    with tempfile.TemporaryDirectory() as made:
        TABLE.write_parquet(f"{made}/table.parquet")
        Path(made).chmod(0o555)
        command = [sys.executable, "-c", OTHER, f"{made}/table.parquet", f"{made}/g.parquet"]
        told = subprocess.run(command, check=False, capture_output=True, text=True)
        Path(made).chmod(0o755)
    assert (told.returncode, told.stderr.count("\n")) == (77, 1), told.stderr
    assert "Permission denied" in told.stderr


def test_long_work_has_a_line_in_the_log(tmp_path, table, monkeypatch, caplog):
    monkeypatch.setattr(_log, "PAUSE", 0.0)
    with caplog.at_level(logging.INFO, "dbselect"):
        ds.GramStore(tmp_path / "stats").refresh(table, by="day")
    facts = [one.dbselect for one in caplog.records if hasattr(one, "dbselect")]
    assert [one for one in facts if one["unit"] == "parts"][-1]["done"] == 1
    line = _log.JsonFormatter().format(caplog.records[-1])
    assert {"time", "level", "logger", "message"} <= {*json.loads(line)}
    assert json.loads(line)["logger"] == "dbselect"


def test_the_library_prints_nothing(tmp_path, table, monkeypatch, capsys):
    monkeypatch.setattr(_log, "PAUSE", 0.0)
    ds.anytime_sequence(table, "y")
    ds.GramStore(tmp_path / "stats").refresh(table, by="day")
    assert capsys.readouterr() == ("", "")


def test_the_command_line_logs_on_request(table, monkeypatch, capsys):
    monkeypatch.setattr(_log, "PAUSE", 0.0)
    monkeypatch.setattr(_log.log, "handlers", _log.log.handlers[:])
    assert main(["--log", "json", "anytime_sequence", table, "--target", "y"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert {json.loads(line)["work"] for line in lines} >= {"reading"}

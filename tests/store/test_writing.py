"""Files that are written: whole or not at all, at the end of links, with the mode they had."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.record.files import replacing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes, links and modes of Unix")

TABLE = pl.DataFrame({"x": [1.0, 2.0, 4.0, 3.0], "y": [1.0, 3.0, 8.0, 6.0], "k": list("abab")})


def by_command(command: str, *options: str):
    def write(path: Path) -> None:
        table = path.parent / "table.parquet"
        TABLE.select("x", "y").write_parquet(table)
        if main([command, str(table), *options, "--out", str(path)]):
            raise ds.errors.SourceError("exit code 2")

    return write


GRAM = ds.gram(TABLE)
SEQUENCE = ds.anytime_sequence(GRAM, "y")
WRITERS = {
    "Gram JSON": GRAM.write_json,
    "Gram Parquet": GRAM.write_parquet,
    "Terms": GRAM.terms.write_json,
    "sequence JSON": SEQUENCE.write_json,
    "sequence Parquet": SEQUENCE.write_parquet,
    "gram --out": by_command("gram"),
    "sequence --out": by_command("sequence", "--target", "y"),
}
every_writer = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@every_writer
def test_a_pipe_is_not_replaced(write, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ds.errors.SourceError):
        write(path)
    assert stat.S_ISFIFO(path.stat().st_mode)


def test_the_command_says_what_is_in_the_way_before_it_reads(capsys):
    command = ["gram", "no such file", "--out", os.devnull]
    assert main(command) == 2
    assert f"'{os.devnull}' is a device, which is not replaced" in capsys.readouterr().err
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="there is no device")
def test_a_device_and_a_folder_are_not_replaced(tmp_path):
    # A link to the device: were it replaced after all, only the link would be lost.
    (tmp_path / "link").symlink_to("/dev/null")
    with pytest.raises(ds.errors.SourceError, match="is a device"):
        GRAM.write_json(tmp_path / "link")
    with pytest.raises(ds.errors.SourceError, match="is a folder"):
        GRAM.write_json(tmp_path)


@every_writer
def test_a_link_stays_one(write, tmp_path):
    (tmp_path / "data").mkdir()
    target = tmp_path / "data" / "file"
    target.write_text("old")
    for name, leads_to in [("one", Path("data") / "file"), ("two", "one")]:
        (tmp_path / name).symlink_to(leads_to)
    write(tmp_path / "two")
    assert (tmp_path / "two").is_symlink()
    assert (tmp_path / "one").is_symlink()
    assert target.read_bytes()[:3] != b"old"
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["file"]


def test_a_link_to_nothing_is_followed(tmp_path):
    (tmp_path / "link").symlink_to("file")
    GRAM.write_json(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert ds.Gram.read_json(tmp_path / "file").rows == 4


@every_writer
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_the_mode_stays(write, mode, tmp_path):
    path = tmp_path / "file"
    path.touch()
    path.chmod(mode)
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_new_file_has_the_mode_of_the_process(tmp_path):
    mask = os.umask(0o027)
    try:
        GRAM.write_parquet(tmp_path / "file")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


@every_writer
def test_files_and_their_names_reach_the_disk(write, tmp_path, monkeypatch):
    synced = []

    def fsync(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)

    monkeypatch.setattr(os, "fsync", fsync)
    write(tmp_path / "file")
    assert synced == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]


def test_a_long_name_can_be_written(tmp_path):
    path = tmp_path / ("n" * 255)
    GRAM.write_json(path)
    assert ds.Gram.read_json(path).rows == 4


#: Writes without end, and says when it has begun.
WRITING = """
import sys
from dbselect.record.files import replacing
with replacing(sys.argv[1]) as temporary:
    temporary.write_text("half")
    print("writing", flush=True)
    sys.stdin.read()
"""


def writing(path: Path) -> subprocess.Popen:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    return process


@pytest.mark.system
def test_what_a_killed_writer_leaves_is_cleared_by_the_next(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with writing(path) as process:
        process.send_signal(signal.SIGKILL)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    GRAM.write_json(path)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.system
def test_writers_leave_each_other_alone(tmp_path):
    path = tmp_path / "file"
    with writing(path):
        with replacing(path) as temporary:
            temporary.write_text("whole")
        assert path.read_text() == "whole"
    assert path.read_text() == "half"
    assert list(tmp_path.iterdir()) == [path]


@every_writer
def test_a_failing_writer_leaves_the_old_file(write, tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises((OSError, ds.errors.SourceError)):
        write(path)
    assert path.read_text() == "old"
    assert {one.name for one in tmp_path.iterdir()} <= {"file", "table.parquet"}

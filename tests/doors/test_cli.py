"""The command line: tables, exit codes and one sentence for a mistake."""

import json

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dbselect as ds
from dbselect.doors import extension
from dbselect.doors.cli import main
from dbselect.doors.extension import extension_path, lasting_path


@pytest.fixture
def files(tmp_path):
    """Return a folder with a table, its groups and their costs."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    table = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": x @ [1.0, 2.0, 0.5], "s": ["t"] * 200}
    pl.DataFrame(table).write_parquet(tmp_path / "t.parquet")
    (tmp_path / "groups.json").write_text(json.dumps({"ab": ["a", "b"], "c": ["c"]}))
    (tmp_path / "costs.json").write_text(json.dumps({"ab": 2, "c": 1}))
    return tmp_path


def test_sequence_prints_and_writes_the_steps_of_python(files, capsys):
    arguments = ["sequence", f"{files}/t.parquet", "--target", "y", "--rule", "omp"]
    arguments += ["--groups", f"{files}/groups.json", "--costs", f"{files}/costs.json"]
    assert main([*arguments, "--out", f"{files}/steps.parquet"]) == 0
    printed = capsys.readouterr().out
    assert "ab" in printed
    assert "every group is in the sequence" in printed
    expected = ds.anytime_sequence(
        files / "t.parquet", "y", {"ab": ["a", "b"], "c": ["c"]}, {"ab": 2, "c": 1}, rule="omp"
    )
    found = ds.results.Sequence.read_parquet(files / "steps.parquet").steps
    assert_frame_equal(found, expected.steps, rel_tol=1e-12)


def test_a_stored_gram_gives_the_same_sequence(files, capsys):
    gram = f"{files}/g.parquet"
    assert main(["gram", f"{files}/t.parquet", "--out", gram, "--columns", "y", "a", "b"]) == 0
    assert "3 columns, 200 rows, 0 skipped" in capsys.readouterr().out
    assert main(["sequence", gram, "--target", "y", "--budget", "1"]) == 0
    assert "no other group fits the budget" in capsys.readouterr().out
    direct = ds.anytime_sequence(ds.Gram.read_parquet(gram), "y")
    assert ds.anytime_sequence(gram, "y").steps.equals(direct.steps)
    assert ds.anytime_sequence(pl.read_parquet(gram), "y").steps.equals(direct.steps)


def test_columns_outside_the_groups_are_named(files, capsys):
    arguments = ["sequence", f"{files}/t.parquet", "--target", "y"]
    (files / "groups.json").write_text(json.dumps({"a": ["a"]}))
    assert main([*arguments, "--groups", f"{files}/groups.json"]) == 0
    assert "In no group: b, c, s." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["t.parquet", "--target", "z"], "unknown column 'z'"),
        (["none.parquet", "--target", "y"], "no file is at"),
        (["none*.parquet", "--target", "y"], "no file matches"),
        (["costs.json", "--target", "y"], "'costs.json' is no Gram"),
        (["t.parquet", "--target", "y", "--groups", "t.parquet"], "is not JSON"),
        (
            ["t.parquet", "--target", "y", "--groups", "no.json"],
            "--groups is 'no.json'; it must be",
        ),
        (["t.parquet", "--target", "y", "--costs", "."], "--costs is '.'; it must be a JSON file"),
        (["t.parquet", "--target", "y", "--ridge", "-1"], "ridge is -1.0"),
        (["t.parquet", "--target", "y", "--out", "no/where.parquet"], "folder does not exist"),
    ],
)
def test_a_mistake_gives_code_2_and_one_sentence(files, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(files)
    assert main(["sequence", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.startswith("dbselect: ")
    assert error.count("\n") == 1


def test_the_extension_is_where_it_says_and_loads(tmp_path, capsys):
    assert main(["extension", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    path = tmp_path / "dbselect.duckdb_extension"
    assert str(path) in printed
    for client in ("Installed", "Command line", "Node", "JDBC", "R", "Python"):
        assert client in printed
    assert f"FORCE INSTALL '{path}';" in printed
    (line,) = {line.strip() for line in printed.splitlines() if line.strip().startswith("LOAD '")}
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as con:
        con.execute(line)
        ((record,),) = con.execute("SELECT gram({'x': i}) FROM range(4) t(i)").fetchall()
    assert (record["rows"], record["mean"]) == (4, [1.5])


def test_the_extension_keeps_its_path_when_dbselect_is_upgraded(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(extension, "user_cache_path", lambda _: tmp_path)
    first = lasting_path("linux_amd64_gcc4")
    assert first.read_bytes() == extension_path("linux_amd64_gcc4").read_bytes()
    monkeypatch.setattr(extension, "version", lambda _: "9.9.9")
    assert lasting_path("linux_amd64_gcc4") == first
    assert b"v9.9.9" in first.read_bytes()[-512:]
    assert main(["extension", "--platform", "linux_amd64_gcc4"]) == 0
    assert f"LOAD '{first}';" in capsys.readouterr().out


def test_an_extension_of_another_name_is_refused(tmp_path, capsys):
    assert main(["extension", "--out", str(tmp_path / "mine.ext")]) == 2
    assert "must be called dbselect.duckdb_extension" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("platform", ["osx_arm64", "windows_amd64", "linux_amd65"])
def test_the_extension_of_another_system_is_refused(tmp_path, capsys, platform):
    assert main(["extension", "--platform", platform, "--out", str(tmp_path)]) == 2
    assert f"--platform is '{platform}', and the library" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_extension_of_another_platform_says_so(tmp_path, capsys):
    assert main(["extension", "--platform", "linux_amd64_gcc4", "--out", str(tmp_path)]) == 0
    assert "for linux_amd64_gcc4" in capsys.readouterr().out
    assert b"linux_amd64_gcc4" in (tmp_path / "dbselect.duckdb_extension").read_bytes()[-512:]

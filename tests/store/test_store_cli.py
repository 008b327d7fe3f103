"""``dbselect store``: what it prints, and the exit codes that a cron job goes by."""

import polars as pl
import pytest

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.store.database import DatabaseFile


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = [1.0, 2.0, 4.0, 4.5]
    frame = pl.DataFrame(
        {"day": [1, 1, 1, 1, 2, 2, 2, 2], "x": x * 2, "y": [2.0, 1.0, 5.0, 4.0] * 2}
    )
    for (day,), part in frame.partition_by("day", as_dict=True).items():
        part.write_parquet(f"{day}.parquet")
    return frame


@pytest.fixture(params=["stats.duckdb", "stats"])
def store(request, table, capsys):
    assert main(["store", "refresh", request.param, "*.parquet", "--by", "day"]) == 0
    assert capsys.readouterr().out == "2 parts added, 0 changed, 0 dropped, 0 unchanged\n"
    return request.param


def test_a_second_refresh_reads_nothing(store, capsys):
    assert main(["store", "refresh", store, "*.parquet"]) == 0
    assert capsys.readouterr().out == "0 parts added, 0 changed, 0 dropped, 2 unchanged\n"


def test_show_counts_and_writes(store, capsys):
    assert main(["store", "show", store, "--out", "records.parquet"]) == 0
    printed = capsys.readouterr().out
    assert "2 records, 2 parts, 8 rows, 0 skipped" in printed
    assert "version 1, 1 to 2, 2 records: x, y" in printed
    assert pl.read_parquet("records.parquet")["rows"].to_list() == [4, 4]


def test_a_window_is_written_and_read(store, table, capsys):
    assert main(["store", "window", store, "--first", "2", "--out", "w.parquet"]) == 0
    assert "2 columns, 4 rows" in capsys.readouterr().out
    wanted = ds.gram(table.filter(pl.col("day") == 2).drop("day"))
    assert ds.Gram.read_parquet("w.parquet").comoment.tolist() == wanted.comoment.tolist()
    assert main(["sequence", "w.parquet", "--target", "y"]) == 0


def test_a_sequence_of_a_window(store, capsys):
    arguments = ["store", "sequence", store, "--target", "y", "--last", "1", "--out", "s.parquet"]
    assert main(arguments) == 0
    assert "every group is in the sequence." in capsys.readouterr().out
    assert ds.results.Sequence.read_parquet("s.parquet").steps["group"].to_list() == [None, "x"]


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["refresh", "STORE", "nowhere"], "no file is at 'nowhere'"),
        (["refresh", "STORE", "*.parquet", "--by", "x"], "by is ['x'], but the store was made"),
        (["refresh", "other", "*.parquet"], "by is missing"),
        (["refresh", "other", "*.parquet", "--by", "dai"], "unknown column 'dai'"),
        (["show", "other"], "is empty; refresh it first"),
        (["window", "STORE", "--first", "a", "--out", "w.parquet"], "--first is 'a'"),
        (["window", "STORE", "--first", "7", "--out", "w.parquet"], "no record has 'day'"),
        (["sequence", "STORE", "--target", "z"], "unknown column 'z'"),
        (["window", "STORE", "--out", "no/where.parquet"], "folder does not exist"),
    ],
)
def test_a_mistake_gives_code_2_and_one_sentence(store, capsys, arguments, words):
    given = [store if each == "STORE" else each for each in arguments]
    assert main(["store", *given]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_who_comes_second_is_told_to_try_again(table, capsys, monkeypatch):
    main(["store", "refresh", "stats.duckdb", "1.parquet", "--by", "day"])
    real = DatabaseFile.write

    def late(self, *step):
        monkeypatch.setattr(DatabaseFile, "write", real)
        assert main(["store", "refresh", "stats.duckdb", "*.parquet"]) == 0
        real(self, *step)

    monkeypatch.setattr(DatabaseFile, "write", late)
    assert main(["store", "refresh", "stats.duckdb", "*.parquet"]) == 75
    assert "another process has refreshed" in capsys.readouterr().err
    assert ds.GramStore("stats.duckdb").total().rows == 8


def test_by_that_is_said_twice_names_two_keys(table, capsys):
    pl.DataFrame({"a": [1, 1], "b": [1, 2], "x": [1.0, 2.0]}).write_parquet("two.parquet")
    assert main(["store", "refresh", "two", "two.parquet", "--by", "a", "--by", "b"]) == 0
    assert ds.GramStore("two").show().select("a", "b").rows() == [(1, 1), (1, 2)]

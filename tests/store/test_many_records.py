"""A store of many records reads and writes what changes, in as few files as a binary counter."""

import json
from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest

import dbselect as ds
from dbselect.store import folder
from dbselect.store.rows import KeyHashes, _names


def days(last: int) -> pl.DataFrame:
    day = pl.int_range(0, 3 * last, eager=True) // 3
    x = pl.int_range(0, 3 * last, eager=True).cast(pl.Float64)
    return pl.DataFrame({"day": day, "x": x.sqrt(), "y": (x * 7) % 5})


def files_in(store: Path) -> list[Path]:
    newest = max(store.glob("list-*.json"))
    return [store / name for name in json.loads(newest.read_text())["files"]]


def same(gram: ds.Gram, table: pl.DataFrame) -> None:
    wanted = ds.gram(table.drop("day"))
    assert gram.rows == wanted.rows
    assert abs(gram.mean - wanted.mean).max() < 1e-12
    assert abs(gram.comoment - wanted.comoment).max() < 1e-9


def test_days_one_by_one_are_in_few_files_each_written_few_times(tmp_path, monkeypatch):
    store, written, put = ds.GramStore(tmp_path / "stats"), [], folder.Folder._put
    monkeypatch.setattr(
        folder.Folder, "_put", lambda *given: (written.append(given[2].height), put(*given))
    )
    for last in range(1, 34):
        store.refresh(days(last), by="day")
        assert len(files_in(tmp_path / "stats")) == bin(last).count("1")
    assert sum(written) <= 33 * 6
    same(store.total(), days(33))
    same(store.window(3, 7), days(33).filter(pl.col("day").is_between(3, 7)))


def test_what_changes_is_gone_from_its_file(tmp_path):
    store, table = ds.GramStore(tmp_path / "stats"), days(20)
    store.refresh(table, by="day")
    for changed in (3, 4, 3):
        table = table.with_columns(
            x=pl.when(pl.col("day") == changed).then(pl.col("x") + 1).otherwise("x")
        )
        assert store.refresh(table).changed == [f'["{changed}"]']
        same(store.total(), table)
    table = table.filter(pl.col("day") != 9)
    assert store.refresh(table).dropped == ['["9"]']
    same(store.total(), table)
    assert store.show()["part"].n_unique() == store.show().height == 19


def test_a_list_of_before_which_names_valid_parts_opens_and_is_replaced(tmp_path):
    store, table = ds.GramStore(tmp_path / "stats"), days(6)
    store.refresh(table, by="day")
    (path,) = (tmp_path / "stats").glob("list-*.json")
    (name,) = files_in(tmp_path / "stats")
    valid = [f'["{day}"]' for day in range(5)]
    path.write_text(json.dumps({"format": 1, "files": {name.name: valid}}))
    same(store.total(), days(5))
    assert store.refresh(days(5)).unchanged == 5
    assert store.refresh(days(7)).added == ['["5"]', '["6"]']
    same(store.total(), days(7))
    assert isinstance(
        json.loads(max((tmp_path / "stats").glob("list-*")).read_text())["files"], list
    )


@pytest.mark.parametrize("path", ["stats", "stats.duckdb", "stats.delta"])
def test_a_refresh_reads_no_record(tmp_path, monkeypatch, path):
    store = ds.GramStore(tmp_path / path)
    store.refresh(days(9), by="day")
    shelf, states = store._shelf, []
    read = shelf.read
    monkeypatch.setattr(
        shelf, "read", lambda *rows, **how: states.append(read(*rows, **how)) or states[-1]
    )
    assert store.refresh(days(9)).unchanged == 9
    assert store.refresh(days(10)).added == ['["9"]']
    assert not any("gram" in state.frame.columns for state in states)
    same(store.total(), days(10))


def test_the_names_of_parts_are_json_of_their_text():
    texts = ["a", None, 'say "x"', "back\\slash", "tab\t", "é", "\x7f", "", "💡", "[~]", "^!#"]
    keys = pl.DataFrame(
        {
            "text": texts,
            "plain": list("abcdefghijk"),
            "whole": [*range(-5, 5), None],
            "number": [1.5, -0.0, 1e300, 1e-7, 1e16, None, 3.0, 0.1, 2.0, 5.0, 6.0],
            "day": [date(1 + n, 1, 2) for n in range(10)] + [None],
            "moment": [datetime(2020, 1, 1, 0, 0, n, n) for n in range(11)],
            "flag": [True, False, None] * 3 + [True, False],
        }
    )
    rows = keys.with_columns(pl.col("number").replace(-0.0, 0.0)).rows()
    texts = [[None if value is None else str(value) for value in row] for row in rows]
    assert _names(keys).to_list() == [json.dumps(text) for text in texts]


def test_fingerprints_are_in_hexadecimal_digits():
    work = KeyHashes((), ((), ("x",)), None, {"x": "kind"})
    numbers = [0, 1, 15, 16, 255, 2**40, 2**62 + 5]
    named = {f"__dbselect_{half}{n}": numbers for half in ("high", "low") for n in (0, 1)}
    sums = pl.DataFrame({"__dbselect_rows": range(7)} | named | {"__dbselect_low0": numbers[::-1]})
    for lows, texts in zip((numbers[::-1], numbers), work.fingerprints(sums), strict=True):
        for rows, (high, low, text) in enumerate(zip(numbers, lows, texts, strict=True)):
            assert text.startswith(f"{rows} rows of ")
            assert text.endswith(f": {high:x}.{low:x}")

"""Files of every format give what the frame that was written gives; Delta tables are not files."""

import json
from datetime import date, timedelta

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.sources.engines.spark import paths_of

RNG = np.random.default_rng(3)
ROWS = 300
#: Whole numbers until the last row, missing values, text with the separators in it, dates.
FRAME = pl.DataFrame(
    {
        "late": [*map(float, range(ROWS - 1)), 0.5],
        "x": [None if i % 7 == 0 else float(x) for i, x in enumerate(RNG.normal(size=ROWS))],
        "k": RNG.choice(["a,b", 'say "c"', "d\te"], ROWS),
        "day": [date(2013, 1, 1) + timedelta(days=int(n)) for n in RNG.integers(0, 90, ROWS)],
        "flag": RNG.random(ROWS) < 0.5,
    }
)
WRITERS = {
    "csv": lambda frame, path: frame.write_csv(path),
    "tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "CSV": lambda frame, path: frame.write_csv(path),
    "ndjson": lambda frame, path: frame.write_ndjson(path),
    "jsonl": lambda frame, path: frame.write_ndjson(path),
    "arrow": lambda frame, path: frame.write_ipc(path),
    "feather": lambda frame, path: frame.write_ipc(path, compression="zstd"),
    "parquet": lambda frame, path: frame.write_parquet(path),
}
EVERY = pytest.mark.parametrize("ending", WRITERS)


def alike(found: ds.Gram, frame: pl.DataFrame) -> None:
    expected = ds.gram(frame)
    assert found.columns == expected.columns
    assert (found.rows, found.skipped) == (expected.rows, expected.skipped)
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-12)
    np.testing.assert_allclose(found.comoment, expected.comoment, rtol=1e-9, atol=1e-9)


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes a file of an ending in the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(ending: str, frame: pl.DataFrame = FRAME, name: str = "t") -> str:
        # JSON has no dates: what comes back is text.
        frame = frame.drop("day", strict=False) if ending in ("ndjson", "jsonl") else frame
        WRITERS[ending](frame, f"{name}.{ending}")
        return f"{name}.{ending}"

    return write


@EVERY
def test_a_file_of_any_format_is_its_frame(written, ending):
    frame = FRAME.drop("day") if ending in ("ndjson", "jsonl") else FRAME
    alike(ds.gram(written(ending)), frame)


@EVERY
def test_a_glob_and_a_folder_are_all_files(written, tmp_path, ending):
    (tmp_path / "in").mkdir()
    half = ROWS // 2
    # What is whole in the first file and not in the second is a number with a fraction.
    for name, part in (("in/1", FRAME[half:]), ("in/2", FRAME[:half])):
        written(ending, part, name)
    frame = FRAME.drop("day") if ending in ("ndjson", "jsonl") else FRAME
    alike(ds.gram(f"in/*.{ending}"), frame)
    alike(ds.gram("in" if ending != "CSV" else "in/?.CSV"), frame)


def test_types_of_csv_are_those_that_duckdb_sees(written):
    name = written("csv")
    by_duckdb = ds.gram(duckdb.sql(f"FROM read_csv('{name}', sample_size = -1)"))
    found = ds.gram(name)
    assert found.columns == by_duckdb.columns
    np.testing.assert_allclose(found.comoment, by_duckdb.comoment, rtol=1e-9, atol=1e-9)


def test_a_column_that_is_no_date_in_one_late_row_is_text(written):
    days = pl.Series("day", ["2013-01-01"] * 11_000 + ["never"])
    other = pl.Series("other", ["2013-01-01"] * len(days))
    frame = pl.DataFrame([pl.Series("y", range(len(days))), days, other])
    columns = ds.gram(written("csv", frame)).columns
    assert columns == ["y", "day.2013-01-01", "day.never", "other"]


@pytest.mark.sample(3)
@EVERY
def test_every_method_and_the_store_take_every_format(written, ending):
    name = written(ending, FRAME.drop("k").drop_nulls())
    sequence = ds.anytime_sequence(name, "x")
    assert sequence.steps["group"][0] is None
    assert ds.anytime_sequence(name, "flag", family="binomial").rows == sequence.gram.rows
    assert ds.cross_validate(name, "x", "fit", folds=3).best.height == 1
    store = ds.GramStore("stats")
    assert len(store.refresh(name, by="flag").added) == (1 if ending == "parquet" else 2)
    assert store.refresh(name).added == []
    assert store.total().rows == sequence.gram.rows


def test_several_formats_in_a_folder_are_refused(written, tmp_path):
    (tmp_path / "in").mkdir()
    written("csv", name="in/1")
    written("ndjson", name="in/2")
    with pytest.raises(
        ds.errors.SourceError, match=r"has files \.csv, \.ndjson; give a glob of one"
    ):
        ds.gram("in")


def test_folders_of_text_that_say_something_are_told(written, tmp_path):
    for year in (2013, 2014):
        (tmp_path / f"year={year}").mkdir()
        for ending in ("csv", "arrow"):
            written(ending, FRAME.drop_nulls().drop("k"), f"year={year}/t")
    with pytest.warns(ds.errors.LeftOutWarning, match="'year=201.' is not read as a column: CSV"):
        assert "year" not in ds.gram("*/*.csv").columns
    assert "year" in ds.gram("*/*.arrow").columns


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("t.csv", "", "as CSV: empty CSV"),
        ("t.csv", "a,b\n1,2\n1,2,3\n", "more fields than defined"),
        ("t.ndjson", '{"a": 1}\nnothing\n', "as NDJSON"),
        ("t.arrow", "a,b\n1,2\n", "as Arrow"),
        ("t.txt", "a,b\n1,2\n", "as Parquet"),
        ("t.json", '[{"a": 1}]', "a name that ends in .ndjson"),
        ("t.json", "nothing", "cannot read JSON"),
    ],
)
def test_what_is_no_such_file_is_told(tmp_path, capsys, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(ds.DbselectError, match=words):
        ds.gram(tmp_path / name)
    assert main(["gram", str(tmp_path / name), "--out", str(tmp_path / "g.parquet")]) == 2
    assert words in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_arrow_stream_says_how_to_read_it(tmp_path):
    FRAME.write_ipc_stream(tmp_path / "s.arrow")
    with pytest.raises(ds.errors.SourceError, match=r"ipc\.open_stream"):
        ds.gram(tmp_path / "s.arrow")


def test_json_of_a_gram_is_that_gram(tmp_path):
    gram = ds.gram(FRAME)
    gram.write_json(tmp_path / "g.json")
    assert ds.gram(tmp_path / "g.json").to_struct() == gram.to_struct()
    (tmp_path / "g.json").write_text(
        json.dumps(json.loads((tmp_path / "g.json").read_text()) | {"rows": 7})
    )
    with pytest.raises(ds.errors.SourceError, match="damaged"):
        ds.gram(tmp_path / "g.json")


# Delta


@pytest.fixture
def delta(tmp_path):
    """Return the folder of a Delta table whose first version has other rows."""
    pytest.importorskip("deltalake")
    FRAME.drop("flag", "k").head(50).write_delta(tmp_path / "lake" / "t")
    FRAME.drop("flag", "k").tail(100).write_delta(tmp_path / "lake" / "t", mode="overwrite")
    return tmp_path / "lake" / "t"


def test_a_delta_folder_is_its_last_version(delta, capsys):
    from deltalake import DeltaTable

    expected = FRAME.drop("flag", "k").tail(100)
    alike(ds.gram(delta), expected)
    alike(ds.gram(DeltaTable(delta)), expected)
    older = ds.gram(DeltaTable(delta, version=0))
    assert older.rows + older.skipped == 50
    assert main(["sequence", str(delta), "--target", "x", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] + told["skipped"] == 100


@pytest.mark.parametrize("path", ["lake", "lake/t/*.parquet", "lake/**/*.parquet", "lake/*"])
def test_files_of_a_delta_table_are_not_read_as_files(delta, monkeypatch, path):
    monkeypatch.chdir(delta.parents[1])
    for read in (ds.gram, lambda path: ds.GramStore("stats").refresh(path, by="day"), paths_of):
        with pytest.raises(ds.errors.SourceError, match=r"has files of the Delta table '.*t'"):
            read(path)
    monkeypatch.chdir(delta)
    with pytest.raises(ds.errors.SourceError, match="has files of the Delta table"):
        ds.gram("*.parquet")


def test_tasks_that_read_files_take_no_other_format(delta, written):
    for path, kind in ((delta, "a Delta table"), (written("csv"), "CSV")):
        with pytest.raises(ds.errors.SourceError, match=f"is {kind}, and on= is for Parquet files"):
            paths_of(path)

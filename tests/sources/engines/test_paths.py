"""What belongs to a table: the same files for every door, those of Hive, Spark and Delta."""

from pathlib import Path

import polars as pl
import pytest

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.sources.engines.spark import paths_of
from dbselect.sources.paths import _matches, files_at

TABLE = pl.DataFrame({"day": [1, 1, 2, 2], "x": [1.0, 2.0, 5.0, 7.0], "y": [1.0, 3.0, 1.0, 2.0]})


def write(path: Path, frame: pl.DataFrame = TABLE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.write_parquet(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder as Spark leaves it in the middle of a write, with a partition ``_hour``."""
    table = tmp_path / "t"
    write(table / "part-0.parquet")
    write(table / "_hour=3" / "part-1.parquet")
    for odd in (
        "_temporary/0/part-2.parquet", ".staging/part-3.parquet", "_tmp.parquet",
        ".hidden.parquet", "_hour=3/_part.parquet", "_hour=3/.part-1.parquet",
    ):  # fmt: skip
        write(table / odd, TABLE.with_columns(day=pl.Series([3, 4, 5, 6]), x=pl.lit(99.0)))
    for name in ("_SUCCESS", ".part-0.parquet.crc", "README.md", "_hour=3/.part-1.parquet.crc"):
        (table / name).write_text("no table")
    return table


def of_cli(path: str, out: Path) -> int:
    assert main(["gram", path, "--out", str(out)]) == 0
    return ds.gram(out).rows


DOORS = {
    "gram": lambda path, _: ds.gram(path, ["x", "y"]).rows,
    "gram_by": lambda path, _: ds.gram_by(path, ["day"], ["x"])["gram"].struct[1].sum(),
    "problem": lambda path, _: ds.anytime_sequence(path, "y", {"x": ["x"]}).gram.rows,
    "terms": lambda path, _: 2 * len(ds.terms(path, ["day"]).categories[0].levels),
    "command line": lambda path, room: of_cli(path, room / "g.parquet"),
    "Spark's tasks": lambda path, _: 4 * len(paths_of(path)),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("pattern", ["", "/**/*.parquet", "/**", "/*"])
def test_hidden_names_are_no_data(folder, tmp_path, door, pattern):
    path = str(folder) + pattern
    (folder / "part-0.parquet").unlink()  # a part without the partition's key does not fit
    assert DOORS[door](path, tmp_path) == 4


@pytest.mark.parametrize("pattern", ["", "/**/*.parquet"])
def test_the_store_reads_the_same_files(folder, tmp_path, pattern):
    store = ds.GramStore(tmp_path / "stats")
    added = store.refresh(str(folder) + pattern, by="day").added
    assert added == ["_hour=3/part-1.parquet", "part-0.parquet"]


def test_a_name_that_is_given_is_meant(folder):
    assert ds.gram(folder / "_tmp.parquet").mean[1] == 99.0
    assert ds.gram(str(folder / "_t*.parquet")).mean[1] == 99.0
    assert ds.gram(str(folder / "_temporary" / "*" / "*.parquet")).mean[1] == 99.0
    with pytest.raises(ds.errors.SourceError, match=r"no file matches.*begin with _ or \. are no"):
        ds.gram(str(folder / "?tmp.parquet"))


def test_folders_that_a_glob_matches_are_all_their_files(tmp_path):
    for year in (2013, 2014):
        write(tmp_path / f"t/year={year}/a/x.parquet")
    found = ds.gram(str(tmp_path / "t/year=*"))
    assert (found.rows, found.mean[-1]) == (8, 2013.5)


@pytest.mark.parametrize(
    "pattern", ["", "/*.parquet", "/day=1", "/day=1/*.parquet", "/../t", "/../*", "/.."]
)
def test_files_of_a_table_with_a_log_are_left_to_the_log(tmp_path, pattern):
    """Overwritten files stay in a folder of Delta and of Iceberg."""
    for kind, log in (("Delta", "_delta_log/0.json"), ("Iceberg", "metadata/1.metadata.json")):
        table = tmp_path / kind / "t"
        write(table / "day=1" / "a.parquet", TABLE.drop("day"))
        write(table / "b.parquet")
        (table / log).parent.mkdir()
        (table / log).write_text("{}")
        path = str(table) + pattern
        for read in (ds.gram, paths_of, lambda one: ds.GramStore(tmp_path / "s").refresh(one, "x")):
            with pytest.raises(ds.DbselectError) as told:
                read(path)
            if Path(path).resolve() == table:
                assert f"{kind} table" in str(told.value)
                continue
            assert f"has files of the {kind} table" in str(told.value)
            assert f"scan_{kind.lower()}" in str(told.value)
            assert "*" not in str(told.value).partition("; give")[2]


def test_a_table_that_holds_records_is_found_in_a_folder(tmp_path):
    (tmp_path / "grams").mkdir()
    ds.gram(TABLE).write_parquet(tmp_path / "grams" / "a.parquet")
    ds.gram(TABLE).write_parquet(tmp_path / "grams" / "_b.parquet")
    assert ds.gram(tmp_path / "grams").rows == 4


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("a.parquet", "*.parquet", True),
        ("a/b.parquet", "*.parquet", False),
        ("a/b.parquet", "**/*.parquet", True),
        ("a/b/c.parquet", "a/**", True),
        ("a/b/c.parquet", "a/*", True),
        ("a/b/c.parquet", "a/?/*.csv", False),
        ("b.parquet", "**/b.parquet", True),
        ("ab", "a", False),
    ],
)
def test_names_of_an_object_store_match_as_paths_do(tmp_path, name, pattern, expected):
    assert _matches(name.split("/"), pattern.split("/")) is expected
    write(tmp_path / name)
    there = expected and files_at(f"{tmp_path}/{pattern}").addresses == [str(tmp_path / name)]
    assert there is expected

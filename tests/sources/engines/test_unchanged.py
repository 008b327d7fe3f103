"""Files that change while they are read: the answer is of one file, or there is none."""

from io import BytesIO

import numpy as np
import polars as pl
import pyarrow.dataset as pads
import pytest

import dbselect as ds
from dbselect.errors import SourceError
from dbselect.sources.open import open_table

GROUPS = {"A": ["a"], "B": ["b"]}


def table(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, 400))
    y = (a + rng.normal(size=400) > 0).astype(float)
    return pl.DataFrame({"a": a, "b": b, "y": y})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "table.parquet"
    table(0).write_parquet(path)
    return path


def write_over(path):
    """Write another table into the file, which stays the same file."""
    table(1).write_parquet(buffer := BytesIO())
    with path.open("r+b") as file:
        file.write(buffer.getvalue())


def replace(path):
    other = path.with_name("other")
    table(1).write_parquet(other)
    other.replace(path)


OPENED = {
    "file": lambda path: open_table(str(path), None),
    "glob": lambda path: open_table(str(path.parent / "*.parquet"), None),
    "folder": lambda path: open_table(str(path.parent), None),
    "dataset": lambda path: open_table(pads.dataset(path), None),
}


@pytest.mark.parametrize("kind", OPENED)
def test_a_file_that_is_written_over_is_told(kind, path):
    batches = OPENED[kind](path).batches(["a"])
    next(batches)
    write_over(path)
    with pytest.raises(SourceError, match=r"table\.parquet' was written over while it was read"):
        list(batches)


def test_a_scan_tells_it_as_well(path):
    with pytest.raises(SourceError, match="was written over while it was read"):
        OPENED["file"](path).scan(["a"], lambda _: write_over(path))


@pytest.mark.parametrize("kind", OPENED)
def test_a_file_that_another_replaces_is_read_to_its_end(kind, path):
    read = OPENED[kind](path)
    batches = read.batches(["a"])
    found = [next(batches)]
    replace(path)
    found.extend(batches)
    assert pl.concat([pl.DataFrame(one) for one in found])["a"].equals(table(0)["a"])
    with pytest.raises(SourceError, match=r"table\.parquet' has changed since it was opened"):
        next(read.batches(["a"]))


def test_passes_are_of_one_file(path):
    with pytest.raises(SourceError, match="has changed since it was opened"):
        ds.anytime_sequence(
            str(path), "y", GROUPS, family="binomial", callback=lambda _: replace(path)
        )


def test_other_files_of_the_folder_may_come_and_go(path):
    read = OPENED["folder"](path)
    read.scan(["a"], lambda _: table(1).write_parquet(path.with_name("late.parquet")))


def test_a_file_that_is_cut_while_it_is_read_is_told(path):
    with pytest.raises(SourceError, match="written over"):
        OPENED["file"](path).scan(["a"], lambda _: path.write_bytes(b"PAR1"))


def test_memory_and_frames_have_no_files():
    assert ds.gram(table(0)).rows == ds.gram(table(0).lazy()).rows == 400

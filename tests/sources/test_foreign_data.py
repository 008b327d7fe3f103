"""Data of other libraries that contradict themselves or are of odd types: a sentence each."""

import ctypes
import decimal
import subprocess
import sys

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dbselect as ds

ROWS = 300
X = np.random.default_rng(0).normal(size=ROWS)


def table(**columns: pa.Array) -> pa.Table:
    return pa.table({"x": X, "y": np.arange(float(ROWS)), **columns})


class RawStream(ctypes.Structure):
    """The Arrow C stream interface."""

    _fields_ = [
        ("get_schema", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_next", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("get_last_error", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    ]


class Contradicting:
    """A stream of one batch, the child of whose first column is shorter than it must be."""

    def __init__(self, first: pa.Array) -> None:
        columns = [first, pa.array(np.arange(float(ROWS)))]
        self.batches = [pa.RecordBatch.from_arrays(columns, ["s", "y"])]
        self.schema = self.batches[0].schema
        kinds = dict(RawStream._fields_)
        self.raw = RawStream(
            kinds["get_schema"](lambda _, out: self.schema._export_to_c(out) or 0),
            kinds["get_next"](lambda _, out: self._next(out)),
            kinds["get_last_error"](lambda _: None),
            kinds["release"](lambda stream: ctypes.memset(stream + 24, 0, 8) and None),
            1,
        )

    def _next(self, out: int) -> int:
        if not self.batches:
            ctypes.memset(out, 0, 80)
            return 0
        self.batches.pop()._export_to_c(out)
        words = ctypes.POINTER(ctypes.c_int64)
        # The seventh word of an array leads to its children, the first is its length.
        column = ctypes.cast(ctypes.cast(out, words)[6], words)[0]
        child = ctypes.cast(ctypes.cast(column, words)[6], words)[0]
        ctypes.cast(child, words)[0] = 3
        return 0

    def __arrow_c_stream__(self, requested_schema=None):
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype = ctypes.py_object
        capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return capsule(ctypes.addressof(self.raw), b"arrow_array_stream", None)


CONTRADICTIONS = {
    "struct": pa.array([{"a": float(i)} for i in range(ROWS)]),
    "array": pa.array([[1.0, 2.0]] * ROWS, pa.list_(pa.float64(), 2)),
}


@pytest.mark.parametrize("kind", CONTRADICTIONS)
def test_lengths_that_contradict_each_other_are_refused(kind):
    with pytest.raises(ds.errors.SourceError, match="Arrow stream"):
        ds.gram(Contradicting(CONTRADICTIONS[kind]))
    with pytest.raises(ds.errors.SourceError, match="Arrow stream"):
        ds.gram_by(Contradicting(CONTRADICTIONS[kind]), ["y"])


def union() -> pa.Array:
    places = pa.array(range(ROWS), pa.int32())
    return pa.UnionArray.from_dense(pa.array([0] * ROWS, pa.int8()), places, [pa.array([1] * ROWS)])


def run_ends() -> pa.Array:
    return pa.RunEndEncodedArray.from_arrays(pa.array([100, ROWS], pa.int32()), pa.array([1, 2]))


def intervals() -> pa.Array:
    return pa.array([pa.MonthDayNano([1, 2, 3])] * ROWS)


@pytest.mark.parametrize("odd", [union, run_ends, intervals])
def test_a_key_of_an_odd_type_is_a_column_error(odd):
    with pytest.raises(ds.errors.ColumnError, match=r"by names columns of types \{'k'"):
        ds.gram_by(table(k=odd()), ["k"])


@pytest.mark.parametrize("odd", [union, run_ends, intervals])
def test_a_column_that_nobody_asks_for_disturbs_no_fold(odd):
    expected = ds.gram_by(table(), fold=3)
    found = ds.gram_by(table(k=odd()), fold=3, columns=["x", "y"])
    assert found.select("fold").equals(expected.select("fold"))
    assert [gram["rows"] for gram in found["gram"]] == [gram["rows"] for gram in expected["gram"]]


def narrow() -> pa.Array:
    numbers = [decimal.Decimal(i) / 2 for i in range(ROWS)]
    return pa.StructArray.from_arrays([pa.array(numbers, pa.decimal32(6, 1))], ["d"])


@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")
def test_narrow_decimals_in_a_struct_are_read():
    frame = table(s=narrow())
    found = ds.gram(frame)
    assert found.mean[found.position("s.d", "column")] == (ROWS - 1) / 4
    assert ds.gram_by(frame, ["s"], columns=["x"]).height == ROWS
    model = ds.fit(found, "y", ["s.d"])
    np.testing.assert_allclose(model.predict(frame), np.arange(ROWS), atol=1e-9)


BROKEN = """
import decimal
import polars as pl
import pyarrow as pa
import dbselect as ds
d = pa.array([decimal.Decimal("1.5"), decimal.Decimal("2.5")], pa.decimal32(5, 2))
frame = pl.from_arrow(pa.table({"s": pa.StructArray.from_arrays([d], ["d"]), "x": [1.0, 3.0]}))
try:
    print(ds.gram(frame).mean.tolist())
except ds.errors.SourceError as error:
    print("SourceError")
"""


@pytest.mark.slow
def test_a_frame_that_polars_broke_does_not_end_the_process():
    command = [sys.executable, "-c", BROKEN]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    # A Polars that reads such decimals aright gives their mean.
    assert found.stdout.strip() in ("SourceError", "[2.0, 2.0]")


def test_a_truncated_file_is_a_source_error(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(table(), path)
    whole = path.read_bytes()
    for end in (0, 3, 4, 100, len(whole) // 2, len(whole) - 9, len(whole) - 1):
        path.write_bytes(whole[:end])
        for call in (lambda: ds.gram(path), lambda: ds.gram(pl.scan_parquet(path))):
            with pytest.raises(ds.errors.SourceError):
                call()


def test_a_record_is_made_only_if_it_can_be_read(connection):
    for row in ("{'a': row(1, 2)}", "{'a': {'b': 1}, 'a.b': 2}"):
        with pytest.raises(Exception, match=r"have the name 'a\.b?'"):
            connection.sql(f"SELECT gram_merge(g) FROM (SELECT gram({row}) AS g)").fetchall()

"""A process that was forked from one whose Polars has threads is refused, not left to hang."""

import os
from multiprocessing import get_context

import polars as pl
import pytest

import dbselect as ds

TABLE = pl.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 1.0, 0.0, 2.0]})


def told(work: str) -> str:
    """Return what a process makes of a call, or the name of its error."""
    calls = {
        "gram": lambda: ds.gram(TABLE.lazy()).rows,
        "predict": lambda: len(ds.anytime_sequence(ds.gram(TABLE), "y").predict(TABLE)),
    }
    try:
        return str(calls[work]())
    except ds.errors.EngineError as error:
        return str(error)


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "register_at_fork"), reason="nothing forks here")
@pytest.mark.parametrize("work", ["gram", "predict"])
def test_a_fork_is_refused_and_a_new_process_answers(work):
    assert told(work) == "4"  # Polars has its threads
    with get_context("fork").Pool(1) as pool:
        found = pool.map_async(told, [work]).get(60)[0]
    assert "forked" in found
    assert "get_context('spawn')" in found
    with get_context("spawn").Pool(1) as pool:
        assert pool.map_async(told, [work]).get(60) == ["4"]


@pytest.mark.parametrize("struct", [False, True])
def test_a_name_with_a_nul_is_refused(struct):
    table = TABLE.rename({"a": "a\0b"})
    table = table.select(pl.struct("a\0b").alias("s"), "y") if struct else table
    for call in (lambda: ds.gram(table), lambda: ds.gram(table.lazy())):
        with pytest.raises(ds.errors.ColumnError, match="NUL in its name"):
            call()


def test_a_record_with_a_number_for_a_list_is_refused():
    record = ds.gram(TABLE).to_struct() | {"mean_low": 0}
    with pytest.raises(ds.errors.RecordError, match="'mean_low' of shape"):
        ds.Gram.from_struct(record)

"""Searches of few rows use one thread of BLAS, and give the others back."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.linear import blas


def threads() -> list[int]:
    return [get() for get, _ in blas._libraries()]


@pytest.fixture
def two_threads():
    before = threads()
    if not before:
        pytest.skip("NumPy has another BLAS")
    blas._set([2] * len(before))
    yield
    blas._set(before)


@pytest.mark.usefixtures("two_threads")
def test_a_search_of_few_rows_has_one_thread():
    rng = np.random.default_rng(0)
    rows = pl.DataFrame(rng.normal(size=(60, 3)), ["a", "b", "c"])
    rows = rows.with_columns(y=pl.Series(rng.random(60) < 0.5))
    seen: list[int] = []
    ds.backward(rows, "y", family="binomial", ridge=0.1, callback=lambda *_: seen.extend(threads()))
    assert set(seen) == {1}
    assert set(threads()) == {2}


@pytest.mark.usefixtures("two_threads")
def test_the_last_search_gives_the_threads_back():
    one, other = blas.one_thread(True), blas.one_thread(True)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert set(threads()) == {1}
    other.__exit__(None, None, None)
    assert set(threads()) == {2}
    with blas.one_thread(False):
        assert set(threads()) == {2}


@pytest.mark.system
def test_a_wide_search_needs_no_thread_that_cannot_be_started():
    search = """
import os
import numpy as np, dbselect as ds
gram = ds.gram(np.random.default_rng(0).normal(size=(900, 601)), [f"x{j}" for j in range(601)])
os.environ["RUST_MIN_STACK"] = str(2**60)
print(len(ds.anytime_sequence(gram, "x600").steps))
"""
    environment = {"DBSELECT_THREADS": "2"}
    answer = subprocess.run(
        [sys.executable, "-c", search], env=environment, text=True, capture_output=True, check=False
    )
    assert (answer.stdout, answer.stderr) == ("601\n", "")  # the first step is none

"""Every method reads every engine as the page of fields says, with the answer of a DataFrame."""

import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from typing import Any

import dask.dataframe as dd
import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sessions import session_of
from test_fields import COLUMNS, NEEDED, diabetes, page
from warehouses import opened

import dbselect as ds
from dbselect.sources.engines.dask import DaskTable
from dbselect.spec.methods import METHODS

GROUPS = {name: [name] for name in COLUMNS if name != "sex"}
KINDS = {
    "gram": {"target": "progression"},
    "family": {"target": "slow", "family": "binomial"},
    "lazy": {"target": "progression", "gram": "lazy"},
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:The .future.infer_string"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


def table() -> pl.DataFrame:
    """Return the numbers of the patients that lack none."""
    rows = diabetes().drop_nulls().select(*GROUPS, "progression")
    return rows.with_columns(slow=(pl.col("progression") < 150).cast(pl.Int64))


@pytest.fixture(scope="module")
def sources() -> Iterator[dict[str, tuple[int, Callable[[], Any]]]]:
    """Return, by name, the place of an engine on the page and what gives a table of it."""
    rows = table()
    with ExitStack() as stack:
        con = stack.enter_context(duckdb.connect())
        there = stack.enter_context(opened("sqlite")).load(rows)
        yield {
            "relation": (0, lambda: con.from_arrow(rows.to_arrow())),
            "Arrow": (0, rows.to_arrow),
            "stream": (1, lambda: rows.to_arrow().to_reader()),
            "ibis": (2, lambda: there),
            "Dask": (3, lambda: dd.from_pandas(rows.to_pandas(), npartitions=3)),
        }


@pytest.mark.sample(24)
@pytest.mark.parametrize("engine", ["relation", "Arrow", "stream", "ibis", "Dask"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=pytest.mark.slow if name == "cross_validate" else ())
        for name in METHODS
    ],
)
def test_a_method_reads_an_engine_as_the_page_says(sources, monkeypatch, method, kind, engine):
    brought = []
    batches = DaskTable.batches
    monkeypatch.setattr(DaskTable, "batches", lambda *args: brought.append(args) or batches(*args))
    at, source = sources[engine]
    came = check(method, kind, at, source)
    # Dask brings rows here in silence.
    assert came is None or bool(brought or came) == (says(method, kind, at) == "here, warned")


@pytest.mark.far
def test_methods_read_spark_as_the_page_says(tmp_path):
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, which Spark needs")
    with session_of("local[2]") as session:
        table().write_parquet(tmp_path / "rows.parquet")
        frame = session.read.parquet(str(tmp_path)).cache()
        for method in METHODS:
            for kind in KINDS:
                came = check(method, kind, 3, lambda: frame)
                assert came is None or came == (says(method, kind, 3) == "here, warned")


def says(method: str, kind: str, at: int) -> str | None:
    """Return what the page says of a method at an engine; None where every engine refuses it."""
    read = page.reads(method, kind)
    return None if read is None else page.READS[read][at]


def check(method: str, kind: str, at: int, source: Callable[[], Any]) -> bool | None:
    """Compare an answer with that of the DataFrame; return whether a warning says rows came here.

    None where the method is refused.
    """

    def answer(rows: Any) -> Any:
        problem = ds.Problem(
            rows, groups=GROUPS, costs={n: COLUMNS[n] for n in GROUPS}, **KINDS[kind]
        )
        return getattr(problem, method)(**NEEDED.get(method, {}))

    why = says(method, kind, at)
    if why in (None, "refused"):
        refusal = "stream that can be read only once" if why else " is "
        error = ds.errors.SourceError if why else ds.errors.ArgumentError
        with pytest.raises(error, match=refusal):
            answer(source())
        return None
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = answer(source())
    assert_same(found, answer(table()))
    return any(one.category is ds.errors.DriverWarning for one in seen)


def assert_same(found: Any, expected: Any) -> None:
    """Compare results by all that they hold, down to numbers."""
    assert type(found) is type(expected)
    if isinstance(found, pl.DataFrame):
        assert_frame_equal(found, expected, rel_tol=1e-6, abs_tol=1e-9)
    elif isinstance(found, dict):
        assert_same(list(found.items()), list(expected.items()))
    elif isinstance(found, list | tuple):
        for own, other in zip(found, expected, strict=True):
            assert_same(own, other)
    elif isinstance(found, float | np.ndarray):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    elif is_dataclass(found):
        for field in fields(found):
            if field.name != "seconds":
                assert_same(getattr(found, field.name), getattr(expected, field.name))
    elif isinstance(found, str | int):
        assert found == expected

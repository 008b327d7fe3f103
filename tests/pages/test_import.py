"""What `import dbselect` loads, and that every name is there all the same."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dbselect as ds

#: Libraries that take longer to load than to answer `dbselect --help`.
HEAVY = {"duckdb", "pandas", "pyarrow", "scipy", "sqlglot", "tqdm"}
STUB = ast.parse(Path(ds.__file__).with_suffix(".pyi").read_text())


def loaded_after(code: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after some code."""
    lines = f"{code}\nimport sys\nprint(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", lines], capture_output=True, text=True, check=True
    )  # fmt: skip
    return set(found.stdout.splitlines()[-1].split())


@pytest.mark.system
def test_import_loads_nothing_heavy():
    loaded = loaded_after("import dbselect")
    assert not loaded & HEAVY
    assert {name for name in loaded if name.startswith("dbselect.")} == {
        "dbselect._addresses",
        "dbselect._forked",
        "dbselect._lazy",
        "dbselect.doors",
        "dbselect.doors.namespaces",
    }


@pytest.mark.system
def test_errors_can_be_caught_without_loading_anything_heavy():
    assert not loaded_after("import dbselect\ndbselect.errors.ArgumentError") & HEAVY


@pytest.mark.system
def test_the_first_call_loads_no_splines_and_no_files():
    loaded = loaded_after("import dbselect\ndbselect.gram, dbselect.anytime_sequence")
    assert not loaded & {"scipy.interpolate", "scipy.optimize", "pyarrow.parquet"}


@pytest.mark.system
def test_a_linear_search_and_its_predictions_load_no_pandas_and_no_distributions():
    code = (
        "import dbselect as ds, polars as pl\n"
        "rows = pl.DataFrame({'x': [1, 2, 4], 'y': [3, 5, 1], 'k': [1, 1, 2]})\n"
        "ds.gram_by(rows, 'k', ['x', 'y'])\n"
        "ds.anytime_sequence(ds.gram(rows), 'y', {'x': ['x']}).at(size=1).predict(rows)\n"
    )
    assert not loaded_after(code) & {"pandas", "scipy.special", "scipy.cluster"}


@pytest.mark.system
def test_polars_has_the_namespace_after_the_import_alone():
    code = (
        "import dbselect, polars as pl\n"
        "lf = pl.LazyFrame({'x': [1, 2], 'y': [3, 5]})\n"
        "assert lf.dbselect.gram().collect()['gram'][0]['rows'] == 2\n"
        "assert lf.select(pl.struct('x', 'y').dbselect.gram()).collect().item()['rows'] == 2\n"
    )
    assert "dbselect.doors.frames" in loaded_after(code)


def test_every_name_is_found_listed_and_imported_by_a_star():
    assert set(ds.__all__) <= set(dir(ds))
    namespace: dict[str, object] = {}
    exec("from dbselect import *", namespace)
    assert {name: namespace[name] for name in ds.__all__} == {
        name: getattr(ds, name) for name in ds.__all__
    }


def test_a_name_that_there_is_not_is_refused():
    with pytest.raises(AttributeError, match="module 'dbselect' has no attribute 'grom'"):
        ds.grom  # noqa: B018
    assert not hasattr(ds, "__wrapped__")


def test_type_checkers_see_the_names_that_there_are():
    (literal,) = (node.value for node in STUB.body if isinstance(node, ast.Assign))
    assert sorted(ast.literal_eval(literal)) == ds.__all__

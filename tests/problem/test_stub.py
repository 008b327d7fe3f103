"""Files that scripts of release/ write from the tables of options are what these would write."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "release" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_stub_is_what_the_methods_give():
    module = script("stub")
    assert module.STUB.read_text() == module.stub(), "run python release/stub.py"


@pytest.mark.slow
def test_the_functions_of_sql_and_the_page_of_the_api_are_what_the_options_give():
    module = script("functions")
    assert module.SQL.read_text() == module.table(), "run python release/functions.py"
    assert module.PAGE.read_text() == module.page(), "run python release/functions.py"
    calls = module.CALLS.read_text()
    assert calls == module.with_arguments(calls), "run python release/functions.py"

"""The stub of the calls of one line, which editors complete by."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_stub_is_what_the_methods_give():
    spec = importlib.util.spec_from_file_location("stub", ROOT / "release/stub.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.STUB.read_text() == module.stub(), "run python release/stub.py"

"""Which groups of features buy the most prediction for their cost, in which order.

Nothing but Polars is loaded until a name is asked for. Names, and the modules that they stand
in, are those of the stub beside this file, which type checkers and editors read as well.

Source: Scientific Python, SPEC 1, lazy loading of submodules and functions.
"""

import ast
import importlib
from pathlib import Path
from typing import Any

from dbselect.doors import namespaces as _namespaces  # noqa: F401 - registers them with Polars


def _homes() -> dict[str, str]:
    """Return the module of each public name."""
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    lines = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
    return {alias.name: str(line.module) for line in lines for alias in line.names}


_HOMES = _homes()
__all__ = sorted(_HOMES)  # noqa: PLE0605 - the stub has the literal


def __getattr__(name: str) -> Any:
    """Load a public name (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        return version("dbselect")
    if name not in _HOMES:
        raise AttributeError(f"module 'dbselect' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, "__version__"})

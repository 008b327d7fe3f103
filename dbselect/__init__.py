"""Which groups of features buy the most prediction for their cost, in which order.

Only Polars is loaded until a name is used; the stub beside this file lists the names.
"""

from typing import Any

from dbselect import (
    _addresses,
    _forked,  # noqa: F401 - registers handlers of forks
)
from dbselect._lazy import give as _give
from dbselect._lazy import held as _held
from dbselect._lazy import public as _public

with _held():
    from dbselect.doors import namespaces as _namespaces  # noqa: F401 - registers them with Polars

_addresses.save()

#: Public modules; those of `_BY_NAME` are imported by name.
_MODULES = ("errors", "families", "objectives", "results")
_BY_NAME = ("io", "reference", "sklearn")
__all__, _getattr, _dir = _public(__name__, _MODULES)
# Reading a stored result needs the class, from a lower layer.
_give("Problem", "dbselect.problem.problem")


def __dir__() -> list[str]:
    """Return the public names."""
    return ["__version__", *_dir()]


def __getattr__(name: str) -> Any:
    """Load a public name (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        return version("dbselect")
    if name in _BY_NAME:
        from importlib import import_module

        with _held():
            return import_module(f"dbselect.{name}")
    return _getattr(name)

"""Lazy loading of public names (SPEC 1), and of classes from higher layers.

Ctrl-C waits for an import to end: compiled modules of others would swallow it or fail halfway.
"""

import ast
import importlib
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any


def load(module: str, name: str) -> Any:
    """Import a module of the package and return a name of it."""
    return getattr(importlib.import_module(f"dbselect.{module}"), name)


#: Name -> module of a higher layer; the package registers them by `give`.
_HOMES: dict[str, str] = {}


def give(name: str, module: str) -> None:
    """Register a name for `top_level`, without loading its module."""
    _HOMES[name] = module


def top_level(name: str) -> Any:
    """Return a registered name of a higher layer."""
    return getattr(importlib.import_module(_HOMES[name]), name)


def public(
    package: str, modules: Iterable[str] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` (PEP 562) from the stub of a package."""
    space = vars(sys.modules[package])
    stub = ast.parse(Path(space["__file__"]).with_suffix(".pyi").read_text(encoding="utf-8"))
    homes = {
        alias.name: str(line.module)
        for line in stub.body
        if isinstance(line, ast.ImportFrom) and line.module != package
        for alias in line.names
    }
    names = sorted([*homes, *modules])

    def getattribute(name: str) -> Any:
        if name not in homes and name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        with held():
            value = importlib.import_module(homes.get(name, f"{package}.{name}"))
        value = getattr(value, name) if name in homes else value
        space[name] = value
        return value

    return names, getattribute, lambda: sorted([*names, *(n for n in space if n[:2] == "__")])


@contextmanager
def held() -> Iterator[None]:
    """Let an interrupt wait for the end of the block."""
    before = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(before):
        yield  # no interrupt is raised here
        return
    calls: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *call: calls.append(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if calls:
        before(*calls[0])

"""A single OpenBLAS thread for products of small matrices.

Idle OpenBLAS threads spin: with a few thousand rows and 20 columns, a search on two threads took 5
times the CPU time and was slower. The setting is global; the last search to end restores it.
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from types import ModuleType

import numpy as np
import scipy

#: Values in a matrix of rows (8 MB), and columns of a square matrix, up to which it is small: a
#: second thread gained nothing on two cores.
SMALL, SMALL_SQUARE = 1 << 20, 256

_lock = Lock()
_before: list[list[int]] = []


@contextmanager
def one_thread(is_small: bool) -> Iterator[None]:
    """Use one thread in the OpenBLAS of NumPy's and SciPy's wheels, if matrices are small."""
    if not is_small:
        yield
        return
    with _lock:
        _before.append([get() for get, _ in _libraries()])
        _set([1] * len(_libraries()))
    try:
        yield
    finally:
        with _lock:
            first = _before[0]
            _before.pop()
            if not _before:
                _set(first)


def _set(threads: list[int]) -> None:
    for (_, set_), number in zip(_libraries(), threads, strict=True):
        set_(number)


@cache
def _libraries() -> list[tuple[Callable[[], int], Callable[[int], None]]]:
    """Return the getter and setter of the thread count of each OpenBLAS library."""
    functions = []
    for module in (np, scipy):
        for path in _files(module):
            for name in ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads"):
                library = ctypes.CDLL(str(path))
                if hasattr(library, name.format("get")):
                    get = getattr(library, name.format("get"))
                    set_ = getattr(library, name.format("set"))
                    functions.append((get, set_))
                    break
    return functions


def _files(module: ModuleType) -> list[Path]:
    """Return the OpenBLAS files in a wheel, on Linux, Windows and macOS."""
    package = Path(module.__file__ or "").parent
    folders = (package.parent / f"{module.__name__}.libs", package / ".dylibs")
    return [path for folder in folders if folder.is_dir() for path in folder.glob("*openblas*")]

"""One thread for the products of small matrices.

Threads of OpenBLAS spin: of some thousand rows and twenty columns a search took 5 times the
processor time on two threads, and longer. The number is the process's: the last search restores it.
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

#: Numbers in a matrix of rows, 8 MB, and columns of a square one, up to which it is small: there
#: a second thread gained nothing on two cores.
SMALL, SMALL_SQUARE = 1 << 20, 256

_lock = Lock()
_before: list[list[int]] = []


@contextmanager
def one_thread(is_small: bool) -> Iterator[None]:
    """Multiply small matrices on one thread, by the OpenBLAS of NumPy's and SciPy's wheels."""
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
    """Return what reads and sets the threads of each library that is there."""
    found = []
    for module in (np, scipy):
        for path in _files(module):
            for name in ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads"):
                library = ctypes.CDLL(str(path))
                if hasattr(library, name.format("get")):
                    both = (getattr(library, name.format(one)) for one in ("get", "set"))
                    get, set_ = both
                    found.append((get, set_))
                    break
    return found


def _files(module: ModuleType) -> list[Path]:
    """Return the files of OpenBLAS that come with a wheel, on Linux, Windows and macOS."""
    own = Path(module.__file__ or "").parent
    folders = (own.parent / f"{module.__name__}.libs", own / ".dylibs")
    return [one for folder in folders if folder.is_dir() for one in folder.glob("*openblas*")]

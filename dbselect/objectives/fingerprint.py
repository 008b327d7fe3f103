"""A name made of the content of estimators, metrics and rows: equal in every process, or None."""

import hashlib
import pickle
import sys
from collections.abc import Callable, Mapping, Set
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

#: Values that the text of their type and of themselves describes.
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic)


class UnnamedError(Exception):
    """Part of a value has no content that another process could recognise."""


def fingerprint(*parts: Any) -> str | None:
    """Return 16 hexadecimal digits of the content of some values; None where one has none.

    Functions of installed packages count by name and version, others by their code, what it closes
    over and the globals that it names; objects by their class and their attributes.
    """
    digest = hashlib.sha256()
    try:
        _add(parts, digest, {})
    except (UnnamedError, pickle.PicklingError, TypeError, AttributeError, RecursionError):
        return None
    return digest.hexdigest()[:16]


def _add(value: Any, digest: Any, seen: dict[int, tuple[int, Any]]) -> None:
    """Add a value to a digest; `seen` are those added before by id, each with its number."""
    digest.update(f"\0{type(value).__module__}.{type(value).__qualname__}:".encode())
    if isinstance(value, _PLAIN):
        digest.update(repr(value).encode())
        return
    if id(value) in seen:  # held twice, as a function that calls itself
        digest.update(str(seen[id(value)][0]).encode())
        return
    seen[id(value)] = len(seen), value  # which keeps its id from being given again
    for part in _parts(value):
        if isinstance(part, bytes):
            digest.update(len(part).to_bytes(8, "little") + part)
        else:
            _add(part, digest, seen)


def _parts(value: Any) -> list[Any]:
    """Return what makes up a value: bytes, or values with parts of their own."""
    for kind, parts in _PARTS.items():
        if isinstance(value, kind):
            return parts(value)
    if hasattr(value, "get_params"):
        return [type(value), value.get_params(deep=False)]
    if type(value).__module__.partition(".")[0] in ("pandas", "polars", "pyarrow", "numpy"):
        return [pickle.dumps(value)]
    if not hasattr(value, "__dict__"):
        raise UnnamedError(type(value).__name__)
    return [type(value), vars(value)]


def _array(value: npt.NDArray[Any]) -> list[Any]:
    content = value.tolist() if value.dtype.hasobject else np.ascontiguousarray(value).tobytes()
    return [value.dtype.str, value.shape, content]


def _set(value: Set[Any]) -> list[Any]:
    names = [fingerprint(item) for item in value]
    if None in names:
        raise UnnamedError("set")
    return sorted(map(str, names))


def _code(value: Any) -> list[Any]:
    """Return the name of a function or class and its version, or its code where it has none."""
    module, name = getattr(value, "__module__", None) or "", getattr(value, "__qualname__", "")
    if version := _version(module):
        return [module, name or value.__name__, version]
    if isinstance(value, type):
        own = {n: part for n, part in vars(value).items() if isinstance(part, FunctionType)}
        return [name, list(value.__bases__), own] if value is not object else [name]
    if not isinstance(value, FunctionType):
        return [module, name or value.__name__]
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    named = {n: value.__globals__[n] for n in _names(value.__code__) if n in value.__globals__}
    return [value.__code__, value.__defaults__, value.__kwdefaults__, cells, named]


def _names(code: CodeType) -> list[str]:
    """Return the globals and attributes that code names, functions within it included."""
    inner = [part for part in code.co_consts if isinstance(part, CodeType)]
    return sorted({*code.co_names, *(name for part in inner for name in _names(part))})


def _version(module: str) -> str:
    """Return the version of an installed package; nothing of code that may change without one."""
    package = sys.modules.get(module.partition(".")[0])
    path = Path(getattr(package, "__file__", None) or "")
    is_installed = not {"site-packages", "dist-packages"}.isdisjoint(path.parts)
    return str(getattr(package, "__version__", "")) if is_installed else ""


_PARTS: dict[Any, Callable[[Any], list[Any]]] = {
    ModuleType: lambda value: [value.__name__, _version(value.__name__)],
    (type, FunctionType, BuiltinFunctionType, np.ufunc): _code,
    MethodType: lambda value: [value.__self__, value.__func__],
    CodeType: lambda value: [value.co_code, *value.co_consts, *value.co_names, *value.co_varnames],
    partial: lambda value: [value.func, value.args, value.keywords],
    Mapping: lambda value: [len(value), *(part for item in value.items() for part in item)],
    Set: _set,
    (list, tuple): lambda value: [len(value), *value],
    np.ndarray: _array,
}

"""Digest of the content of estimators, metrics and rows, equal in every process; or None."""

import dis
import hashlib
import importlib.metadata
import importlib.util
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np
import numpy.typing as npt

#: Types of values that ``repr`` describes in full.
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...), type(NotImplemented))
#: Frames and tables, whose pickle holds their content and nothing else.
_TABLES = ("pandas", "polars", "pyarrow")
#: Attributes that Python adds to a class: its place, and repetitions of other attributes.
_OF_EVERY_CLASS = {
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__",
    "__annotate_func__", "__annotations_cache__", "__firstlineno__", "__static_attributes__",
    "__dataclass_fields__", "__dataclass_params__", "__abstractmethods__", "_abc_impl",
}  # fmt: skip


class UnnamedError(Exception):
    """Part of a value has no content that another process could recognise."""


def fingerprint(*parts: Any) -> str | None:
    """Return 16 hexadecimal digits of the content of some values; None if one has no content.

    Functions and classes of the standard library and of installed packages count by name and
    version, others by their code, what it closes over and the globals that it names; objects by
    their class and their pickled state.
    """
    try:
        return _digest(parts, {}, {}).hex()[:16]
    except Exception:  # whatever a value raises when it is pickled: it has no content to compare
        return None


def _digest(value: Any, above: dict[int, int], seen: dict[int, tuple[bytes, Any]]) -> bytes:
    """Return the digest of a value.

    `above` maps the ids of enclosing values to their depth: a value inside itself, as in a
    recursive function, counts by its distance to itself. `seen` maps ids to digest and value;
    a value that is kept keeps its id from being used again.
    """
    if id(value) in seen:
        return seen[id(value)][0]
    if id(value) in above:
        return f"{len(above) - above[id(value)]} up".encode()
    digest = hashlib.sha256(f"{type(value).__module__}.{type(value).__qualname__}\0".encode())
    if isinstance(value, np.generic) or type(value) in _PLAIN:
        digest.update(repr(value).encode())
    else:
        inside = {**above, id(value): len(above)}
        for part in _parts(value):
            content = part if isinstance(part, bytes) else _digest(part, inside, seen)
            digest.update(len(content).to_bytes(8, "little") + content)
    seen[id(value)] = digest.digest(), value
    return seen[id(value)][0]


def _parts(value: Any) -> list[Any]:
    """Return the parts of a value: one item of bytes, or values with parts of their own."""
    if type(value) in _PARTS:
        return _PARTS[type(value)](value)
    if isinstance(value, type):
        return _class(value)
    if type(value).__module__.partition(".")[0] in _TABLES:
        return [pickle.dumps(value)]
    if hasattr(value, "get_params"):  # all that a clone of an estimator has of it
        return [type(value), value.get_params(deep=False)]
    if callable(value) and hasattr(value, "__wrapped__"):  # as functools.cache
        return [type(value), value.__wrapped__]
    return _pickled(value)


def _pickled(value: Any) -> list[Any]:
    """Return the pickled state of an object: its class, attributes, slots and items."""
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return _by_name(value, reduced)
    made, arguments, state, *items = (*reduced, None, None, None)[:5]
    return [made, arguments, state, *(None if part is None else list(part) for part in items)]


def _by_name(value: Any, name: str) -> list[Any]:
    """Return the name of a definition in an installed package, and the version."""
    module = getattr(value, "__module__", None) or ""
    if not (version := _version(module)):
        raise UnnamedError(name)
    return [module, name, version]


def _is_installed(value: Any) -> bool:
    """Whether a function or class is found by name in an installed package."""
    if not _version(value.__module__ or ""):
        return False
    attribute: Any = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        attribute = getattr(attribute, name, None)
    return attribute is value


def _class(value: type) -> list[Any]:
    if _is_installed(value):
        return _by_name(value, value.__qualname__)
    attributes = {name: part for name, part in vars(value).items() if name not in _OF_EVERY_CLASS}
    return [value.__qualname__, type(value), list(value.__bases__), attributes]


def _function(value: FunctionType) -> list[Any]:
    if value.__closure__ is None and _is_installed(value):
        return _by_name(value, value.__qualname__)
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    names = set(_names(value.__code__))
    named = list(_named(value.__globals__, names, set()))
    return [value.__code__, value.__defaults__, value.__kwdefaults__, cells, named, vars(value)]


def _named(scope: dict[str, Any], names: set[str], entered: set[str]) -> Iterator[Any]:
    """Yield the globals that code names, and those of the modules that it names."""
    for name in sorted(names & scope.keys()):
        part = scope[name]
        yield name
        if not isinstance(part, ModuleType) or _version(part.__name__):
            yield part
        elif part.__name__ not in entered:
            entered.add(part.__name__)
            yield from _named(vars(part), names, entered)


def _names(code: CodeType) -> Iterator[str]:
    """Return the globals, attributes and texts of code, functions within it included."""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME" and not _version(step.argval):
            raise UnnamedError(step.argval)
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)
        elif isinstance(part, str):
            yield part


def _module(value: ModuleType) -> list[Any]:
    if not (version := _version(value.__name__)):
        raise UnnamedError(value.__name__)
    return [value.__name__, version]


def _builtin(value: BuiltinFunctionType) -> list[Any]:
    owner = value.__self__
    if owner is None or isinstance(owner, ModuleType):
        return _by_name(value, value.__qualname__)
    return [owner, value.__name__]


def _code(value: CodeType) -> list[Any]:
    counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
    names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
    return [(value.co_code, getattr(value, "co_exceptiontable", b"")), counts, names,
            value.co_consts]  # fmt: skip


def _array(value: npt.NDArray[Any]) -> list[Any]:
    content = value.tolist() if value.dtype.hasobject else (np.ascontiguousarray(value).tobytes(),)
    return [value.dtype.descr if value.dtype.names else value.dtype.str, value.shape, content]


@cache
def _version(module: str) -> str:
    """Return the version of an installed package; "" for code that may change without one."""
    name = module.partition(".")[0]
    if name in sys.stdlib_module_names:
        return sys.version
    if name in sys.modules:
        path = getattr(sys.modules[name], "__file__", None)
    else:
        spec = importlib.util.find_spec(name) if name else None
        path = spec.origin if spec else None
    if {"site-packages", "dist-packages"}.isdisjoint(Path(path or "").parts):
        return ""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(name), "__version__", ""))


#: The parts of values of exactly these types; subclasses may hold more.
_PARTS: dict[Any, Callable[[Any], list[Any]]] = {
    list: lambda value: [len(value), *value],
    tuple: lambda value: [len(value), *value],
    dict: lambda value: [len(value), *(part for item in value.items() for part in item)],
    MappingProxyType: lambda value: [dict(value)],
    set: lambda value: sorted(_digest(item, {}, {}) for item in value),
    frozenset: lambda value: sorted(_digest(item, {}, {}) for item in value),
    np.ndarray: _array,
    ModuleType: _module,
    FunctionType: _function,
    BuiltinFunctionType: _builtin,
    np.ufunc: lambda value: [value.__name__, np.__version__],
    CodeType: _code,
    MethodType: lambda value: [value.__self__, value.__func__],
    partial: lambda value: [value.func, value.args, value.keywords, vars(value)],
    staticmethod: lambda value: [value.__func__],
    classmethod: lambda value: [value.__func__],
    property: lambda value: [value.fget, value.fset, value.fdel],
    cached_property: lambda value: [value.func],
    MemberDescriptorType: lambda value: [value.__name__],
    GetSetDescriptorType: lambda value: [value.__name__],
    MethodDescriptorType: lambda value: [value.__objclass__, value.__name__],
    WrapperDescriptorType: lambda value: [value.__objclass__, value.__name__],
}

"""Docstrings: examples run, parameters are the real ones, what users call has an example."""

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from typing import Any

import polars as pl
import pytest

import dbselect as ds

MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(ds.__path__, "dbselect.")
    if not module.name.endswith("_library")
]


def has_shared_doc(thing: Any) -> bool:
    is_family = inspect.isclass(thing) and issubclass(thing, ds.families.Family)
    return getattr(thing, "_is_protocol", False) or (is_family and thing is not ds.families.Family)


_TOP = {name: getattr(ds, name) for name in ds.__all__}
_ROOMS = [thing for thing in _TOP.values() if inspect.ismodule(thing)]
#: What users call: functions and classes by name, and the Polars namespaces.
EXPORTED = {
    **{name: thing for name, thing in _TOP.items() if callable(thing)},
    **{
        name: thing
        for room in _ROOMS
        for name in getattr(room, "__all__", ())
        # A family is documented once; a protocol is what others implement.
        if not has_shared_doc(thing := getattr(room, name))
    },
    "LazyFrame.dbselect": type(pl.LazyFrame().dbselect),
    "Expr.dbselect": type(pl.col("x").dbselect),
}


def is_error(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, Exception)


def public_members(owner: Any) -> Iterator[tuple[str, Any]]:
    """Yield the functions and classes that a module or class defines itself."""
    for name, thing in vars(owner).items():
        if name.startswith("_"):
            continue
        function = thing.__func__ if isinstance(thing, classmethod | staticmethod) else thing
        home = getattr(owner, "__module__", owner.__name__)
        if (inspect.isfunction(function) or inspect.isclass(function)) and (
            function.__module__ == home
        ):
            yield name, function


def documented() -> Iterator[tuple[str, Any]]:
    """Yield every public function, class and method with its full name."""
    for module in MODULES:
        for name, thing in public_members(module):
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing):
                for method, function in public_members(thing):
                    yield f"{module.__name__}.{name}.{method}", function


THINGS = dict(documented())


def real_parameters(thing: Callable[..., Any]) -> list[str]:
    names = list(inspect.signature(thing).parameters)
    # Methods of a problem have it for their `self`.
    is_method = inspect.isfunction(thing) and re.match(r"dbselect\.(meth|valid)", thing.__module__)
    bound = ("self", "cls", "problem") if is_method else ("self", "cls")
    return names[1:] if names and names[0] in bound else names


def section(text: str, title: str) -> str | None:
    """Return the body of a numpydoc section."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", text, re.DOTALL | re.MULTILINE)
    return found and found[1]


def listed_parameters(thing: Any) -> list[str] | None:
    """Return the names that the Parameters section explains, in its order."""
    bases = thing.__mro__ if inspect.isclass(thing) else [thing]
    bodies = [section(inspect.getdoc(base) or "", "Parameters") for base in bases]
    body = next(filter(None, bodies), None)
    if body is None:
        return None
    heads = re.findall(r"^(\w+(?:, \w+)*) :", body, re.MULTILINE)
    return [name for head in heads for name in head.split(", ")]


def test_sections_are_found():
    text = inspect.getdoc(ds.gram_by)
    assert listed_parameters(ds.gram_by)[:4] == ["source", "by", "columns", "weight"]
    assert section(text, "Raises").startswith("ArgumentError : neither `by`")
    assert ">>> ds.gram_by(table" in section(text, "Examples")
    assert section(text, "Warns").startswith("SkippedRowsWarning : more")
    assert section(inspect.getdoc(ds.Gram), "Warns") is None
    assert len(THINGS) > 100


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_print_what_they_show(module):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    failures: list[str] = []
    # Without the names of the module: an example imports what it uses.
    for test in doctest.DocTestFinder().find(module, globs={}):
        runner.run(test, out=failures.append)
    assert not failures, "".join(failures)


def test_documented_parameters_exist_and_come_in_their_order():
    wrong = {}
    for name, thing in THINGS.items():
        listed = listed_parameters(thing)
        if listed is not None:
            real = real_parameters(thing)
            if not listed or listed != [parameter for parameter in real if parameter in listed]:
                wrong[name] = (listed, real)
    assert not wrong


def test_what_users_call_explains_all_its_parameters():
    wrong = {}
    for name, thing in EXPORTED.items():
        if is_error(thing):
            continue
        methods = dict(public_members(thing)) if inspect.isclass(thing) else {}
        for one, function in {
            name: thing,
            **{f"{name}.{m}": f for m, f in methods.items()},
        }.items():
            listed, real = listed_parameters(function), real_parameters(function)
            # A method whose parameters its signature tells needs no section.
            if real and listed != real and not (listed is None and "." in one):
                wrong[one] = (listed, real)
    assert not wrong


@pytest.mark.parametrize(
    "name", [name for name, thing in EXPORTED.items() if not is_error(thing) and "." not in name]
)
def test_what_users_call_has_an_example(name):
    examples = section(inspect.getdoc(EXPORTED[name]) or "", "Examples")
    assert examples
    assert ">>> import dbselect as ds" in examples
    assert doctest.DocTestParser().get_examples(examples)


def test_everything_public_has_a_summary_in_one_line():
    heads = {name: (inspect.getdoc(thing) or "").split("\n") for name, thing in THINGS.items()}
    assert not [
        name
        for name, (summary, *rest) in heads.items()
        if not summary.endswith(".") or any(rest[:1])
    ]

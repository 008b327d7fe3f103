"""Write the stub of the calls of one line, ``dbselect/problem/calls.pyi``, from the methods.

``python release/stub.py`` after a method or its options change; a test holds the file against it.
"""

import ast
import inspect
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbselect.problem import calls
from dbselect.problem.problem import Problem
from dbselect.spec import options
from dbselect.spec.methods import METHODS

STUB = Path(calls.__file__).with_suffix(".pyi")
HEAD = '''"""Calls of one line for type checkers and editors; written by release/stub.py."""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from dbselect.record.groups import Costs, GroupColumns
from dbselect.sources.types import Source
from dbselect.spec import options
from dbselect.spec.fields import ProblemOptions
from dbselect.spec.spec import Target
'''
TAIL = """
def of_name(name: str) -> Callable[..., Any]: ...
def without_source(call: Callable[..., Any]) -> str: ...
def apart(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]: ...
"""
#: Types of what every call takes by its place.
TYPES = {
    "source": "Source", "target": "Target | None", "groups": "GroupColumns | None",
    "costs": "Costs | None",
}  # fmt: skip


def stub() -> str:
    """Return the text of the stub."""
    names = [name for name in vars(calls) if name in METHODS or name == "coverage"]
    imports: set[str] = set()
    written = [call_text(name, imports) for name in names]
    text = "\n".join([HEAD, *sorted(imports), *written, TAIL])
    ruff = [sys.executable, "-m", "ruff"]
    for step in (["check", "--fix", "--select", "I,F401"], ["format"]):
        command = [*ruff, *step, "--quiet", "--stdin-filename", str(STUB), "-"]
        text = subprocess.run(
            command, input=text, capture_output=True, text=True, check=True
        ).stdout
    return text


def call_text(name: str, imports: set[str]) -> str:
    """Return the class of a call's options and its signature; note the imports of its types."""
    method: Callable[..., Any] = inspect.unwrap(getattr(Problem, name))
    table = options.CoverageOptions if name == "coverage" else METHODS[name].options
    definition = ast.parse(textwrap.dedent(inspect.getsource(method))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    assert definition.returns is not None
    homes, module = homes_of(method.__module__), sys.modules[method.__module__]
    types = {one.arg: one.annotation for one in definition.args.args if one.annotation}

    def typed(annotation: ast.expr) -> str:
        for node in ast.walk(annotation):
            if isinstance(node, ast.Name) and hasattr(module, node.id):
                home = homes.get(node.id, method.__module__)
                imports.add(f"from {home} import {node.id}")
        return ast.unparse(annotation)

    takes_others = "options" in inspect.signature(method).parameters
    parameters = []
    for one in inspect.signature(getattr(calls, name)).parameters.values():
        if one.name in TYPES:
            type_ = TYPES[one.name]
        elif one.name in types:
            type_ = typed(types[one.name])
        else:
            continue
        if one.kind is one.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        default = "" if one.default is one.empty else f" = {one.default!r}"
        optional = " | None" if one.default is None and "None" not in type_ else ""
        parameters.append(f"{one.name}: {type_}{optional}{default}")
    result = typed(definition.returns)
    if takes_others:
        return f"def {name}({', '.join(parameters)}, **options: Any) -> {result}: ..."
    own = f"{''.join(word.title() for word in name.split('_'))}Call"
    return (
        f"class {own}(options.{table.__name__}, ProblemOptions): ...\n"
        f"def {name}({', '.join(parameters)}, **options: Unpack[{own}]) -> {result}: ..."
    )


def homes_of(module: str) -> dict[str, str]:
    """Return where the names that a module imports come from."""
    return {
        each.name: str(line.module)
        for line in ast.parse(inspect.getsource(sys.modules[module])).body
        if isinstance(line, ast.ImportFrom)
        for each in line.names
    }


if __name__ == "__main__":
    STUB.write_text(stub())

"""The rules of the house that the syntax tree shows, and the recipes of docs/extending.md."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dbselect as ds
from dbselect.sources import open as opening
from dbselect.sources.open import Engine
from dbselect.spec.refusals import REFUSED

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "dbselect").rglob("*.py"))
#: Calls of one line, which have the names of the methods that they ask.
CALLS = [ROOT / "dbselect/problem" / name for name in ("calls.py", "several.py")]


def defined(path: Path) -> Iterator[str]:
    """Yield the classes and public functions of a module, an overloaded one once."""
    names = [
        node.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]
    yield from dict.fromkeys(names)


@pytest.mark.slow
def test_one_name_is_one_thing():
    owners = defaultdict(list)
    for path in MODULES:
        for name in defined(path):
            if path in CALLS and (name in REFUSED or name == "anytime_tables"):
                continue
            owners[name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in owners.items() if len(paths) > 1} == {}


def test_a_prefix_that_three_modules_share_is_a_folder():
    folders = defaultdict(list)
    for path in MODULES:
        folders[path.parent].append(path.stem)
    shared = {
        f"{folder.name}/{prefix}_*": count
        for folder, stems in folders.items()
        for prefix, count in Counter(stem.split("_")[0] for stem in stems).items()
        if count > 2 and prefix
    }
    assert shared == {}


class Imports(ast.NodeVisitor):
    """The modules that a module imports: at its top, in functions, as types, by ``load``."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self.names |= {str(node.module), *(f"{node.module}.{each.name}" for each in node.names)}

    def visit_Import(self, node: ast.Import) -> None:
        self.names |= {each.name for each in node.names}

    def visit_Call(self, node: ast.Call) -> None:
        if ast.unparse(node.func) == "load" and isinstance(node.args[0], ast.Constant):
            self.names.add(f"dbselect.{node.args[0].value}")
        self.generic_visit(node)


def test_imports_have_no_circle_of_any_kind():
    graph: dict[str, set[str]] = {}
    for path in MODULES:
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        found = Imports()
        found.visit(ast.parse(path.read_text()))
        graph[name.removesuffix(".__init__")] = found.names
    # A package by itself is its `__init__`, of which its modules are asked by their own names.
    graph = {name: {one for one in graph if one in named} for name, named in graph.items()}
    for name, named in graph.items():
        named -= {name, *(one for one in named if one.count(".") == 0)}
    list(TopologicalSorter(graph).static_order())  # CycleError


@pytest.mark.slow
def test_no_signature_swallows_what_it_does_not_know():
    swallowing = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.arguments | ast.FunctionDef)
        and isinstance(node, ast.FunctionDef)
        and node.args.kwarg is not None
        and node.args.kwarg.arg.startswith("_")
        and node.name != "_show_warning"  # Python's own signature
    ]
    assert swallowing == []


def test_citations_name_authors():
    numbered = re.compile(r"papers? 00\d")
    found = [
        str(path.relative_to(ROOT))
        for folder in ("dbselect", "sql", "bench", "examples", "native/src")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".rs", ".sql", ".md") and numbered.search(path.read_text())
    ]
    assert found == []


def test_the_page_of_folders_has_every_folder():
    text = (ROOT / "docs" / "folders.md").read_text()
    folders = {path.parent.relative_to(ROOT) for path in MODULES if path.name == "__init__.py"}
    inner = sorted(str(folder) for folder in folders if folder.name != "dbselect")
    assert [folder for folder in inner if f"`{folder}/`" not in text] == []


class Rows:
    """What a new engine has to have: here rows that lie in a list of dicts."""

    def __init__(self, rows: list[dict[str, float]]) -> None:
        self._table = pa.Table.from_pylist(rows)
        self.schema, self.rows, self.again = self._table.schema, len(rows), True

    def scan(self, fields, consume):
        for batch in self.batches(fields):
            consume(batch)

    def batches(self, fields):
        yield from self._table.select(fields).to_batches()


def test_an_engine_is_a_table_and_a_line_in_the_list(monkeypatch):
    def reads(source):
        return isinstance(source, list) and isinstance(source[0], dict)

    engine = Engine(reads, lambda source, columns: Rows(source))
    monkeypatch.setattr(opening, "ENGINES", [engine, *opening.ENGINES])
    frame = pl.DataFrame({"a": [1, 2, 3, 4, 5], "b": [2, 0, 1, 5, 3], "y": [0, 1, 0, 1, 1]})
    rows = frame.cast(pl.Float64).to_dicts()
    assert ds.gram(rows).comoment.tolist() == ds.gram(frame).comoment.tolist()
    assert ds.gram_by(rows, fold=2)["gram"].len() == 2
    order = ds.anytime_sequence(frame, "y").steps["group"].to_list()
    assert ds.anytime_sequence(rows, "y").steps["group"].to_list() == order
    model, same = (ds.fit(one, "y", ["a"], family="binomial", ridge=0.1) for one in (rows, frame))
    assert np.isclose(model.coefficients["a"], same.coefficients["a"], rtol=1e-12)

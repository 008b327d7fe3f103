"""The reference of SQL, made from options, comments of macros, the extension and its tests."""

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

import duckdb
from pages import ROOT

import dbselect as ds
from dbselect.doors.sql import Macro, made, texts
from dbselect.options.option import options_of
from dbselect.spec.fields import ProblemOptions
from dbselect.spec.methods import METHODS, OF_RECORDS

#: What the record is in every signature, once in full.
TYPES = {"Gram record": "STRUCT(columns", "LIST of steps": "STRUCT(step"}
#: Parameters that are no options of a method.
PARAMETERS = {
    "record": "Gram record, as gram(...) returns it",
    "target": "column to predict",
    "query_or_table": "text: the name of a table or view, as SQL writes it, or one query, which is "
    "run in every pass and must give the same rows each time",
    "options": "STRUCT of what follows, by name; NULL is the default everywhere",
    "groups": "STRUCT or MAP: name -> list of columns or globs; default: every top-level field",
    "costs": "STRUCT or MAP: name -> cost > 0, in any one unit; default: 1 each",
}
#: What searches of a table by its name do.
ABOUT = {
    "anytime_sequence_glm": "order groups by how much of the deviance of a family each explains "
    "for its cost",
    "anytime_sequence_wide": "order groups of a table too wide for its Gram record, rows of which "
    "are read when the search asks for them. A MAP of numbers, or a LIST of STRUCTs of two, is a "
    "column x[17] for each entry",
}
PASSES = (
    "Limits: the passes run on a connection of their own. They see the data committed when the "
    "call began, and neither temporary tables, views and macros nor Python objects; for those, "
    "call dbselect.anytime_sequence(con.table(...), ...) in Python. Ctrl-C ends the search with "
    "the steps so far, but only where DuckDB runs the call on the main thread, which depends on "
    "the query; elsewhere the query ends when the call does."
)
PARAMETER = re.compile(r"^  (\"?\w+\"?(?:, \w+)*)  +(.*)$")


def functions() -> dict[str, tuple[str, str]]:
    """Return the extension's functions: their kind and what they return."""
    with ds.connect() as connection:
        rows = connection.execute(
            "SELECT function_name, function_type, return_type FROM duckdb_functions() "
            "WHERE database_name = 'system'"
        ).fetchall()
    with duckdb.connect() as plain:
        theirs = {
            name
            for (name,) in plain.execute("SELECT function_name FROM duckdb_functions()").fetchall()
        }
    return {
        name: (kind, _short(returned))
        for name, kind, returned in sorted(rows)
        if name not in theirs and not name.startswith(("dbselect", "_"))
    }


def _short(type_name: str) -> str:
    plain = type_name.replace('"', "")
    return next((short for short, start in TYPES.items() if plain.startswith(start)), plain)


def overview() -> dict[str, tuple[str, str]]:
    """Return the calls that the page of functions lists: how they are called, what they return."""
    page = (ROOT / "docs" / "duckdb-functions.md").read_text()
    rows = re.findall(r"^\| (`.*) \| (.*) \|$", page, re.MULTILINE)
    return {
        re.match(r"`(\w+)", call)[1]: (call, returned)
        for calls, returned in rows
        for call in re.split(r"(?<=`), (?=`)", calls)
    }


def of_macro(macro: Macro) -> Iterator[str]:
    """Yield the Markdown of a macro that is made from options."""
    method = OF_RECORDS.get(macro.name, METHODS["anytime_sequence"])
    options = {**options_of(ProblemOptions), **method.known}
    about = ABOUT.get(macro.name, method.about)
    # A parameter stays on the line of its default.
    head = macro.head.replace(" := ", "\u00a0:=\u00a0")
    lines = textwrap.fill(head, 97, subsequent_indent="    ").replace("\u00a0", " ")
    yield f"```sql\n{lines}\n```"
    yield _prose(f"{about[0].upper()}{about[1:]}.")
    yield "\n".join(_rows(
        (one, PARAMETERS.get(name) or _sql(options[name].text))
        for one, name in macro.parameters.items()
    ))  # fmt: skip
    if macro.name in ABOUT:
        yield "NULL without a table."
        yield _prose(PASSES)
    else:
        nothing = "Empty" if method.returns == "sequence" else "NULL"
        yield nothing + " if the record is unusable; gram\\_check returns why."


def _sql(text: str) -> str:
    """Return a text of a docstring as SQL has it."""
    return text.replace('``"', "'").replace('"``', "'").replace("``", "").replace("`", "")


def header(name: str) -> str | None:
    """Return the comment above a macro, with its signature."""
    if name not in texts():
        return None
    lines = texts()[name].split("\n")
    comment = [line.removeprefix("--").removeprefix(" ") for line in lines if line[:2] == "--"]
    return "\n".join(comment)


def documented(text: str) -> Iterator[str]:
    """Yield the Markdown of a header: its call, its prose, and its parameters as a table."""
    call, *blocks = re.split(r"\n\s*\n", text)
    yield f"```sql\n{call.strip()}\n```"
    for block in blocks:
        lines = block.split("\n")
        if PARAMETER.match(lines[0]):
            yield "\n".join(_table(lines))
        elif block.strip():
            yield _prose(" ".join(block.split()))


def _rows(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| parameter | what it is |"
    yield "|---|---|"
    for name, text in rows:
        code = f"`{name.replace(chr(34), '')}`" if name else ""
        yield f"| {code} | {_prose(text)} |"


def _table(lines: list[str]) -> Iterator[str]:
    rows: list[list[str]] = []
    for line in lines:
        found = PARAMETER.match(line)
        if found:
            rows.append([found[1], found[2]])
        elif rows and line.startswith("    "):
            rows[-1][1] += " " + line.strip()
        else:
            rows.append(["", line.strip()])
    yield from _rows(rows)


def _prose(text: str) -> str:
    """Return prose for Markdown, whose signs mean nothing in SQL's comments."""
    return re.sub(r"([*_<|\[\]])", r"\\\1", text)


def example(name: str) -> Iterator[str]:
    """Yield the first statements of a function's tests, and what they answer."""
    path = ROOT / "tests" / "sql" / f"{name}.test"
    if not path.exists():
        return
    shown = []
    for block in re.split(r"\n\s*\n", path.read_text()):
        lines = [line for line in block.strip().split("\n") if not line.startswith("#")]
        if not lines or not lines[0].startswith(("query", "statement ok")):
            continue
        statement, _, answer = "\n".join(lines[1:]).partition("\n----\n")
        shown.append(f"{statement};")
        if lines[0].startswith("query"):
            shown += ["-- " + line.replace("\t", " | ") for line in answer.split("\n")]
            break
    yield "```sql\n" + "\n".join(shown) + "\n```"


def reference() -> str:
    """Return the page of SQL's reference, as Markdown."""
    native, calls = functions(), overview()
    macros = {macro.name: macro for macro in made()}
    text = [
        "# SQL reference",
        "What [DuckDB](duckdb.md) has once `ds.register` or the extension was loaded, with the"
        " first example of each function's tests; what a query answers stands below it as a"
        " comment. A function of *the extension* is there in every client, with options as a"
        " STRUCT; named arguments are those of `dbselect.name(...)` and, on connections of"
        " Python, of the plain name.",
        "> On DuckDB 1.x functions need `dbselect.` before them to [know names of"
        " options](duckdb.md).",
    ]
    for name in sorted({*native, *texts(), *calls} - {"dbselect"}):
        where = "of the extension" if name in native else "of Python's connections"
        kind, returned = native.get(name, ("", ""))
        text.append(f"## {name}")
        text.append(
            f"*{kind or 'function'} {where}*" + (f", returns {returned}" if returned else "")
        )
        told = header(name)
        if name in macros:
            text += of_macro(macros[name])
        elif told is not None:
            text += documented(told)
        else:
            call, what = calls[name]
            text += [call, what[0].upper() + what[1:] + "."]
        text += example(name)
    return "\n\n".join(text) + "\n"

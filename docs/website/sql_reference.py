"""The reference of SQL, made from the comments of the macros, the extension and its tests."""

import re
from collections.abc import Iterator

import duckdb
from pages import ROOT

import dbselect as ds
from dbselect.doors.macros import texts

#: What the record is in every signature, once in full.
TYPES = {"Gram record": "STRUCT(columns", "LIST of steps": "STRUCT(step"}
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
    yield "| parameter | what it is |"
    yield "|---|---|"
    for name, text in rows:
        code = f"`{name.replace(chr(34), '')}`" if name else ""
        yield f"| {code} | {_prose(text)} |"


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
    text = [
        "# SQL reference",
        "What [DuckDB](duckdb.md) has once `ds.register` or the extension was loaded, with the"
        " first example of each function's tests; what a query answers stands below it as a"
        " comment. A function of *the extension* is there in every client, with options as a"
        " STRUCT; named arguments are those of `dbselect.name(...)` and, on connections of"
        " Python, of the plain name.",
    ]
    for name in sorted({*native, *texts(), *calls} - {"dbselect"}):
        where = "of the extension" if name in native else "of Python's connections"
        kind, returned = native.get(name, ("", ""))
        text.append(f"## {name}")
        text.append(
            f"*{kind or 'function'} {where}*" + (f", returns {returned}" if returned else "")
        )
        told = header(name)
        if told is not None:
            text += documented(told)
        else:
            call, what = calls[name]
            text += [call, what[0].upper() + what[1:] + "."]
        text += example(name)
    return "\n\n".join(text) + "\n"

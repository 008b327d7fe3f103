"""Code that repeats a report, in Python and in SQL."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from pprint import pformat
from typing import Any

import polars as pl

from dbselect.errors import DbselectError
from dbselect.pages.report import Section
from dbselect.record.steps import longest_within
from dbselect.results.report.what_if import METHODS
from dbselect.results.sequence import Sequence

#: Characters of an SQL expression that a reader would copy from a page.
MOST_SQL = 20_000
_WIDTH = 92


def code_of(sequence: Any, parts: dict[str, Any], opening: dict[str, Any]) -> Section:
    """Return the section with the code, from `code_parts`, of the model that a page opens at."""
    last = opening["step"] == longest_within(sequence.spent, None)
    model = f"model = seq.at({'' if last else opening['budget']})"
    of = [parts["of"], *([] if parts["target"] is None else [repr(parts["target"])])]
    problem = _call("problem = ds.Problem", of, parts["fields"])
    asked = _call(f"seq = problem.{parts['method']}", [], parts["options"])
    code = {"Python": "\n".join([*parts["before"], problem, asked, *parts["after"], model])}
    notes = []
    asked_in_sql = None if parts["after"] else _search_in_sql(sequence)
    if asked_in_sql is not None:
        code["DuckDB, with the extension dbselect"] = asked_in_sql
    try:
        expression = sequence.model(opening["step"]).sql()
    except DbselectError as error:
        notes.append(f"No SQL: {error}.")
    else:
        if len(expression) <= MOST_SQL:
            code["SQL of the prediction"] = f"SELECT *, {expression} AS prediction\nFROM your_table"
        else:
            notes.append("The prediction in SQL is long; seq.sql(budget) writes it.")
    return Section("Repeat it", notes, code=code)


def code_parts(sequence: Any, source: Any) -> dict[str, Any]:
    """Return the lines of Python that ask the same again, in parts that a page may change."""
    call = sequence.call
    problem = call.problem
    fields = {"groups": problem.groups, "costs": _costs(problem.costs), **problem.changed()}
    fields = {name: value for name, value in fields.items() if value is not None}
    if "family" in fields:
        fields["family"] = str(fields["family"])
    before = ["import dbselect as ds", ""]
    if hasattr(problem.source, "answers"):
        kept = ("costs", "always", "seed")
        return {
            "before": [*before, "# score: the ds.objectives.Score that was asked"],
            "of": "score",
            "target": None,
            "fields": [(name, _text(one)) for name, one in fields.items() if name in kept],
            "method": call.method,
            "options": [(name, _text(value)) for name, value in call.options.items()],
            "after": [],
            "groups": [],
            "columns": None,
        }
    is_path = isinstance(source, str | Path)
    before.append(f"table = {str(source)!r}" if is_path else "# table: the rows that were searched")
    terms = fields.pop("terms", None) or (sequence.terms if call.of_gram else None)
    if terms:
        before.append(_call("terms = ds.Terms.from_struct", [_text(terms.to_struct())], []))
    named = {"terms": _Name("terms")} if terms else {}
    if call.of_gram:
        before += _gram(sequence, terms, named)
    else:
        fields |= named
    asked = dict(zip(sequence.groups.names, sequence.groups.costs.tolist(), strict=True))
    priced = sequence.rule.endswith("at other costs")
    groups = problem.groups or {name: [name] for name in asked}
    return {
        "before": before,
        "of": "gram" if call.of_gram else "table",
        "target": problem.target,
        "fields": [(name, _text(value)) for name, value in fields.items()],
        "method": call.method,
        "options": [(name, _text(value)) for name, value in call.options.items()],
        "after": [_call("seq = seq.with_costs", [_text(asked)], [])] if priced else [],
        "groups": [(name, [own] if isinstance(own, str) else list(own))
                   for name, own in groups.items()],
        "columns": _in_sql(sequence),
    }  # fmt: skip


def _in_sql(sequence: Any) -> list[tuple[str, str]] | None:
    """Return each column as SQL has it; None where a column of the table is not one of these."""
    if type(sequence) is not Sequence or sequence.terms:
        return None
    model = sequence.model(0)
    return [
        (name, replace(model, intercept=0.0, coefficients={name: 1.0}).sql())
        for name in sequence.columns
    ]


def _search_in_sql(sequence: Any) -> str | None:
    """Return the search in DuckDB; None where a record does not hold what it needs."""
    call = sequence.call
    problem = call.problem
    if type(sequence) is not Sequence or call.of_gram or call.method not in METHODS:
        return None
    fields = problem.changed()
    if not set(fields) <= {"ridge", "scale", "intercept", "always"}:
        return None
    named = {"groups": problem.groups, "costs": _costs(problem.costs), **fields, **call.options}
    arguments = [f"{name} := {_sql(value)}" for name, value in named.items() if value is not None]
    asked = ", ".join(["gram(your_table)", _sql(problem.target), *arguments])
    return f"LOAD dbselect;\nSELECT dbselect.{call.method}({asked})\nFROM your_table"


def _sql(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_sql(name)}: {_sql(one)}" for name, one in value.items()) + "}"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool | int | float):
        return repr(value).lower()
    return "[" + ", ".join(map(_sql, value)) + "]"


def _gram(sequence: Any, terms: Any, named: Mapping[str, Any]) -> list[str]:
    """Return the lines that read a Gram by the terms of the one that was searched."""
    policies = terms.policies() if terms else {}
    sources = terms.sources() if terms else {}
    every = [*sequence.groups.members, *sequence.unused, *sequence.call.problem.targets]
    columns = list(dict.fromkeys(sources.get(name, name) for name in every))
    given = {**named, **({"null_policy": policies} if policies else {})}
    return [
        "# The source was a Gram, which does not say whether its rows had a weight.",
        _call(
            "gram = ds.gram", ["table", _text(columns)], [(k, _text(v)) for k, v in given.items()]
        ),
    ]


class _Name(str):
    """A name, which stands in code as it is."""

    def __repr__(self) -> str:
        return str(self)


def _text(value: Any) -> str:
    return pformat(value, width=_WIDTH, sort_dicts=False)


def _call(function: str, places: list[str], named: Iterable[tuple[str, str]]) -> str:
    """Return a call as code, an argument a line where they do not fit into one."""
    arguments = [*places, *(f"{name}={value}" for name, value in named)]
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    indented = [one.replace("\n", "\n    ") for one in arguments]
    return f"{function}(\n" + "".join(f"    {one},\n" for one in indented) + ")"


def _costs(costs: Any) -> Any:
    return costs.to_list() if isinstance(costs, pl.Series) else costs

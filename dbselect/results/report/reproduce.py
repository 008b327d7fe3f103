"""Code that reproduces a report, in Python and SQL, and data with which its page searches anew."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import resources
from pathlib import Path
from pprint import pformat
from typing import Any

import polars as pl

from dbselect.errors import DbselectError
from dbselect.linear.problem import TARGET, numbered
from dbselect.options.conditions import CONDITIONS, Conditions
from dbselect.pages.report import Section
from dbselect.record.steps import longest_within
from dbselect.results.sequence import Sequence

#: Length in characters of the longest SQL expression on a page.
MOST_SQL = 20_000
_WIDTH = 92


def code_of(sequence: Any, parts: dict[str, Any], opening: dict[str, Any]) -> Section:
    """Return the section with the code of the page's first model, from `code_parts`."""
    last = opening["step"] == longest_within(sequence.spent, None)
    model = f"model = seq.at({'' if last else opening['budget']})"
    source = [parts["of"], *([] if parts["target"] is None else [repr(parts["target"])])]
    problem = _call("problem = ds.Problem", source, parts["fields"])
    search = _call(f"seq = problem.{parts['method']}", [], parts["options"])
    code = {"Python": "\n".join([*parts["before"], problem, search, *parts["after"], model])}
    notes = []
    search_in_sql = None if parts["after"] else _search_in_sql(sequence)
    if search_in_sql is not None:
        code["DuckDB, with the extension dbselect"] = search_in_sql
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
    """Return Python code that repeats the search, in parts that a page may change."""
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
            "fields": [(name, _text(value)) for name, value in fields.items() if name in kept],
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
    costs = dict(zip(sequence.groups.names, sequence.groups.costs.tolist(), strict=True))
    has_other_costs = sequence.rule.endswith("at other costs")
    shared = [] if call.shared is None else [("shared", _text(call.shared))]
    groups = problem.groups or {name: [name] for name in costs}
    return {
        "before": before,
        "of": "gram" if call.of_gram else "table",
        "target": problem.target,
        "fields": [(name, _text(value)) for name, value in fields.items()],
        "method": call.method,
        "options": [(name, _text(value)) for name, value in call.options.items()],
        "after": [_call("seq = seq.with_costs", [_text(costs)], shared)] if has_other_costs else [],
        "groups": [(name, [columns] if isinstance(columns, str) else list(columns))
                   for name, columns in groups.items()],
        "columns": _in_sql(sequence),
    }  # fmt: skip


def _in_sql(sequence: Any) -> list[tuple[str, str]] | None:
    """Return SQL for each column; None unless the columns are those of the table."""
    if type(sequence) is not Sequence or sequence.terms:
        return None
    model = sequence.model(0)
    return [
        (name, replace(model, intercept=0.0, coefficients={name: 1.0}).sql())
        for name in sequence.columns
    ]


def _search_in_sql(sequence: Any) -> str | None:
    """Return the search in SQL of DuckDB; None if a Gram record is not enough for it."""
    call = sequence.call
    problem = call.problem
    if type(sequence) is not Sequence or call.of_gram or call.method not in METHODS:
        return None
    fields = problem.changed()
    if not set(fields) <= {"ridge", "scale", "intercept", "always", *CONDITIONS}:
        return None
    named = {"groups": problem.groups, "costs": _costs(problem.costs), **fields,
             **_by_name(problem.told), **call.options}  # fmt: skip
    arguments = [f"{name} := {_sql(value)}" for name, value in named.items() if value is not None]
    call_text = ", ".join(["gram(your_table)", _sql(problem.target), *arguments])
    return f"LOAD dbselect;\nSELECT dbselect.{call.method}({call_text})\nFROM your_table"


def _by_name(told: Conditions) -> dict[str, Any]:
    """Return set-ups and limits with names for their parts, which SQL's lists cannot mix."""
    parts = {"shared": ("cost", "groups"), "limits": ("costs", "limit", "how")}
    return {
        field: {name: dict(zip(keys, value, strict=True)) for name, value in told_of.items()}
        for field, keys in parts.items()
        if (told_of := getattr(told, field))
    }


def _sql(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_sql(key)}: {_sql(item)}" for key, item in value.items()) + "}"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool | int | float):
        return repr(value).lower()
    return "[" + ", ".join(map(_sql, value)) + "]"


def _gram(sequence: Any, terms: Any, named: Mapping[str, Any]) -> list[str]:
    """Return the code that reads a Gram with the terms of the one that was searched."""
    policies = terms.policies() if terms else {}
    sources = terms.sources() if terms else {}
    names = [*sequence.groups.members, *sequence.unused, *sequence.call.problem.targets]
    columns = list(dict.fromkeys(sources.get(name, name) for name in names))
    options = {**named, **({"null_policy": policies} if policies else {})}
    return [
        "# The source was a Gram, which does not say whether its rows had a weight.",
        _call(
            "gram = ds.gram", ["table", _text(columns)], [(k, _text(v)) for k, v in options.items()]
        ),
    ]


class _Name(str):
    """A name that code shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def _text(value: Any) -> str:
    return pformat(value, width=_WIDTH, sort_dicts=False)


def _call(function: str, positional: list[str], named: Iterable[tuple[str, str]]) -> str:
    """Return a call as code; one argument per line if it does not fit into one line."""
    arguments = [*positional, *(f"{name}={value}" for name, value in named)]
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    indented = [argument.replace("\n", "\n    ") for argument in arguments]
    return f"{function}(\n" + "".join(f"    {argument},\n" for argument in indented) + ")"


def _costs(costs: Any) -> Any:
    return costs.to_list() if isinstance(costs, pl.Series) else costs


#: Largest record on a page, in bytes of JSON: some 450 columns.
MOST_RECORD = 2_000_000
#: Rule -> the quantity that it maximises per unit of cost.
RULES = {
    "fr": "exact gain",
    "omp": "gradient, whitened within the group",
    "omp-unwhitened": "gradient",
    "omp-single": "largest entry of the gradient",
    "doubling": "exact gain, costs at most doubled",
}
#: Rules that are equal to another rule on a record.
ALIASES = {"score": "fr", "omp-information": "omp"}
#: Method -> the rules that a page offers; methods without keep their search.
METHODS = {
    "anytime_sequence": list(RULES),
    "foba": list(RULES)[:4],
    "floating": list(RULES)[:4],
    "backward": [],
    "step": [],
}


def module_text() -> str:
    """Return the compiled search, compressed, in base64; empty if it was not built."""
    file = resources.files("dbselect.pages").joinpath("search.wasm")
    if not file.is_file():
        return ""
    return b64encode(gzip.compress(file.read_bytes(), mtime=0)).decode()


def page_record(sequence: Sequence) -> tuple[dict[str, Any], list[list[str]], dict[str, Any]]:
    """Return a record with numbered columns, safe from globs, its groups and problem."""
    problem = sequence.problem
    (record,) = numbered(sequence.gram, sequence.columns, sequence.target).to_pylist()
    columns = [list(map(str, at.tolist())) for at in sequence.groups.positions]
    fields = {"ridge": float(problem.ridge), "scale": problem.scale, "intercept": problem.intercept}
    return record, columns, fields


def search_of(sequence: Any) -> dict[str, Any] | str:
    """Return the input of the page's compiled search, or a sentence why there is none."""
    call = sequence.call
    if type(sequence) is not Sequence:
        return (
            "Costs can be edited only in reports of linear models with one response, of one Gram."
        )
    if sequence.rule.endswith("at other costs"):
        return "Costs cannot be edited here: with_costs changed them after the search."
    if call.method not in METHODS:
        return f"Costs cannot be edited in reports of {call.method}."
    rule = call.options.get("rule", "fr")
    record, columns, fields = page_record(sequence)
    size = len(json.dumps(record))
    if size > MOST_RECORD:
        return (
            f"Costs cannot be edited here: the record of {len(sequence.columns)} columns takes "
            f"{size / 1e6:.1f} MB, and a page holds {MOST_RECORD / 1e6:.0f} MB."
        )
    return {
        "record": record,
        "target": TARGET,
        "method": call.method,
        "groups": list(zip(sequence.groups.names, columns, strict=True)),
        "options": {
            **fields,
            "always": list(call.problem.always),
            **call.problem.told.renamed(str),
            **call.options,
        },
        "rules": [(name, RULES[name]) for name in METHODS[call.method]],
        "rule": ALIASES.get(rule, rule) if METHODS[call.method] else None,
        # A backward search has other limits than a budget.
        "budget": call.method != "backward",
    }

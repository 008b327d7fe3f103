"""The same again, in Python and in SQL."""

from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

import polars as pl

from dbselect.errors import DbselectError
from dbselect.pages.report import Section

#: Characters of an SQL expression that a reader would copy from a page.
MOST_SQL = 20_000
_WIDTH = 92


def code_of(sequence: Any, source: Any) -> Section:
    """Return the section with the code.

    Parameters
    ----------
    source : shown by its name where it is a path
    """
    code = {"Python": python_of(sequence, source)}
    notes = []
    try:
        expression = sequence.sql()
    except DbselectError as error:
        notes.append(f"No SQL: {error}.")
    else:
        if len(expression) <= MOST_SQL:
            code["SQL"] = f"SELECT *, {expression} AS prediction FROM your_table"
        else:
            notes.append("The prediction in SQL is long; seq.sql(budget) writes it.")
    return Section("The same again", notes, code=code)


def python_of(sequence: Any, source: Any) -> str:
    """Return the lines of Python that ask the same problem again."""
    call = sequence.call
    problem = call.problem
    fields = {"groups": problem.groups, "costs": _costs(problem.costs), **problem.changed()}
    fields = {name: value for name, value in fields.items() if value is not None}
    if "family" in fields:
        fields["family"] = str(fields["family"])
    lines = ["import dbselect as ds", ""]
    if hasattr(problem.source, "answers"):
        lines.append("# score: the ds.objectives.Score that was asked")
        named = {name: one for name, one in fields.items() if name in ("costs", "always", "seed")}
        lines.append(_call("problem = ds.Problem", [_Name("score")], named))
        lines.append(_call(f"seq = problem.{call.method}", [], call.options))
        return "\n".join([*lines, "model = seq.at()"])
    is_path = isinstance(source, str | Path)
    lines.append(f"table = {str(source)!r}" if is_path else "# table: the rows that were searched")
    terms = fields.pop("terms", None) or (sequence.terms if call.of_gram else None)
    if terms:
        lines.append(_call("terms = ds.Terms.from_dict", [terms.to_dict()], {}))
    named = {"terms": _Name("terms")} if terms else {}
    if call.of_gram:
        lines += _gram(sequence, terms, named)
    else:
        fields |= named
    of = _Name("gram" if call.of_gram else "table")
    lines.append(_call("problem = ds.Problem", [of, problem.target], fields))
    lines.append(_call(f"seq = problem.{call.method}", [], call.options))
    asked = dict(zip(sequence.groups.names, sequence.groups.costs.tolist(), strict=True))
    if sequence.rule.endswith("at other costs"):
        lines.append(_call("seq = seq.with_costs", [asked], {}))
    return "\n".join([*lines, "model = seq.at()"])


def _gram(sequence: Any, terms: Any, named: Mapping[str, Any]) -> list[str]:
    """Return the lines that read a Gram by the terms of the one that was searched."""
    policies = terms.policies() if terms else {}
    sources = terms.sources() if terms else {}
    every = [*sequence.groups.members, *sequence.unused, *sequence.call.problem.targets]
    columns = list(dict.fromkeys(sources.get(name, name) for name in every))
    given = {**named, **({"null_policy": policies} if policies else {})}
    return [
        "# The source was a Gram, which does not say whether its rows had a weight.",
        _call("gram = ds.gram", [_Name("table"), columns], given),
    ]


class _Name(str):
    """A name, which stands in code as it is."""

    def __repr__(self) -> str:
        return str(self)


def _call(function: str, places: list[Any], named: Mapping[str, Any]) -> str:
    """Return a call as code, an argument a line where they do not fit into one."""
    arguments = [pformat(one, width=_WIDTH, sort_dicts=False) for one in places]
    arguments += [
        f"{name}={pformat(value, width=_WIDTH, sort_dicts=False)}" for name, value in named.items()
    ]
    line = f"{function}({', '.join(arguments)})"
    if len(line) <= _WIDTH and "\n" not in line:
        return line
    indented = [one.replace("\n", "\n    ") for one in arguments]
    return f"{function}(\n" + "".join(f"    {one},\n" for one in indented) + ")"


def _costs(costs: Any) -> Any:
    return costs.to_list() if isinstance(costs, pl.Series) else costs

"""Functions of several tables: two to compare, and facts with tables to join."""

from typing import Any, Unpack

from dbselect.errors import ArgumentError, shown
from dbselect.methods.anytime_tables import anytime_tables as tables_sequence
from dbselect.methods.candidates import Candidates
from dbselect.options.names import PROBLEM_FIELDS
from dbselect.options.option import check_known, options_of, shows
from dbselect.problem.calls import apart
from dbselect.problem.problem import Problem
from dbselect.record.groups import Costs, GroupColumns
from dbselect.results.prefixes import Prefixes
from dbselect.results.sequence import Sequence as LinearSequence
from dbselect.sources.types import Source
from dbselect.spec import options
from dbselect.spec.fields import FIRST, ProblemOptions
from dbselect.spec.methods import METHODS
from dbselect.spec.options import TablesOptions
from dbselect.validation.drift import Drift, drift_from

#: Groups of the columns of facts, or None.
Groups = GroupColumns | None


class AnytimeCall(options.AnytimeOptions, ProblemOptions):
    """Options of a call of `anytime_sequence`, of `drift` or of a record."""


@shows(
    options.AnytimeOptions, ProblemOptions, like=Problem.drift,
    first=(
        "a, b : tables or Grams of the same columns; or a sequence, which has all that follows "
        "from its search, and rows to compare with those of it", *FIRST[1:],
    ),
)  # fmt: skip
def drift(
    a: Source | LinearSequence,
    b: Source | LinearSequence,
    target: str | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[AnytimeCall],
) -> Drift:
    """Compare two sets of rows."""
    check_known("drift", options, [*METHODS["anytime_sequence"].known, *PROBLEM_FIELDS])
    fields, rest = apart(options)
    if not isinstance(a, Prefixes):
        return Problem(a, target, groups, costs, **fields).drift(b, **rest)
    values = {"target": target, "groups": groups, "costs": costs, **options}
    name = next((name for name, value in values.items() if value is not None), None)
    if name is not None:
        raise ArgumentError(f"{name} is {shown(values[name])}; a sequence has its own")
    return drift_from(a, b)


class TablesCall(options.TablesOptions, ProblemOptions):
    """Options of a call of `anytime_tables`."""


@shows(
    options.TablesOptions, ProblemOptions, like=tables_sequence,
    first=(
        "facts : table with the target and the keys, which can be read again",
        "target : column of the facts to predict",
        "candidates : name -> ``(table, key, cost)`` or a `dbselect.io.Candidate`. The key is a "
        "field, a list of fields, or a mapping of the facts' names to the table's. Columns are "
        "called ``<name>.<column>``",
        "groups : name -> columns or globs of the facts' own; default: none",
        "costs : cost of each of these groups; default: 1 each",
    ),
)  # fmt: skip
def anytime_tables(
    facts: Any,
    target: str,
    candidates: Candidates,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[TablesCall],
) -> LinearSequence:
    """Order tables to join to facts."""
    check_known("anytime_tables", options, [*options_of(TablesOptions), *PROBLEM_FIELDS])
    fields, rest = apart(options)
    return tables_sequence(Problem(facts, target, groups, costs, **fields), candidates, **rest)

"""Read the source of a problem: the Gram of its columns, or the table itself."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from dbselect.errors import ArgumentError, SourceError
from dbselect.families import parse
from dbselect.record.columns import field_of, leaves, match
from dbselect.record.gram import Gram
from dbselect.record.groups import patterns_of
from dbselect.sources.open import open_table, stored_gram
from dbselect.sources.read import check_no_rows, read_columns
from dbselect.sources.request import NullPolicy, Table, check_numeric, not_computed, selected
from dbselect.sources.sampling.drawn import sample
from dbselect.spec.spec import Spec


def gram_of_problem(problem: Spec) -> tuple[Gram, list[str]]:
    """Return the Gram and the columns not read, whose missing values skip no row."""
    if "gram" not in problem._read:
        problem._read["gram"] = _gram_of(problem)
    result: tuple[Gram, list[str]] = problem._read["gram"]
    return result


def gram_with(problem: Spec, names: Sequence[str]) -> Gram:
    """Return the Gram of a problem that also has named columns, which no group needs."""
    if not names or problem.groups is None:
        return gram_of_problem(problem)[0]
    return _gram_of(problem, names)[0]


def _gram_of(problem: Spec, also: Sequence[str] = ()) -> tuple[Gram, list[str]]:
    stored = gram_given(problem)
    if stored is not None:
        return stored, []
    patterns = patterns_read(problem)
    if patterns is not None:
        patterns = list(dict.fromkeys([*patterns, *also]))
    table = table_of(problem, patterns)
    check_numeric(table, problem.targets)
    policy = policy_but_for(problem.targets, problem.null_policy)
    return read_columns(table, patterns, problem.weight, policy, problem.terms)


def gram_given(problem: Spec) -> Gram | None:
    """Return the Gram of a source, None for a table; refuse a Gram where rows are needed."""
    source = problem.source
    if source is None:
        raise SourceError("the problem has no rows; give it a source: problem.on(table)")
    if "given" not in problem._read:
        problem._read["given"] = (
            Gram.from_struct(source)
            if isinstance(source, Mapping)
            else stored_gram(source, lambda: _opened(problem, None))
        )
    stored: Gram | None = problem._read["given"]
    if stored is None:
        return None
    if not problem.is_linear:
        model = parse(problem.family) if problem.offset is None else f"an offset '{problem.offset}'"
        raise SourceError(
            f"source is a {type(source).__name__}, which holds no rows, and a fit of {model} reads "
            "them again and again; give the table"
        )
    check_no_rows(problem.weight, problem.null_policy, terms=problem.terms, rows=problem.rows)
    if problem.gram == "lazy":
        raise ArgumentError(
            "gram is 'lazy'; source is a whole Gram: leave gram out, or give a table"
        )
    return stored


def table_of(problem: Spec, patterns: Sequence[str] | None) -> Table:
    """Return the table of a problem, or a sample of it; `patterns` None reads all columns."""
    table = _opened(problem, patterns)
    _check_named(problem, table, patterns or ())
    if problem.rows is None:
        return table
    key = ("drawn", None if patterns is None else tuple(patterns))
    if key not in problem._read:
        problem._read[key] = open_table(_drawn(problem, table, patterns), None)
    drawn: Table = problem._read[key]
    return drawn


def _check_named(problem: Spec, table: Table, patterns: Sequence[str]) -> None:
    """Refuse a target or a column of a group that the table does not have."""
    fields = {*table.schema.names}
    roles = {name: "target" for name in problem.targets if name in patterns}
    for name, definition in (problem.groups or {}).items():
        for pattern in patterns_of(name, definition):
            roles.setdefault(pattern, f"group '{name}'")
    for pattern in not_computed([*roles], problem.terms) or ():
        if fields.isdisjoint((pattern, field_of(pattern))):
            match([pattern], [leaf.name for leaf in leaves(table.schema)], roles[pattern])


def open_once(problem: Spec) -> Table:
    """Open all columns of the table of a problem, for this and all later reads."""
    problem._read["opened"] = table = _opened(problem, None)
    return table


def _opened(problem: Spec, patterns: Sequence[str] | None) -> Table:
    """Return the table of a source; open it only once if it can be read again."""
    if "opened" not in problem._read:
        table = open_table(problem.source, patterns)
        # Each call may name the columns of an array anew.
        if isinstance(problem.source, np.ndarray) or not table.again:
            return table
        problem._read["opened"] = table
    opened: Table = problem._read["opened"]
    return opened


def _drawn(problem: Spec, table: Table, patterns: Sequence[str] | None) -> pa.Table:
    """Sample rows of the columns to read, by a seeded hash of the row number."""
    assert problem.rows is not None
    by_name = {leaf.name: leaf for leaf in leaves(table.schema)}
    apart = [problem.weight, problem.offset, problem.exposure, *problem.targets]
    named = [by_name[name].field for name in apart if name in by_name]
    fields = table.schema.names
    plain = not_computed(patterns, problem.terms)
    if plain is not None:
        fields = [leaf.field for leaf in selected(by_name, plain)]
        fields += [] if problem.terms is None else problem.terms.computed_fields
    return sample(table, list(dict.fromkeys([*fields, *named])), problem.rows, problem.seed).table


def patterns_read(problem: Spec) -> list[str] | None:
    """Return the target and the columns and globs that groups name; None for all columns."""
    named = referenced_columns(problem)
    return None if named is None else list(dict.fromkeys([*problem.targets, *named]))


def referenced_columns(problem: Spec) -> list[str] | None:
    """Return the columns and globs that groups name; None if there are no groups."""
    if isinstance(problem.source, np.ndarray):
        raise ArgumentError(
            "source is an array, whose columns have no names; give a frame, or a Gram made by "
            "gram(array, columns=[...])"
        )
    if problem.groups is None:
        return None
    named = [pattern for group in problem.groups.items() for pattern in patterns_of(*group)]
    return list(dict.fromkeys(named))


def policy_but_for(targets: Sequence[str], null_policy: NullPolicy) -> NullPolicy:
    """Return a null policy that skips rows without a target."""
    if null_policy in ("skip", "em"):  # EM uses rows without the target
        return null_policy
    policies = dict(null_policy) if isinstance(null_policy, Mapping) else {"*": null_policy}
    rest = {name: policy for name, policy in policies.items() if name not in targets}
    return {**rest, **dict.fromkeys(targets, "skip")}  # the last match applies

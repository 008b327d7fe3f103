"""What a problem reads of its source: the Gram of its columns, or the table itself."""

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
from dbselect.sources.request import NullPolicy, Table, not_computed, wanted_of
from dbselect.sources.sampling.sample import sample
from dbselect.sources.target import check_numeric
from dbselect.spec.spec import Spec


def gram_of_problem(problem: Spec) -> tuple[Gram, list[str]]:
    """Return the Gram and the columns not read: a gap in one that no group names skips no row."""
    if "gram" not in problem._read:
        problem._read["gram"] = _gram_of(problem)
    found: tuple[Gram, list[str]] = problem._read["gram"]
    return found


def _gram_of(problem: Spec) -> tuple[Gram, list[str]]:
    stored = gram_given(problem)
    if stored is not None:
        return stored, []
    patterns = patterns_read(problem)
    table = table_of(problem, patterns)
    check_numeric(table, problem.targets)
    policy = policy_but_for(problem.targets, problem.null_policy)
    return read_columns(table, patterns, problem.weight, policy, problem.terms)


def gram_given(problem: Spec) -> Gram | None:
    """Return the Gram that a source is, None if it is a table; refuse one where rows are needed."""
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
        told = parse(problem.family) if problem.offset is None else f"an offset '{problem.offset}'"
        raise SourceError(
            f"source is a {type(source).__name__}, which holds no rows, and a fit of {told} reads "
            "them again and again; give the table"
        )
    check_no_rows(problem.weight, problem.null_policy, terms=problem.terms, rows=problem.rows)
    if problem.gram == "lazy":
        raise ArgumentError(
            "gram is 'lazy'; source is a whole Gram: leave gram out, or give a table"
        )
    return stored


def table_of(problem: Spec, patterns: Sequence[str] | None) -> Table:
    """Return the table of a problem, or the rows drawn of it; `patterns` None reads all."""
    table = _opened(problem, patterns)
    _check_named(problem, table, patterns or ())
    if problem.rows is None:
        return table
    key = ("drawn", None if patterns is None else tuple(patterns))
    if key not in problem._read:
        problem._read[key] = open_table(_drawn(problem, table, patterns), None)
    found: Table = problem._read[key]
    return found


def _check_named(problem: Spec, table: Table, patterns: Sequence[str]) -> None:
    """Refuse a target that is read, and a column of a group, that no field of the table is."""
    fields = {*table.schema.names}
    what = {name: "target" for name in problem.targets if name in patterns}
    for name, means in (problem.groups or {}).items():
        for one in patterns_of(name, means):
            what.setdefault(one, f"group '{name}'")
    for one in not_computed([*what], problem.terms) or ():
        if fields.isdisjoint((one, field_of(one))):
            match([one], [leaf.name for leaf in leaves(table.schema)], what[one])


def open_once(problem: Spec) -> Table:
    """Return the table of a problem, of all its columns, for this and all later reading."""
    problem._read["opened"] = table = _opened(problem, None)
    return table


def _opened(problem: Spec, patterns: Sequence[str] | None) -> Table:
    """Return the table of a source, which is opened once if it can be read again."""
    if "opened" not in problem._read:
        table = open_table(problem.source, patterns)
        # The columns of an array have the names of the call.
        if isinstance(problem.source, np.ndarray) or not table.again:
            return table
        problem._read["opened"] = table
    found: Table = problem._read["opened"]
    return found


def _drawn(problem: Spec, table: Table, patterns: Sequence[str] | None) -> pa.Table:
    """Return some rows of the columns that are read, chosen by a seeded hash of their number."""
    assert problem.rows is not None
    every = {leaf.name: leaf for leaf in leaves(table.schema)}
    apart = [problem.weight, problem.offset, problem.exposure, *problem.targets]
    named = [every[name].field for name in apart if name in every]
    fields = table.schema.names
    plain = not_computed(patterns, problem.terms)
    if plain is not None:
        fields = [leaf.field for leaf in wanted_of(every, plain)]
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
    named = [each for name, means in problem.groups.items() for each in patterns_of(name, means)]
    return list(dict.fromkeys(named))


def policy_but_for(targets: Sequence[str], null_policy: NullPolicy) -> NullPolicy:
    """Return a policy by which rows without a target are left out."""
    if null_policy == "skip":
        return null_policy
    policies = dict(null_policy) if isinstance(null_policy, Mapping) else {"*": null_policy}
    others = {name: each for name, each in policies.items() if name not in targets}
    return {**others, **dict.fromkeys(targets, "skip")}  # the last one holds

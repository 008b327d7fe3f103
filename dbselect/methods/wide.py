"""A search of a table too wide for its Gram: few scans, each for some rows of it.

The first scan gives means, variances and products with the target of all columns. Then the
search runs as on the whole Gram, `linear.lazy_gram` reads the rows that it asks for, and
what comes back is the sequence on the Gram of the groups that were taken.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, DataError, SourceError
from dbselect.linear.lazy_gram import LazyGram, WideLinear
from dbselect.linear.problem import Index, check_usable, is_constant, linear
from dbselect.linear.state import State
from dbselect.methods.setup import (
    LinearSetup,
    check_first,
    check_target,
    finish,
    named_in,
    numbers_of,
    policy_but_for,
    prefix_coefficients,
)
from dbselect.methods.types import Costs, GroupColumns
from dbselect.record.columns import SUFFIX, position
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import Groups, costs_of, groups_of
from dbselect.record.missing import features_of
from dbselect.record.policies import check_missing
from dbselect.record.steps import Step, Stop, fits, name_of
from dbselect.record.terms import Terms
from dbselect.results.wide import WideSequence
from dbselect.selection.criteria import RULES, Criterion
from dbselect.selection.greedy import doubling, greedy_search
from dbselect.sources.gram_rows import Products
from dbselect.sources.many_levels import MOST_LEVELS, fields_of_levels
from dbselect.sources.open import open_table, stored_gram
from dbselect.sources.read import prepared, tell_skipped
from dbselect.sources.request import Table
from dbselect.sources.sparse_rows import Without, sparse_field
from dbselect.sources.target import check_numeric
from dbselect.sources.turns import Callback, turns
from dbselect.sources.wide_rows import WideRows
from dbselect.sources.wide_sums import Margins, Totals
from dbselect.sources.with_bar import with_bar
from dbselect.sources.works import Gathered, Work, gather

#: Doubles of the products within all groups: 2 GB.
MOST_WITHIN = 1 << 28

#: Share of the rows' weight from which a column is there in all of them: sums round.
WHOLE = 1.0 - 1e-12


class Scans:
    """A table that is read again and again for sums of its columns.

    Parameters
    ----------
    table : Table
    rows : how its batches become dense blocks

    Attributes
    ----------
    count : scans begun
    """

    def __init__(self, table: Table, rows: WideRows) -> None:
        self._table = table
        self._rows = rows
        self._centre: tuple[Vector, Vector] = (np.empty(0), np.empty(0))
        self.count = 0

    def margins(self) -> Totals:
        """Return what each column is by itself and beside the target."""
        with Margins(self._rows).begin() as sums:
            self._read(sums, Margins(self._rows))
            found = sums.all()
        self._centre = found.anchor, found.mean
        return found

    def products(self, columns: Index, within: Sequence[Index]) -> tuple[Matrix, list[Matrix]]:
        """Return the products of some columns with all, and those within groups."""
        work = Products(self._rows, *self._centre, columns, tuple(within))
        with work.begin() as sums:
            self._read(sums, work)
        return sums.products, sums.blocks

    def _read(self, sums: Gathered, work: Work) -> None:
        self.count += 1
        scan = with_bar(self._table, self._table.rows, f"scan {self.count}")
        gather(self._table, self._rows.fields, work, sums, scan)


@dataclass(frozen=True)
class WideSetup:
    """A wide problem that is set up.

    Parameters
    ----------
    names : all columns, entries of a field last
    totals : of the first scan, the target last
    one : Gram of the target alone, with what is to be told of the rows
    groups : all groups
    members : the columns of each, as they stand in the rows
    """

    scans: Scans
    rows: WideRows
    names: list[str]
    totals: Totals
    one: Gram
    groups: Groups
    members: list[Index]


def wide_sequence(
    source: Any,
    target: Any,
    groups: GroupColumns | None,
    costs: Costs | None,
    options: Any,
    callback: Callback | None = None,
) -> WideSequence:
    """Order groups of columns as `dbselect.anytime_sequence` does, without their Gram.

    Parameters
    ----------
    options : AnytimeOptions
    callback : who is told of each group

    Raises
    ------
    SourceError : a stream that can be read only once
    ArgumentError : the source is a Gram; groups are so large that they are no better than one
    """
    search = _prepared(source, target, groups, costs, options)
    first = _first(search.groups, options)
    sums = LazyGram(search.scans.products, search.members)
    problem = _problem(search, sums, options.ridge, options.scale)
    promise = [float((problem.c[columns] ** 2).sum()) for columns in search.members]
    sums.promise = np.array(promise) / search.groups.costs
    steps: list[Step] = []
    with turns(options.max_groups or len(first) or None, "groups", callback) as turn:

        def record(step: Step) -> None:
            steps.append(step)
            turn(name_of(step, search.groups), step.explained)

        try:
            if first:
                sums.fetch(first)
            state = State(problem, search.members)
            rule = RULES[options.rule]
            _, stop = greedy_search(
                state,
                search.groups,
                _watched(rule.criterion(state), sums, search.groups.costs),
                cost_limit=doubling(search.groups.costs, options.c_min) if rule.doubling else None,
                budget=options.budget,
                max_groups=options.max_groups,
                always=first,
                record=record,
            )
        except KeyboardInterrupt:
            # The step under way is lost, and the last one stands.
            stop = Stop.INTERRUPTED
    return _finished(search, sums, _as_chosen(steps, options), stop, options)


def _prepared(
    source: Any, target: Any, groups: GroupColumns | None, costs: Costs | None, options: Any
) -> WideSetup:
    """Read the table once and match the groups."""
    check_target(target)
    named = named_in(groups, source)
    if stored_gram(source) is not None:
        raise ArgumentError(
            "wide is True; a Gram has all its rows: leave wide out, or give a table"
        )
    patterns = None if named is None else list(dict.fromkeys([target, *named]))
    table = open_table(source, patterns)
    patterns = None if patterns is None else fields_of_levels(patterns, table.schema)
    sparse = sparse_field(table.schema)
    if sparse is not None and patterns is not None:
        dense = [name for name in patterns if name != sparse and not name.startswith(f"{sparse}[")]
        sparse, patterns = (None, patterns) if len(dense) == len(patterns) else (sparse, dense)
    if not table.again:
        raise SourceError(
            "source is a stream that can be read only once, and a wide search reads the rows "
            "again; give a table, a relation or a file"
        )
    check_numeric(table, [target])
    policies = policy_but_for([target], options.null_policy)
    plain = table if sparse is None else Without(table, sparse)
    request, texts = prepared(plain, patterns, options.weight, policies, max_levels=MOST_LEVELS)
    position(target, request.names, "target")
    rows = WideRows(request, target, None if sparse is None else table.schema.field(sparse))
    scans = Scans(table, rows)
    totals = scans.margins()
    check_missing(request.refusing, totals.missing)
    _check_entries(sparse, options.null_policy, totals.missing)
    entered = range(len(totals.mean) - 1 - len(rows.names))
    names = rows.columns(len(totals.mean) - 1)
    one = _gram(totals, rows, names, [target], totals.squares[-1:, None])
    tell_skipped(one, request)
    check_usable(one, [target])
    features = features_of(_met(rows, totals, texts), target, one.terms)
    met = [names[len(rows.names) + at] for at in entered if totals.squares[len(rows.names) + at]]
    resolved = _groups(features, met, groups, costs, target, one.terms)
    number = {name: j for j, name in enumerate(names)}
    members = [np.array([number[c] for c in own], np.intp) for own in resolved.columns.values()]
    _check_sizes(resolved, members)
    return WideSetup(scans, rows, names, totals, one, resolved, members)


def _check_entries(sparse: str | None, policy: Any, missing: Mapping[str, int]) -> None:
    """Refuse entries that are missing, of a policy that does not leave their rows out."""
    count = 0 if sparse is None else missing.get(sparse, 0)
    if count and policy != "skip" and isinstance(policy, str):
        raise DataError(
            f"field '{sparse}' is missing, or has a missing value, in {count} rows; its entries "
            f"take null_policy 'skip' only, not {policy!r}"
        )


def _groups(
    features: list[str],
    met: list[str],
    groups: GroupColumns | None,
    costs: Costs | None,
    target: str,
    terms: Terms,
) -> Groups:
    """Match the groups; unless they are given, each entry of a field is one."""
    if groups is not None or not met:
        return groups_of([*features, *met], groups, costs, target, terms)
    columns = groups_of(features, None, None, target, terms).columns if features else {}
    columns = {**columns, **{name: [name] for name in met}}
    return Groups(columns, costs_of(list(columns), costs))


def _met(rows: WideRows, totals: Totals, texts: Sequence[str]) -> list[str]:
    """Return the columns but for levels and indicators that no row used has."""
    sources = rows.request.terms.sources()
    mean = dict(zip(rows.names, totals.means[0], strict=False))
    return [
        name
        for name in rows.in_order
        if mean[name] != 0 or not (name.endswith(SUFFIX) or sources.get(name) in texts)
    ]


def _check_sizes(groups: Groups, members: Sequence[Index]) -> None:
    """Refuse groups of so many columns that each is a Gram of its own."""
    sizes = np.array([len(columns) for columns in members])
    largest = int(sizes.argmax())
    if (sizes[sizes > 1] ** 2).sum() > MOST_WITHIN:
        raise ArgumentError(
            f"group '{groups.names[largest]}' has {sizes[largest]} columns, and a wide search "
            "holds the products within each group; give groups= with fewer columns each"
        )


def _first(groups: Groups, options: Any) -> list[int]:
    """Return the groups to take first: those of `always`, and those that `resume` has."""
    first = numbers_of(options.always or (), groups)
    check_first(groups, first, options.budget, options.max_groups)
    if options.resume is None:
        return first
    known = options.resume.groups
    taken = [known.names[step.group] for step in options.resume.records]
    missing = [name for name in taken if name not in groups.columns]
    if missing:
        raise ArgumentError(f"resume has group '{missing[0]}', which this search has not")
    first = list(dict.fromkeys([*first, *(groups.number(name, "resume") for name in taken)]))
    spent = float(groups.costs[first].sum())
    if options.max_groups is not None and len(first) > options.max_groups:
        raise ArgumentError(
            f"resume has {len(first)} groups; max_groups allows {options.max_groups}"
        )
    if not fits(spent, options.budget):
        raise ArgumentError(f"resume spent {spent:g}; that is over the budget of {options.budget}")
    return first


def _as_chosen(steps: list[Step], options: Any) -> list[Step]:
    """Return the steps, those of `resume` among as many groups as they were chosen of."""
    before = [] if options.resume is None else options.resume.records
    again = [replace(step, choice=old.choice) for step, old in zip(steps, before, strict=False)]
    return [*again, *steps[len(again) :]]


def _watched(criterion: Criterion, sums: LazyGram, costs: Vector) -> Criterion:
    """Return a criterion whose scores tell which rows are read ahead."""

    def scores(state: Any) -> Vector:
        found = criterion(state)
        sums.promise = found / costs
        return found

    return scores


def _problem(search: WideSetup, sums: LazyGram, ridge: float, scale: bool) -> WideLinear:
    """Scale columns and target to unit variance, as `linear.problem.scaled` does."""
    totals, weight = search.totals, search.one.weight
    (mean, low), squares = totals.means, totals.squares[:-1]
    deviation = np.sqrt(squares / weight)
    constant = is_constant(deviation, mean[:-1], low[:-1])
    spread = np.where(constant, 1.0, deviation)
    target_spread = np.sqrt(totals.squares[-1] / weight)
    inverse = np.where(constant, 0.0, 1.0 / (spread * np.sqrt(weight)))
    unit = np.ones_like(spread) if scale else spread
    return WideLinear(
        G=np.empty((0, 0)),
        c=totals.products[:-1] * inverse / (target_spread * np.sqrt(weight)),
        ridge=ridge / unit**2,
        unit=unit,
        spread=spread,
        constant=constant,
        mean=mean[:-1],
        target_mean=mean[-1],
        target_spread=target_spread,
        sums=sums,
        inverse=inverse,
    )


def _gram(
    totals: Totals, rows: WideRows, names: list[str], columns: list[str], comoment: Matrix
) -> Gram:
    """Return the Gram of some of the columns `names`, whose means and counts are known."""
    number = {name: j for j, name in enumerate([*names, rows.target])}
    at = [number[name] for name in columns]
    weight = float(totals.weight[-1])
    means, low = totals.means
    mean = dict(zip(rows.names, means.tolist(), strict=False))
    there = dict(zip(rows.names, totals.weight.tolist(), strict=False))
    base = rows.request.base
    terms: Terms = replace(
        base,
        means={name: mean[name] for name in rows.names if there[name] < weight * WHOLE},
        indicators=tuple(name for name in rows.marked if mean[name + SUFFIX] > 0),
        entries=rows.listed(len(names)),
    )
    return Gram(
        columns, totals.rows, totals.skipped, weight, means[at], comoment,
        missing=dict(totals.missing), terms=terms, mean_low=low[at],
    )  # fmt: skip


def _finished(
    search: WideSetup, sums: LazyGram, steps: list[Step], stop: Stop, options: Any
) -> WideSequence:
    """Return the sequence on the Gram of the groups that were taken."""
    taken = [step.group for step in steps]
    names = search.groups.names
    # A sequence has a group, if only one that it did not take.
    shown = taken or [0]
    groups = Groups(
        {names[group]: search.groups.columns[names[group]] for group in shown},
        search.groups.costs[shown],
        search.groups.unused,
    )
    at = np.concatenate([search.members[group] for group in shown])
    gram = _gram(
        search.totals,
        search.rows,
        search.names,
        [*groups.members, search.rows.target],
        _comoment(search, sums, at, is_read=bool(taken)),
    )
    problem = linear(gram, search.rows.target, groups.members, options.ridge, options.scale)
    state = State(problem, groups.positions)
    for number in range(len(taken)):
        state.add(number)
    own = LinearSetup(
        gram, [search.rows.target], groups, options.ridge, options.scale, problem, state, []
    )
    numbered = [replace(step, group=number) for number, step in enumerate(steps)]
    found = finish(own, options.rule, numbered, prefix_coefficients(own), stop, depth=2)
    return WideSequence(
        **vars(found),
        scans=search.scans.count,
        rows_fetched=sums.rows_fetched,
        n_groups=len(names),
        n_columns=len(search.groups.members),
    )


def _comoment(search: WideSetup, sums: LazyGram, at: Index, *, is_read: bool) -> Matrix:
    """Return the comoments of some columns and the target; shape (k + 1, k + 1)."""
    totals = search.totals
    among = sums.among(at) if is_read else np.diag(totals.squares[at])
    comoment = np.empty((len(at) + 1, len(at) + 1))
    comoment[:-1, :-1] = np.tril(among) + np.tril(among, -1).T
    comoment[-1, :-1] = comoment[:-1, -1] = totals.products[at]
    diagonal = np.arange(len(comoment))
    comoment[diagonal, diagonal] = totals.squares[[*at, -1]]
    return comoment

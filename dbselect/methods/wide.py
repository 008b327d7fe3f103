"""A table too wide for its Gram: few scans, each for some rows of it.

The first scan gives means, variances and products with the target of all columns. From then
on a search runs as on the whole Gram (`methods.wide_search`), and `linear.lazy_gram` reads the
rows that it asks for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, DataError, SourceError
from dbselect.linear.lazy_gram import LazyGram, WideLinear
from dbselect.linear.problem import Index, check_usable, is_constant
from dbselect.methods.setup import check_target, named_in, policy_but_for
from dbselect.methods.types import Costs, GroupColumns, NullPolicy
from dbselect.record.columns import SUFFIX, position
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import Groups, costs_of, groups_of
from dbselect.record.missing import features_of
from dbselect.record.policies import check_missing
from dbselect.record.terms import Terms
from dbselect.sources.gram_rows import Products
from dbselect.sources.many_levels import MOST_LEVELS, fields_of_levels
from dbselect.sources.open import open_table, stored_gram
from dbselect.sources.read import prepared, tell_skipped
from dbselect.sources.request import Table
from dbselect.sources.sparse_rows import Without, sparse_field
from dbselect.sources.target import check_numeric
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
class WideTable:
    """A table of which one scan is made: what stands in the place of its Gram.

    Parameters
    ----------
    names : all columns, entries of a field last
    totals : of the first scan, the target last
    one : Gram of the target alone, with what is to be told of the rows
    features : columns to choose from that stand in the rows
    met : those of a field of entries
    """

    scans: Scans
    rows: WideRows
    names: list[str]
    totals: Totals
    one: Gram
    features: list[str]
    met: list[str]

    @property
    def target(self) -> str:
        """The column to predict."""
        return self.rows.target

    def matched(
        self, groups: GroupColumns | None, costs: Costs | None
    ) -> tuple[Groups, list[Index]]:
        """Match the groups, and return the columns of each as they stand in the rows."""
        resolved = _groups(self.features, self.met, groups, costs, self.target, self.one.terms)
        number = {name: j for j, name in enumerate(self.names)}
        members = [np.array([number[c] for c in own], np.intp) for own in resolved.columns.values()]
        _check_sizes(resolved, members)
        return resolved, members

    def problem(self, sums: LazyGram, ridge: float, scale: bool) -> WideLinear:
        """Scale columns and target to unit variance, as `linear.problem.scaled` does."""
        totals, weight = self.totals, self.one.weight
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

    def gram(self, columns: list[str], comoment: Matrix) -> Gram:
        """Return the Gram of some columns, the target among them."""
        return _gram(self.totals, self.rows, self.names, columns, comoment)

    def comoment(self, at: Index, among: Matrix | None) -> Matrix:
        """Return the comoments of some columns and the target; shape (k + 1, k + 1).

        Parameters
        ----------
        among : shape (k, k), those of the columns; None where they were not read
        """
        totals = self.totals
        found = np.diag(totals.squares[at]) if among is None else among
        comoment = np.empty((len(at) + 1, len(at) + 1))
        comoment[:-1, :-1] = np.tril(found) + np.tril(found, -1).T
        comoment[-1, :-1] = comoment[:-1, -1] = totals.products[at]
        diagonal = np.arange(len(comoment))
        comoment[diagonal, diagonal] = totals.squares[[*at, -1]]
        return comoment


def wide_table(
    source: Any,
    target: Any,
    groups: GroupColumns | None,
    weight: str | None,
    null_policy: NullPolicy,
) -> WideTable:
    """Read the columns that groups name, all if there are none, once.

    Raises
    ------
    SourceError : a stream that can be read only once
    ArgumentError : the source is a Gram, or a target that is not one column
    """
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
    policies = policy_but_for([target], null_policy)
    plain = table if sparse is None else Without(table, sparse)
    request, texts = prepared(plain, patterns, weight, policies, max_levels=MOST_LEVELS)
    position(target, request.names, "target")
    rows = WideRows(request, target, None if sparse is None else table.schema.field(sparse))
    scans = Scans(table, rows)
    totals = scans.margins()
    check_missing(request.refusing, totals.missing)
    _check_entries(sparse, null_policy, totals.missing)
    entered = range(len(totals.mean) - 1 - len(rows.names))
    names = rows.columns(len(totals.mean) - 1)
    one = _gram(totals, rows, names, [target], totals.squares[-1:, None])
    tell_skipped(one, request)
    check_usable(one, [target])
    features = features_of(_met(rows, totals, texts), target, one.terms)
    met = [names[len(rows.names) + at] for at in entered if totals.squares[len(rows.names) + at]]
    return WideTable(scans, rows, names, totals, one, features, met)


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

"""A table that is too wide for its Gram: each of a few scans reads some rows of the Gram.

The first scan gives means, variances and products with the target. Then a search runs as on the
whole Gram (`search.lazy`), and `linear.lazy_gram` reads the rows that it needs.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, DataError, GroupError, SourceError
from dbselect.linear.lazy_gram import LazyGram, Scanned, WideLinear
from dbselect.linear.problem import check_usable, scaling
from dbselect.options.conditions import Conditions
from dbselect.record.columns import SUFFIX, leaves, position
from dbselect.record.entries import Mask
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import Costs, GroupColumns, Groups, costs_of, groups_of
from dbselect.record.missing import features_of
from dbselect.record.policies import check_missing
from dbselect.record.terms import Terms
from dbselect.search.table import (
    gram_given,
    patterns_read,
    policy_but_for,
    table_of,
)
from dbselect.sources.around import without
from dbselect.sources.partial.learn import MAX_LEVELS
from dbselect.sources.partial.partial_aggregates import Summing
from dbselect.sources.read import prepared
from dbselect.sources.records import warn_of_skipped_rows, without_levels
from dbselect.sources.request import NullPolicy, Table, check_numeric
from dbselect.sources.wide.gram_rows import LevelProducts, Products
from dbselect.sources.wide.wide_rows import MOST_LEVELS, Index, WideRows, sparse_field
from dbselect.sources.wide.wide_sums import Margins, Totals, filled, fills_of
from dbselect.spec.spec import Spec


class Scans:
    """A table read `count` times for sums; the first scan sets the fills of `rows`."""

    def __init__(self, table: Table, rows: WideRows) -> None:
        self._table = table
        self.rows = rows
        self._centre: tuple[Vector, Vector] = (np.empty(0), np.empty(0))
        self._kept: Index | None = None
        self.count = 0

    def margins(self) -> Totals:
        """Return the moments of each column and its product with the target."""
        present = self._read(Margins(self.rows)).all()
        self.rows = replace(self.rows, fills=fills_of(self.rows, present))
        totals = filled(present, self.rows.fills)
        self._centre = totals.anchor, totals.mean
        return totals

    def products(self, columns: Index, within: Sequence[Index]) -> tuple[Matrix, list[Matrix]]:
        """Return the products of some columns with all, and those within groups."""
        work = Products(self.rows, *self._centre, columns, tuple(within), kept=self._kept)
        return work.around_means(self._read(work))

    def by_level(self, levels: Index) -> tuple[Matrix, Any]:
        """Return sums by level of the dense columns around means, and of entries around 0."""
        work = LevelProducts(self.rows, *self._centre, levels, kept=self._kept)
        return work.around_means(self._read(work))

    def among(self, columns: Index) -> "Scans":
        """Return the scans of the columns at ascending positions, numbered anew."""
        scans = copy(self)
        scans._kept = columns if self._kept is None else self._kept[columns]
        anchor, mean = self._centre
        scans._centre = anchor[[*columns, -1]], mean[[*columns, -1]]
        return scans

    def request(self, _: Index) -> bool:
        """Return False: products always need a scan."""
        return False

    def _read(self, work: Summing) -> Any:
        self.count += 1
        return work.over(self._table, self.rows.fields, f"scan {self.count}")


#: Doubles of the products within all groups: 2 GB.
MOST_WITHIN = 1 << 28

#: Groups of more levels are summed by level: with rows of the Gram, the time would grow with the
#: cube of their number.
MOST_LEVELS_BY_ROW = MAX_LEVELS


@dataclass(frozen=True)
class WideTable:
    """A table after its first scan, in place of its Gram."""

    scans: Scanned
    rows: WideRows
    names: list[str]  # all columns, entries of a field last
    totals: Totals  # of the first scan, the target last
    terms: Terms  # how the columns are made
    features: Sequence[str] = ()  # candidate columns that are dense
    met: Sequence[str] = ()  # candidate columns that are entries of a field

    @property
    def target(self) -> str:
        """The column to predict."""
        return self.rows.target

    @property
    def target_gram(self) -> Gram:
        """The Gram of the target alone."""
        return self.gram([self.target], self.totals.squares[-1:, None])

    def matched(
        self,
        groups: GroupColumns | None,
        costs: Costs | None,
        sharing: bool,
        nested: bool,
        told: Conditions,
    ) -> tuple[Groups, list[Index], int | None]:
        """Match groups; return them, positions of their columns, and the group summed by level."""
        features, met, target = self.features, self.met, self.target
        if groups is not None or not met:
            candidates = [*features, *met]
            resolved = groups_of(
                candidates, groups, costs, target, self.terms, sharing, nested, told
            )
        else:  # each entry of a field is a group
            fields = groups_of(features, None, None, target, self.terms) if features else None
            columns = {**(fields.columns if fields else {}), **{name: [name] for name in met}}
            resolved = Groups(columns, costs_of(list(columns), costs, told), told=told)
        number = {name: j for j, name in enumerate(self.names)}
        lists = resolved.columns.values()
        flat = np.array([number[name] for names in lists for name in names], np.intp)
        members = np.split(flat, np.cumsum([*map(len, lists)])[:-1])
        levels = self._levels(members)
        if levels is not None and np.bincount(flat)[members[levels]].max() > 1:
            raise GroupError(
                f"group '{resolved.names[levels]}' has {len(members[levels])} levels, of which "
                "another group has some; a lazy Gram sums so many by level, and takes them in one "
                "group only: give both groups together as one"
            )
        _check_sizes(resolved, members, levels, len(self.rows.names))
        return resolved, members, levels

    def _levels(self, members: Sequence[Index]) -> int | None:
        """Return the largest group of very many levels of one category; None if there is none."""
        large = [g for g, columns in enumerate(members) if len(columns) > MOST_LEVELS_BY_ROW]
        categories = [group for group in large if self.is_level(members[group]).all()]
        return max(categories, key=lambda group: len(members[group]), default=None)

    def is_level(self, columns: Index) -> Mask:
        """Mark the columns that are levels of the text column with the most levels."""
        many = self.rows.many.categories
        ends = len(self.rows.names) + np.cumsum([0, *(len(category.names) for category in many)])
        # 0 before the levels of all text columns, len(ends) after them.
        text = np.searchsorted(ends, columns, side="right")
        counts = np.bincount(text, minlength=len(ends) + 1)[1:-1]
        marks: Mask = text == 1 + counts.argmax() if counts.any() else np.zeros(len(text), bool)
        return marks

    def of_columns(self, at: Index) -> "WideTable":
        """Return the table of the columns at ascending positions."""
        names = [self.names[j] for j in at.tolist()]
        totals = self.totals.among([*at.tolist(), -1])
        return replace(self, scans=self.scans.among(at), totals=totals, names=names)

    def problem(self, sums: LazyGram, ridge: float, scale: bool) -> WideLinear:
        """Scale columns and target to unit variance, as on the whole Gram."""
        totals, weight = self.totals, float(self.totals.weight[-1])
        (mean, low), squares = totals.means, totals.squares
        fields, inverse = scaling(
            squares[:-1], totals.products[:-1], squares[-1], (mean[:-1], low[:-1]), mean[-1],
            weight, ridge, scale,
        )  # fmt: skip
        return WideLinear(G=np.empty((0, 0)), **fields, sums=sums, inverse=inverse, weight=weight)

    def gram(self, columns: list[str], comoment: Matrix) -> Gram:
        """Return the Gram of some columns, the target among them."""
        names, totals = {*columns}, self.totals
        number = {name: j for j, name in enumerate([*self.names, self.target]) if name in names}
        at = [number[name] for name in columns]
        means, low = totals.means
        return Gram(
            columns, totals.rows, totals.skipped, float(totals.weight[-1]), means[at], comoment,
            missing=dict(totals.missing), terms=self.terms, mean_low=low[at],
        )  # fmt: skip

    def of_rows(self, totals: Totals, scans: Scanned | None = None) -> "WideTable":
        """Return a table with the same columns and the totals of other rows."""
        return replace(self, scans=scans or self.scans, totals=totals)

    def comoment(self, at: Index, among: Matrix | None) -> Matrix:
        """Return comoments with the target, (k + 1, k + 1); `among` None takes products as 0."""
        totals = self.totals
        products = np.diag(totals.squares[at]) if among is None else among
        comoment = np.empty((len(at) + 1, len(at) + 1))
        comoment[:-1, :-1] = np.tril(products) + np.tril(products, -1).T
        comoment[-1, :-1] = comoment[:-1, -1] = totals.products[at]
        np.fill_diagonal(comoment, totals.squares[[*at, -1]])
        return comoment


@dataclass(frozen=True)
class WideSource:
    """A table that can be read again, and what to read of its rows."""

    table: Table
    rows: WideRows
    texts: list[str]  # text columns whose levels were learnt
    null_policy: NullPolicy

    def read(self, scans: Scanned, totals: Totals) -> WideTable:
        """Return the table after its first scan; DataError for no usable rows or refused gaps."""
        rows, target = self.rows, self.rows.target
        check_missing(rows.request.refusing, totals.missing)
        lacking = 0 if rows.sparse is None else totals.missing[rows.sparse]
        if lacking and self.null_policy != "skip" and isinstance(self.null_policy, str):
            raise DataError(
                f"field '{rows.sparse}' is missing, or has a missing value, in {lacking} rows; its "
                f"entries take null_policy 'skip' only, not {self.null_policy!r}"
            )
        names, width = rows.columns(len(totals.mean) - 1), len(rows.names)
        table = WideTable(scans, rows, names, totals, _terms(totals, rows, names, self.texts))
        warn_of_skipped_rows(table.target_gram, rows.request)
        check_usable(table.target_gram, [target])
        features = features_of(_met(rows, totals, self.texts), target, table.terms)
        squares = totals.squares[width:-1]
        met = [name for name, square in zip(names[width:], squares, strict=True) if square]
        return replace(table, features=features, met=met)


def wide_table(problem: Spec) -> WideTable:
    """Scan the columns of the groups once; all columns if there are no groups."""
    if isinstance(problem.source, WideTable):
        check_usable(problem.source.target_gram, problem.targets)
        return problem.source
    gram_given(problem)
    patterns = patterns_read(problem)
    source = wide_source(problem, table_of(problem, patterns), patterns)
    scans = Scans(source.table, source.rows)
    totals = scans.margins()
    return replace(source, rows=scans.rows).read(scans, totals)


def wide_source(problem: Spec, table: Table, patterns: list[str] | None) -> WideSource:
    """Set up the scans of a table; reads only the levels of text columns."""
    target, null_policy = problem.targets[0], problem.null_policy
    sparse = sparse_field(table.schema)
    if sparse is not None and patterns is not None:
        dense = [name for name in patterns if name != sparse and not name.startswith(f"{sparse}[")]
        sparse, patterns = (None, patterns) if len(dense) == len(patterns) else (sparse, dense)
    if not table.again:
        raise SourceError(
            "source is a stream that can be read only once, and a lazy Gram reads the rows "
            "again; give a table, a relation or a file"
        )
    check_numeric(table, [target])
    policies = policy_but_for([target], null_policy)
    plain = table if sparse is None else without(table, sparse)
    request, texts = prepared(
        plain, patterns, problem.weight, policies, max_levels=MOST_LEVELS, terms=problem.terms
    )
    position(target, request.names, "target")
    leaf_paths = {leaf.name: leaf.path for leaf in leaves(table.schema)}
    paths = {category.column: leaf_paths[category.column] for category in request.terms.categories}
    field = None if sparse is None else table.schema.field(sparse)
    rows = WideRows(request, target, paths, field)
    return WideSource(table, rows, texts, null_policy)


def _met(rows: WideRows, totals: Totals, texts: Sequence[str]) -> list[str]:
    """Return the dense columns, without levels and indicators that are 0 in all used rows."""
    sources = rows.request.terms.sources()
    mean = dict(zip(rows.names, totals.means[0], strict=False))
    return [
        name
        for name in rows.in_order
        if mean[name] != 0 or not (name.endswith(SUFFIX) or sources.get(name) in texts)
    ]


def _check_sizes(
    groups: Groups, members: Sequence[Index], levels: int | None, n_dense: int
) -> None:
    """Refuse groups of too many products, or levels of too many sums with dense columns."""
    sizes = np.array([len(columns) for columns in members])
    if levels is not None and sizes[levels] * n_dense > MOST_WITHIN:
        raise ArgumentError(
            f"group '{groups.names[levels]}' has {sizes[levels]} levels, and a lazy Gram holds a "
            f"sum of each of the {n_dense} other columns for each; give groups= with fewer columns"
        )
    if levels is not None:
        sizes[levels] = 0
    largest = int(sizes.argmax())
    if (sizes[sizes > 1] ** 2).sum() > MOST_WITHIN:
        but = "" if levels is None else f" but '{groups.names[levels]}', one of levels"
        raise ArgumentError(
            f"group '{groups.names[largest]}' has {sizes[largest]} columns, and a lazy Gram "
            f"holds the products within each group{but}; give groups= with fewer columns each"
        )


def _terms(totals: Totals, rows: WideRows, names: Sequence[str], texts: Sequence[str]) -> Terms:
    """Return the terms of the columns, without unused levels, with fills of missing values."""
    unused = {name for name, value in zip(names, totals.means[0], strict=False) if value == 0}
    mean = dict(zip(rows.names, totals.means[0].tolist(), strict=False))
    means = {name: mean[name] for name in rows.filled}
    marked = tuple(name for name in rows.marked if mean[name + SUFFIX] > 0)
    fills = dict(zip(rows.names, rows.fills.tolist(), strict=False))
    filled = {name: fills[name] for name in marked if fills[name]}
    return replace(
        without_levels(rows.request.base, unused, texts),
        means=means | rows.request.terms.plain_means | filled,
        indicators=marked,
        entries=rows.listed(len(names)),
    )

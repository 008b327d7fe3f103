"""Repeated passes over a table, each of which computes weighted Grams of columns and formulas.

A pass is described without an engine: columns, formulas, and a factor of the row weight.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import isnan
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from dbselect._arrow import part_of
from dbselect.errors import ColumnError, SourceError
from dbselect.record.columns import Leaf, leaf_of, leaves
from dbselect.record.computed import computed_names
from dbselect.record.dependences import depending
from dbselect.record.formulas import (
    Algebra,
    Formula,
    Path,
    Plan,
    arrays,
    column,
    date,
    lookup,
    plan,
    polars,
    translate,
)
from dbselect.record.gram import Gram
from dbselect.record.inputs import inputs_as_fitted, single_fields
from dbselect.record.missing import features_of
from dbselect.record.policies import too_few, warn_of_skipped
from dbselect.record.terms import Terms
from dbselect.sources.around import Around
from dbselect.sources.open import open_table
from dbselect.sources.partial.gather import GramWork
from dbselect.sources.partial.learn import MAX_LEVELS, terms_for
from dbselect.sources.partial.partial_aggregates import (
    Changed,
    Reduce,
    Tally,
    Together,
    Work,
    gather,
)
from dbselect.sources.partial.values import Values, read_values
from dbselect.sources.progress import PROGRESS_DELAY
from dbselect.sources.read import check_left_out, why_left_out
from dbselect.sources.request import (
    Consumer,
    Request,
    Table,
    columns_of,
    not_computed,
    request_of,
    selected,
)
from dbselect.sources.rows import values

#: Prefix of the names of formula columns, which no column of a table may have.
PREFIX = "__dbselect_"
#: Name of shared subexpressions.
KEPT = f"{PREFIX}kept"


@dataclass(frozen=True)
class Weighted:
    """A Gram to compute in a pass: of columns of the table, and of formulas."""

    #: Name -> formula, the columns after those of the table
    added: Mapping[str, Formula] = field(default_factory=dict)
    factor: Formula | None = None  # multiplies the row weight; None = 1
    columns: Sequence[str] | None = None  # columns of the table; None = all


class Passes:
    """Some columns of a table that can be read more than once.

    Columns in `apart` are in no Gram, unless formulas use them; the first is the target, whose
    products are in no Gram either. `names` are the columns of every Gram, by default all that the
    terms make of `columns`. The default terms have text as categories, learnt by a pass of their
    own. `taken` are the source columns of `names`, `unread` numeric and text columns without a
    role; `bytes_read` is the size of all passes in memory, as Arrow stores numbers.
    """

    def __init__(
        self,
        source: Any,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
        apart: Sequence[str] = (),
        terms: Terms | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self._table = open_table(source, columns)
        columns = not_computed(columns, terms)
        if not self._table.again:
            raise SourceError(
                "source is a stream that can be read only once, and every step of the fit reads "
                "the rows again; give a table, a relation or a file"
            )
        self._leaves = {leaf.name: leaf for leaf in leaves(self._table.schema)}
        clash = next((name for name in self._leaves if name.startswith(PREFIX)), None)
        if clash is not None:
            raise ColumnError(f"column '{clash}' has a name that dbselect uses itself; rename it")
        left_out = {*apart, weight}
        available = selected(columns_of(self._table.schema), columns)
        chosen = [leaf for leaf in available if leaf.name not in left_out]
        learnt = terms_for(self._table, [leaf.name for leaf in chosen if leaf.is_text], terms=terms)
        read = [leaf.name for leaf in chosen] or columns
        request = request_of(self._table.schema, read, weight, terms=learnt)
        if chosen and names is None:
            why = why_left_out(self._table, MAX_LEVELS, terms)
            check_left_out(self._table, request, columns, why)
        unknown = {*request.left_out} - {*learnt.columns}
        self.taken = [name for name in request.taken if name not in left_out | unknown]
        self._columns = [self._leaves[name] for name in self.taken]
        self._weight = weight
        self.terms = request.terms if names is None else learnt
        made = self.terms.columns
        if names is None:
            names = [made_name for name in self.taken for made_name in made.get(name, [name])]
            names += computed_names(self.terms.computed)
        self.names = features_of(names, apart[:1], self.terms)
        inputs = {n: part for part in inputs_as_fitted(self.names, self.terms) for n in part.names}
        self._made = {
            name: inputs[name].column_formula(name)
            for name in self.names
            if name not in self._leaves or inputs[name].missing is not None
        }
        roles = left_out.union(self.taken)
        self.unread = [
            name
            for name, leaf in self._leaves.items()
            if (leaf.is_numeric or leaf.is_text) and name not in roles
        ]
        self.count = 0
        self.rows_read = 0
        self.bytes_read = 0
        self._bar: Any = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the number of passes on a terminal after a few seconds."""
        with tqdm(
            initial=self.count, unit=" passes", delay=PROGRESS_DELAY, disable=None, leave=False
        ) as self._bar:
            yield
        self._bar = None

    def leaf(self, name: Any, what: str) -> Leaf:
        """Return the column of the table with this name; `what` names the argument in errors."""
        return leaf_of(name, self._leaves, what)

    def column(self, name: Any, what: str = "columns") -> Formula:
        """Return the column with this name, made or of the table, as a formula."""
        if name in self._made:
            return self._made[name]
        leaf = self.leaf(name, what)
        return column(leaf.path) if leaf.unit is None else date(leaf.path, leaf.unit)

    def fields(self, names: Iterable[str]) -> list[str]:
        """Return the top-level fields of the columns and of the named ones."""
        read = [*self._columns, *(self._leaves[name] for name in names)]
        return list(dict.fromkeys([*(leaf.field for leaf in read), *self.terms.computed_fields]))

    def values_of(self, leaf: Leaf, most: int) -> list[Any]:
        """Read the distinct values of a column in order, without NULL; stop soon after `most`."""
        distinct = Values(most=most)
        read_values(self._table, {leaf.name: distinct})
        counts = distinct.counts()
        self._note(int(counts["rows"].sum()), [leaf.field])
        return [value for value in counts["value"].to_list() if not _is_missing(value)]

    def check_skipped(self, gram: Gram, names: Sequence[str]) -> None:
        """Warn if more than a tenth of the rows is left out; one more pass finds the causes."""
        if too_few(gram.rows, gram.skipped):
            inputs = single_fields(*inputs_as_fitted(names, self.terms))
            needed = [part.source for part in inputs if part.missing is None]
            warn_of_skipped(
                gram.rows,
                gram.skipped,
                self._missing(needed),
                weighted=self._weight is not None,
            )

    def _missing(self, names: Sequence[str]) -> dict[str, int]:
        """Count the rows in which each column is NULL or NaN, in one pass."""
        fields = list(dict.fromkeys(self._leaves[name].field for name in names))
        paths = {name: self._leaves[name].path for name in names}
        counts = Tally(partial(gaps_of, paths)).over(self._table, fields)
        self._note(counts.pop(None, 0), fields)
        return {name: counts[name] for name in names}

    def read(self, specs: Sequence[Weighted]) -> list[Gram]:
        """Make one pass and return a Gram for each of `specs`."""
        formulas: dict[str, Formula] = {}
        requests = []
        for number, spec in enumerate(specs):
            weight = self._weight
            if spec.factor is not None:
                weight = f"{PREFIX}weight{number}"
                formulas[weight] = spec.factor
                if self._weight is not None:
                    formulas[weight] = column((self._weight,)) * spec.factor
            added = {f"{PREFIX}{number}_{name}": formula for name, formula in spec.added.items()}
            formulas |= added
            names = self.names if spec.columns is None else spec.columns
            leaves_read = [self._leaf_read(name, formulas) for name in names]
            leaves_read += [Leaf(name, (name,), pa.float64()) for name in added]
            requests.append(Request(leaves_read, weight, [], ["skip"] * len(leaves_read)))
        steps = plan(formulas, KEPT)
        read = [leaf.field for request in requests for leaf in request.columns]
        there = {*self._table.schema.names}
        read = [name for name in [*read, *_fields(steps)] if name in there]
        read += [] if self._weight is None else [self._weight]
        fields = list(dict.fromkeys(read))
        grams = self._grams(_extended(self._table, fields, steps), requests)
        self._note(grams[0].rows + grams[0].skipped, fields)
        named = [
            Gram(
                [*(self.names if spec.columns is None else spec.columns), *spec.added],
                g.rows,
                g.skipped,
                g.weight,
                g.mean,
                g.comoment,
                mean_low=g.mean_low,
            )
            for spec, g in zip(specs, grams, strict=True)
        ]
        return [depending(gram, self.terms) for gram in named]

    def _leaf_read(self, name: str, formulas: dict[str, Formula]) -> Leaf:
        """Return the column to read; for a made column, add its formula to `formulas`."""
        if name not in self._made:
            return self._leaves[name]
        made = f"{PREFIX}made{self.names.index(name)}"
        formulas[made] = self._made[name]
        return Leaf(made, (made,), pa.float64())

    def _grams(self, table: Table, requests: Sequence[Request]) -> list[Gram]:
        aggregate = getattr(table, "aggregate_all", None)
        records = aggregate(requests) if aggregate else None
        if records is not None:
            return [
                request.without_rows(self._table.rows or 0)
                if record is None
                else Gram.from_struct(record)
                for request, record in zip(requests, records, strict=True)
            ]
        fields = list(dict.fromkeys(name for request in requests for name in request.fields))
        work = Together([GramWork(request, self._table.schema) for request in requests])
        with work.begin() as sums:
            gather(table, fields, work, sums)
            return [Gram.from_struct(state.record()) for state in sums.states]

    def _note(self, rows: int, fields: Sequence[str]) -> None:
        widths = [
            leaf.type.bit_width
            for leaf in self._leaves.values()
            if leaf.field in fields and leaf.is_numeric
        ]
        self.count += 1
        self.rows_read += rows
        self.bytes_read += rows * sum(widths) // 8
        if self._bar is not None:
            self._bar.update()


class _Extended(Around):
    """A table of Arrow batches with formula columns, computed by NumPy."""

    def __init__(self, table: Table, fields: list[str], formulas: Mapping[str, Formula]) -> None:
        super().__init__(table, table.schema)
        self._fields = fields
        self._formulas = formulas

    def scan(self, fields: list[str], consume: Consumer) -> None:
        extend = _extending(self._formulas, fields)
        self._table.scan(self._fields, lambda batch: consume(extend(batch)))

    @property
    def reduce(self) -> Reduce | None:
        inner = super().reduce
        return inner and partial(self._reduce, inner)

    def _reduce(self, inner: Reduce, fields: list[str], work: Work) -> Iterable[bytes]:
        return inner(self._fields, Changed(work, partial(_extending, self._formulas, fields)))


def _extending(formulas: Mapping[str, Formula], fields: list[str]) -> Callable[[Any], pa.Table]:
    """Return a function that adds formula columns to a batch and selects `fields`."""
    # Formulas are compared by identity, so each process plans its own copies.
    steps = plan(formulas, KEPT)

    def extend(batch: Any) -> pa.Table:
        parts = pa.table(batch).to_batches()
        return pa.Table.from_batches([_with_formulas(part, steps).select(fields) for part in parts])

    return extend


def _with_formulas(batch: pa.RecordBatch, steps: Plan) -> pa.RecordBatch:
    results: dict[str, Any] = {}
    names = steps.names
    algebra = algebra_of(batch, lambda formula: results[names[id(formula)]])
    # The kernel refuses a row with an infinite result and leaves out a row with NaN.
    with np.errstate(all="ignore"):
        for layer in steps.layers:
            for name, formula in layer.items():
                result = translate(formula, algebra)
                results[name] = np.broadcast_to(result, batch.num_rows)
    for name in steps.layers[-1]:
        batch = batch.append_column(name, pa.array(np.ascontiguousarray(results[name])))
    return batch


def algebra_of(batch: pa.RecordBatch, kept: Callable[[Formula], Any] | None = None) -> Algebra[Any]:
    """Return the algebra that evaluates formulas on a batch as NumPy arrays, NaN for NULL."""
    rows = batch.to_struct_array()
    columns: dict[Path, Any] = {}

    def column_of(path: Path) -> Any:
        if path not in columns:
            columns[path] = values(rows, path)
        return columns[path]

    def equals(path: Path, value: Any) -> Any:
        array = part_of(rows, path)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_string_view(array.type):  # has no kernel for equality
            array = array.cast(pa.large_string())
        same = pc.equal(array, pa.scalar(value))
        return pc.cast(same, pa.float64()).to_numpy(zero_copy_only=False)

    def by_polars(path: Path, formula: Callable[[Path], Formula]) -> Any:
        frame = pl.DataFrame({"x": part_of(rows, path)})
        result = translate(formula(("x",)), polars())
        return frame.select(result.fill_null(np.nan)).to_series().to_numpy()

    return arrays(
        column_of,
        kept,
        equals=equals,
        date=lambda path, unit: by_polars(path, lambda x: date(x, unit)),
        lookup=lambda table: by_polars(table.path, lambda x: lookup(replace(table, path=x))),
    )


def _extended(table: Any, fields: list[str], steps: Plan) -> Any:
    if hasattr(table, "extended"):
        return table.extended(fields, steps)
    return _Extended(table, fields, steps.layers[-1])


def _fields(steps: Plan) -> list[str]:
    formulas = [formula for layer in steps.layers for formula in layer.values()]
    return [field for formula in formulas for field in formula.fields()]


def gaps_of(paths: Mapping[str, Path], batch: Any) -> Counter[str | None]:
    """Count all rows, under the key None, and those in which each column is NULL or NaN."""
    counts: Counter[str | None] = Counter()
    for part in pa.table(batch).to_batches():
        struct = part.to_struct_array()
        counts[None] += len(struct)
        for name, path in paths.items():
            counts[name] += pc.is_null(part_of(struct, path), nan_is_null=True).true_count
    return counts


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))

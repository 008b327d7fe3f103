"""Terms: how the columns of a table become the columns of a record."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, TypeVar, overload

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError, DataError, RecordError, unknown
from dbselect.pages.html import listed
from dbselect.record import files
from dbselect.record.bases import (
    Basis,
    Log,
    Poly,
    Spline,
    Vector,
    expressions,
    infinite,
    numbers,
)
from dbselect.record.categories import Category, kind_of
from dbselect.record.columns import SUFFIX, Leaf, field_of, leaves
from dbselect.record.computed import Computed, computed_names, computed_values, flat_name
from dbselect.record.entries import Entries
from dbselect.record.foreign import Stream, in_memory, is_frame, native
from dbselect.record.formulas import polars, translate
from dbselect.record.policies import policies_of

Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)


@dataclass(frozen=True, repr=False)
class Terms(files.Stored):
    """Levels of categories, and centers and knots of bases, as `dbselect.terms` finds them.

    Tables that are read with the same terms give records with equal columns, which merge, and
    a model of one can be evaluated on another; only indicators of missing values may differ.

    Parameters
    ----------
    categories : columns whose levels become columns of 0 and 1
    bases : columns that become polynomials or splines of themselves
    dates : columns of dates, which count as days since 1970, and of timestamps, which
        count as seconds: column -> ``"days"`` or ``"seconds"``
    means : column of the record -> the number that replaced its missing values; for a level,
        its share
    indicators : columns of the record beside a column ``<name>.missing`` that is 1 where a
        value was missing; they are 0 there, unless `means` has another number for them
    flat : plain fields whose names look nested: ``Sepal.Length``
    entries : fields that list the nonzero entries of a row; only a lazy Gram reads them
    computed : products, transforms and factors of a formula, besides their source columns
    formula : the formula for which the terms were found
    dropped : of a pattern of `dbselect.patterns`, columns that some of its rows had, and which were
        left out as there were too many patterns
    em : of a record that `Patterns.em` completed: how; its moments are no sums of rows

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"k": ["a", "b", "b", "a"], "x": [1.0, 2.0, 3.0, 5.0]})
    >>> terms = ds.terms(table, categories=["k"], basis={"x": ("poly", 2)})
    >>> terms.columns
    {'k': ['k.a', 'k.b'], 'x': ['x.poly1', 'x.poly2']}
    >>> terms.transform(table)["x.poly1"].to_list()
    [-1.0, -0.5, 0.0, 1.0]
    >>> ds.Terms.from_struct(terms.to_struct()) == terms
    True
    """

    categories: tuple[Category, ...] = ()
    bases: tuple[Basis, ...] = ()
    dates: Mapping[str, str] = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    indicators: tuple[str, ...] = ()
    flat: tuple[str, ...] = ()
    entries: tuple[Entries, ...] = ()
    computed: tuple[Computed, ...] = ()
    formula: str | None = None
    dropped: tuple[str, ...] = ()
    em: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        return f"Terms({self.formula or listed(self.made)})"

    @property
    def completed(self) -> str:
        """What a result says of rows that EM completed."""
        return "" if self.em is None else ", completed by EM"

    @property
    def made(self) -> list[str]:
        """Names of the fields and terms that become columns."""
        return [*self.columns, *dict.fromkeys(term.group for term in self.computed)]

    @property
    def columns(self) -> dict[str, list[str]]:
        """Field -> columns made from it."""
        return {term.column: term.names for term in (*self.categories, *self.bases)}

    @overload
    def transform(self, frame: Frame, *, null_policy: str | Mapping[str, str] = ...) -> Frame: ...

    @overload
    def transform(
        self, frame: Stream, *, null_policy: str | Mapping[str, str] = ...
    ) -> pl.DataFrame: ...

    def transform(self, frame: Any, *, null_policy: str | Mapping[str, str] = "skip") -> Any:
        """Add the columns that a record of these terms has to a DataFrame or LazyFrame.

        Predictions do not need this; ``model.expr(nested=False)`` reads these columns by
        their plain names. A value that is no level is 1 in the column ``other``, or 0 in
        every column if there is no ``other``.

        Parameters
        ----------
        frame : with the fields of the terms; a frame of another library, or an Arrow
            table, comes back as a Polars DataFrame
        null_policy : of these fields, as in `dbselect.gram`: ``"skip"`` makes NULL of what
            is missing, ``"indicator"`` makes 0 and always adds the indicator column

        Raises
        ------
        ColumnError : a field is missing, has another type, or a new column is there already
        ArgumentError : another policy, which needs more than one row or makes no column
        """
        if not is_frame(frame):
            raise ArgumentError(
                f"frame is a {type(frame).__name__}; it must be a frame or an Arrow table"
            )
        frame = native(frame)
        if not isinstance(frame, pl.DataFrame | pl.LazyFrame):
            frame = in_memory(frame)
        empty = pl.DataFrame(schema=frame.collect_schema())
        self.check(pa.RecordBatchReader.from_stream(empty).schema)
        columns = self._made(null_policy)
        for name in (column.meta.output_name() for column in columns):
            if name in empty.columns:
                raise ColumnError(
                    f"there is a column '{name}', the name of an indicator; rename it"
                )
        return frame.with_columns(columns)

    def _made(self, null_policy: str | Mapping[str, str]) -> list[pl.Expr]:
        """Return the new columns as expressions."""
        fields = list(self.columns)
        policies = dict(zip(fields, policies_of(null_policy, fields), strict=True))
        for policy in policies.values():
            if policy not in ("skip", "indicator"):
                raise ArgumentError(
                    f"null_policy is {policy!r}; new columns take 'skip' or 'indicator'"
                )
        marked = {column for column in fields if policies[column] == "indicator"}
        return [
            *(expr for c in self.categories for expr in c.indicators(c.column in marked)),
            *(expr for basis in self.bases for expr in expressions(basis, basis.column in marked)),
            *(
                translate(term.column_formula(name), polars()).alias(name)
                for term in self.computed
                for name in term.names
            ),
        ]

    def expand(self, batch: Any) -> Any:
        """Add made columns to rows of Polars or Arrow; DataError for an infinite value."""
        columns: dict[str, Any] = {}
        for basis in self.bases:
            # Only these fields go to Polars, which cannot read every slice of an Arrow batch.
            x = numbers(pl.DataFrame(batch.select([basis.column]))[basis.column])
            if np.isinf(x).any():
                raise DataError(infinite(basis.column))
            columns |= dict(zip(basis.names, basis.values(x).T, strict=True))
        columns |= self.computed_columns(batch)
        if not columns:
            return batch
        if isinstance(batch, pl.DataFrame):
            return batch.with_columns(**columns)
        return type(batch).from_arrays(
            [*batch.columns, *map(pa.array, columns.values())],
            [*batch.schema.names, *columns],
        )

    def computed_columns(self, batch: Any) -> dict[str, Vector]:
        """Return the computed columns of Polars or Arrow rows; NaN where missing."""
        if not self.computed:
            return {}
        values = computed_values(self.computed, pl.DataFrame(batch.select(self.computed_fields)))
        return dict(zip(computed_names(self.computed), values.T, strict=True))

    @property
    def computed_fields(self) -> list[str]:
        """The top-level fields that computed columns read."""
        paths = (path for term in self.computed for path in term.paths)
        return list(dict.fromkeys(str(path[0]) for path in paths))

    def check(self, schema: pa.Schema) -> None:
        """Raise ColumnError if a table does not fit these terms."""
        for category in self.categories:
            kind = check_category(category.column, schema)
            if category.kind not in (kind, None):
                raise ColumnError(
                    f"column '{category.column}' is {kind}; the levels of its category are "
                    f"{category.kind}"
                )
        for basis in self.bases:
            check_number(basis.column, schema)
        leaf_columns = leaves(schema)
        paths = {leaf.path: leaf for leaf in leaf_columns}
        for term in self.computed:
            for path, is_category in term.paths.items():
                check_computed(term.group, paths.get(path), flat_name(path), is_category)
        fields = {leaf.name: leaf.field for leaf in leaf_columns}
        computed = {term.group: list(term.names) for term in self.computed}
        for column, names in (*self.columns.items(), *computed.items()):
            for name in names:
                if name in fields:
                    raise ColumnError(
                        f"column '{column}' becomes columns of which one is '{name}'; "
                        f"there is a column of that name, of field '{fields[name]}'"
                    )
                fields[name] = column

    def nested_groups(
        self, groups: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, list[str]]:
        """Return groups, and for products across groups a group that contains both.

        Pass them to `dbselect.anytime_sequence` with costs of the given groups only: a product
        costs the groups of its factors that are not bought yet (strong hierarchy). Products
        within a group belong to it.

        Parameters
        ----------
        groups : name -> columns, no globs; products of other columns are left out. Default: one
            group for each column that has products
        """
        if groups is None:
            groups = {column: [column] for term in self.computed for column in term.of}
        owner = {column: name for name, columns in groups.items() for column in columns}
        nested = {name: list(columns) for name, columns in groups.items()}
        for term in self.computed:
            if not all(column in owner for column in term.of):
                continue
            parents = dict.fromkeys(owner[column] for column in term.of)
            both = [column for name in parents for column in groups[name]]
            nested.setdefault(":".join(parents), both).extend(term.names)
        return nested

    def to_struct(self) -> dict[str, Any]:
        """Return the terms as plain data for JSON."""
        record = {
            "categories": [_without_none(asdict(category)) for category in self.categories],
            "bases": [asdict(basis) for basis in self.bases],
            "dates": dict(self.dates),
            "means": dict(self.means),
            "indicators": self.indicators,
            "flat": self.flat,
            # Absent when empty, so that stored terms without them do not change.
            "entries": [asdict(entry) for entry in self.entries] or None,
            "computed": [term.to_dict() for term in self.computed] or None,
            "formula": self.formula,
            "dropped": self.dropped or None,
            "em": self.em,
        }
        return _without_none(record)

    @classmethod
    def from_struct(cls, record: Mapping[str, Any]) -> Self:
        """Read the data of `to_struct`; RecordError if they are something else."""
        try:
            categories = tuple(map(_category, record["categories"]))
            bases = tuple(map(_basis, record["bases"]))
            for column in (term.column for term in (*categories, *bases)):
                if not isinstance(column, str):
                    raise TypeError(f"{column!r} is no name of a column")
            return cls(
                categories,
                bases,
                {str(name): str(unit) for name, unit in record.get("dates", {}).items()},
                {str(name): float(mean) for name, mean in record.get("means", {}).items()},
                tuple(map(str, record.get("indicators", ()))),
                tuple(map(str, record.get("flat", ()))),
                tuple(
                    Entries(**{**entry, "children": tuple(entry["children"])})
                    for entry in record.get("entries", ())
                ),
                tuple(map(Computed.from_dict, record.get("computed", ()))),
                record.get("formula"),
                tuple(map(str, record.get("dropped", ()))),
                record.get("em"),
            )
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise RecordError(f"this is no record of terms: {error}") from None

    def to_json(self) -> str | None:
        """Return the terms as the field ``terms`` of a Gram record has them; None if empty."""
        return json.dumps(self.to_struct(), allow_nan=False) if self else None

    @classmethod
    def from_json(cls, text: str | None) -> Self:
        """Read the text of `to_json`; RecordError if it is something else."""
        if text is None:
            return cls()
        try:
            record = json.loads(text)
        except (TypeError, ValueError) as error:
            raise RecordError(f"gram record has terms that are no JSON: {error}") from None
        return cls.from_struct(record)

    def __bool__(self) -> bool:
        """Whether any column is transformed."""
        return self != Terms()

    def with_shares(self, means: Mapping[str, float]) -> Self:
        """Return terms with the share of each level in the rows of the fit."""
        if not self.categories:
            return self
        shared = (
            replace(levels, shares=tuple(float(means.get(n, 0.0)) for n in levels.marked_names))
            for levels in self.categories
        )
        return replace(self, categories=tuple(shared))

    def without_shares(self) -> Self:
        """Return terms as in a record, without the shares of a fit."""
        if all(category.shares is None for category in self.categories):
            return self
        plain = (replace(category, shares=None) for category in self.categories)
        return replace(self, categories=tuple(plain))

    def sources(self) -> dict[str, str]:
        """Return made column -> its column of the table."""
        sources = {name: term.column for term in self.bases for name in term.names}
        for category in self.categories:
            sources |= dict.fromkeys([*category.names, category.missing], category.column)
        marks = {name + SUFFIX: sources.get(name, name) for name in self.indicators}
        return sources | marks

    @property
    def fills(self) -> dict[str, float]:
        """Numbers other than 0 that replace missing values of columns with an indicator."""
        return {name: self.means[name] for name in self.indicators if name in self.means}

    @property
    def plain_means(self) -> dict[str, float]:
        """Numbers that replace missing values of columns without an indicator."""
        return {name: mean for name, mean in self.means.items() if name not in self.indicators}

    def fields(self, columns: Sequence[str]) -> list[str]:
        """Return the top-level field, or the term, of each column of a record."""
        terms = {name: term.group for term in self.computed for name in term.names}
        sources = self.sources()
        named = (sources.get(name, name) for name in columns)
        return [
            terms.get(name.removesuffix(SUFFIX)) or (name if name in self.flat else field_of(name))
            for name in named
        ]

    def policies(self) -> dict[str, str]:
        """Return column of the table -> its policy for missing values, where it has one."""
        sources = self.sources()
        policies = {category.column: category.null_policy for category in self.categories}
        for names, policy in ((self.means, "mean"), (self.indicators, "indicator")):
            policies |= {sources.get(name, name): policy for name in names}
        return policies

    def of(self, columns: Collection[str]) -> Self:
        """Return the terms of some columns of a record."""
        sources = self.sources()
        kept = {sources.get(name, name) for name in columns}
        return replace(
            self,
            categories=tuple(
                c for c in self.categories if not {*c.names, c.missing}.isdisjoint(columns)
            ),
            bases=tuple(basis for basis in self.bases if not set(basis.names).isdisjoint(columns)),
            dates={name: unit for name, unit in self.dates.items() if name in columns},
            means={name: mean for name, mean in self.means.items() if name in columns},
            indicators=tuple(name for name in self.indicators if name + SUFFIX in columns),
            flat=tuple(name for name in self.flat if name in kept),
            entries=tuple(entry for entry in self.entries if entry.numbers(columns)),
            computed=tuple(t for t in self.computed if not set(t.names).isdisjoint(columns)),
        )


def _without_none(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if value is not None}


def _category(record: Mapping[str, Any]) -> Category:
    """Read a category; ValueError if its shares do not fit its columns."""
    shares = record.get("shares")
    if shares is not None:
        shares = tuple(float(share) for share in shares)
    category = Category(**{**record, "levels": tuple(record["levels"]), "shares": shares})
    needed = len(category.marked_names)
    if shares is not None and not (len(shares) == needed and np.isfinite(shares).all()):
        raise ValueError(f"shares of '{category.column}' must be {needed} numbers")
    return category


def _basis(record: Mapping[str, Any]) -> Basis:
    """Read a basis; its class follows from its fields."""
    if "knots" in record:
        return Spline(**{**record, "knots": tuple(record["knots"])})
    return Poly(**record) if "degree" in record else Log(**record)


def check_category(column: str, schema: pa.Schema) -> str:
    """Return the kind of a column of categories; ColumnError for other columns."""
    type_ = _type_of("categories", column, schema)
    kind = kind_of(type_)
    if kind is None:
        raise ColumnError(
            f"categories names column '{column}' of type {type_}; it must be text, ENUM, "
            "Categorical, boolean or integer"
        )
    return kind


def check_number(column: str, schema: pa.Schema) -> None:
    """Raise ColumnError if a column is not numeric."""
    type_ = _type_of("basis", column, schema)
    if not (
        pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    ):
        raise ColumnError(f"basis names column '{column}' of type {type_}; it must be numeric")


def check_computed(term: str, leaf: Leaf | None, name: str, is_category: bool) -> None:
    """Raise ColumnError if a term cannot read a column."""
    if leaf is None:
        raise ColumnError(f"the table lacks column '{name}', which term '{term}' reads")
    is_date = leaf.unit is not None
    if not (kind_of(leaf.type) if is_category else leaf.is_numeric and not is_date):
        allowed = "text, boolean or integer" if is_category else "numeric"
        raise ColumnError(
            f"term '{term}' reads column '{name}' of type {leaf.type}; it must be {allowed}"
        )


def _type_of(what: str, column: Any, schema: pa.Schema) -> pa.DataType:
    if not isinstance(column, str):
        raise ArgumentError(f"{what} names {column!r}; it must be the name of a column")
    if column in schema.names:
        return schema.field(column).type
    nested = {leaf.name: leaf.type for leaf in leaves(schema)} if what == "categories" else {}
    if column not in nested:
        raise ColumnError(f"{what} names {unknown('column', column, schema.names)}")
    return nested[column]

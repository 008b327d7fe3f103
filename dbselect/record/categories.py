"""Categories: columns whose levels become columns of 0 and 1."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa
from pyarrow import types

Level = str | int | bool


@dataclass(frozen=True)
class Category:
    """A categorical column with its levels."""

    column: str  # a field of text, ENUM, Categorical, boolean or integer type
    levels: tuple[Level, ...]  # values with a column each, in this order
    # whether a last column ``other`` is 1 for all other values; without it they are 0 in every
    # column
    rest: bool
    null_policy: str = "skip"  # how a NULL is treated: ``"skip"``, ``"mean"`` or ``"indicator"``
    # for models, the mean of each column of `marked_names` over the rows of the fit; None if
    # unknown, as in Gram records; not compared by ==
    shares: tuple[float, ...] | None = field(default=None, compare=False, repr=False)
    # baseline level, whose column is in no model
    reference: Level | None = None

    @property
    def kind(self) -> str | None:
        """The kind of the levels: text, boolean or integer; None without levels."""
        return kind_of_levels(self.levels)

    @property
    def texts(self) -> list[str]:
        """The levels as text."""
        return [text_of(level) for level in self.levels]

    @property
    def names(self) -> list[str]:
        """The columns: ``carrier.AA``, ``carrier.UA``, ..., ``carrier.other``."""
        rest = [f"{self.column}.{self._apart('other')}"] if self.rest else []
        return [*(self.name_of(level) for level in self.levels), *rest]

    @property
    def marked_names(self) -> list[str]:
        """The columns, and last the indicator of missing values, whether or not it is used."""
        return [*self.names, self.missing]

    def mean_effect(self, coefficients: Mapping[str, float]) -> float | None:
        """Return the mean contribution of the levels in the fit; None without shares."""
        if self.shares is None:
            return None
        pairs = zip(self.marked_names, self.shares, strict=True)
        return sum(share * coefficients.get(name, 0.0) for name, share in pairs)

    def name_of(self, level: Level) -> str:
        """Return the column of a level."""
        return f"{self.column}.{text_of(level)}"

    @property
    def missing(self) -> str:
        """The indicator of missing values, used with policy ``"indicator"``."""
        return f"{self.column}.{self._apart('missing')}"

    def _apart(self, name: str) -> str:
        """Append underscores until the name differs from every level."""
        while name in self.texts:
            name += "_"
        return name

    def indicators(self, marked: bool = False) -> list[pl.Expr]:
        """Return the columns of 0 and 1, NULL for NULL; if `marked`, 0 and an indicator."""
        column = pl.col(self.column)
        levels = pl.Series(self.levels, dtype=self._dtype())
        codes = column.cast(levels.dtype, strict=False).replace_strict(
            levels,
            pl.Series(range(len(levels)), dtype=pl.UInt32),
            default=len(levels),
            return_dtype=pl.UInt32,
        )
        codes = pl.when(column.is_not_null()).then(codes)
        columns = [(codes == j).cast(pl.Float64).alias(name) for j, name in enumerate(self.names)]
        if not marked:
            return columns
        missing = column.is_null().cast(pl.Float64).alias(self.missing)
        return [*(indicator.fill_null(0.0) for indicator in columns), missing]

    def _dtype(self) -> pl.DataType:
        if self.kind == "text":
            return pl.String()
        small = all(-(2**63) <= level < 2**63 for level in self.levels)  # type: ignore[operator]
        return pl.Int64() if small else pl.Int128()


def kind_of(type_: pa.DataType) -> str | None:
    """Return the kind of categories of a type: text, boolean or integer; None for others."""
    if types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_):
        return "text"
    if types.is_boolean(type_):
        return "boolean"
    return "integer" if types.is_integer(type_) else None


def kind_of_levels(levels: Iterable[object]) -> str | None:
    """Return the common kind of the levels; None if there is none."""
    kinds = {bool: "boolean", int: "integer", str: "text"}
    present = {kinds.get(type(level)) for level in levels}
    return present.pop() if len(present) == 1 else None


def text_of(level: Level) -> str:
    """Return a level as text; booleans in lower case."""
    return str(level).lower() if isinstance(level, bool) else str(level)


def text_schema(schema: pa.Schema) -> pa.Schema:
    """Return a schema in which dictionaries of fractions, intervals, ... have text values."""
    for at, coded in enumerate(schema):
        if _is_coded(coded.type):
            type_ = pa.dictionary(coded.type.index_type, pa.string(), coded.type.ordered)
            schema = schema.set(at, coded.with_type(type_))
    return schema


def with_text_levels(table: Any) -> Any:
    """Convert dictionaries of fractions, intervals, ... in an Arrow table or batch to text."""
    for at, coded in enumerate(table.schema):
        if not _is_coded(coded.type):
            continue
        column = table.column(at)
        parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        ordered = coded.type.ordered
        texts = [
            pa.DictionaryArray.from_arrays(
                part.indices, level_texts(part.dictionary), ordered=ordered
            )
            for part in parts
        ]
        type_ = pa.dictionary(coded.type.index_type, pa.string(), ordered)
        is_chunked = isinstance(column, pa.ChunkedArray)
        whole = pa.chunked_array(texts, type_) if is_chunked else texts[0]
        table = table.set_column(at, coded.name, whole)
    return table


def _is_coded(type_: pa.DataType) -> bool:
    """Whether a type is a dictionary of values that are no levels: fractions, intervals, ..."""
    return bool(types.is_dictionary(type_)) and kind_of(type_) is None


def level_texts(values: pa.Array) -> pa.Array:
    """Convert levels to text; pandas intervals as in pandas."""
    if isinstance(values, pa.ExtensionArray):
        closed = getattr(values.type, "closed", "right")
        opening, closing = (
            "[" if closed in ("left", "both") else "(",
            "]" if closed in ("right", "both") else ")",
        )
        ends = values.storage.to_pylist()
        return pa.array(
            [
                None if end is None else f"{opening}{end['left']}, {end['right']}{closing}"
                for end in ends
            ],
            pa.string(),
        )
    try:
        return values.cast(pa.string())
    except pa.ArrowNotImplementedError:
        return pa.array(
            [None if level is None else str(level) for level in values.to_pylist()], pa.string()
        )

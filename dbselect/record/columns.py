"""Column names: the leaves of a table, and which of them a pattern means.

A table's fields are flattened to columns: a number field ``x`` is ``x``, a
child of a STRUCT field is ``demo.age``, an element of a fixed-size ARRAY field
is ``emb[3]``, counted from 1. The native library flattens by the same rule.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyarrow import types

from dbselect.errors import ArgumentError, ColumnError, unknown
from dbselect.record.categories import kind_of

#: What the name of an indicator of missing values adds to that of its column.
SUFFIX = ".missing"
#: Name of the intercept among the terms of a model; no column that explains is called so.
INTERCEPT = "(intercept)"


@dataclass(frozen=True)
class Leaf:
    """One flattened column."""

    name: str  # flattened name
    # the top-level field, then names of children and numbers of elements
    path: tuple[str | int, ...]
    type: pa.DataType  # Arrow type

    @property
    def field(self) -> str:
        """The top-level field that the column lies in."""
        return str(self.path[0])

    @property
    def is_numeric(self) -> bool:
        """Whether the column enters a Gram as a number."""
        return bool(
            types.is_boolean(self.type)
            or types.is_integer(self.type)
            or types.is_floating(self.type)
            or (types.is_decimal(self.type) and self.type.bit_width <= 128)
            or self.unit
        )

    @property
    def is_text(self) -> bool:
        """Whether the column is text or a category, whose levels become columns of 0 and 1."""
        kind = kind_of(self.type)
        return kind == "text" or (kind is not None and bool(types.is_dictionary(self.type)))

    @property
    def looks_nested(self) -> bool:
        """Whether a plain field has the name of a child or an element of another."""
        return len(self.path) == 1 and field_of(self.name) != self.name

    @property
    def unit(self) -> str | None:
        """What a date or a timestamp counts since 1970: ``"days"`` or ``"seconds"``."""
        if types.is_date(self.type):
            return "days"
        return "seconds" if types.is_timestamp(self.type) else None


def leaves(schema: pa.Schema) -> list[Leaf]:
    """Flatten the fields of a table, in their order."""
    return [leaf for field in schema for leaf in _flatten(field.name, (field.name,), field.type)]


def _flatten(name: str, path: tuple[str | int, ...], type_: pa.DataType) -> Iterator[Leaf]:
    if types.is_struct(type_):
        for child in type_:
            yield from _flatten(f"{name}.{child.name}", (*path, child.name), child.type)
    elif types.is_fixed_size_list(type_):
        for element in range(1, type_.list_size + 1):
            yield from _flatten(f"{name}[{element}]", (*path, element), type_.value_type)
    else:
        yield Leaf(name, path, type_)


def field_of(column: str) -> str:
    """Top-level field of a flattened column: ``demo.age`` and ``demo[1]`` lie in ``demo``."""
    return column.partition(".")[0].partition("[")[0] or column


def with_indicators(
    columns: Sequence[str], names: Collection[str], named: Collection[str]
) -> list[str]:
    """Return columns, each with its indicator ``x.missing`` after it unless that is `named`."""
    found: list[str] = []
    for column in columns:
        found.append(column)
        if (mark := column + SUFFIX) in names and mark not in named:
            found.append(mark)
    return found


def match(
    patterns: Sequence[str], names: Sequence[str], what: str, exact_only: Sequence[str] = ()
) -> list[str]:
    """Return the columns, of `names`, that some patterns mean, in the order of the patterns.

    A pattern is a column, a nested field at any depth, or a glob of ``*`` and ``?``; only their own
    names mean the columns `exact_only`. ArgumentError, by the argument `what`, if patterns are no
    list of texts; ColumnError if one means no column, or a column is named twice.
    """
    if isinstance(patterns, str) or not all(isinstance(pattern, str) for pattern in patterns):
        raise ArgumentError(f"{what} is {patterns!r}; it must be a list of column names and globs")
    known = dict.fromkeys([*names, *exact_only])
    found: dict[str, None] = {}
    exact: set[str] = set()
    for pattern in patterns:
        if pattern in known:
            if pattern in exact:
                raise ColumnError(f"{what} names column '{pattern}' twice")
            exact.add(pattern)
            found[pattern] = None
            continue
        means = [name for name in names if name.startswith((f"{pattern}.", f"{pattern}["))]
        if not means and set(pattern) & set("*?"):
            glob = re.compile(
                "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern),
                re.DOTALL,
            )
            means = [name for name in names if glob.fullmatch(name)]
        if not means:
            raise ColumnError(f"{what} names {unknown('column', pattern, list(known))}")
        found.update(dict.fromkeys(means))
    return list(found)


def check_roles(columns: Sequence[str] | None, roles: Mapping[str, str | None]) -> None:
    """Raise ColumnError for columns requested by name that have another role already."""
    for role, name in roles.items():
        if columns is not None and name is not None and name in columns:
            raise ColumnError(f"columns names '{name}', which is the {role}; leave one of both out")


def position(column: str, names: Sequence[str], what: str) -> int:
    """Return the index of a column among the columns there are; ColumnError if it is not."""
    if not isinstance(column, str):
        raise ColumnError(f"{what} is {column!r}; it must be the name of a column")
    if column in names:
        return names.index(column)
    made = [name for name in names if name.startswith((f"{column}.", f"{column}["))]
    if made:
        raise ColumnError(
            f"{what} names '{column}', of which there is a column for each level or part, as "
            f"'{made[0]}'; give one of these, cast text that holds numbers before the sums, or "
            "give the table and family 'multinomial' for all levels"
        )
    raise ColumnError(f"{what} names {unknown('column', column, names)}")


def leaf_of(name: Any, known: Mapping[str, Leaf], what: str) -> Leaf:
    """Return the column that an argument names; an error for no text and for no column."""
    if not isinstance(name, str):
        raise ArgumentError(f"{what} is {name!r}; it must be the name of a column")
    if name not in known:
        raise ColumnError(f"{what} names {unknown('column', name, list(known))}")
    return known[name]


def lacking(columns: Sequence[str], names: Sequence[str]) -> str:
    """Describe columns that a table lacks, with near names of those that it has."""
    shown = list(columns)[:10]
    more = f" and {len(columns) - len(shown)} more" if len(columns) > len(shown) else ""
    near = [difflib.get_close_matches(str(name), names, n=1) for name in shown]
    likely = list(dict.fromkeys(name for own in near for name in own))[:3]
    there = f"; there is {_quoted(likely)}" if likely else ""
    noun = "column" if len(columns) == 1 else "columns"
    return f"the rows lack {noun} {_quoted(shown)}{more}, which the prediction reads{there}"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)

"""Column names: the flattened columns of a table, and patterns of them.

A table's fields are flattened to columns: a number field ``x`` is ``x``, a
child of a STRUCT field is ``demo.age``, an element of a fixed-size ARRAY field
is ``emb[3]``, counted from 1. The native library flattens by the same rule.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from dbselect.errors import MOST_SHOWN, ArgumentError, ColumnError, shown, unknown
from dbselect.record.categories import kind_of

#: Suffix of the indicator of missing values of a column.
SUFFIX = ".missing"
#: Name of the intercept among the terms of a model; no feature may have it.
INTERCEPT = "(intercept)"


@dataclass(frozen=True)
class Leaf:
    """One flattened column."""

    name: str  # flattened name
    # the top-level field, then child names and element numbers
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
        """Whether a plain field has a name like that of a child or an element."""
        return len(self.path) == 1 and field_of(self.name) != self.name

    @property
    def unit(self) -> str | None:
        """Unit of a date or a timestamp since 1970: ``"days"`` or ``"seconds"``."""
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


def doubled(names: Iterable[str]) -> str | None:
    """Return the first name that occurs twice; None if all differ."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def numbers_among(sought: Iterable[str], names: Iterable[str]) -> npt.NDArray[np.intp]:
    """Return the index of each name sought among distinct names."""
    at = {name: index for index, name in enumerate(names)}
    return np.array([at[name] for name in sought], dtype=np.intp)


def field_of(column: str) -> str:
    """Top-level field of a flattened column: ``demo.age`` and ``demo[1]`` lie in ``demo``."""
    return column.partition(".")[0].partition("[")[0] or column


def with_indicators(
    columns: Sequence[str], names: Collection[str], named: Collection[str]
) -> list[str]:
    """Return columns, each followed by its indicator ``x.missing`` unless that is in `named`."""
    extended: list[str] = []
    for column in columns:
        extended.append(column)
        if (mark := column + SUFFIX) in names and mark not in named:
            extended.append(mark)
    return extended


def match(
    patterns: Sequence[str], names: Sequence[str], what: str, exact_only: Sequence[str] = ()
) -> list[str]:
    """Return the columns among `names` that match patterns, in the order of the patterns.

    A pattern is a column, a nested field at any depth, or a glob of ``*`` and ``?``; columns in
    `exact_only` match only their full name. ArgumentError, which names the argument `what`, if
    patterns is not a list of strings; ColumnError if a pattern matches no column or repeats one.
    """
    if isinstance(patterns, str) or not all(isinstance(pattern, str) for pattern in patterns):
        due = "it must be a list of column names and globs"
        if isinstance(patterns, str) or len(repr(patterns)) <= MOST_SHOWN:
            raise ArgumentError(f"{what} is {patterns!r}; {due}")
        odd = next(pattern for pattern in patterns if not isinstance(pattern, str))
        raise ArgumentError(f"{what} has {shown(odd)}; {due}, and the target one of the columns")
    allowed = dict.fromkeys([*names, *exact_only])
    matched: dict[str, None] = {}
    exact: set[str] = set()
    for pattern in patterns:
        if pattern in allowed:
            if pattern in exact:
                raise ColumnError(f"{what} names column '{pattern}' twice")
            exact.add(pattern)
            matched[pattern] = None
            continue
        matching = [name for name in names if name.startswith((f"{pattern}.", f"{pattern}["))]
        if not matching and set(pattern) & set("*?"):
            glob = re.compile(
                "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern),
                re.DOTALL,
            )
            matching = [name for name in names if glob.fullmatch(name)]
        if not matching:
            raise ColumnError(f"{what} names {unknown('column', pattern, list(allowed))}")
        matched.update(dict.fromkeys(matching))
    return list(matched)


def check_roles(columns: Sequence[str] | None, roles: Mapping[str, str | None]) -> None:
    """Raise ColumnError if `columns` names a column that has another role."""
    for role, name in roles.items():
        if columns is not None and name is not None and name in columns:
            raise ColumnError(f"columns names '{name}', which is the {role}; leave one of both out")


def position(column: str, names: Sequence[str], what: str) -> int:
    """Return the index of a column in `names`; ColumnError if it is not there."""
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


def leaf_of(name: Any, table: Mapping[str, Leaf], what: str) -> Leaf:
    """Return the column that an argument names; ArgumentError or ColumnError for another value."""
    if not isinstance(name, str):
        raise ArgumentError(f"{what} is {name!r}; it must be the name of a column")
    if name not in table:
        raise ColumnError(f"{what} names {unknown('column', name, list(table))}")
    return table[name]


def lacking(columns: Sequence[str], names: Sequence[str]) -> str:
    """Return the message for columns that a table lacks, with close matches."""
    shown = list(columns)[:10]
    more = f" and {len(columns) - len(shown)} more" if len(columns) > len(shown) else ""
    near = [difflib.get_close_matches(str(name), names, n=1) for name in shown]
    likely = list(dict.fromkeys(name for matches in near for name in matches))[:3]
    hint = f"; there is {_quoted(likely)}" if likely else ""
    noun = "column" if len(columns) == 1 else "columns"
    return f"the rows lack {noun} {_quoted(shown)}{more}, which the prediction reads{hint}"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)

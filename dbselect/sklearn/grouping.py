"""Groups of an array's columns: by name, by number, or by the transformer that made them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dbselect.errors import ArgumentError
from dbselect.options.kinds import is_whole

#: What ColumnTransformer and FeatureUnion put between the name of a transformer and a column's.
BETWEEN = "__"
#: The groups that are the transformers.
PREFIX = "prefix"


def columns_of_groups(groups: Any, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns and globs of each group.

    Given is None, each column alone; ``"prefix"``, the columns of a transformer together; or a
    mapping of names to a column, a glob, a number from 0, or a list of these. ArgumentError for
    anything else.
    """
    if groups is None:
        return {name: [name] for name in names}
    if isinstance(groups, str) and groups == PREFIX:
        found: dict[str, list[str]] = {}
        for name in names:
            found.setdefault(name.partition(BETWEEN)[0], []).append(name)
        return found
    if not isinstance(groups, Mapping):
        raise ArgumentError(
            f"groups is {groups!r}; it must be None, 'prefix', or map names to lists of columns"
        )
    return {name: _members(name, means, names) for name, means in groups.items()}


def _members(group: Any, means: Any, names: Sequence[str]) -> list[str]:
    several = isinstance(means, Iterable) and not isinstance(means, str)
    return [_column(group, one, names) for one in (means if several else [means])]


def _column(group: Any, one: Any, names: Sequence[str]) -> str:
    if isinstance(one, str):
        return one
    if not is_whole(one) or not 0 <= int(one) < len(names):
        raise ArgumentError(
            f"group {group!r} has {one!r}; it must have names of columns, or numbers from 0 to "
            f"{len(names) - 1}"
        )
    return names[int(one)]

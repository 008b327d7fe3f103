"""Whether a table has so many columns that a search had better not make their Gram."""

from collections.abc import Mapping
from typing import Any

from dbselect.errors import ArgumentError, SourceError, WideWarning, warn_caller
from dbselect.methods.glm_objective import GlmObjective
from dbselect.methods.setup import named_in
from dbselect.sources.open import open_table, stored_gram
from dbselect.sources.request import columns_of, wanted_of

#: Columns of which a search makes the Gram without being told to: 4 GB.
MOST_COLUMNS = 10_000
#: Bytes of a search on a Gram, for each pair of columns.
BYTES = 40


def check_wide(wide: Any, intercept: bool) -> None:
    """Refuse what says neither yes nor no, and a wide search through the origin."""
    if wide is not None and not isinstance(wide, bool):
        raise ArgumentError(
            f"wide is {wide!r}; it must be True or False, or None to decide by the columns"
        )
    if wide and not intercept:
        raise ArgumentError("intercept is False; a wide search reads centred rows of its Gram")


def wide_or_not(
    source: Any, target: Any, groups: Any, wide: bool | None, intercept: bool
) -> tuple[Any, bool]:
    """Return the source, opened if it had to be looked at, and whether its search is wide.

    Parameters
    ----------
    source, target, groups : as in `dbselect.anytime_sequence`
    wide : None decides by the columns that are wanted: more than `MOST_COLUMNS`
    intercept : False for models through the origin, which no wide search has

    Raises
    ------
    SourceError, ArgumentError : there are more, and what is asked for needs their Gram

    Warns
    -----
    WideWarning : nobody asked, and the search is wide
    """
    is_asked = wide is not None or not isinstance(target, str | list | tuple)
    if is_asked or isinstance(source, GlmObjective | Mapping):
        return source, bool(wide)
    stored = stored_gram(source)
    if stored is not None:
        return stored, False
    named = named_in(groups, source)
    targets = [target] if isinstance(target, str) else target
    patterns = None if named is None else list(dict.fromkeys([*targets, *named]))
    table = open_table(source, patterns)
    every = columns_of(table.schema)
    count = len(every)
    if count > MOST_COLUMNS:
        count = len(wanted_of(every, patterns))
    if count <= MOST_COLUMNS:
        return table, False
    many = f"source has {count:,} columns, and a search on their Gram takes some {_size(count)}"
    if not isinstance(target, str):
        raise ArgumentError(f"{many}, which several responses need: wide=False makes it")
    if not intercept:
        raise ArgumentError(f"{many}, which models through the origin need: wide=False makes it")
    if not table.again:
        raise SourceError(
            f"{many}; a wide search takes less and reads the rows again, but this stream can be "
            "read only once: give a table, a relation or a file, or wide=False"
        )
    warn_caller(
        f"{many}: this one is wide, and reads the table again for the rows of the Gram that it "
        "needs; wide=True says that this is meant, wide=False makes the Gram",
        WideWarning,
    )
    return table, True


def _size(count: int) -> str:
    return f"{BYTES * count**2 / 1e9:,.0f} GB"

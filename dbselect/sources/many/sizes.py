"""How many bytes the sums and the records of the groups of a table take."""

import math
import os
import re
from dataclasses import dataclass
from typing import Any

from dbselect.errors import ArgumentError
from dbselect.sources.partial.key_count import rows_and_keys
from dbselect.sources.request import Request, Table

#: Powers of 1000, or of 1024 with an i.
UNITS = ("", "K", "M", "G", "T")
#: Bytes that a group takes beside its sums, and one of its columns beside numbers.
GROUP, NAME = 120, 24


@dataclass(frozen=True)
class Sizes:
    """What the groups of a table take."""

    rows: int
    groups: int  # an estimate
    fields: int  # read of a row
    width: int  # columns of a record
    state: int  # bytes of a group's sums while they are made
    record: int  # bytes of its record

    @property
    def records(self) -> int:
        """Bytes of all records."""
        return self.groups * self.record

    @property
    def groups_in_words(self) -> str:
        """The groups in words."""
        return f"about {self.groups:,} groups of {self.width} columns"


def sizes_of(table: Table, request: Request) -> Sizes:
    """Estimate what the groups of a table take; its keys are read once for it."""
    rows, keys = rows_and_keys(table, request.by)
    groups = max(keys, 1) * (request.folding.k if request.folding else 1)
    width = request.width
    each = rows / groups
    sums = width * (width + 1) // 2 + 2 * width
    if each <= (32 if width <= 16 else width / 2):
        state = 8 * min(sums, math.ceil(width * (each + 4))) + GROUP
    else:
        state = 8 * (sums + width * min(max(width, 32), 64)) + GROUP
    record = 8 * (sums + 2 * width) + NAME * width + GROUP
    return Sizes(rows, groups, len(request.fields), width, state, record)


def check_room(sizes: Sizes, limit: int) -> None:
    """Refuse to hold all records where they take more than a limit."""
    if sizes.records > limit:
        records = f"the records of {sizes.groups_in_words} take {in_words(sizes.records)}"
        raise ArgumentError(
            f"{records}, and memory_limit is {in_words(limit)}; give out='grams.parquet', to which "
            "they are written"
        )


def check_width(request: Request) -> None:
    """Refuse a Gram that the memory of this machine cannot hold."""
    needed = 8 * request.width**2
    if needed > _memory():
        raise ArgumentError(
            f"columns are {request.width:,}, whose Gram takes {in_words(needed)}; this machine has "
            f"{in_words(_memory())}: give fewer, or search with gram='lazy', which never holds it"
        )


def _memory() -> float:
    """Return the bytes of memory of this machine; infinite where it does not say."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def bytes_of(limit: Any) -> int:
    """Return the bytes of a limit such as ``"4GB"``."""
    found = re.fullmatch(r"\s*(\d+\.?\d*)\s*([KMGT]?)(I?)B?\s*", str(limit), re.IGNORECASE)
    if not found or float(found[1]) == 0:
        raise ArgumentError(f"memory_limit is {limit!r}; it must be bytes, such as '4GB' or 2**32")
    return int(float(found[1]) * (1024 if found[3] else 1000) ** UNITS.index(found[2].upper()))


def in_words(size: float) -> str:
    """Return bytes in words."""
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"

"""Candidate tables for a join to facts, and their sums so far."""

import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from dbselect.errors import ArgumentError, DbselectError, GroupError, shown
from dbselect.options.names import UnmatchedName
from dbselect.record.gram import Gram, Matrix
from dbselect.sources.joins.facts import Facts, Fields
from dbselect.sources.joins.keys import Key, check_alike, check_keys, fields_of
from dbselect.sources.joins.left_join import LookedUp, LookUp, Many, Mask, gram_over_facts
from dbselect.sources.open import lazy, open_table
from dbselect.sources.partial.learn import MAX_LEVELS
from dbselect.sources.types import TableSource


@dataclass(frozen=True)
class Candidate:
    """A table that may be joined to the facts.

    Parameters
    ----------
    table : of any engine, with one row per key
    key : field, list of fields, or mapping of the facts' names to the table's
    cost : > 0, in the same unit as all costs
    columns, many, order, max_levels : as in `KeySums.extend`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> visits = pl.DataFrame({"shop": [1, 1, 2], "paid": [2.0, 3.0, 5.0]})
    >>> ds.io.Candidate(visits, "shop", 4.0, many=["mean", "count"]).cost
    4.0
    """

    table: TableSource
    key: Key
    cost: float
    columns: Sequence[str] | None = None
    many: Many = ()
    order: str | None = None
    max_levels: int = MAX_LEVELS

    def __post_init__(self) -> None:
        fields_of(self.key)
        if not isinstance(self.cost, numbers.Real) or not 0 < float(self.cost) < math.inf:
            raise GroupError(f"cost is {self.cost!r}; costs must be > 0 and finite")
        self.look_up("", "indicator")

    def look_up(self, name: str, unmatched: UnmatchedName) -> LookUp:
        """Return the look-up of the table."""
        return LookUp(
            columns=self.columns, name=name, unmatched=unmatched, many=self.many,
            order=self.order, max_levels=self.max_levels,
        )  # fmt: skip


#: Name -> a candidate, or its table, key and cost.
Candidates: TypeAlias = Mapping[str, Candidate | tuple[TableSource, Key, float]]


@dataclass(eq=False)
class CandidateTable:
    """A candidate, and the sums of its columns so far."""

    name: str
    candidate: Candidate
    table: Any
    key: Fields
    unmatched: UnmatchedName
    # Gram of its p columns, over the rows of the facts; None until the table is read
    own: Gram | None = None
    # shape (d, p), comoments with the first d columns of the facts' Gram
    cross: Matrix = field(default_factory=lambda: np.zeros((0, 0)))
    # shape (K, p), centred values for each key; None if they are not kept in memory
    centred: Matrix | None = None
    score: float = math.inf  # gain per cost when last computed

    def complete(self, facts: Facts) -> Mask:
        """Read the table; return a mask of the facts' keys for which it has all values."""
        with naming(self.name):
            return self._look_up(facts).complete

    def read(self, facts: Facts, room: int) -> int:
        """Add the products with new columns of the facts; return the bytes left of `room`."""
        n_read = len(self.cross)
        if self.own is not None and n_read == len(facts.gram.columns):
            return room
        is_kept, centred = self.centred is not None, self.values(facts)
        products = facts.by(self.key).sums[:, n_read:].T @ centred
        self.cross = np.vstack([self.cross.reshape(n_read, centred.shape[1]), products])
        if is_kept or (centred.nbytes > room and self.table.again):
            return room
        self.centred = centred
        return room - centred.nbytes

    def values(self, facts: Facts) -> Matrix:
        """Return the centred values of its columns for each key."""
        if self.centred is not None:
            return self.centred
        with naming(self.name):
            sums, looked_up = facts.by(self.key), self._look_up(facts)
            if self.unmatched != "indicator":
                sums.check_complete(looked_up, self.unmatched)
            self.own, centred = gram_over_facts(looked_up, sums.rows, sums.weight, facts.base)
        return centred

    def _look_up(self, facts: Facts) -> LookedUp:
        fact_fields, table_fields = fields_of(self.candidate.key)
        key_fields = dict(zip(fact_fields, table_fields, strict=True))
        look_up = self.candidate.look_up(self.name, self.unmatched)
        return facts.by(self.key).look_up(self.table, key_fields, look_up)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Prefix errors with the name of the candidate."""
    try:
        yield
    except DbselectError as error:
        raise type(error)(f"candidate '{name}': {error}") from error


def candidates_of(candidates: Any) -> dict[str, Candidate]:
    """Return the candidates by name; refuse anything but a mapping of names to candidates."""
    if not isinstance(candidates, Mapping) or not candidates:
        raise ArgumentError(
            f"candidates is {shown(candidates)}; it must map names to (table, key, cost)"
        )
    for name in candidates:
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"candidates has {name!r}; names are text")
    return {name: _candidate(name, candidate) for name, candidate in candidates.items()}


def _candidate(name: Any, value: Any) -> Candidate:
    with naming(name):
        if isinstance(value, Candidate):
            candidate = value
        elif isinstance(value, tuple) and len(value) == 3:
            candidate = Candidate(*value)
        else:
            raise ArgumentError(
                f"it is a {type(value).__name__}; it must be (table, key, cost) or a Candidate"
            )
        candidate.look_up(name, "indicator")
    return candidate


def candidate_of(
    name: str, candidate: Candidate, facts: Facts, unmatched: UnmatchedName
) -> CandidateTable:
    """Open a candidate without reading rows; ColumnError for key fields of another type."""
    fact_fields, table_fields = fields_of(candidate.key)
    with naming(name):
        table = open_table(candidate.table, None)
        fact_types = check_keys(fact_fields, facts.schema, "the facts")
        table_types = check_keys(table_fields, dict(lazy(table).collect_schema()), "the table")
        check_alike(fact_fields, fact_types, table_fields, table_types)
    return CandidateTable(name, candidate, table, tuple(sorted(fact_fields)), unmatched)

"""Tables that might be bought: what each is, and what is known of it so far."""

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
from dbselect.sources.joins.joined_gram import weighed
from dbselect.sources.joins.keys import Key, check_alike, check_keys, fields_of
from dbselect.sources.joins.left_join import LookedUp, LookUp, Mask
from dbselect.sources.joins.many import Many
from dbselect.sources.lazy import lazy
from dbselect.sources.open import open_table
from dbselect.sources.partial.learn import MAX_LEVELS
from dbselect.sources.types import TableSource


@dataclass(frozen=True)
class Candidate:
    """A table that might be bought.

    Parameters
    ----------
    table : of any engine, with one row a key
    key : field, list of fields, or mapping of the facts' names to the table's
    cost : > 0, in the unit of all costs
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
        """Return how the table is looked up."""
        return LookUp(
            columns=self.columns, name=name, unmatched=unmatched, many=self.many,
            order=self.order, max_levels=self.max_levels,
        )  # fmt: skip


#: Name -> a candidate, or its table, key and cost.
Candidates: TypeAlias = Mapping[str, Candidate | tuple[TableSource, Key, float]]


@dataclass(eq=False)
class CandidateTable:
    """A candidate, and what is known of its columns so far."""

    name: str
    candidate: Candidate
    table: Any
    key: Fields
    unmatched: UnmatchedName
    # Gram of its p columns alone, over the rows of the facts; None until it is read
    own: Gram | None = None
    # shape (d, p), comoments of the first d columns of the facts' Gram with them
    cross: Matrix = field(default_factory=lambda: np.zeros((0, 0)))
    # shape (K, p), its values for each key less their means; None if they are not kept in memory
    centred: Matrix | None = None
    score: float = math.inf  # gain per cost when it was looked at last

    def complete(self, facts: Facts) -> Mask:
        """Read the table and return the keys of the facts that it has all values of."""
        with naming(self.name):
            return self._look_up(facts).complete

    def read(self, facts: Facts, room: int) -> int:
        """Add the products with the facts' present columns; return what is left of `room`."""
        known = len(self.cross)
        if self.own is not None and known == len(facts.gram.columns):
            return room
        is_kept, centred = self.centred is not None, self.values(facts)
        more = facts.by(self.key).sums[:, known:].T @ centred
        self.cross = np.vstack([self.cross.reshape(known, centred.shape[1]), more])
        if is_kept or (centred.nbytes > room and self.table.again):
            return room
        self.centred = centred
        return room - centred.nbytes

    def values(self, facts: Facts) -> Matrix:
        """Return the values of its columns for each key, less their means."""
        if self.centred is not None:
            return self.centred
        with naming(self.name):
            sums, found = facts.by(self.key), self._look_up(facts)
            if self.unmatched != "indicator":
                sums.check_complete(found, self.unmatched)
            self.own, centred = weighed(found, sums.rows, sums.weight, facts.own)
        return centred

    def _look_up(self, facts: Facts) -> LookedUp:
        ours, theirs = fields_of(self.candidate.key)
        named = dict(zip(ours, theirs, strict=True))
        given = self.candidate.look_up(self.name, self.unmatched)
        return facts.by(self.key).look_up(self.table, named, given)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Say of which candidate an error is."""
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
    return {name: _candidate(name, given) for name, given in candidates.items()}


def _candidate(name: Any, given: Any) -> Candidate:
    with naming(name):
        if isinstance(given, Candidate):
            found = given
        elif isinstance(given, tuple) and len(given) == 3:
            found = Candidate(*given)
        else:
            raise ArgumentError(
                f"it is a {type(given).__name__}; it must be (table, key, cost) or a Candidate"
            )
        found.look_up(name, "indicator")
    return found


def candidate_of(
    name: str, candidate: Candidate, facts: Facts, unmatched: UnmatchedName
) -> CandidateTable:
    """Open a candidate; no row is read. ColumnError for a field of its key that does not fit."""
    ours, theirs = fields_of(candidate.key)
    with naming(name):
        table = open_table(candidate.table, None)
        kinds = check_keys(ours, facts.schema, "the facts")
        others = check_keys(theirs, dict(lazy(table).collect_schema()), "the table")
        check_alike(ours, kinds, theirs, others)
    return CandidateTable(name, candidate, table, tuple(sorted(ours)), unmatched)

"""Dependences that the terms of a Gram tell: levels add up to 1, cells of a product to their level.

Sums over many rows are rounded, so that a level and the sum of its cells differ by what is much
beside a cell of few rows, and rank would be decided by rounding. Therefore the columns of most
variance are computed as sums of the others.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from dbselect.record.categories import text_of
from dbselect.record.computed import Computed, Factor, LevelFactor, flat_name
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.terms import Terms

#: Share by which the weights of the levels may add up to more than those of the rows.
ROUNDING = 1e-9
#: A stored group of levels.
LEVEL_GROUP_TYPE = pa.struct(
    [
        ("group", pa.string()),
        ("weight", pa.list_(pa.float64())),
        ("sums", pa.list_(pa.float64())),
    ]
)


@dataclass(frozen=True, eq=False)
class LevelGroup:
    """Sums for a group of indicator columns of which each row has at most one."""

    group: str  # its name
    weight: Vector  # shape (L,), of the rows of each level
    # shape (L, K + 1), sums by level of the K columns of the other groups and of the target, around
    # the means of all rows
    sums: Matrix

    def to_struct(self) -> dict[str, Any]:
        """Return it as plain data."""
        sums = self.sums.ravel().tolist()
        return {"group": self.group, "weight": self.weight.tolist(), "sums": sums}

    @classmethod
    def from_struct(cls, record: Mapping[str, Any]) -> "LevelGroup":
        """Read what `to_struct` gave; LookupError, TypeError or ValueError if it is damaged."""
        weight, sums = (np.array(record[name], dtype=float) for name in ("weight", "sums"))
        if not (np.isfinite(weight).all() and np.isfinite(sums).all() and len(weight)):
            raise ValueError("a number of its levels is not finite, or it has none")
        return cls(str(record["group"]), weight, sums.reshape(len(weight), -1))

    def check(self, groups: Mapping[str, Sequence[str]], total: float) -> None:
        """Raise ValueError if this does not belong to a Gram with these groups and this weight."""
        others = sum(len(columns) for name, columns in groups.items() if name != self.group)
        shape = (len(groups[self.group]), others + 1)
        if self.sums.shape != shape:
            raise ValueError(f"its sums by level have shape {self.sums.shape}, not {shape}")
        if (self.weight < 0).any() or self.weight.sum() > total * (1.0 + ROUNDING):
            raise ValueError("the weights of its levels are none of its rows")


def shares_of(
    gram: Gram, by_level: LevelGroup | None = None, names: Sequence[str] = ()
) -> dict[str, float]:
    """Return the mean of each level's column over the rows, also of a Gram of raw moments."""
    if not gram.weight:
        return {}
    place = {name: at for at, name in enumerate(gram.columns)}
    marked = [name for one in gram.terms.categories for name in one.marked_names if name in place]
    at = [place[name] for name in marked]
    means, squares = gram.mean[at], np.diagonal(gram.comoment)[at] / gram.weight
    known = gram.terms.means
    found = {
        name: mean or known.get(name, square)
        for name, mean, square in zip(marked, means.tolist(), squares.tolist(), strict=True)
    }
    if by_level is not None:
        found |= dict(zip(names, (by_level.weight / gram.weight).tolist(), strict=True))
    return found


#: Share of its largest variance by which a sum may vary that is constant but for rounding.
ROUNDING = 1e-11


def depending(gram: Gram, terms: Terms) -> Gram:
    """Return the Gram in which the dependences of some terms hold but for the last digits.

    O(D^2 + r z D) for r dependences, each of z columns; r D more numbers in memory.
    """
    place = {name: at for at, name in enumerate(gram.columns)}
    found = [
        (at, signs) for at, signs in _sums(terms, place) if _is_constant(gram.comoment, at, signs)
    ]
    if not found:
        return gram
    known = np.zeros((len(found), len(gram.columns)))
    for row, (at, signs) in zip(known, found, strict=True):
        row[at] = signs
    return replace(gram, comoment=_rewritten(gram.comoment, *_solved(known, gram.comoment)))


def has_dependences(terms: Terms) -> bool:
    """Return whether a product has the levels of a category as a factor."""
    return any(one.categories for one in terms.computed if len(one.factors) > 1)


def _sums(terms: Terms, place: dict[str, int]) -> Iterable[tuple[list[int], Vector]]:
    """Return columns, and the sign of each, whose sum may be constant."""
    for category in terms.categories:
        yield _signed(category.marked_names, [], place)
    for term in terms.computed:
        if len(term.factors) == 2:
            for levels, other in (term.factors, term.factors[::-1]):
                if isinstance(levels, LevelFactor):
                    cells_of = dict(zip(_names(other, terms), _cells(term, other), strict=False))
                    for own, cells in cells_of.items():
                        if own in place:
                            yield _signed(cells, [own], place)


def _signed(
    plus: Iterable[str], minus: Iterable[str], place: dict[str, int]
) -> tuple[list[int], Vector]:
    # A column that is not there was 0 in every row.
    added = [place[name] for name in plus if name in place]
    taken = [place[name] for name in minus]
    return [*added, *taken], np.repeat([1.0, -1.0], [len(added), len(taken)])


def _names(factor: Factor, terms: Terms) -> list[str]:
    """Return the columns of a factor by itself; none where it has none."""
    (path, *others) = factor.paths
    if isinstance(factor, LevelFactor):
        return [f"{flat_name(path)}.{text_of(level)}" for level in factor.kept]
    if others:
        return []
    names = terms.columns.get(flat_name(path), [flat_name(path)])
    return names if len(names) == factor.size else []


def _cells(term: Computed, factor: Factor) -> list[list[str]]:
    """Return the columns of a product by the column of one of its two factors."""
    at = term.factors.index(factor)
    cells: list[list[str]] = [[] for _ in range(factor.size)]
    for name, places in term.places.items():
        cells[places[at]].append(name)
    return cells


def _is_constant(comoment: Matrix, at: list[int], signs: Vector) -> bool:
    """Return whether a sum of columns does not vary: there may be levels without a column."""
    own = comoment[np.ix_(at, at)]
    largest = own.diagonal().max(initial=0.0)
    return bool(largest > 0 and abs(signs @ own @ signs) <= ROUNDING * largest)


def _solved(known: Matrix, comoment: Matrix) -> tuple[list[int], sparse.csr_array]:
    """Return columns that depend on others, those of most variance, and how.

    They are the pivots of an elimination in the order of variances. Entries are whole numbers.
    """
    pivots: list[int] = []
    for column in np.argsort(-comoment.diagonal(), kind="stable"):
        rows = len(pivots)
        own = np.flatnonzero(known[rows:, column])
        if own.size:
            known[[rows, rows + own[0]]] = known[[rows + own[0], rows]]
            known[rows] /= known[rows, column]
            others = np.flatnonzero(known[:, column])
            others = others[others != rows]
            known[others] -= np.outer(known[others, column], known[rows])
            pivots.append(int(column))
            if len(pivots) == len(known):
                break
    shares = -known[: len(pivots)]
    shares[:, pivots] = 0.0
    return pivots, sparse.csr_array(shares)


def _rewritten(comoment: Matrix, pivots: list[int], shares: sparse.csr_array) -> Matrix:
    """Return comoments in which some columns are sums of others."""
    found = comoment.copy()
    rows = shares @ comoment
    among = shares @ rows.T
    rows[:, pivots] = (among + among.T) / 2
    found[pivots] = rows
    found[:, pivots] = rows.T
    return found

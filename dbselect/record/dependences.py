"""Linear dependences that follow from terms: levels add up to 1, cells of a product to their level.

Sums over many rows are rounded: a level and the sum of its cells differ by an error that is large
beside a cell of few rows, so that rounding would decide the rank. Therefore the columns of largest
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

#: Relative excess of the summed weights of levels over the total weight that is rounding.
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
    """Sums by level for a group of indicator columns, at most one of them 1 in each row."""

    group: str  # its name
    weight: Vector  # shape (L,), weight of the rows of each level
    # shape (L, K + 1), sums by level of the K other columns and of the target, each centered at its
    # mean over all rows
    sums: Matrix

    def to_struct(self) -> dict[str, Any]:
        """Return the group as plain data."""
        sums = self.sums.ravel().tolist()
        return {"group": self.group, "weight": self.weight.tolist(), "sums": sums}

    @classmethod
    def from_struct(cls, record: Mapping[str, Any]) -> "LevelGroup":
        """Read the data of `to_struct`; LookupError, TypeError or ValueError if damaged."""
        weight, sums = (np.array(record[name], dtype=float) for name in ("weight", "sums"))
        if not (np.isfinite(weight).all() and np.isfinite(sums).all() and len(weight)):
            raise ValueError("a number of its levels is not finite, or it has none")
        return cls(str(record["group"]), weight, sums.reshape(len(weight), -1))

    def check(self, groups: Mapping[str, Sequence[str]], total: float) -> None:
        """Raise ValueError if it does not fit a Gram with these groups and this weight."""
        others = sum(len(columns) for name, columns in groups.items() if name != self.group)
        shape = (len(groups[self.group]), others + 1)
        if self.sums.shape != shape:
            raise ValueError(f"its sums by level have shape {self.sums.shape}, not {shape}")
        if (self.weight < 0).any() or self.weight.sum() > total * (1.0 + ROUNDING):
            raise ValueError("the weights of its levels are none of its rows")


def shares_of(
    gram: Gram, by_level: LevelGroup | None = None, names: Sequence[str] = ()
) -> dict[str, float]:
    """Return the mean of each level's column, also for a Gram of raw moments."""
    if not gram.weight:
        return {}
    place = {name: at for at, name in enumerate(gram.columns)}
    marked = [name for term in gram.terms.categories for name in term.marked_names if name in place]
    at = [place[name] for name in marked]
    means, squares = gram.mean[at], np.diagonal(gram.comoment)[at] / gram.weight
    filled = gram.terms.means
    shares = {
        name: mean or filled.get(name, square)
        for name, mean, square in zip(marked, means.tolist(), squares.tolist(), strict=True)
    }
    if by_level is not None:
        shares |= dict(zip(names, (by_level.weight / gram.weight).tolist(), strict=True))
    return shares


#: A sum whose variance is below this share of its largest column's is constant up to rounding.
ROUNDING = 1e-11


def depending(gram: Gram, terms: Terms) -> Gram:
    """Return the Gram with the dependences of terms restored up to the last digits.

    O(D^2 + r z D) time for r dependences of z columns each; r D more numbers in memory.
    """
    place = {name: at for at, name in enumerate(gram.columns)}
    sums = [
        (at, signs) for at, signs in _sums(terms, place) if _is_constant(gram.comoment, at, signs)
    ]
    if not sums:
        return gram
    dependences = np.zeros((len(sums), len(gram.columns)))
    for row, (at, signs) in zip(dependences, sums, strict=True):
        row[at] = signs
    return replace(gram, comoment=_rewritten(gram.comoment, *_solved(dependences, gram.comoment)))


def has_dependences(terms: Terms) -> bool:
    """Whether a product has the levels of a category as a factor."""
    return any(term.categories for term in terms.computed if len(term.factors) > 1)


def _sums(terms: Terms, place: dict[str, int]) -> Iterable[tuple[list[int], Vector]]:
    """Return signed sums of columns that may be constant: positions and signs."""
    for category in terms.categories:
        yield _signed(category.marked_names, [], place)
    for term in terms.computed:
        if len(term.factors) == 2:
            for levels, other in (term.factors, term.factors[::-1]):
                if isinstance(levels, LevelFactor):
                    cells_of = dict(zip(_names(other, terms), _cells(term, other), strict=False))
                    for name, cells in cells_of.items():
                        if name in place:
                            yield _signed(cells, [name], place)


def _signed(
    plus: Iterable[str], minus: Iterable[str], place: dict[str, int]
) -> tuple[list[int], Vector]:
    # A column that the Gram lacks was 0 in every row.
    added = [place[name] for name in plus if name in place]
    subtracted = [place[name] for name in minus]
    return [*added, *subtracted], np.repeat([1.0, -1.0], [len(added), len(subtracted)])


def _names(factor: Factor, terms: Terms) -> list[str]:
    """Return the main-effect columns of a factor; empty if it has none."""
    (path, *others) = factor.paths
    if isinstance(factor, LevelFactor):
        return [f"{flat_name(path)}.{text_of(level)}" for level in factor.kept]
    if others:
        return []
    names = terms.columns.get(flat_name(path), [flat_name(path)])
    return names if len(names) == factor.size else []


def _cells(term: Computed, factor: Factor) -> list[list[str]]:
    """Return the columns of a product, grouped by the columns of one factor."""
    at = term.factors.index(factor)
    cells: list[list[str]] = [[] for _ in range(factor.size)]
    for name, places in term.places.items():
        cells[places[at]].append(name)
    return cells


def _is_constant(comoment: Matrix, at: list[int], signs: Vector) -> bool:
    """Whether a sum of columns is constant; it is not if a level has no column."""
    block = comoment[np.ix_(at, at)]
    largest = block.diagonal().max(initial=0.0)
    return bool(largest > 0 and abs(signs @ block @ signs) <= ROUNDING * largest)


def _solved(dependences: Matrix, comoment: Matrix) -> tuple[list[int], sparse.csr_array]:
    """Return dependent columns of large variance, and their coefficients on the others.

    They are the pivots of an elimination in the order of variances. Entries are whole numbers.
    """
    pivots: list[int] = []
    for column in np.argsort(-comoment.diagonal(), kind="stable"):
        rows = len(pivots)
        nonzero = np.flatnonzero(dependences[rows:, column])
        if nonzero.size:
            dependences[[rows, rows + nonzero[0]]] = dependences[[rows + nonzero[0], rows]]
            dependences[rows] /= dependences[rows, column]
            others = np.flatnonzero(dependences[:, column])
            others = others[others != rows]
            dependences[others] -= np.outer(dependences[others, column], dependences[rows])
            pivots.append(int(column))
            if len(pivots) == len(dependences):
                break
    shares = -dependences[: len(pivots)]
    shares[:, pivots] = 0.0
    return pivots, sparse.csr_array(shares)


def _rewritten(comoment: Matrix, pivots: list[int], shares: sparse.csr_array) -> Matrix:
    """Return comoments with the pivot columns replaced by their sums of others."""
    result = comoment.copy()
    rows = shares @ comoment
    among = shares @ rows.T
    rows[:, pivots] = (among + among.T) / 2
    result[pivots] = rows
    result[:, pivots] = rows.T
    return result

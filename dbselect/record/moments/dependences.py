"""Dependences that the terms of a Gram tell: levels add up to 1, cells of a product to their level.

Sums over many rows are rounded, so that a level and the sum of its cells differ by what is much
beside a cell of few rows, and rank would be decided by rounding. Therefore the columns of most
variance are computed as sums of the others.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy import sparse

from dbselect.record.categories import text_of
from dbselect.record.computed import Computed, Factor, LevelFactor, flat_name
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.terms import Terms

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

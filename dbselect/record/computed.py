"""Columns computed from several fields: products, transforms, curves, levels.

A term is a product of factors, as in a formula (Wilkinson and Rogers 1973): its columns are the
products of every column of one factor with every column of the others. A factor is the levels of
a category, or expressions: nested tuples of an operation and its parts, plain data that becomes a
`Formula`.
"""

import math
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from typing import Any

import numpy as np
import polars as pl
from numpy.polynomial.legendre import leg2poly

from dbselect.errors import RecordError
from dbselect.record.bases import CUBIC, Basis, Matrix, Poly, Spline, Vector
from dbselect.record.formulas import (
    Formula,
    Lookup,
    Path,
    absolute,
    choose,
    column,
    exp,
    if_finite,
    log,
    lookup,
    nothing,
    number,
    polars,
    sqrt,
    total,
    translate,
)

#: A number, or an operation and its parts.
Expression = Any
_ARITHMETIC = ("+", "-", "*", "/")
_FUNCTIONS: dict[str, Callable[[Formula], Formula]] = {
    "exp": exp,
    "abs": absolute,
    # NULL outside the domain, in every engine.
    "log": lambda x: choose(x, log(choose(x, x, 1.0)), nothing()),
    "sqrt": lambda x: choose(x, sqrt(choose(x, x, 1.0)), choose(x * -1.0, nothing(), x)),
}


@dataclass(frozen=True)
class LevelFactor:
    """Columns of 0 and 1 for some levels of a category."""

    path: Path
    levels: tuple[Any, ...]  # all levels of the fit
    kept: tuple[Any, ...]  # levels that have a column
    rest: bool = False  # whether all other values are the level ``other``

    @property
    def paths(self) -> dict[Path, bool]:
        """Columns of the table, and whether each is a category."""
        return {self.path: True}

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.kept)

    def lookup(
        self, numbers: Mapping[Any, float], other: float | None, refuses: bool = False
    ) -> Lookup:
        """Return a lookup of levels; 0 for those not in `numbers`, `other` for unseen levels."""
        values = tuple(numbers.get(level, 0.0) for level in self.levels)
        other = 0.0 if self.rest else other
        return Lookup(self.path, self.levels, values, other, None, refuses and not self.rest)

    def formulas(self) -> list[Formula]:
        """Return the columns."""
        return [lookup(self.lookup({level: 1.0}, 0.0)) for level in self.kept]

    def to_list(self) -> list[Any]:
        """Return the factor as plain data."""
        return ["levels", list(self.path), list(self.levels), list(self.kept), self.rest]


@dataclass(frozen=True)
class NumberFactor:
    """Columns that are expressions of numbers."""

    expressions: tuple[Expression, ...]

    @property
    def paths(self) -> dict[Path, bool]:
        """Columns of the table, and whether each is a category."""
        return dict.fromkeys((path for x in self.expressions for path in _paths(x)), False)

    @property
    def size(self) -> int:
        """The number of columns."""
        return len(self.expressions)

    def formulas(self) -> list[Formula]:
        """Return the columns."""
        formulas: dict[Expression, Formula] = {}
        return [formula_of(expression, formulas) for expression in self.expressions]

    def to_list(self) -> list[Any]:
        """Return the factor as plain data."""
        return ["values", *self.expressions]


Factor = LevelFactor | NumberFactor


@dataclass(frozen=True)
class Computed:
    """A term whose columns are products of columns of its factors."""

    group: str  # name of the term, and of its default group
    names: tuple[str, ...]  # its columns; the index of the first factor changes fastest
    factors: tuple[Factor, ...]

    @property
    def paths(self) -> dict[Path, bool]:
        """Columns of the table, and whether each is a category."""
        return dict(pair for factor in self.factors for pair in factor.paths.items())

    @property
    def of(self) -> list[str]:
        """Columns of the table that are read, by flattened name."""
        return list(map(flat_name, self.paths))

    @property
    def categories(self) -> list[LevelFactor]:
        """The factors that are levels."""
        return [factor for factor in self.factors if isinstance(factor, LevelFactor)]

    @cached_property
    def places(self) -> dict[str, tuple[int, ...]]:
        """For each column, the index of its column in each factor."""
        sizes = [range(factor.size) for factor in reversed(self.factors)]
        places = (tuple(reversed(indices)) for indices in product(*sizes))
        return dict(zip(self.names, places, strict=True))

    def column_formula(self, name: str) -> Formula:
        """Return the formula of a column; 0 for levels that the fit has not seen."""
        places = zip(self.factors, self.places[name], strict=True)
        return reduce(operator.mul, (factor.formulas()[at] for factor, at in places))

    def formula(
        self, coefficients: Mapping[str, float], other: float | None, refuses: bool = False
    ) -> Formula:
        """Return the linear combination of the columns; unseen levels give `other` or an error."""
        # The category with most levels is one lookup of its coefficients.
        sizes = [factor.size if isinstance(factor, LevelFactor) else 0 for factor in self.factors]
        last = sizes.index(max(sizes))
        parts: dict[tuple[int, ...], dict[int, float]] = {}
        for name, places in self.places.items():
            others = (*places[:last], *places[last + 1 :])
            parts.setdefault(others, {})[places[last]] = coefficients.get(name, 0.0)
        summed, rest = self.factors[last], [*self.factors[:last], *self.factors[last + 1 :]]
        columns_of = [factor.formulas() for factor in rest]
        sums = []
        for others, weights in parts.items():
            if isinstance(summed, LevelFactor):
                numbers = {summed.kept[at]: coefficient for at, coefficient in weights.items()}
                value = lookup(summed.lookup(numbers, other, refuses))
            else:
                value = total([x * weights[at] for at, x in enumerate(summed.formulas())])
            columns = [formulas[at] for formulas, at in zip(columns_of, others, strict=True)]
            sums.append(reduce(operator.mul, columns, value))
        return total(sums)

    def to_dict(self) -> dict[str, Any]:
        """Return the term as plain data."""
        factors = [factor.to_list() for factor in self.factors]
        names = list(self.names)
        return {"group": self.group, "names": names, "of": self.of, "factors": factors}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "Computed":
        """Read what `to_dict` gave; LookupError, TypeError or ValueError if it is damaged."""
        factors = tuple(
            LevelFactor(*_frozen(rest)) if kind == "levels" else NumberFactor(_frozen(rest))
            for kind, *rest in record["factors"]
        )
        term = cls(str(record["group"]), tuple(map(str, record["names"])), factors)
        if not factors or math.prod(factor.size for factor in factors) != len(term.names):
            raise ValueError(f"term '{term.group}' has {len(term.names)} names")
        return term


def flat_name(path: Path) -> str:
    """Return the flattened name of a path: ``demo.age``, ``emb[3]``."""
    field, *steps = path
    return f"{field}" + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in steps)


def _frozen(parts: Any) -> Any:
    return tuple(map(_frozen, parts)) if isinstance(parts, list | tuple) else parts


def _paths(expression: Expression) -> list[Path]:
    if not isinstance(expression, tuple):
        return []
    operation, *parts = expression
    if operation == "column":
        return [tuple(parts)]
    read = parts[:1] if operation == "pieces" else parts
    return [path for part in read for path in _paths(part)]


def formula_of(expression: Expression, formulas: dict[Expression, Formula]) -> Formula:
    """Convert an expression to a formula; equal subexpressions share one formula."""
    if not isinstance(expression, tuple):
        return number(expression)
    if expression in formulas:
        return formulas[expression]
    operation, *parts = expression
    if operation == "column":
        formula = column(tuple(parts))
    elif operation == "pieces":
        x = formula_of(parts[0], formulas)
        knots, cubics = parts[1:]
        below = (knots[0], *knots) if knots else (0.0,)
        pieces = [
            _polynomial(x - low if knots else x, cubic)
            for low, cubic in zip(below, cubics, strict=True)
        ]
        formula = if_finite(x, _between(x, knots, pieces), nothing())
    elif operation in _ARITHMETIC or operation in _FUNCTIONS:
        inner = [formula_of(part, formulas) for part in parts]
        formula = _FUNCTIONS[operation](*inner) if operation in _FUNCTIONS else Formula(
            operation, tuple(inner)
        )  # fmt: skip
    else:
        raise RecordError(f"terms have an operation '{operation}', which this version lacks")
    formulas[expression] = formula
    return formula


def _polynomial(x: Formula, coefficients: Sequence[float]) -> Formula:
    """Return the sum of powers of x, by Horner's rule."""
    *lower, last = coefficients
    return reduce(lambda value, coefficient: value * x + coefficient, reversed(lower), number(last))


def _between(x: Formula, knots: Sequence[float], pieces: Sequence[Formula]) -> Formula:
    """Return the piece of the interval of x by bisection; n knots have n + 1 pieces."""
    if not knots:
        return pieces[0]
    half = len(knots) // 2
    below = _between(x, knots[:half], pieces[: half + 1])
    above = _between(x, knots[half + 1 :], pieces[half + 1 :])
    return choose(x - knots[half], above, below)


def whole_power(x: Expression, exponent: int) -> Expression:
    """Return a whole power > 0 of an expression."""
    half = whole_power(x, exponent // 2) if exponent > 1 else x
    whole = ("*", half, half) if exponent > 1 else x
    return ("*", whole, x) if exponent > 1 and exponent % 2 else whole


def curve(x: Expression, knots: Vector, degree: int, coefficients: Matrix) -> Expression:
    """Return a sum of B-splines as polynomials between knots, constant beyond the outer ones."""
    from scipy.interpolate import BSpline, PPoly  # as in `Spline.values`

    spline = BSpline(knots, coefficients, degree)
    cubics = PPoly.from_spline(spline)
    inside = np.unique(knots[degree : len(knots) - degree])
    at = np.searchsorted(cubics.x, inside[:-1], side="right") - 1
    ends = spline(inside[[0, -1]]).tolist()
    pieces = [tuple(cubics.c[::-1, j].tolist()) for j in at]
    return ("pieces", x, tuple(inside.tolist()), ((ends[0],), *pieces, (ends[1],)))


def of_basis(basis: Basis, path: Path, coefficients: Vector) -> Expression:
    """Return a basis times coefficients; degree d loses 0.4 d of 16 digits, a spline none."""
    x = ("column", *path)
    if isinstance(basis, Spline):
        return curve(x, basis.extended(), CUBIC, np.append(coefficients, 0.0))
    if isinstance(basis, Poly):
        z = ("/", ("-", x, basis.center), basis.scale)
        return ("pieces", z, (), (tuple(leg2poly([0.0, *coefficients]).tolist()),))
    return ("*", ("log", x), float(coefficients[0]))


def orthonormal(x: Expression, basis: Poly, mean: Vector, comoment: Matrix) -> list[Expression]:
    """Return orthonormal polynomials, given mean and comoment of the Legendre polynomials."""
    z = ("/", ("-", x, basis.center), basis.scale)
    inverse = np.linalg.inv(np.linalg.cholesky(comoment))
    powers = (leg2poly([-row @ mean, *row]).tolist() for row in inverse)
    return [("pieces", z, (), (tuple(row),)) for row in powers]


def computed_values(terms: Sequence[Computed], frame: pl.DataFrame) -> Matrix:
    """Return the columns of terms, shape (n, columns); NaN where a field is missing."""
    places: dict[Factor, list[int]] = {}
    formulas: list[Formula] = []
    for factor in (factor for term in terms for factor in term.factors):
        if factor not in places:
            formulas_of = factor.formulas()
            places[factor] = list(range(len(formulas), len(formulas) + len(formulas_of)))
            formulas += formulas_of
    algebra = polars()
    expressions = {str(at): translate(formula, algebra) for at, formula in enumerate(formulas)}
    parts = frame.select(**expressions).cast(pl.Float64).fill_null(np.nan).to_numpy().T
    columns = np.empty((sum(len(term.names) for term in terms), frame.height))
    row = 0
    for term in terms:
        for at in term.places.values():
            first, *rest = (parts[places[f][j]] for f, j in zip(term.factors, at, strict=True))
            columns[row] = first
            for other in rest:
                columns[row] *= other
            row += 1
    return columns.T


def computed_names(terms: Collection[Computed]) -> list[str]:
    """Return the names of the columns of terms."""
    return [name for term in terms for name in term.names]

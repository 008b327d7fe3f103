"""Fields of the raw table that a linear predictor reads.

The columns of a model are columns of a record: levels, curves, indicators. Terms map each to
its field, so a predictor is a sum over fields: a number times its coefficient, a number looked
up by level, a piecewise polynomial. Where a field is missing, its columns have the values that
the fit gave them, or the prediction is missing.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.options.kinds import one_of
from dbselect.record.bases import Basis, Log
from dbselect.record.categories import Category
from dbselect.record.columns import SUFFIX, field_of
from dbselect.record.computed import Computed, flat_name, formula_of, of_basis
from dbselect.record.entries import Entries, Weighed
from dbselect.record.formulas import (
    Formula,
    Lookup,
    Path,
    column,
    date,
    entry_sum,
    if_finite,
    lookup,
    number,
)
from dbselect.record.terms import Terms

#: How a level or an entry that the fit has not seen is handled.
HandleUnknown = Literal["unavailable", "error", "mean"]
#: How a column that the rows lack is handled.
MissingColumns = Literal["error", "unavailable"]

#: A flattened column: a field, then children ``.name`` and elements ``[number]``.
_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, eq=False)
class Input(ABC):
    """A field that a predictor reads, or the fields of a product."""

    source: str  # its name, for messages
    names: tuple[str, ...]  # columns of the model made from it
    path: Path  # its place in the table
    # values of its columns where it is missing, column -> number; None: missing, too
    missing: Mapping[str, float] | None = None
    mark: str | None = None  # its indicator of missing values, if any

    @abstractmethod
    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return its part of the predictor."""

    def column_formula(self, name: str) -> Formula:
        """Return a column of the model; 0 for levels that the fit has not seen."""
        return self.formula({name: 1.0}, "mean")

    def where_missing(self, coefficients: Mapping[str, float]) -> float:
        """Return its part of the predictor where it is missing."""
        values = (self.missing or {}).items()
        return sum(value * coefficients.get(name, 0.0) for name, value in values)

    def on(self, columns: Collection[str]) -> "list[Input]":
        """Return what is read of a table: the field, or columns made from it."""
        names = {*self.names}
        made = names.intersection(columns) - {self.mark}
        if names.issubset(columns) or (made and self.path[0] not in columns):
            return [Number(name, (name,), (name,)) for name in self.names]
        return [self]


@dataclass(frozen=True, eq=False, kw_only=True)
class Number(Input):
    """A number field, or a date as days or seconds since 1970."""

    unit: str | None = None  # for a date: ``"days"`` or ``"seconds"``

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return its part of the predictor; `unknown` does not matter for a number."""
        value, name = self.value(), self.source
        if self.missing is None:
            return value * coefficients[name]
        finite = value * coefficients[name] if name in coefficients else 0.0
        return if_finite(value, finite, self.where_missing(coefficients))

    def value(self) -> Formula:
        """Return the field as a number."""
        return column(self.path) if self.unit is None else date(self.path, self.unit)

    def on(self, columns: Collection[str]) -> list[Input]:
        """Return what is read of a table, which may have indicators as columns."""
        name = self.source
        path = (name,) if name in columns else self.path
        marks = [mark for mark in self.missing or () if mark != name]
        if not marks or not {*marks}.issubset(columns):
            return [replace(self, path=path)]
        plain = replace(self, path=path, names=(name,), missing=None)
        return [plain, *(Number(mark, (mark,), (mark,)) for mark in marks)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Levels(Input):
    """A field of text, booleans or whole numbers, whose levels are columns of 0 and 1."""

    category: Category

    def lookup(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Lookup:
        """Return the lookup of levels by coefficients; ArgumentError as in `check_shares`."""
        self.check_shares(unknown)
        other = self.category.mean_effect(coefficients) if unknown == "mean" else None
        refuses = unknown == "error" and not self.category.rest
        return self._lookup(coefficients, other, refuses)

    def _lookup(
        self, coefficients: Mapping[str, float], other: float | None, refuses: bool = False
    ) -> Lookup:
        """Return the lookup of levels; `other` is the number of an unseen level."""
        numbers = [coefficients.get(name, 0.0) for name in self.category.names]
        if self.category.rest:
            other = numbers.pop()
        missing = None if self.missing is None else self.where_missing(coefficients)
        return Lookup(self.path, self.category.levels, tuple(numbers), other, missing, refuses)

    def check_shares(self, unknown: HandleUnknown) -> None:
        """Raise ArgumentError for ``"mean"`` if the shares of the levels are not stored."""
        if unknown == "mean" and not self.category.rest and self.category.shares is None:
            raise ArgumentError(
                "handle_unknown is 'mean', which needs the share of each level of "
                f"'{self.source}' in the rows of the fit, and the sequence was stored "
                "without them; search again, or take 'unavailable' or 'error'"
            )

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return its part of the predictor."""
        return lookup(self.lookup(coefficients, unknown))

    def column_formula(self, name: str) -> Formula:
        """Return a column of the model; 0 for levels without a column."""
        return lookup(self._lookup({name: 1.0}, 0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(Input):
    """A number field whose polynomials, splines or logarithm are columns."""

    basis: Basis

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return its part of the predictor."""
        weights = np.array([coefficients.get(name, 0.0) for name in self.basis.names])
        curve = formula_of(of_basis(self.basis, self.path, weights), {})
        if self.missing is None:
            return curve
        return if_finite(column(self.path), curve, self.where_missing(coefficients))


@dataclass(frozen=True, eq=False, kw_only=True)
class Listing(Input):
    """A field that lists the nonzero entries of a row; rows without it are left out."""

    field: Entries  # as in the fit

    def weighed(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Weighed:
        """Return the weighted sum of the entries."""
        numbers = self.field.numbers(self.names)
        weights = {at: coefficients.get(name, 0.0) for name, at in numbers.items()}
        # An entry in no row of the fit is 0 in all of them, so its mean is 0.
        return Weighed(self.field, weights, 0.0 if unknown == "mean" else None, unknown == "error")

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return its part of the predictor."""
        return entry_sum(self.weighed(coefficients, unknown))


@dataclass(frozen=True, eq=False, kw_only=True)
class Product(Input):
    """Columns computed from several fields; `path` is the first."""

    term: Computed

    @property
    def reads(self) -> list[Input]:
        """The fields."""
        levels = {factor.path: factor for factor in self.term.categories}
        inputs: list[Input] = []
        for path, is_category in self.term.paths.items():
            shared = flat_name(path), (), path, self.missing
            if is_category:
                category = Category(shared[0], levels[path].levels, levels[path].rest)
                inputs.append(Levels(*shared, category=category))
            else:
                inputs.append(Number(*shared))
        return inputs

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return its part of the predictor."""
        other = 0.0 if unknown == "mean" else None
        formula = self.term.formula(coefficients, other, unknown == "error")
        return self._if_present(formula, self.where_missing(coefficients))

    def column_formula(self, name: str) -> Formula:
        """Return a computed column, or its indicator of missing values."""
        formula = self.term.column_formula(name) if name in self.term.places else number(0.0)
        return self._if_present(formula, self.where_missing({name: 1.0}))

    def _if_present(self, formula: Formula, missing: float) -> Formula:
        if self.missing is None:
            return formula
        # An unseen level is not missing: with coefficients 0 only missing fields give NULL.
        return if_finite(self.term.formula({}, 0.0), formula, missing)


def single_fields(*inputs: Input) -> list[Input]:
    """Return inputs of one field each: products are split into their fields."""
    return [f for field in inputs for f in (field.reads if isinstance(field, Product) else [field])]


def check_unknown(value: Any, inputs: Iterable[Input] = ()) -> None:
    """Refuse a bad `handle_unknown`, and ``"mean"`` for products of levels."""
    one_of(HandleUnknown).check("handle_unknown", value)
    for field in inputs if value == "mean" else ():
        if isinstance(field, Product) and not all(factor.rest for factor in field.term.categories):
            raise ArgumentError(
                f"handle_unknown is 'mean', and the levels of term '{field.term.group}' have no "
                "mean effect, as it depends on the row; take 'unavailable' or 'error'"
            )


def check_missing_columns(value: Any) -> None:
    """Refuse a bad `missing_columns`."""
    one_of(MissingColumns).check("missing_columns", value)


def inputs_of(columns: Sequence[str], terms: Terms, nested: bool | None = None) -> list[Input]:
    """Return the fields behind columns of a model; `nested` as in `Predicting.expr`."""
    if nested is False:
        return [Number(name, (name,), (name,)) for name in columns]
    in_model = set(columns)
    flat = terms.flat if nested is None else ()
    inputs: dict[str, Input] = {}

    def add(
        kind: Callable[..., Input],
        source: str,
        made: Sequence[str],
        mark: str,
        path: Path,
        **more: Any,
    ) -> None:
        """Add the input behind columns of a record and their indicator `mark`."""
        names = tuple(name for name in (*made, mark) if name in in_model)
        missing = _where_missing(mark, made, in_model, terms)
        field = kind(source, names, path, missing, mark, **more)
        inputs.update(dict.fromkeys([*made, mark], field))

    for category in terms.categories:
        path = _path(category.column, flat)
        add(Levels, category.column, category.names, category.missing, path, category=category)
    for basis in terms.bases:
        # Only an exposure may be nested.
        path = _path(basis.column, flat) if isinstance(basis, Log) else (basis.column,)
        add(Curve, basis.column, basis.names, basis.names[0] + SUFFIX, path, basis=basis)
    for term in terms.computed:
        path = next(iter(term.paths))
        add(Product, term.group, term.names, term.names[0] + SUFFIX, path, term=term)
    for field in terms.entries:
        numbers = tuple(field.numbers(columns))
        listing = Listing(field.column, numbers, (field.column,), field=field)
        inputs |= dict.fromkeys(numbers, listing)
    for name in columns:
        if name in inputs:
            continue
        base = name.removesuffix(SUFFIX)
        follows = base in in_model or base in terms.indicators
        source = base if base != name and follows else name
        missing = _where_missing(source + SUFFIX, [source], in_model, terms)
        names = tuple(dict.fromkeys([source, *(missing or ())]))
        unit = terms.dates.get(source)
        plain = Number(source, names, _path(source, flat), missing, unit=unit)
        inputs |= dict.fromkeys(names, plain)
    return list(dict.fromkeys(inputs[name] for name in columns))


def inputs_as_fitted(columns: Sequence[str], terms: Terms) -> list[Input]:
    """Return the inputs for a table like that of the fit, where an indicator may be a field."""
    return [part for field in inputs_of(columns, terms) for part in field.on(terms.flat)]


def path_of(name: str) -> list[Any]:
    """Split a flattened name, as ``demo.age`` or ``emb[3]``, into field and steps."""
    start = _PATH.search(name)
    if start is None or field_of(name) == name:
        return [name]
    tail = name[start.start() :]
    parts = list(_PATH.finditer(tail))
    if start.start() == 0 or "".join(step[0] for step in parts) != tail:
        return [name]  # not a flattened name
    return [name[: start.start()], *(int(p[2]) if p[2] else p[1] for p in parts)]


def _path(name: str, flat: Collection[str]) -> tuple[Any, ...]:
    """Return the path of a column; its plain name if that only looks nested."""
    return (name,) if name in flat else tuple(path_of(name))


def _where_missing(
    mark: str, names: Sequence[str], columns: Collection[str], terms: Terms
) -> dict[str, float] | None:
    """Return the values of a field's columns where it is missing; None if rows were left out."""
    means = {n: terms.means[n] for n in names if n in terms.means and n in columns}
    return {mark: 1.0, **means} if mark in columns else means or None

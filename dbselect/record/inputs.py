"""What a linear predictor reads of a row of the raw table, field by field.

The columns of a model are those of a record: levels, curves, indicators. Terms map each to
its field, so a predictor is a sum over fields: a number times its coefficient,
a number looked up by level, a piecewise polynomial. Where a field is missing it adds what
its columns had there in the fit, or nothing is predicted.
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
    given,
    lookup,
    number,
)
from dbselect.record.terms import Terms

#: What becomes of a level, or of an entry, that the fit has not seen.
HandleUnknown = Literal["unavailable", "error", "mean"]
#: What becomes of a column that the type of the rows lacks.
MissingColumns = Literal["error", "unavailable"]

#: A flattened column: a field, then children ``.name`` and elements ``[number]``.
_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, eq=False)
class Input(ABC):
    """What a predictor reads of a row: a field, or those of a product."""

    source: str  # its name, which is reported if a table lacks it
    names: tuple[str, ...]  # the columns of the model that come of it
    path: Path  # where it lies in the table
    # what its columns are where it is missing, column -> number; None if that is missing, too
    missing: Mapping[str, float] | None = None
    mark: str | None = None  # the column that is 1 where it is missing, where there is one

    @abstractmethod
    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what it adds to a predictor."""

    def made(self, name: str) -> Formula:
        """Return a column of the model that comes of it: 0 for what the fit has not seen."""
        return self.formula({name: 1.0}, "mean")

    def where_missing(self, coefficients: Mapping[str, float]) -> float:
        """Return what it adds to a predictor where it is missing."""
        values = (self.missing or {}).items()
        return sum(value * coefficients.get(name, 0.0) for name, value in values)

    def on(self, there: Collection[str]) -> "list[Input]":
        """Return what is read of a table: the field, or, if it lacks that, columns made of it."""
        names = {*self.names}
        some = names.intersection(there) - {self.mark}
        if names.issubset(there) or (some and self.path[0] not in there):
            return [Number(name, (name,), (name,)) for name in self.names]
        return [self]


@dataclass(frozen=True, eq=False, kw_only=True)
class Number(Input):
    """A number field, or a date, which counts from 1970."""

    unit: str | None = None  # of a date ``"days"`` or ``"seconds"``

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what it adds to a predictor; a number is no level, so none is unknown."""
        value, name = self.value(), self.source
        if self.missing is None:
            return value * coefficients[name]
        there = value * coefficients[name] if name in coefficients else 0.0
        return given(value, there, self.where_missing(coefficients))

    def value(self) -> Formula:
        """Return the field as a number."""
        return column(self.path) if self.unit is None else date(self.path, self.unit)

    def on(self, there: Collection[str]) -> list[Input]:
        """Return what is read of a table of some columns, which may hold made ones."""
        name = self.source
        path = (name,) if name in there else self.path
        marks = [one for one in self.missing or () if one != name]
        if not marks or not {*marks}.issubset(there):
            return [replace(self, path=path)]
        plain = replace(self, path=path, names=(name,), missing=None)
        return [plain, *(Number(one, (one,), (one,)) for one in marks)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Levels(Input):
    """A field of text, booleans or whole numbers, whose levels are columns of 0 and 1."""

    category: Category

    def lookup(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Lookup:
        """Return the number that each level adds; ArgumentError as `check_shares`."""
        self.check_shares(unknown)
        other = self.category.mean_effect(coefficients) if unknown == "mean" else None
        refuses = unknown == "error" and not self.category.rest
        return self._lookup(coefficients, other, refuses)

    def _lookup(
        self, coefficients: Mapping[str, float], other: float | None, refuses: bool = False
    ) -> Lookup:
        """Return the number of each level; `other` is that of levels that the fit has not seen."""
        numbers = [coefficients.get(name, 0.0) for name in self.category.names]
        if self.category.rest:
            other = numbers.pop()
        missing = None if self.missing is None else self.where_missing(coefficients)
        return Lookup(self.path, self.category.levels, tuple(numbers), other, missing, refuses)

    def check_shares(self, unknown: HandleUnknown) -> None:
        """Refuse a category without the shares of its levels, of which there is no mean effect."""
        if unknown == "mean" and not self.category.rest and self.category.shares is None:
            raise ArgumentError(
                "handle_unknown is 'mean', which needs the share of each level of "
                f"'{self.source}' in the rows of the fit, and the sequence was stored "
                "without them; search again, or take 'unavailable' or 'error'"
            )

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what it adds to a predictor."""
        return lookup(self.lookup(coefficients, unknown))

    def made(self, name: str) -> Formula:
        """Return a column of the model that comes of it: 0 for levels without a column."""
        return lookup(self._lookup({name: 1.0}, 0.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class Curve(Input):
    """A number field, of which polynomials, splines or its logarithm are columns."""

    basis: Basis

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what it adds to a predictor."""
        own = np.array([coefficients.get(name, 0.0) for name in self.basis.names])
        found = formula_of(of_basis(self.basis, self.path, own), {})
        if self.missing is None:
            return found
        return given(column(self.path), found, self.where_missing(coefficients))


@dataclass(frozen=True, eq=False, kw_only=True)
class Listing(Input):
    """A field that lists the entries of a row which are not 0; rows without it are left out."""

    field: Entries  # as the fit met it

    def weighed(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Weighed:
        """Return the sum of the entries that is added to a predictor."""
        numbers = self.field.numbers(self.names)
        own = {at: coefficients.get(name, 0.0) for name, at in numbers.items()}
        # An entry that no row of the fit has is 0 in all of them, and so in the mean.
        return Weighed(self.field, own, 0.0 if unknown == "mean" else None, unknown == "error")

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what it adds to a predictor."""
        return entry_sum(self.weighed(coefficients, unknown))


@dataclass(frozen=True, eq=False, kw_only=True)
class Product(Input):
    """Columns that are computed of several fields, of which `path` is the first."""

    term: Computed

    @property
    def reads(self) -> list[Input]:
        """The fields."""
        levels = {one.path: one for one in self.term.categories}
        found: list[Input] = []
        for path, is_category in self.term.paths.items():
            given = flat_name(path), (), path, self.missing
            if is_category:
                category = Category(given[0], levels[path].levels, levels[path].rest)
                found.append(Levels(*given, category=category))
            else:
                found.append(Number(*given))
        return found

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what it adds to a predictor."""
        other = 0.0 if unknown == "mean" else None
        found = self.term.formula(coefficients, other, unknown == "error")
        return self._given(found, self.where_missing(coefficients))

    def made(self, name: str) -> Formula:
        """Return a column of the model that is computed, or that of what is missing."""
        found = self.term.made(name) if name in self.term.places else number(0.0)
        return self._given(found, self.where_missing({name: 1.0}))

    def _given(self, found: Formula, missing: float) -> Formula:
        if self.missing is None:
            return found
        # A level that the fit has not seen is not missing.
        return given(self.term.formula({}, 0.0), found, missing)


def single_fields(*inputs: Input) -> list[Input]:
    """Return the inputs of one field each that some inputs are or are computed of."""
    return [part for one in inputs for part in (one.reads if isinstance(one, Product) else [one])]


def check_unknown(value: Any, inputs: Iterable[Input] = ()) -> None:
    """Refuse anything but a way to handle levels that the fit has not seen."""
    one_of(HandleUnknown).check("handle_unknown", value)
    for one in inputs if value == "mean" else ():
        if isinstance(one, Product) and not all(each.rest for each in one.term.categories):
            raise ArgumentError(
                f"handle_unknown is 'mean', and the levels of term '{one.term.group}' have no "
                "mean effect, as it depends on the row; take 'unavailable' or 'error'"
            )


def check_missing_columns(value: Any) -> None:
    """Refuse anything but a way to handle columns that the rows lack."""
    one_of(MissingColumns).check("missing_columns", value)


def inputs_of(columns: Sequence[str], terms: Terms, nested: bool | None = None) -> list[Input]:
    """Return the fields that columns of a model come of; `nested` as in `Predicting.expr`."""
    if nested is False:
        return [Number(name, (name,), (name,)) for name in columns]
    there = set(columns)
    flat = terms.flat if nested is None else ()
    found: dict[str, Input] = {}

    def add(
        kind: Callable[..., Input],
        source: str,
        own: Sequence[str],
        mark: str,
        path: Path,
        **more: Any,
    ) -> None:
        """Add what several columns of a record come of, and that of what is missing."""
        names = tuple(name for name in (*own, mark) if name in there)
        missing = _where_missing(mark, own, there, terms)
        one = kind(source, names, path, missing, mark, **more)
        found.update(dict.fromkeys([*own, mark], one))

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
        found |= dict.fromkeys(numbers, listing)
    for name in columns:
        if name in found:
            continue
        base = name.removesuffix(SUFFIX)
        follows = base in there or base in terms.indicators
        own_name = base if base != name and follows else name
        missing = _where_missing(own_name + SUFFIX, [own_name], there, terms)
        names = tuple(dict.fromkeys([own_name, *(missing or ())]))
        unit = terms.dates.get(own_name)
        one = Number(own_name, names, _path(own_name, flat), missing, unit=unit)
        found |= dict.fromkeys(names, one)
    return list(dict.fromkeys(found[name] for name in columns))


def inputs_as_fitted(columns: Sequence[str], terms: Terms) -> list[Input]:
    """Return what is read of a table like that of the fit, where an indicator may be a field."""
    return [each for one in inputs_of(columns, terms) for each in one.on(terms.flat)]


def path_of(name: str) -> list[Any]:
    """Split a flattened column: ``demo.age`` and ``emb[3]`` into field and steps."""
    start = _PATH.search(name)
    if start is None or field_of(name) == name:
        return [name]
    tail = name[start.start() :]
    found = list(_PATH.finditer(tail))
    if start.start() == 0 or "".join(part[0] for part in found) != tail:
        return [name]  # no field's flattened name
    return [name[: start.start()], *(int(p[2]) if p[2] else p[1] for p in found)]


def _path(name: str, flat: Collection[str]) -> tuple[Any, ...]:
    """Return where a column lies in the table, unless its name only looks nested."""
    return (name,) if name in flat else tuple(path_of(name))


def _where_missing(
    mark: str, names: Sequence[str], columns: Collection[str], terms: Terms
) -> dict[str, float] | None:
    """Return what the columns of a field are where it is missing; None if rows were left out."""
    own = {n: terms.means[n] for n in names if n in terms.means and n in columns}
    return {mark: 1.0, **own} if mark in columns else own or None

"""What a linear predictor reads of a row of the raw table, field by field.

The columns of a model are those of a record: levels, curves, indicators. Terms map each to
its field, so a predictor is a sum over fields: a number times its coefficient,
a number looked up by level, a piecewise polynomial. Where a field is missing it adds what
its columns had there in the fit, or nothing is predicted.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.options.kinds import one_of
from dbselect.record.categories import Category
from dbselect.record.columns import SUFFIX, field_of
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
from dbselect.record.made.bases import Basis, Log
from dbselect.record.made.computed import Computed, flat_name, formula_of, of_basis
from dbselect.record.terms import Terms

#: What becomes of a level, or of an entry, that the fit has not seen.
HandleUnknown = Literal["unavailable", "error", "mean"]
#: What becomes of a column that the type of the rows lacks.
MissingColumns = Literal["error", "unavailable"]

#: A flattened column: a field, then children ``.name`` and elements ``[number]``.
_PATH = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


@dataclass(frozen=True, eq=False)
class Number:
    """A number field, or a date, which counts from 1970."""

    name: str  # the column of the model
    path: tuple[Any, ...]  # where it lies in the table
    unit: str | None = None  # of a date ``"days"`` or ``"seconds"``
    # what its columns are where it is missing, column -> number; None if that is missing, too
    missing: Mapping[str, float] | None = None

    @property
    def source(self) -> str:
        """The name reported if a table lacks the field."""
        return self.name

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model that come of it."""
        return tuple(dict.fromkeys([self.name, *(self.missing or ())]))

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what the field adds to a predictor; a number is no level, so none is unknown."""
        value = self.value()
        if self.missing is None:
            return value * coefficients[self.name]
        there = value * coefficients[self.name] if self.name in coefficients else 0.0
        return given(value, there, self.where_missing(coefficients))

    def made(self, name: str) -> Formula:
        """Return a column of the model that comes of the field."""
        return self.formula({name: 1.0}, "unavailable")

    def value(self) -> Formula:
        """Return the field as a number."""
        return column(self.path) if self.unit is None else date(self.path, self.unit)

    def where_missing(self, coefficients: Mapping[str, float]) -> float:
        """Return what the field adds to a predictor where it is missing."""
        return _sum(self.missing or {}, coefficients)

    def on(self, there: Collection[str]) -> "list[Input]":
        """Return what is read of a table of some columns, which may hold made ones."""
        path = (self.name,) if self.name in there else self.path
        marks = [name for name in self.missing or () if name != self.name]
        if not marks or not {*marks}.issubset(there):
            return [self if path == self.path else replace(self, path=path)]
        plain = replace(self, path=path, missing=None)
        return [plain, *(Number(name, (name,)) for name in marks)]


@dataclass(frozen=True, eq=False)
class Levels:
    """A field of text, booleans or whole numbers, whose levels are columns of 0 and 1."""

    category: Category  # its levels
    names: tuple[str, ...]  # those of its columns that the model has
    # path, missing: as in `Number`
    path: tuple[Any, ...]
    missing: Mapping[str, float] | None = None

    @property
    def source(self) -> str:
        """The column of the table."""
        return self.category.column

    def lookup(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Lookup:
        """Return the number that each level adds to a predictor."""
        other = self._mean_effect(coefficients) if unknown == "mean" else None
        refuses = unknown == "error" and not self.category.rest
        return self._lookup(coefficients, other, refuses)

    def _lookup(
        self, coefficients: Mapping[str, float], other: float | None, refuses: bool = False
    ) -> Lookup:
        """Return the number of each level; `other` is that of levels that the fit has not seen."""
        category = self.category
        numbers = [coefficients.get(name, 0.0) for name in category.names]
        if category.rest:
            other = numbers.pop()
        missing = None if self.missing is None else _sum(self.missing, coefficients)
        return Lookup(self.path, category.levels, tuple(numbers), other, missing, refuses)

    def _mean_effect(self, coefficients: Mapping[str, float]) -> float | None:
        """Return what the levels add in the mean over the rows of the fit.

        ArgumentError if their shares are not known.
        """
        self.check_shares("mean")
        return self.category.mean_effect(coefficients)

    def check_shares(self, unknown: HandleUnknown) -> None:
        """Refuse a category without the shares of its levels, of which there is no mean effect."""
        if unknown == "mean" and not self.category.rest and self.category.shares is None:
            raise ArgumentError(
                "handle_unknown is 'mean', which needs the share of each level of "
                f"'{self.category.column}' in the rows of the fit, and the sequence was stored "
                "without them; search again, or take 'unavailable' or 'error'"
            )

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what the field adds to a predictor."""
        return lookup(self.lookup(coefficients, unknown))

    def made(self, name: str) -> Formula:
        """Return a column of the model that comes of the field: 0 for levels without a column."""
        return lookup(self._lookup({name: 1.0}, 0.0))

    def on(self, there: Collection[str]) -> "list[Input]":
        """Return what is read of a table of some columns, which may hold made ones."""
        return _made(self, self.category.missing, there) or [self]


@dataclass(frozen=True, eq=False)
class Curve:
    """A number field, of which polynomials, splines or its logarithm are columns."""

    basis: Basis  # polynomials, splines or the logarithm
    names: tuple[str, ...]  # those of its columns that the model has
    # path, missing: as in `Number`
    path: tuple[Any, ...]
    missing: Mapping[str, float] | None = None

    @property
    def source(self) -> str:
        """The field."""
        return self.basis.column

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what the field adds to a predictor."""
        own = np.array([coefficients.get(name, 0.0) for name in self.basis.names])
        found = formula_of(of_basis(self.basis, self.path, own), {})
        if self.missing is None:
            return found
        return given(column(self.path), found, _sum(self.missing, coefficients))

    def made(self, name: str) -> Formula:
        """Return a column of the model that comes of the field."""
        return self.formula({name: 1.0}, "unavailable")

    def on(self, there: Collection[str]) -> "list[Input]":
        """Return what is read of a table of some columns, which may hold made ones."""
        return _made(self, self.basis.names[0] + SUFFIX, there) or [self]


@dataclass(frozen=True, eq=False)
class Listing:
    """A field that lists the entries of a row which are not 0, each a column."""

    field: Entries  # as the fit met it
    numbers: Mapping[str, int]  # those of its columns that the model has -> number of the entry
    missing: None = None  # as in `Number`: a row without the field is left out

    @property
    def source(self) -> str:
        """The field."""
        return self.field.column

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the model that come of it."""
        return tuple(self.numbers)

    @property
    def path(self) -> tuple[str, ...]:
        """Where it lies in the table."""
        return (self.source,)

    def weighed(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Weighed:
        """Return the sum of the entries that is added to a predictor."""
        own = {at: coefficients.get(name, 0.0) for name, at in self.numbers.items()}
        # An entry that no row of the fit has is 0 in all of them, and so in the mean.
        return Weighed(self.field, own, 0.0 if unknown == "mean" else None, unknown == "error")

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what the field adds to a predictor."""
        return entry_sum(self.weighed(coefficients, unknown))

    def made(self, name: str) -> Formula:
        """Return a column of the model that comes of the field."""
        return self.formula({name: 1.0}, "mean")

    def on(self, there: Collection[str]) -> "list[Input]":
        """Return what is read of a table of some columns, which may hold made ones."""
        return _made(self, None, there) or [self]


@dataclass(frozen=True, eq=False)
class Product:
    """Columns that are computed of several fields."""

    term: Computed
    names: tuple[str, ...]  # those of its columns that the model has, and their indicator
    missing: Mapping[str, float] | None = None

    @property
    def source(self) -> str:
        """The name reported if a table lacks what is read."""
        return self.term.group

    @property
    def path(self) -> Path:
        """Where the first field lies."""
        return next(iter(self.term.paths))

    @property
    def reads(self) -> "list[Number | Levels]":
        """The fields."""
        found: list[Number | Levels] = []
        for path, is_category in self.term.paths.items():
            name = flat_name(path)
            if is_category:
                own = next(one for one in self.term.categories if one.path == path)
                found.append(Levels(Category(name, own.levels, own.rest), (), path, self.missing))
            else:
                found.append(Number(name, path, None, self.missing))
        return found

    def formula(self, coefficients: Mapping[str, float], unknown: HandleUnknown) -> Formula:
        """Return what the columns add to a predictor."""
        other = 0.0 if unknown == "mean" else None
        found = self.term.formula(coefficients, other, unknown == "error")
        if self.missing is None:
            return found
        # A level that the fit has not seen is not missing.
        return given(self.term.formula({}, 0.0), found, _sum(self.missing, coefficients))

    def made(self, name: str) -> Formula:
        """Return a column of the model that is computed, or that of what is missing."""
        found = self.term.made(name) if name in self.term.places else number(0.0)
        if self.missing is None:
            return found
        return given(self.term.formula({}, 0.0), found, self.missing.get(name, 0.0))

    def there(self, unseen: bool) -> Formula | None:
        """Return what is missing where the columns are not available; None if they always are."""
        if self.missing is not None:
            return None
        return self.term.formula({}, 0.0 if unseen else None)

    def on(self, there: Collection[str]) -> "list[Input]":
        """Return what is read of a table of some columns, which may hold made ones."""
        return _made(self, self.term.names[0] + SUFFIX, there) or [self]


Input = Number | Levels | Curve | Listing | Product


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
    """Return the fields of a table that some columns of a model come of, in their order.

    `terms` say how they became columns; `nested` is as in `Predicting.expr`.
    """
    if nested is False:
        return [Number(name, (name,)) for name in columns]
    there = set(columns)
    flat = terms.flat if nested is None else ()
    found: dict[str, Input] = {}
    for category in terms.categories:
        own = [*category.names, category.missing]
        missing = _where_missing(category.missing, category.names, there, terms)
        names = tuple(name for name in own if name in there)
        levels = Levels(category, names, _path(category.column, flat), missing)
        found |= dict.fromkeys(own, levels)
    for basis in terms.bases:
        mark = basis.names[0] + SUFFIX
        own = [*basis.names, mark]
        missing = _where_missing(mark, basis.names, there, terms)
        names = tuple(name for name in own if name in there)
        # Only an exposure may be nested.
        path = _path(basis.column, flat) if isinstance(basis, Log) else (basis.column,)
        curve = Curve(basis, names, path, missing)
        found |= dict.fromkeys(own, curve)
    for term in terms.computed:
        mark = term.names[0] + SUFFIX
        own = [*term.names, mark]
        names = tuple(name for name in own if name in there)
        missing = _where_missing(mark, term.names, there, terms)
        found |= dict.fromkeys(own, Product(term, names, missing))
    for field in terms.entries:
        numbers = field.numbers(columns)
        found |= dict.fromkeys(numbers, Listing(field, numbers))
    for name in columns:
        if name in found:
            continue
        base = name.removesuffix(SUFFIX)
        follows = base in there or base in terms.indicators
        own_name = base if base != name and follows else name
        missing = _where_missing(own_name + SUFFIX, [own_name], there, terms)
        path = _path(own_name, flat)
        one = Number(own_name, path, terms.dates.get(own_name), missing)
        found |= dict.fromkeys([own_name, *(missing or ())], one)
    return list(dict.fromkeys(found[name] for name in columns))


def inputs_as_fitted(columns: Sequence[str], terms: Terms) -> list[Input]:
    """Return what is read of a table like that of the fit.

    A column that this had by the name of an indicator beside its column is a field, too.
    """
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
    """Return what columns of a field are where it is missing; None if rows were left out.

    `mark` is the column that would be 1 there; `names` are those of the field, `columns` of the
    model.
    """
    own = {n: terms.means[n] for n in names if n in terms.means and n in columns}
    return {mark: 1.0, **own} if mark in columns else own or None


def _made(
    one: Levels | Curve | Listing | Product, mark: str | None, there: Collection[str]
) -> list[Input]:
    """Return made columns as the numbers they are, if a table has all of them.

    If it lacks the field that they are made of, some of them are enough: the others are lacking.
    The indicator of what is missing may be a column of the table's own.
    """
    names = {*one.names}
    some = names.intersection(there) - {mark}
    if names.issubset(there) or (some and one.path[0] not in there):
        return [Number(name, (name,)) for name in one.names]
    return []


def _sum(values: Mapping[str, float], coefficients: Mapping[str, float]) -> float:
    return sum(value * coefficients.get(name, 0.0) for name, value in values.items())

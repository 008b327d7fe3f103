"""What the columns of two records are together, where levels or indicators differ.

A level that one of two tables has not seen, and the indicator of a value that is never
missing there, are columns of zeros: a record that lacks them merges exactly with one that
has them. `native/src/record/terms.rs` is the same rule.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dbselect.errors import RecordError
from dbselect.record.categories import Category
from dbselect.record.columns import SUFFIX
from dbselect.record.terms import Terms


def union(
    columns: Sequence[str], terms: Terms, others: Sequence[str], other_terms: Terms
) -> tuple[list[str], Terms]:
    """Return the columns of two records together, those of the first first, and their terms."""
    joint = union_of_terms(terms, other_terms)
    columns, others = marked(columns, terms, joint), marked(others, other_terms, joint)
    blocks = {one.column: [*one.names, one.missing] for one in joint.categories}
    blocks |= {name: [name, name + SUFFIX] for name in joint.indicators}
    heads = {name: head for head, names in blocks.items() for name in names}
    one, two = (list(dict.fromkeys(heads.get(n, n) for n in names)) for names in (columns, others))
    if [head for head in one if head in two] != [head for head in two if head in one]:
        # Of two orders the lesser, so that it does not matter which record comes first.
        one, two = sorted((one, two))
    order = _interleaved(one, two)
    every = {*columns, *others}
    found = [name for head in order for name in blocks.get(head, [head]) if name in every]
    if not all(
        every.difference(names) <= zeros(own, joint)
        for names, own in ((columns, terms), (others, other_terms))
    ):
        # Levels that only one has are not the cause.
        raise RecordError(
            _difference(one, two) if {*one} != {*two} else _difference(columns, others)
        )
    return found, joint


def marked(columns: Sequence[str], own: Terms, joint: Terms) -> list[str]:
    """Return the columns of a record as they are called beside the levels of others."""
    names = {each.column: each.missing for each in joint.categories}
    renamed = {
        each.missing: names.get(each.column, each.missing)
        for each in own.categories
        if each.null_policy == "indicator"
    }
    return [renamed.get(name, name) for name in columns]


def union_of_terms(one: Terms, two: Terms) -> Terms:
    """Return terms with the levels and indicators of both; RecordError if more differs."""
    if one == two:
        return one
    own, others = ({each.column: each for each in terms.categories} for terms in (one, two))
    if own.keys() != others.keys():
        raise RecordError(_unequal("categories", list(own), list(others)))
    means, others_means = one.plain_means, two.plain_means
    if means != others_means:
        odd = next(n for n in (*means, *others_means) if means.get(n) != others_means.get(n))
        raise RecordError(
            f"gram records have unequal means where values were missing: of '{odd}' "
            f"{means.get(odd)} in the first, {others_means.get(odd)} in the second; read the "
            "tables with the terms of one, or with indicators, which impute_mean fills"
        )
    for name in {**one.dates, **two.dates}:
        if one.dates.get(name) != two.dates.get(name):
            kinds = {"days": "a date", None: "a number"}
            first, second = (kinds.get(own.dates.get(name), "a timestamp") for own in (one, two))
            raise RecordError(
                f"gram records differ in column '{name}': it is {first} in the first, {second} in "
                "the second; cast it to one type"
            )
    if {*one.flat} != {*two.flat}:
        raise RecordError(_unequal("flat", one.flat, two.flat))
    for what in ("bases", "computed"):
        if getattr(one, what) != getattr(two, what):
            raise RecordError(_unequal(what, getattr(one, what), getattr(two, what)))
    return replace(
        one,
        categories=tuple(_joint(each, others[column]) for column, each in own.items()),
        means=means,
        indicators=tuple(dict.fromkeys([*one.indicators, *two.indicators])),
    )


def check_read_alike(own: Terms, fitted: Terms) -> None:
    """Refuse rows whose columns do not mean what columns of the same names mean in a fit.

    What only one of both has is no difference, but for a date where the fit had a number.
    """
    bases = {each.column: each for each in own.bases}
    computed = {each.names: each for each in own.computed}
    categories = {each.column: each for each in own.categories}
    units = {**dict.fromkeys(own.dates), **fitted.dates}
    means = own.plain_means
    pairs: list[tuple[str, Any, Any]] = [
        *((f"basis of '{one.column}'", one, bases.get(one.column)) for one in fitted.bases),
        *((f"term '{one.group}'", one, computed.get(one.names)) for one in fitted.computed),
        *((f"unit of '{name}'", unit, own.dates.get(name)) for name, unit in units.items()),
        *(
            (f"mean of '{name}'", mean, means.get(name))
            for name, mean in fitted.plain_means.items()
        ),
    ]
    for category in fitted.categories:
        other = categories.get(category.column, category)
        if category.rest or other.rest:
            pairs.append((f"levels of '{category.column}'", category.names, other.names))
    for what, there, here in pairs:
        if here is not None and here != there:
            raise RecordError(
                f"the rows have another {what} than the fit: {here!r}, and {there!r} in the fit; "
                "read the table with terms= of the fit"
            )


def _joint(one: Category, two: Category) -> Category:
    """Return a category with the levels of both, in ascending order where they differ."""
    if one == two:
        return one
    what = f"levels of '{one.column}'"
    if one.null_policy != two.null_policy:
        raise RecordError(
            _unequal(f"null_policy of '{one.column}'", one.null_policy, two.null_policy)
        )
    if one.reference != two.reference:
        odd = f"reference of '{one.column}'"
        raise RecordError(_unequal(odd, one.reference, two.reference))
    if one.levels == two.levels:
        raise RecordError(_unequal(what, one.names, two.names))
    if one.rest or two.rest:
        raise RecordError(
            _unequal(what, list(one.levels), list(two.levels))
            + "; where one column stands for all other levels, both need the same: read the "
            "tables with the same terms"
        )
    if one.kind != two.kind and None not in (one.kind, two.kind):
        raise RecordError(_unequal(what, one.kind, two.kind))
    return replace(one, levels=tuple(sorted({*one.levels, *two.levels})))


def _interleaved(one: Sequence[str], two: Sequence[str]) -> list[str]:
    """Return two lists as one: what only the second has follows what it follows there."""
    found = list(one)
    for before, name in zip([None, *two], two, strict=False):
        if name not in found:
            found.insert(0 if before is None else found.index(before) + 1, name)
    return found


def zeros(own: Terms, joint: Terms) -> set[str]:
    """Return the columns that are 0 in every row of a record of some terms if it lacks them."""
    seen = {name for each in own.categories for name in each.names}
    made = {name for each in joint.categories for name in (*each.names, each.missing)}
    return made - seen | {name + SUFFIX for name in joint.indicators}


def _unequal(what: str, one: Any, two: Any) -> str:
    return f"gram records have unequal {what}: {one!r} in the first, {two!r} in the second"


def _difference(columns: Sequence[str], others: Sequence[str]) -> str:
    first = [name for name in columns if name not in others]
    second = [name for name in others if name not in columns]
    return (
        f"gram records have unequal columns; only in the first: {first}; "
        f"only in the second: {second}"
    )

"""Joint columns of two records whose levels or indicators differ.

A level that a table does not have, and the indicator of a column without missing values, are
columns of zeros: a record without them merges exactly with a record that has them.
`native/src/record/terms.rs` has the same rule.
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
    """Return the joint columns of two records, those of the first first, and their terms."""
    joint = union_of_terms(terms, other_terms)
    columns, others = marked(columns, terms, joint), marked(others, other_terms, joint)
    blocks = {levels.column: [*levels.names, levels.missing] for levels in joint.categories}
    blocks |= {name: [name, name + SUFFIX] for name in joint.indicators}
    heads = {name: head for head, names in blocks.items() for name in names}
    first, second = (list(dict.fromkeys(heads.get(n, n) for n in ns)) for ns in (columns, others))
    if [head for head in first if head in second] != [head for head in second if head in first]:
        # Take the lesser of two orders, so that the result is the same for both orders of records.
        first, second = sorted((first, second))
    order = _interleaved(first, second)
    either = {*columns, *others}
    merged = [name for head in order for name in blocks.get(head, [head]) if name in either]
    if not all(
        either.difference(names) <= zeros(record_terms, joint)
        for names, record_terms in ((columns, terms), (others, other_terms))
    ):
        # Prefer a message on whole fields: levels of only one record are allowed.
        raise RecordError(
            _difference(first, second) if {*first} != {*second} else _difference(columns, others)
        )
    return merged, joint


def marked(columns: Sequence[str], terms: Terms, joint: Terms) -> list[str]:
    """Rename indicators of categories to their names under the joint levels."""
    names = {category.column: category.missing for category in joint.categories}
    renamed = {
        category.missing: names.get(category.column, category.missing)
        for category in terms.categories
        if category.null_policy == "indicator"
    }
    return [renamed.get(name, name) for name in columns]


def union_of_terms(first: Terms, second: Terms) -> Terms:
    """Return terms with the levels and indicators of both; RecordError if more differs."""
    if first == second:
        return first
    categories, others = ({c.column: c for c in terms.categories} for terms in (first, second))
    if categories.keys() != others.keys():
        raise RecordError(_unequal("categories", list(categories), list(others)))
    means, other_means = first.plain_means, second.plain_means
    if means != other_means:
        odd = next(n for n in (*means, *other_means) if means.get(n) != other_means.get(n))
        raise RecordError(
            f"gram records have unequal means where values were missing: of '{odd}' "
            f"{means.get(odd)} in the first, {other_means.get(odd)} in the second; read the "
            "tables with the terms of one, or with indicators, which impute_mean fills"
        )
    for name in {**first.dates, **second.dates}:
        if first.dates.get(name) != second.dates.get(name):
            kinds = {"days": "a date", None: "a number"}
            units = first.dates.get(name), second.dates.get(name)
            kind, other_kind = (kinds.get(unit, "a timestamp") for unit in units)
            raise RecordError(
                f"gram records differ in column '{name}': it is {kind} in the first, {other_kind} "
                "in the second; cast it to one type"
            )
    if first.em != second.em:
        raise RecordError(
            "gram records completed by EM do not add up; add up the patterns that they were made of"
        )
    if {*first.flat} != {*second.flat}:
        raise RecordError(_unequal("flat", first.flat, second.flat))
    for what in ("bases", "computed"):
        if getattr(first, what) != getattr(second, what):
            raise RecordError(_unequal(what, getattr(first, what), getattr(second, what)))
    return replace(
        first,
        categories=tuple(_joint(categories[name], others[name]) for name in categories),
        means=means,
        indicators=tuple(dict.fromkeys([*first.indicators, *second.indicators])),
        dropped=tuple(dict.fromkeys([*first.dropped, *second.dropped])),
    )


def check_read_alike(terms: Terms, fitted: Terms) -> None:
    """Refuse rows whose terms differ from those of a fit, for columns that both have.

    A column of only one of them is allowed, except a date that was a number in the fit.
    """
    bases = {basis.column: basis for basis in terms.bases}
    computed = {term.names: term for term in terms.computed}
    categories = {category.column: category for category in terms.categories}
    units = {**dict.fromkeys(terms.dates), **fitted.dates}
    means = terms.plain_means
    pairs: list[tuple[str, Any, Any]] = [
        *((f"basis of '{b.column}'", b, bases.get(b.column)) for b in fitted.bases),
        *((f"term '{term.group}'", term, computed.get(term.names)) for term in fitted.computed),
        *((f"unit of '{name}'", unit, terms.dates.get(name)) for name, unit in units.items()),
        *(
            (f"mean of '{name}'", mean, means.get(name))
            for name, mean in fitted.plain_means.items()
        ),
    ]
    for category in fitted.categories:
        other = categories.get(category.column, category)
        if category.rest or other.rest:
            pairs.append((f"levels of '{category.column}'", category.names, other.names))
    for what, expected, actual in pairs:
        if actual is not None and actual != expected:
            raise RecordError(
                f"the rows have another {what} than the fit: {actual!r}, and {expected!r} in the "
                "fit; read the table with terms= of the fit"
            )


def _joint(first: Category, second: Category) -> Category:
    """Return a category with the levels of both, in ascending order where they differ."""
    if first == second:
        return first
    what = f"levels of '{first.column}'"
    if first.null_policy != second.null_policy:
        odd = f"null_policy of '{first.column}'"
        raise RecordError(_unequal(odd, first.null_policy, second.null_policy))
    if first.reference != second.reference:
        odd = f"reference of '{first.column}'"
        raise RecordError(_unequal(odd, first.reference, second.reference))
    if first.levels == second.levels:
        raise RecordError(_unequal(what, first.names, second.names))
    if first.rest or second.rest:
        raise RecordError(
            _unequal(what, list(first.levels), list(second.levels))
            + "; where one column stands for all other levels, both need the same: read the "
            "tables with the same terms"
        )
    if first.kind != second.kind and None not in (first.kind, second.kind):
        raise RecordError(_unequal(what, first.kind, second.kind))
    return replace(first, levels=tuple(sorted({*first.levels, *second.levels})))


def _interleaved(first: Sequence[str], second: Sequence[str]) -> list[str]:
    """Merge two lists: a name of only the second follows its predecessor there."""
    merged = list(first)
    for before, name in zip([None, *second], second, strict=False):
        if name not in merged:
            merged.insert(0 if before is None else merged.index(before) + 1, name)
    return merged


def zeros(terms: Terms, joint: Terms) -> set[str]:
    """Return the joint columns that are 0 in every row of a record without them."""
    seen = {name for category in terms.categories for name in category.names}
    made = {name for category in joint.categories for name in (*category.names, category.missing)}
    return made - seen | {name + SUFFIX for name in joint.indicators}


def _unequal(what: str, first: Any, second: Any) -> str:
    return f"gram records have unequal {what}: {first!r} in the first, {second!r} in the second"


def _difference(columns: Sequence[str], others: Sequence[str]) -> str:
    first = [name for name in columns if name not in others]
    second = [name for name in others if name not in columns]
    return (
        f"gram records have unequal columns; only in the first: {first}; "
        f"only in the second: {second}"
    )

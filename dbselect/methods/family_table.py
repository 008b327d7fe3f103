"""What a generalised linear model reads of a table: opened, checked, and with its family known."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError, DataError, SourceError
from dbselect.glm.named import family_of, kind_of_family
from dbselect.glm.passes import Roles
from dbselect.methods.family_options import GlmOptions
from dbselect.methods.setup import refuse_several
from dbselect.methods.types import Level
from dbselect.record.columns import Leaf
from dbselect.record.gram import Gram
from dbselect.record.terms import Terms
from dbselect.sources.passes import Passes
from dbselect.sources.target import refusal

#: Most classes of a multinomial target: a pass makes a Gram for each two of them.
MOST_CLASSES = 40


def opened(
    source: Any,
    target: Any,
    columns: Sequence[str] | None,
    options: GlmOptions,
    terms: Terms | None = None,
) -> Passes:
    """Open the table and check what its columns are."""
    refuse_several(target)
    refuse_records(source)
    offset = options.offset
    apart = [name for name in (target, offset) if name is not None]
    passes = Passes(source, columns, options.weight, apart, terms)
    _check_target(passes.leaf(target, "target"), options)
    if offset is not None:
        type_ = passes.leaf(offset, "offset").type
        if not passes.leaf(offset, "offset").is_numeric:
            raise ColumnError(f"offset '{offset}' has type {type_}; it must be numeric or boolean")
    return passes


def _check_target(leaf: Leaf, options: GlmOptions) -> None:
    """Refuse a target whose type the family does not take."""
    kind = kind_of_family(options.family)
    is_number = leaf.is_numeric and leaf.unit is None
    if is_number or (leaf.is_text and kind in ("binomial", "multinomial")):
        return
    if kind == "multinomial":
        raise ColumnError(
            f"target '{leaf.name}' has type {leaf.type}; a multinomial target must be text, "
            "numeric or boolean"
        )
    allowed = family_of(options.family).allowed
    raise ColumnError(refusal(leaf.name, leaf.type, allowed, options.family))


def refuse_records(source: Any) -> None:
    """Refuse a Gram or its record, for a fit of rows."""
    if isinstance(source, Gram | Mapping | pa.Scalar):
        raise SourceError(
            f"source is a {type(source).__name__} and holds no rows, which every step of the fit "
            "reads again; give the table"
        )


def roles_of(passes: Passes, target: str, options: GlmOptions, members: list[str]) -> Roles:
    """Return what the columns are; classes or levels of the target are read."""
    leaf = passes.leaf(target, "target")
    if options.family == "multinomial":
        family = family_of("multinomial", _classes(passes, leaf))
    elif leaf.is_text or options.positive is not None:
        family = family_of(options.family, _levels(passes, leaf, options.positive))
    else:
        family = family_of(options.family)
    return Roles(family, target, members, options.offset)


def _classes(passes: Passes, leaf: Leaf) -> list[Any]:
    """Read which classes there are."""
    classes = passes.values_of(leaf, MOST_CLASSES)
    if not 2 <= len(classes) <= MOST_CLASSES:
        count = len(classes) if len(classes) < 2 else f"more than {MOST_CLASSES}"
        raise DataError(
            f"target '{leaf.name}' has {count} different values; a multinomial target must have "
            f"2 to {MOST_CLASSES}"
        )
    if any(isinstance(one, float) and math.isinf(one) for one in classes):
        raise DataError(f"target '{leaf.name}' has an infinite value; a class must be finite")
    return classes


def _levels(passes: Passes, leaf: Leaf, positive: Level | None) -> list[Any]:
    """Read the two levels of a binomial target; the last is the one that counts as 1.

    Without `positive` that is the second in order, as the levels of R's factors are counted.
    """
    found = passes.values_of(leaf, 2)
    if len(found) != 2:
        count = f"only {found[0]!r}" if found else "no value"
        raise DataError(
            f"target '{leaf.name}' has {count if len(found) < 2 else 'more than two levels'}; a "
            "binomial target must have two: of more, predict all with family 'multinomial'"
        )
    if positive is None:
        return found
    # A command line has texts only.
    same = [one for one in found if one == positive or _text_of(one) == positive]
    if len(same) != 1:
        raise ArgumentError(
            f"positive is {positive!r}; target '{leaf.name}' has the levels {found}"
        )
    return [one for one in found if one != same[0]] + same


def _text_of(level: Any) -> str:
    """Return a level as a command line has it; booleans as SQL writes them."""
    return str(level).lower() if isinstance(level, bool) else str(level)

"""The formulas of a family by its name in models, sequences, SQL and the command line."""

import copyreg
from collections.abc import Sequence
from functools import cache
from typing import Any

from dbselect.families import Family, parse
from dbselect.glm.families import (
    BINOMIAL,
    GAUSSIAN,
    POISSON,
    FamilyFormulas,
    multinomial,
    of_levels,
)
from dbselect.glm.links import BINOMIALS, OTHER_LINKS, POSITIVE_LINKS, by_link
from dbselect.glm.log_families import (
    GAMMA_POWER,
    INVERSE_GAUSSIAN_POWER,
    negative_binomial,
    tweedie,
)

#: The family whose number a fit estimates.
ESTIMATED = "negative_binomial"
#: Families with formulas of their own.
_OWN = {
    family.name: family
    for family in (
        GAUSSIAN, BINOMIAL, *BINOMIALS, POISSON,
        tweedie(GAMMA_POWER, "gamma"), tweedie(INVERSE_GAUSSIAN_POWER, "inverse_gaussian"),
        negative_binomial(1.0, ESTIMATED),  # before its number is estimated
    )
}  # fmt: skip
#: Families with a number -> function of the number and the name.
_WITH_NUMBER = {"tweedie": tweedie, "negative_binomial": negative_binomial}
#: Families with a canonical link whose formulas come from another link.
_CANONICAL = ("gamma(inverse)", "inverse_gaussian(inverse_squared)")


def family_of(name: Family | str, classes: Sequence[Any] = ()) -> FamilyFormulas:
    """Return a family's formulas; `classes` are its classes, or a binomial target's two levels."""
    family = parse(name)
    if family.has_classes:
        return multinomial(classes)
    formulas = _formulas(family)
    return of_levels(formulas, classes) if classes else formulas


def _by_name(family: FamilyFormulas) -> tuple[Any, ...]:
    """Pickle a family by its name, as its formulas are functions."""
    return family_of, (family.name, family.classes or family.levels)


copyreg.pickle(FamilyFormulas, _by_name)


def kind_of_family(name: str) -> str:
    """Return the name of a family without its link or parameter."""
    return name.partition("(")[0]


@cache
def _formulas(family: Family) -> FamilyFormulas:
    name = str(family)
    if name in _OWN:
        return _OWN[name]
    base = _OWN[family.name] if family.number is None else _WITH_NUMBER[family.name](
        family.number, f"{family.name}({family.number!r})"
    )  # fmt: skip
    if family.link == family.links[0]:
        return base
    link = OTHER_LINKS.get(family.name, POSITIVE_LINKS)[family.link]
    return by_link(base, link, is_canonical=name in _CANONICAL)

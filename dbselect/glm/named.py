"""Families by the names that users give: a family, and in brackets its link or its parameter.

    gaussian  binomial  binomial(probit)  binomial(cloglog)  poisson  poisson(sqrt)  multinomial
    gamma  gamma(inverse)  inverse_gaussian  tweedie(1.5)  negative_binomial(0.8, identity)

A name defines a family except for its classes; it is what models, stored sequences, SQL and
the command line carry.
"""

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from dbselect.errors import ArgumentError
from dbselect.glm.binomial_links import CAUCHIT, CLOGLOG, LOG, LOGLOG, PROBIT
from dbselect.glm.families import (
    BINOMIAL,
    GAUSSIAN,
    POISSON,
    FamilyFormulas,
    multinomial,
    of_levels,
)
from dbselect.glm.links import (
    GAUSSIAN_INVERSE,
    GAUSSIAN_LOG,
    IDENTITY,
    INVERSE,
    INVERSE_SQUARED,
    PROBABILITY,
    SQRT,
    by_link,
)
from dbselect.glm.log_families import (
    GAMMA_POWER,
    INVERSE_GAUSSIAN_POWER,
    negative_binomial,
    tweedie,
)

#: The family whose number a fit finds itself.
ESTIMATED = "negative_binomial"
_GAMMA = tweedie(GAMMA_POWER, "gamma")
_INVERSE_GAUSSIAN = tweedie(INVERSE_GAUSSIAN_POWER, "inverse_gaussian")
#: Families without a parameter, by name.
FAMILIES = {
    family.name: family
    for family in (
        GAUSSIAN,
        by_link(GAUSSIAN, GAUSSIAN_LOG),
        by_link(GAUSSIAN, GAUSSIAN_INVERSE),
        BINOMIAL,
        PROBIT,
        CLOGLOG,
        LOGLOG,
        CAUCHIT,
        LOG,
        by_link(BINOMIAL, PROBABILITY, inside=0.5),
        POISSON,
        by_link(POISSON, IDENTITY),
        by_link(POISSON, SQRT),
        _GAMMA,
        by_link(_GAMMA, IDENTITY),
        by_link(_GAMMA, INVERSE, is_canonical=True),
        _INVERSE_GAUSSIAN,
        by_link(_INVERSE_GAUSSIAN, IDENTITY),
        by_link(_INVERSE_GAUSSIAN, INVERSE),
        by_link(_INVERSE_GAUSSIAN, INVERSE_SQUARED, is_canonical=True),
        # Where its number is not known yet.
        negative_binomial(1.0, ESTIMATED),
    )
}
#: Families with one: how they are made, above what it must lie, and an example.
WITH_NUMBER = {
    "tweedie": (tweedie, 1.0, "1.5"),
    "negative_binomial": (negative_binomial, 0.0, "0.8"),
}
#: Links of families with a number beside the logarithm, after a comma: ``tweedie(1.5, inverse)``.
LINKS_WITH_NUMBER = {
    "tweedie": {one.name: one for one in (IDENTITY, INVERSE, INVERSE_SQUARED, SQRT)},
    "negative_binomial": {one.name: one for one in (IDENTITY, SQRT)},
}
#: All names, as errors list them.
FAMILY_NAMES = (
    *FAMILIES, "multinomial", *(f"{name}({one[2]})" for name, one in WITH_NUMBER.items())
)  # fmt: skip
_NAME = re.compile(r"(\w+)\(([^,]*?)(?:, *(\w+))?\)")


def family_of(name: Any, classes: Sequence[Any] = ()) -> FamilyFormulas:
    """Return a family by its name; ArgumentError as `check_family_name`.

    `classes` are those of a multinomial target; of a binomial one its two levels, if it is not 0/1.
    """
    if name == "multinomial":
        return multinomial(classes)
    if not isinstance(name, str):
        raise _no_family(name)
    family = FAMILIES[name] if name in FAMILIES else _with_number(name)
    return of_levels(family, classes) if classes else family


def kind_of_family(name: str) -> str:
    """Return the name of a family without its link or parameter."""
    return name.partition("(")[0]


@cache
def _with_number(name: str) -> FamilyFormulas:
    parts = _NAME.fullmatch(name)
    if parts is None or parts[1] not in WITH_NUMBER:
        raise _no_family(name)
    (make, above, _), link = WITH_NUMBER[parts[1]], parts[3]
    if link not in (None, "log", *LINKS_WITH_NUMBER[parts[1]]):
        links = ["log", *LINKS_WITH_NUMBER[parts[1]]]
        raise ArgumentError(f"family is {name!r}; the links of {parts[1]} are {links}")
    try:
        value = float(parts[2])
    except ValueError:
        value = math.nan
    if not above < value < math.inf:
        raise ArgumentError(f"family is {name!r}; the number in brackets must lie above {above:g}")
    family = make(value, f"{parts[1]}({parts[2].strip()})")
    return family if link in (None, "log") else by_link(family, LINKS_WITH_NUMBER[parts[1]][link])


def _no_family(name: Any) -> ArgumentError:
    return ArgumentError(f"family is {name!r}; it must be one of {list(FAMILY_NAMES)}")

"""Families by the names that users give: a family, and in brackets its link or its parameter.

    gaussian  binomial  binomial(probit)  binomial(cloglog)  binomial(log)  poisson  multinomial
    gamma  inverse_gaussian  tweedie(1.5)  negative_binomial(0.8)

A name says all there is to know of a family but the classes, so that it is what models,
stored sequences, SQL and the command line carry.
"""

import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from dbselect.errors import ArgumentError
from dbselect.glm.binomial_links import CLOGLOG, LOG, PROBIT
from dbselect.glm.families import (
    BINOMIAL,
    GAUSSIAN,
    POISSON,
    Family,
    multinomial,
    of_levels,
)
from dbselect.glm.log_families import (
    GAMMA_POWER,
    INVERSE_GAUSSIAN_POWER,
    negative_binomial,
    tweedie,
)

#: Families without a parameter, by name.
FAMILIES = {
    family.name: family
    for family in (
        GAUSSIAN,
        BINOMIAL,
        PROBIT,
        CLOGLOG,
        LOG,
        POISSON,
        tweedie(GAMMA_POWER, "gamma"),
        tweedie(INVERSE_GAUSSIAN_POWER, "inverse_gaussian"),
    )
}
#: Families with one: how they are made, above what it must lie, and an example.
WITH_NUMBER = {
    "tweedie": (tweedie, 1.0, "1.5"),
    "negative_binomial": (negative_binomial, 0.0, "0.8"),
}
#: All names, as errors list them.
FAMILY_NAMES = (
    *FAMILIES, "multinomial", *(f"{name}({one[2]})" for name, one in WITH_NUMBER.items())
)  # fmt: skip
_NAME = re.compile(r"(\w+)\((.*)\)")


def check_family_name(name: Any) -> None:
    """Refuse what is the name of no family.

    Raises
    ------
    ArgumentError : no such family, or a parameter that it cannot have
    """
    if name != "multinomial":
        family_of(name)


def family_of(name: Any, classes: Sequence[Any] = ()) -> Family:
    """Return a family by its name.

    Parameters
    ----------
    classes : of a multinomial target; of a binomial one its two levels, if it is not 0/1

    Raises
    ------
    ArgumentError : as `check_family_name`
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
def _with_number(name: str) -> Family:
    parts = _NAME.fullmatch(name)
    if parts is None or parts[1] not in WITH_NUMBER:
        raise _no_family(name)
    make, above, _ = WITH_NUMBER[parts[1]]
    try:
        value = float(parts[2])
    except ValueError:
        value = math.nan
    if not above < value < math.inf:
        raise ArgumentError(f"family is {name!r}; the number in brackets must lie above {above:g}")
    return make(value, name)


def _no_family(name: Any) -> ArgumentError:
    return ArgumentError(f"family is {name!r}; it must be one of {list(FAMILY_NAMES)}")

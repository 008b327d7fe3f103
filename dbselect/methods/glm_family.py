"""The name of a family with its link or its parameter, made of them."""

import re
from typing import Any, cast

from dbselect.errors import ArgumentError
from dbselect.glm.named import (
    ESTIMATED,
    FAMILIES,
    LINKS_WITH_NUMBER,
    WITH_NUMBER,
    check_family_name,
)
from dbselect.methods.names import GlmFamilyName

#: What the number of a family is called.
NUMBERS = {"tweedie": "power", "negative_binomial": "dispersion"}
#: The link that a family has without any said, where that is not the logarithm.
FIRST = {"gaussian": "identity", "binomial": "logit"}
_IN_NAME = re.compile(r"(\w+)\((\w+)\)")


def _links() -> dict[str, list[str]]:
    """Return the links of each family, the one that it has without any said first."""
    found: dict[str, list[str]] = {}
    for name in FAMILIES:
        parts = _IN_NAME.fullmatch(name)
        kind = parts[1] if parts else name
        found.setdefault(kind, [FIRST.get(kind, "log")]).extend([parts[2]] if parts else [])
    numbered = {name: ["log", *links] for name, links in LINKS_WITH_NUMBER.items()}
    return found | numbered


def glm_family(
    name: str,
    link: str | None = None,
    *,
    power: float | None = None,
    dispersion: float | None = None,
) -> GlmFamilyName:
    """Return the name that every call takes as `family`, for a link or a parameter.

    The name says it all, so that SQL, the command line and stored models have it as well:
    ``"binomial(probit)"``, ``"tweedie(1.5)"``, ``"negative_binomial(0.8)"``.

    Parameters
    ----------
    name : ``"gaussian"``, ``"binomial"``, ``"poisson"``, ``"gamma"``, ``"inverse_gaussian"``,
        ``"tweedie"`` or ``"negative_binomial"``
    link : of gaussian ``"identity"`` (default), ``"log"`` or ``"inverse"``; of binomial
        ``"logit"`` (default), ``"probit"``, ``"cloglog"``, ``"loglog"``, ``"cauchit"``, ``"log"``
        or ``"identity"``; of the others ``"log"`` (default) and ``"identity"``, of counts also
        ``"sqrt"``, of gamma ``"inverse"``, of inverse_gaussian ``"inverse"`` and
        ``"inverse_squared"``, of tweedie all four
    power : of tweedie, > 1: the variance is proportional to this power of the mean; below 2
        the target may be 0
    dispersion : of negative_binomial, > 0: the variance is ``mean + dispersion mean^2``; None
        for the most likely one, of the link log

    Returns
    -------
    text

    Raises
    ------
    ArgumentError : no such family, a link that it does not have, or a number that is
        missing, out of range or not the family's

    References
    ----------
    McCullagh, Nelder (1989), chapters 4, 8 and 9; Jorgensen (1987), JRSS B 49.

    Examples
    --------
    >>> import dbselect as ds
    >>> ds.glm_family("binomial", "probit"), ds.glm_family("tweedie", power=1.5)
    ('binomial(probit)', 'tweedie(1.5)')
    """
    links = _links()
    if name not in links:
        raise ArgumentError(f"name is {name!r}; it must be one of {list(links)}")
    if link is not None and link not in links[name]:
        raise ArgumentError(f"link is {link!r}; family {name!r} has {links[name]}")
    for option, value in (("power", power), ("dispersion", dispersion)):
        _check_number(name, option, value)
    number = power if dispersion is None else dispersion
    inside = [] if number is None else [repr(float(number))]
    inside += [] if link in (None, links[name][0]) else [str(link)]
    text = f"{name}({', '.join(inside)})" if inside else name
    check_family_name(text)
    return cast(GlmFamilyName, text)


def linked(family: Any, link: Any) -> str:
    """Return the name of a family, number in brackets or not, by a link.

    Raises
    ------
    ArgumentError : the family has no such link, or another one in its name
    """
    check_family_name(family)
    kind, _, inside = str(family).rstrip(")").partition("(")
    parts = [part.strip() for part in inside.split(",") if part]
    numbers = [part for part in parts if part not in _links().get(kind, [])]
    own = [part for part in parts if part not in numbers]
    links = _links().get(kind, [])
    if link not in links:
        raise ArgumentError(f"link is {link!r}; family {kind!r} has {links or 'none'}")
    if own not in ([], [link]):
        raise ArgumentError(f"link is {link!r}; family {family!r} has another in its name")
    inside = ", ".join(numbers if link == links[0] else [*numbers, link])
    found = f"{kind}({inside})" if inside else kind
    check_family_name(found)
    return found


def _check_number(name: str, option: str, value: Any) -> None:
    """Refuse a number that the family has not, or its absence."""
    if NUMBERS.get(name) != option:
        if value is not None:
            raise ArgumentError(f"{option} is {value!r}; family {name!r} has none")
        return
    if value is None and name == ESTIMATED:
        return
    above = WITH_NUMBER[name][1]
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > above:
        raise ArgumentError(f"{option} is {value!r}; of {name!r} it must be a number > {above:g}")

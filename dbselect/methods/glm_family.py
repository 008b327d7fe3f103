"""The name of a family with its link or its parameter, made of them."""

from typing import Any, cast

from dbselect.errors import ArgumentError
from dbselect.glm.named import WITH_NUMBER, check_family_name
from dbselect.methods.names import GlmFamilyName

#: Links by family, the one that it has without any said first.
LINKS = {
    "binomial": ("logit", "probit", "cloglog", "log"),
    "poisson": ("log",),
    "gamma": ("log",),
    "inverse_gaussian": ("log",),
    "tweedie": ("log",),
    "negative_binomial": ("log",),
}
#: What the number of a family is called.
NUMBERS = {"tweedie": "power", "negative_binomial": "dispersion"}


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
    name : ``"binomial"``, ``"poisson"``, ``"gamma"``, ``"inverse_gaussian"``, ``"tweedie"`` or
        ``"negative_binomial"``
    link : of binomial ``"logit"`` (default), ``"probit"``, ``"cloglog"`` or ``"log"``; of the
        others ``"log"``
    power : of tweedie, > 1: the variance is proportional to this power of the mean; below 2
        the target may be 0
    dispersion : of negative_binomial, > 0: the variance is ``mean + dispersion mean^2``

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
    if name not in LINKS:
        raise ArgumentError(f"name is {name!r}; it must be one of {list(LINKS)}")
    if link is not None and link not in LINKS[name]:
        raise ArgumentError(f"link is {link!r}; family {name!r} has {list(LINKS[name])}")
    for option, value in (("power", power), ("dispersion", dispersion)):
        _check_number(name, option, value)
    number = power if dispersion is None else dispersion
    text = name if number is None else f"{name}({float(number)!r})"
    if link is not None and link != LINKS[name][0]:
        text = f"{name}({link})"
    check_family_name(text)
    return cast(GlmFamilyName, text)


def _check_number(name: str, option: str, value: Any) -> None:
    """Refuse a number that the family has not, or its absence."""
    if NUMBERS.get(name) != option:
        if value is not None:
            raise ArgumentError(f"{option} is {value!r}; family {name!r} has none")
        return
    above = WITH_NUMBER[name][1]
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > above:
        raise ArgumentError(f"{option} is {value!r}; of {name!r} it must be a number > {above:g}")

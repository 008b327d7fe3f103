"""Families of generalised linear models: a distribution of the target, and a link.

Every call takes a family as an object or as text, as in SQL: ``Binomial(link="probit")`` is
``"binomial(probit)"``, ``Tweedie(1.5)`` is ``"tweedie(1.5)"``.

Source: McCullagh, Nelder (1989), Generalized Linear Models, section 2.2.
"""

import math
import numbers
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

from dbselect.errors import ArgumentError, did_you_mean, shown

__all__ = [
    "Binomial", "Family", "Gamma", "Gaussian", "InverseGaussian", "Multinomial",
    "NegativeBinomial", "Poisson", "Tweedie", "parse",
]  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A family and its link; ``str(family)`` is its text in SQL.

    Parameters
    ----------
    link : one of `links`; default: the first

    Examples
    --------
    >>> import dbselect as ds
    >>> ds.families.Binomial.links[:3]
    ('logit', 'probit', 'cloglog')
    >>> print(ds.families.Binomial(link="probit"), ds.families.Tweedie(1.5), ds.families.Poisson())
    binomial(probit) tweedie(1.5) poisson
    """

    #: The name in its text.
    name: ClassVar[str]
    #: Links of the family, the default first.
    links: ClassVar[tuple[str, ...]]
    #: Whether each class has a predictor.
    has_classes: ClassVar[bool] = False
    #: The parameter of the distribution and its exclusive lower limit, if any.
    parameter: ClassVar[tuple[str, float] | None] = None

    link: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        """Check the link and the parameter."""
        if self.link == "":
            object.__setattr__(self, "link", self.links[0])
        if self.link not in self.links:
            raise ArgumentError(
                f"link is {shown(self.link)}; family '{self.name}' has {list(self.links)}"
            )
        if self.parameter is not None:
            self._check_number(*self.parameter)

    def _check_number(self, name: str, above: float) -> None:
        """Check that the parameter is above a limit, and convert it to a double."""
        value = getattr(self, name)
        if value is None and hasattr(type(self), name):
            return  # the default
        is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
        if not is_number or not above < float(value) < math.inf:
            raise ArgumentError(
                f"{name} is {shown(value)}; of '{self.name}' it must be a number > {above:g}"
            )
        object.__setattr__(self, name, float(value))

    def __str__(self) -> str:
        inside = [repr(self.number)] if self.number is not None else []
        inside += [self.link] if self.link != self.links[0] else []
        return f"{self.name}({', '.join(inside)})" if inside else self.name

    @property
    def number(self) -> float | None:
        """The parameter of the distribution; None without one."""
        value: float | None = None if self.parameter is None else getattr(self, self.parameter[0])
        return value

    @property
    def is_linear(self) -> bool:
        """Whether a Gram matrix suffices for a fit."""
        return isinstance(self, Gaussian) and self.link == "identity"


@dataclass(frozen=True)
class Gaussian(Family):
    """Normal errors; the linear model with the identity link."""

    name = "gaussian"
    links = ("identity", "log", "inverse")


@dataclass(frozen=True)
class Binomial(Family):
    """A target of 0 and 1, of booleans, or of two levels."""

    name = "binomial"
    links = ("logit", "probit", "cloglog", "loglog", "cauchit", "log", "identity")


@dataclass(frozen=True)
class Poisson(Family):
    """Counts whose variance is their mean."""

    name = "poisson"
    links = ("log", "identity", "sqrt")


@dataclass(frozen=True)
class Gamma(Family):
    """Numbers > 0 whose variance is proportional to the square of their mean."""

    name = "gamma"
    links = ("log", "identity", "inverse")


@dataclass(frozen=True)
class InverseGaussian(Family):
    """Numbers > 0 whose variance is proportional to the cube of their mean."""

    name = "inverse_gaussian"
    links = ("log", "identity", "inverse", "inverse_squared")


@dataclass(frozen=True)
class NegativeBinomial(Family):
    """Counts whose variance is ``mean + dispersion mean^2``.

    Parameters
    ----------
    dispersion : > 0; None: estimated by maximum likelihood, with the log link only
    link : as in `Family`
    """

    name = "negative_binomial"
    links = ("log", "identity", "sqrt")
    parameter = ("dispersion", 0.0)

    dispersion: float | None = None

    def __post_init__(self) -> None:
        """Check the dispersion; None needs the log link."""
        super().__post_init__()
        if self.dispersion is None and self.link != "log":
            raise ArgumentError(
                f"dispersion is None; the most likely one is that of link 'log', not {self.link!r}"
            )


@dataclass(frozen=True)
class Tweedie(Family):
    """Numbers >= 0 whose variance is proportional to ``mean^power``.

    Parameters
    ----------
    power : > 1; below 2 the target may be 0
    link : as in `Family`
    """

    name = "tweedie"
    links = ("log", "identity", "inverse", "inverse_squared", "sqrt")
    parameter = ("power", 1.0)

    power: float


@dataclass(frozen=True)
class Multinomial(Family):
    """One of several classes, at most 40."""

    name = "multinomial"
    links = ("softmax",)
    has_classes = True


_FAMILIES: dict[str, type[Family]] = {
    family.name: family
    for family in (
        Gaussian, Binomial, Poisson, Gamma, InverseGaussian, NegativeBinomial, Tweedie, Multinomial,
    )
}  # fmt: skip
#: Synonyms of families.
_MEANT = {
    "logistic": "binomial", "logit": "binomial", "bernoulli": "binomial", "normal": "gaussian",
    "linear": "gaussian", "ols": "gaussian", "softmax": "multinomial", "nb": "negative_binomial",
    "negbin": "negative_binomial", "probit": "binomial(probit)",
}  # fmt: skip
_TEXT = re.compile(r"(\w+)(?:\((.*)\))?")


def parse(family: Any) -> Family:
    """Convert text to a family; a Family is returned unchanged.

    Parameters
    ----------
    family : a Family, or its text: a name, in brackets a number, a link, or both

    Raises
    ------
    ArgumentError : there is no such family, or it has no such link or number

    Examples
    --------
    >>> import dbselect as ds
    >>> ds.families.parse("binomial(probit)")
    Binomial(link='probit')
    >>> str(ds.families.NegativeBinomial(0.8, link="sqrt"))
    'negative_binomial(0.8, sqrt)'
    """
    if isinstance(family, Family):
        return family
    match = _TEXT.fullmatch(family) if isinstance(family, str) else None
    if match is None or match[1] not in _FAMILIES:
        raise _unknown(family)
    kind = _FAMILIES[match[1]]
    parts = [part.strip() for part in match[2].split(",")] if match[2] is not None else []
    number_parts = [part for part in parts if part not in kind.links]
    links = [part for part in parts if part in kind.links]
    options: dict[str, Any] = {"link": links[0]} if links else {}
    if len(links) > 1 or len(number_parts) > 1:
        raise _unknown(family)
    if kind.parameter is None:
        if number_parts:
            raise ArgumentError(f"family is {family!r}; the links of {kind.name} are "
                                f"{list(kind.links)}")  # fmt: skip
        return kind(**options)
    try:
        values = [float(part) for part in number_parts]
    except ValueError:
        raise ArgumentError(
            f"family is {family!r}; in brackets it has a number and one of {list(kind.links)}"
        ) from None
    if kind is Tweedie and not values:
        raise ArgumentError(f"family is {family!r}; it needs a power > 1, as 'tweedie(1.5)'")
    return kind(*values, **options)


def _unknown(family: Any) -> ArgumentError:
    listed = [*_FAMILIES]
    more = did_you_mean(family, listed, _MEANT)
    return ArgumentError(f"family is {shown(family)}; it must be one of {listed}{more}")

"""Options: each method's are one frozen record that checks itself, and so says its defaults.

The call in Python, the macro in SQL, the method in Polars and the command line all make this
record before any data are read; a default stands in the record and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from decimal import Decimal
from typing import Any, ClassVar, Self

from dbselect.errors import ArgumentError
from dbselect.record.columns import unknown_option


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of one method; its `__post_init__` refuses what no data could make right.

    Attributes
    ----------
    method : the public name of the call
    """

    method: ClassVar[str]

    def __post_init__(self) -> None:
        """Take the numbers of an engine as Python has them."""
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Decimal):
                object.__setattr__(self, field.name, float(value))

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """Return the record of options by name, as a door is given them.

        Raises
        ------
        ArgumentError : the method has no such option, lacks one, or a value is not allowed
        """
        names = cls.names()
        for name in given:
            if name not in names:
                raise ArgumentError(f"{cls.method} has {unknown_option(name, names)}")
        for field in fields(cls):
            needed = field.default is MISSING and field.default_factory is MISSING
            if needed and field.name not in given:
                raise ArgumentError(f"{cls.method} lacks option '{field.name}'; it has no default")
        return cls(**given)

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the options."""
        return [field.name for field in fields(cls)]

    def given(self) -> dict[str, Any]:
        """Return the options that are not at their defaults, by name."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }

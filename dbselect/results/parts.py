"""Attributes that a result has of one of its parts."""

from operator import attrgetter
from typing import Any, Generic, Self, TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class Of(Generic[T_co]):
    """A read-only attribute that a part has by the same name, with its documentation."""

    def __init__(self, part: str, doc: str) -> None:
        self._part, self.__doc__ = part, doc

    def __set_name__(self, cls: Any, name: str) -> None:
        self._read = attrgetter(f"{self._part}.{name}")

    @overload
    def __get__(self, whole: None, cls: Any = None) -> Self: ...

    @overload
    def __get__(self, whole: object, cls: Any = None) -> T_co: ...

    def __get__(self, whole: Any, cls: Any = None) -> Any:
        return self if whole is None else self._read(whole)

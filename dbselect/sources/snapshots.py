"""One transaction for all queries of a call, if the engine supports it, so that they agree."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from dbselect.errors import warns_once

P = ParamSpec("P")
T = TypeVar("T")

#: Of the current call: its exit stack, and the engines with an open transaction.
_HELD: ContextVar[tuple[ExitStack, list[Any]] | None] = ContextVar("held", default=None)


def one_snapshot(call: Callable[P, T]) -> Callable[P, T]:
    """Run a call such that all its queries read one state of the tables.

    Each of its warnings is issued once.
    """

    @warns_once
    @wraps(call)
    def in_snapshot(*args: P.args, **options: P.kwargs) -> T:
        if _HELD.get() is not None:
            return call(*args, **options)
        with ExitStack() as stack:
            before = _HELD.set((stack, []))
            try:
                return call(*args, **options)
            finally:
                _HELD.reset(before)

    return in_snapshot


def hold(engine: Any, begin: Callable[[Any], AbstractContextManager[None]]) -> None:
    """Begin a transaction on an engine, once per call; it ends with the call."""
    current = _HELD.get()
    if current is None or any(engine is other for other in current[1]):
        return
    current[0].enter_context(begin(engine))
    current[1].append(engine)

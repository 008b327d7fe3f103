"""One state of the tables for all queries of a call, where the engine has a transaction for it."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from dbselect.errors import warns_once

P = ParamSpec("P")
T = TypeVar("T")

#: What a call holds: its stack, and the engines that it has begun a transaction on.
_HELD: ContextVar[tuple[ExitStack, list[Any]] | None] = ContextVar("held", default=None)


def one_snapshot(call: Callable[P, T]) -> Callable[P, T]:
    """Have all queries of a call see one state of the tables: a transaction ends with the call.

    What it has warned of it does not say again.
    """

    @warns_once
    @wraps(call)
    def held(*args: P.args, **options: P.kwargs) -> T:
        if _HELD.get() is not None:
            return call(*args, **options)
        with ExitStack() as stack:
            before = _HELD.set((stack, []))
            try:
                return call(*args, **options)
            finally:
                _HELD.reset(before)

    return held


def hold(engine: Any, begin: Callable[[Any], AbstractContextManager[None]]) -> None:
    """Begin the transaction of a call on an engine, which ends with the call."""
    held = _HELD.get()
    if held is None or any(engine is other for other in held[1]):
        return
    held[0].enter_context(begin(engine))
    held[1].append(engine)

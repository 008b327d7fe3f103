"""One state of the tables for all queries of a call, where the engine has a transaction for it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

#: What a call holds: its stack, and the connections that it has begun a transaction on.
_HELD: ContextVar[tuple[ExitStack, list[Any]] | None] = ContextVar("held", default=None)


def one_snapshot(call: Callable[P, T]) -> Callable[P, T]:
    """Have all queries of a call, and of the calls that it makes, see one state of the tables.

    The first query on a connection begins a transaction, which ends with the call.
    """

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


def hold(expression: Any) -> None:
    """Begin the transaction of a call on the connection of a table of ibis, if there is one."""
    held = _HELD.get()
    engine = expression.get_backend()
    if held is None or any(engine is other for other in held[1]):
        return
    # What ibis registers first, such as tables in memory, is written.
    engine._run_pre_execute_hooks(expression)
    begin = _TRANSACTIONS.get(engine.name)
    if begin is not None:
        held[0].enter_context(begin(engine))
    held[1].append(engine)


@contextmanager
def _postgres(engine: Any) -> Iterator[None]:
    from psycopg.pq import TransactionStatus

    connection = engine.con
    if connection.info.transaction_status != TransactionStatus.IDLE:
        # The isolation of a transaction that has begun is its own.
        yield
        return
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def _sqlite(engine: Any) -> Iterator[None]:
    connection = engine.con
    given = [
        *getattr(engine, "_con_args", ["a file"]),
        *getattr(engine, "_con_kwargs", {}).values(),
    ]
    is_in_memory = all(one in (None, ":memory:") for one in given)
    if connection.in_transaction or is_in_memory:  # which nobody else writes
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.rollback()


#: Engines with a transaction of one state -> what holds it.
_TRANSACTIONS = {"postgres": _postgres, "sqlite": _sqlite}

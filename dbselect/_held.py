"""Ctrl-C while modules are imported: compiled ones of others would swallow it or fail halfway."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from types import FrameType


@contextmanager
def held() -> Iterator[None]:
    """Let an interrupt wait for the end of the block."""
    before = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or not callable(before):
        yield  # no interrupt is raised here
        return
    calls: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *call: calls.append(call))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if calls:
        before(*calls[0])

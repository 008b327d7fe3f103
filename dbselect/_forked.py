"""Detection of forks after Polars started threads: in the child, Polars would wait forever."""

import os
from pathlib import Path

#: Folder with the threads of this process, on Linux.
_TASKS = Path("/proc/self/task")

#: Whether Polars had threads before a fork, and whether this child lacks them.
_state = {"threads": False, "cut off": False}


def check_threads() -> None:
    """Raise EngineError in a process that was forked after Polars started its threads."""
    if _state["cut off"]:
        from dbselect.errors import EngineError

        raise EngineError(
            "this process was forked from one in which Polars had started its threads; they are "
            "not here, and what waits for them never ends: start processes by "
            "multiprocessing.get_context('spawn'), or 'forkserver', or fork before Polars is used"
        )


def _before() -> None:
    _state["threads"] = any(_is_of_polars(task) for task in _TASKS.glob("*/comm"))


def _is_of_polars(task: Path) -> bool:
    try:
        return task.read_text().startswith("polars-")
    except OSError:  # the thread has just ended
        return False


def _in_child() -> None:
    _state["cut off"] = _state["threads"]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)

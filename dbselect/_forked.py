"""Whether this process was forked from one whose Polars had threads, for which it would wait."""

import os
from pathlib import Path

#: Names of the threads of this process, where the system tells.
_TASKS = Path("/proc/self/task")

#: What a fork sees of the parent, and a child knows of itself.
_known = {"threads": False, "cut off": False}


def check_threads() -> None:
    """Raise EngineError in a process forked after Polars had begun, whose threads are gone."""
    if _known["cut off"]:
        from dbselect.errors import EngineError

        raise EngineError(
            "this process was forked from one in which Polars had started its threads; they are "
            "not here, and what waits for them never ends: start processes by "
            "multiprocessing.get_context('spawn'), or 'forkserver', or fork before Polars is used"
        )


def _before() -> None:
    _known["threads"] = any(_is_of_polars(task) for task in _TASKS.glob("*/comm"))


def _is_of_polars(task: Path) -> bool:
    try:
        return task.read_text().startswith("polars-")
    except OSError:  # it has just ended
        return False


def _in_child() -> None:
    _known["cut off"] = _known["threads"]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)

"""Progress of a scan or a search: a bar on a terminal, and the callback."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from dbselect._log import Steps

#: Seconds before a progress bar appears on a terminal.
PROGRESS_DELAY = 2


@dataclass(frozen=True)
class Progress:
    """The progress of a search after a turn, as passed to `callback`.

    Parameters
    ----------
    done, total : turns made, and how many there can be; None if unknown
    unit : what a turn is: ``"groups"``, ``"steps"``, ``"rounds"``, ``"questions"`` or
        ``"points of the grid"``
    latest : the group added, with a minus the one given back; None where a turn is no group
    explained : share explained so far, of rounds the objective's value; None where not known

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> seen = []
    >>> seq = ds.anytime_sequence(table, "y", callback=seen.append)
    >>> [(one.done, one.total, one.latest, round(one.explained, 3)) for one in seen]
    [(1, 2, 'a', 0.952), (2, 2, 'b', 1.0)]
    """

    done: int
    total: int | None
    unit: str
    latest: str | None = None
    explained: float | None = None


#: Called after every turn of a search; an exception from it ends the call.
Callback = Callable[[Progress], object]
#: Counts a turn, given the latest group and the share explained.
Turn = Callable[[str | None, float | None], None]


@contextmanager
def turns(
    total: int | None, unit: str, callback: Callback | None, *, bar: bool = True
) -> Iterator[Turn]:
    """Yield a function that counts a turn, on a terminal if `bar`, and calls the callback."""
    done = 0
    with progress(total, unit) as shown:

        def turn(latest: str | None, explained: float | None) -> None:
            nonlocal done
            done += 1
            if bar:
                shown.update()
            if callback is not None:
                share = None if explained is None else float(explained)
                callback(Progress(done, total, unit, latest, share))

        yield turn


class _Bar(tqdm):  # type: ignore[misc]
    """A progress bar that also writes its steps to the log."""

    def __init__(self, steps: Steps, **options: Any) -> None:
        self._steps = steps
        super().__init__(**options)

    def update(self, n: float = 1) -> Any:
        self._steps.update(int(n))
        return super().update(n)


def progress(total: int | None, unit: str = "rows", title: str | None = None) -> Any:
    """Return a counter of rows, or of turns of a search: a bar on a terminal, and the log."""
    steps = Steps("reading" if unit == "rows" else "searching", total, unit)
    if sys.stderr is None or not sys.stderr.isatty():
        return nullcontext(steps)
    return _Bar(
        steps,
        desc=title,
        total=total,
        unit=f" {unit}",
        unit_scale=True,
        delay=PROGRESS_DELAY,
        leave=False,
    )

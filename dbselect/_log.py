"""The logger ``dbselect``: a line a minute on long work; nothing is printed by the library."""

import json
import logging
import time
from dataclasses import dataclass, field

#: Seconds between two lines on one work.
PAUSE = 60.0

log = logging.getLogger("dbselect")
log.addHandler(logging.NullHandler())


class JsonFormatter(logging.Formatter):
    """Formats a record of `logging` as one line of JSON.

    Fields: time (seconds since 1970), level, logger, message; of long work also work, done, total,
    unit and seconds.

    Examples
    --------
    >>> import logging
    >>> import dbselect as ds
    >>> handler = logging.StreamHandler()
    >>> handler.setFormatter(ds.io.JsonFormatter())
    >>> logging.getLogger("dbselect").addHandler(handler)
    >>> logging.getLogger("dbselect").removeHandler(handler)
    """

    def __init__(self) -> None:
        super().__init__()

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        told = {"time": record.created, "level": record.levelname, "logger": record.name}
        more = getattr(record, "dbselect", {})
        return json.dumps({**told, "message": record.getMessage(), **more})


@dataclass
class Steps:
    """Long work, of which a line a minute says how far it is."""

    work: str  # what is done
    total: int | None  # steps there are; None if unknown
    unit: str  # what a step is
    done: int = 0
    start: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)

    def update(self, steps: int = 1) -> None:
        """Count some steps."""
        self.done += steps
        now = time.monotonic()
        if now - self.last < PAUSE:
            return
        self.last = now
        facts = {"work": self.work, "done": self.done, "total": self.total, "unit": self.unit,
                 "seconds": round(now - self.start, 1)}  # fmt: skip
        of = "" if self.total is None else f" of {self.total:,}"
        log.info("%s: %s%s %s in %.0f s", self.work, f"{self.done:,}", of, self.unit,
                 now - self.start, extra={"dbselect": facts})  # fmt: skip

"""The logger ``dbselect``: one line per minute during long work; nothing is printed."""

import json
import logging
import time
from dataclasses import dataclass, field

#: Seconds between two lines.
PAUSE = 60.0

log = logging.getLogger("dbselect")
log.addHandler(logging.NullHandler())


class JsonFormatter(logging.Formatter):
    """Format a `logging` record as one line of JSON.

    Fields: time (seconds since 1970), level, logger, message; for long work also work, done,
    total, unit and seconds.

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
        """Return the line of JSON."""
        fields = {"time": record.created, "level": record.levelname, "logger": record.name}
        more = getattr(record, "dbselect", {})
        return json.dumps({**fields, "message": record.getMessage(), **more})


@dataclass
class Steps:
    """Progress of long work, logged once per minute."""

    work: str  # description
    total: int | None  # number of steps; None if unknown
    unit: str  # plural name of a step
    done: int = 0
    start: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)

    def update(self, steps: int = 1) -> None:
        """Add completed steps."""
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

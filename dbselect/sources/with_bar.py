"""A pass over a table that a terminal shows."""

from threading import Lock
from typing import Any

from dbselect.sources.open import progress
from dbselect.sources.partial.partial_aggregates import Scan
from dbselect.sources.request import Consumer


def with_bar(table: Any, rows: int | None, title: str | None = None) -> Scan:
    """Return what reads a table, with a bar on a terminal after two seconds."""

    def scan(fields: list[str], consume: Consumer) -> None:
        lock = Lock()  # batches are consumed on several threads, and the bar is one
        with progress(rows) as bar:
            bar.set_description(title, refresh=False)

            def consume_and_show(batch: Any) -> None:
                consume(batch)
                with lock:
                    bar.update(len(batch))

            table.scan(fields, consume_and_show)

    return scan

"""Numbers for the groups of a table that arrives batch by batch."""

from threading import Lock
from typing import Any

import polars as pl
import pyarrow as pa

#: Name of the column of group numbers.
GROUP = "__dbselect_group"


class Grouping:
    """Gives equal keys the same number, whatever batch and thread they come on.

    Parameters
    ----------
    by : fields whose values make groups
    """

    def __init__(self, by: list[str]) -> None:
        self._by = by
        self._keys: pl.DataFrame | None = None
        self._lock = Lock()

    def number(self, batch: Any) -> pl.DataFrame:
        """Return the batch with a column of group numbers."""
        frame = pl.DataFrame(batch)
        found = frame.select(self._by).unique()
        with self._lock:
            known = self._keys
            if known is None:
                known = found.clear().with_row_index(GROUP)
            new = found.join(known, on=self._by, how="anti", nulls_equal=True)
            known = pl.concat([known, new.with_row_index(GROUP, offset=known.height)])
            self._keys = known
        return frame.join(known, on=self._by, how="left", nulls_equal=True, maintain_order="left")

    def table(self, records: pa.StructArray) -> pl.DataFrame:
        """Return the keys with their records, in the order of the keys."""
        grams = pl.DataFrame(pa.table({"gram": records}))
        if self._keys is None:
            return grams.clear()
        keys = self._keys.drop(GROUP)
        return keys.with_columns(grams["gram"]).sort(self._by, nulls_last=True)

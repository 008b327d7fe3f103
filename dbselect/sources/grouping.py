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
    schema : the table's
    """

    def __init__(self, by: list[str], schema: pa.Schema) -> None:
        self._by = by
        keys = pl.DataFrame(schema.empty_table().select(by))
        self._known = keys.with_row_index(GROUP)
        self._lock = Lock()

    def number(self, batch: Any) -> Any:
        """Return the batch with a column of group numbers."""
        keys = pl.DataFrame(batch.select(self._by))
        found = keys.unique()
        with self._lock:
            new = found.join(self._known, on=self._by, how="anti", nulls_equal=True)
            numbered = new.with_row_index(GROUP, offset=self._known.height)
            known = self._known = pl.concat([self._known, numbered])
        numbers = keys.join(
            known, on=self._by, how="left", nulls_equal=True, maintain_order="left"
        )[GROUP]
        if isinstance(batch, pl.DataFrame):
            return batch.with_columns(numbers)
        # Polars gets only the keys of an Arrow batch: it cannot read every slice.
        return batch.append_column(GROUP, numbers.to_arrow())

    def table(self, records: pa.StructArray) -> pl.DataFrame:
        """Return the keys with their records, in the order of the keys."""
        grams = pl.DataFrame(pa.table({"gram": records}))["gram"]
        return self._known.drop(GROUP).with_columns(grams).sort(self._by, nulls_last=True)

"""A wide table that is read again and again, each time for sums of some of its columns."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from dbselect.record.gram import Matrix, Vector
from dbselect.sources.partial.partial_aggregates import Summing
from dbselect.sources.request import Table
from dbselect.sources.wide.gram_rows import Products
from dbselect.sources.wide.level_sums import LevelProducts
from dbselect.sources.wide.wide_rows import Index, WideRows
from dbselect.sources.wide.wide_sums import Margins, Totals, filled, fills_of


class Scans:
    """A table read `count` times for sums; after the first scan `rows` have fills for gaps."""

    def __init__(self, table: Table, rows: WideRows) -> None:
        self._table = table
        self.rows = rows
        self._centre: tuple[Vector, Vector] = (np.empty(0), np.empty(0))
        self._kept: Index | None = None
        self.count = 0

    def margins(self) -> Totals:
        """Return what each column is by itself and beside the target."""
        present = self._read(Margins(self.rows)).all()
        self.rows = replace(self.rows, fills=fills_of(self.rows, present))
        found = filled(present, self.rows.fills)
        self._centre = found.anchor, found.mean
        return found

    def products(self, columns: Index, within: Sequence[Index]) -> tuple[Matrix, list[Matrix]]:
        """Return the products of some columns with all, and those within groups."""
        work = Products(self.rows, *self._centre, columns, tuple(within), kept=self._kept)
        return work.around_means(self._read(work))

    def by_level(self, levels: Index) -> tuple[Matrix, Any]:
        """Return sums by level of the dense columns around means, and of entries around 0."""
        work = LevelProducts(self.rows, *self._centre, levels, kept=self._kept)
        return work.around_means(self._read(work))

    def among(self, columns: Index) -> "Scans":
        """Return the scans of some columns, ascending, which their new numbers name."""
        found = copy(self)
        found._kept = columns if self._kept is None else self._kept[columns]
        anchor, mean = self._centre
        found._centre = anchor[[*columns, -1]], mean[[*columns, -1]]
        return found

    def wanted(self, _: Index) -> bool:
        """Return whether the products of some columns, which are needed now, take no scan."""
        return False

    def _read(self, work: Summing) -> Any:
        self.count += 1
        return work.over(self._table, self.rows.fields, f"scan {self.count}")

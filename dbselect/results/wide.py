"""The sequence of a search with a lazy Gram, which reads only the rows that it needs."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import nan
from typing import Any, ClassVar

import pyarrow as pa

from dbselect.errors import ArgumentError, DbselectError
from dbselect.linear import information
from dbselect.linear.inference import FittedRows
from dbselect.linear.level_state import LevelState, beside_levels, fitted_rows_of
from dbselect.linear.problem import Linear
from dbselect.linear.state import LinearState
from dbselect.record.dependences import LEVEL_GROUP_TYPE, LevelGroup, shares_of
from dbselect.results import store
from dbselect.results.sequence import Sequence

#: Fields that a stored wide sequence has in addition to those of a `Sequence`.
WIDE_FIELDS = ("scans", "rows_fetched", "n_groups", "n_columns", "n_searched")


@dataclass(frozen=True)
class Screened:
    """Screening: the search used the best `kept` of `columns`; criteria count all `columns`."""

    columns: int
    kept: int

    def __str__(self) -> str:
        return f"screened to {self.kept} of {self.columns} columns, not exact"


@dataclass(frozen=True, eq=False, repr=False)
class WideSequence(Sequence):
    """A sequence whose `gram` and `groups` contain only the groups held, out of many more.

    Models, predictions and steps are those of `Sequence`. Criteria count all candidate columns
    and groups; Cp, which needs the model on all of them, is NULL.

    Parameters
    ----------
    gram : Gram of the groups held and the target
    target, groups, rule, records, spent : as in `Sequence`, of the groups held
    explained, r2, intercept, coef, aliased, stop, condition : as in `Sequence`
    scans : number of reads of the table
    rows_fetched : number of rows of the Gram that were read: products of one column with all
    n_groups, n_columns : numbers of candidate groups and columns
    n_searched : number of columns searched: all, unless `screened`
    call : the problem, without rows, and the method
    by_level : sums by level, in place of the columns in `gram`, for a group of more than 1,000
        levels of one text; None without such a group

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> seq = ds.anytime_sequence(table, "y", max_groups=1, gram="lazy")
    >>> seq.scans, seq.n_groups, seq.groups.names
    (2, 2, ['a'])
    """

    scans: int
    rows_fetched: int
    n_groups: int
    n_columns: int
    n_searched: int
    by_level: LevelGroup | None = field(default=None, kw_only=True)

    _RECORD_TYPE: ClassVar[pa.StructType] = pa.struct(
        [
            *store.SEQUENCE_TYPE,
            *((name, pa.int64()) for name in WIDE_FIELDS),
            ("level_group", LEVEL_GROUP_TYPE),
        ]
    )
    _WHAT: ClassVar[str] = "a wide sequence"
    _is_quadratic: ClassVar[bool] = False

    @property
    def screened(self) -> Screened | None:
        """The screening before the search, which is then not exact; None without screening."""
        if self.n_searched == self.n_columns:
            return None
        return Screened(self.n_columns, self.n_searched)

    @cached_property
    def linear(self) -> Linear:
        """The linear problem of the groups held, on unit-variance columns."""
        if self.by_level is None:
            return super().linear
        return beside_levels(
            self.gram, self.target, self.groups, self.by_level, self.ridge, self.scale
        )

    def _shares(self) -> dict[str, float]:
        if self.by_level is None:
            return super()._shares()
        return shares_of(self.gram, self.by_level, self.groups.columns[self.by_level.group])

    def _state(self) -> LinearState:
        if self.by_level is None:
            return super()._state()
        number = self.groups.number(self.by_level.group, "levels")
        return LevelState(self.linear, self.positions, number)

    def _fitted_rows(self, step: int) -> FittedRows:
        if self.by_level is None:
            return super()._fitted_rows(step)
        state = self._state()
        for group in self.held(step):
            state.add(group)
        members, chosen = self.groups.members, self._was_chosen(step)
        return fitted_rows_of(self.gram, members, state.settled(), self.ridge, chosen)

    @property
    def _n_choices(self) -> int:
        return self.n_groups

    @property
    def _used(self) -> str:
        taken = len({step.group for step in self.records})
        text = f"{super()._used}; {taken} of {self.n_groups} groups"
        return text if self.screened is None else f"{text}; {self.screened}"

    def _fits(self) -> information.Fits:
        fits = super()._fits()
        return replace(
            fits,
            n_groups=self.n_groups,
            n_columns=self.n_columns,
            unexplained_all=nan,
            degrees_all=nan,
        )

    def _quadratic(self, what: str) -> Linear:
        n_read = len(self.gram.columns) - 1
        but = "" if self.by_level is None else f", without group '{self.by_level.group}'"
        raise ArgumentError(
            f"{what} needs the correlations of all {self.n_columns} columns, and a lazy Gram "
            f"read those of {n_read}; for these{but}, call "
            f"anytime_sequence(seq.gram, {self.target!r}).{what}()"
        )

    def _no_criterion(self, criterion: str) -> DbselectError:
        if criterion == "cp":
            return ArgumentError(
                "criterion is 'cp', which needs the model on all columns; a search with a "
                "lazy Gram fits only those that it takes"
            )
        return super()._no_criterion(criterion)

    def to_struct(self) -> dict[str, Any]:
        """Return the sequence as plain Python data, the Gram of the groups held included."""
        levels = None if self.by_level is None else self.by_level.to_struct()
        counts = {name: getattr(self, name) for name in WIDE_FIELDS}
        return {**super().to_struct(), **counts, "level_group": levels}

    @classmethod
    def from_struct(cls, record: Any) -> "WideSequence":
        """Read a record of `to_struct`, as `Prefixes.from_struct`."""
        fields = store.mapping_of(record, cls._RECORD_TYPE)
        with store.undamaged():
            counts: dict[str, Any] = {name: int(fields[name]) for name in WIDE_FIELDS}
            stored = fields["level_group"]
            levels = None if stored is None else LevelGroup.from_struct(stored)
        apart = None if levels is None else levels.group
        parts = store.sequence_parts(fields, apart)
        if levels is not None:
            with store.undamaged():
                levels.check(parts["groups"].columns, parts["gram"].weight)
        return cls(**parts, **counts, by_level=levels)

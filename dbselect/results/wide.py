"""The sequence of a search that read of the Gram only what it needed."""

from dataclasses import dataclass, replace
from math import nan
from typing import Any, ClassVar

import pyarrow as pa

from dbselect.errors import ArgumentError
from dbselect.linear import information
from dbselect.linear.problem import Linear
from dbselect.results import store
from dbselect.results.sequence import Sequence

#: What a stored sequence has more than that of a whole Gram.
WIDE_FIELDS = ("scans", "rows_fetched", "n_groups", "n_columns")


@dataclass(frozen=True, eq=False)
class WideSequence(Sequence):
    """A sequence whose `gram` and `groups` are those of the groups held, out of many more.

    Models, predictions and steps are those of `Sequence`. Criteria count all columns and
    groups that there were to choose from; Cp, which needs the model on all of them, is NULL.

    Parameters
    ----------
    gram : Gram of the groups held and the target
    target, groups, rule, ridge, scale, records, spent : as in `Sequence`, of the groups held
    explained, r2, intercept, coef, aliased, stop, condition : as in `Sequence`
    scans : readings of the table
    rows_fetched : rows of the Gram that were read: products of one column with all
    n_groups, n_columns : groups and columns that there were to choose from
    has_intercept : True

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> seq = ds.anytime_sequence(table, "y", max_groups=1, wide=True)
    >>> seq.scans, seq.n_groups, seq.groups.names
    (2, 2, ['a'])
    """

    scans: int
    rows_fetched: int
    n_groups: int
    n_columns: int

    _RECORD_TYPE: ClassVar[pa.StructType] = pa.struct(
        [*store.SEQUENCE_TYPE, *((name, pa.int64()) for name in WIDE_FIELDS)]
    )
    _WHAT: ClassVar[str] = "a wide sequence"
    _is_quadratic: ClassVar[bool] = False

    # A dataclass would write its own.
    __repr__ = Sequence.__repr__

    @property
    def _used(self) -> str:
        return f"{super()._used}; {len(self.groups.names)} of {self.n_groups} groups"

    def _fits(self) -> information.Fits:
        found = super()._fits()
        return replace(
            found,
            n_groups=self.n_groups,
            n_columns=self.n_columns,
            left_all=nan,
            degrees_all=nan,
        )

    def _quadratic(self, what: str) -> Linear:
        raise ArgumentError(
            f"{what} needs the correlations of all {self.n_columns} columns, and a wide search "
            f"read those of {len(self.columns)}; of these, "
            f"anytime_sequence(seq.gram, {self.target!r}).{what}() tells"
        )

    def to_struct(self) -> dict[str, Any]:
        """Return the sequence as plain Python data, the Gram of the groups held included."""
        return {**super().to_struct(), **{name: getattr(self, name) for name in WIDE_FIELDS}}

    @classmethod
    def from_struct(cls, record: Any) -> "WideSequence":
        """Read what `to_struct` gave: a mapping, or an Arrow struct scalar.

        Raises
        ------
        RecordError : a field is missing or of another kind
        """
        found = store.mapping_of(record, cls._RECORD_TYPE)
        try:
            own: dict[str, Any] = {name: int(found[name]) for name in WIDE_FIELDS}
        except (TypeError, ValueError) as error:
            raise store.damaged(error) from error
        return cls(**store.sequence_parts(found), **own)

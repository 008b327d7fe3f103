"""Records of rows with gaps: one for each pattern of columns that are missing together."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
import pyarrow as pa
import scipy

from dbselect import _native
from dbselect.errors import (
    ArgumentError,
    ColumnError,
    ConditionWarning,
    RecordError,
    unknown,
    warn_caller,
)
from dbselect.options.kinds import COUNT
from dbselect.pages.charts import rows_of_pairs
from dbselect.pages.html import InNotebooks
from dbselect.record import files
from dbselect.record.gram import RECORD_TYPE, Gram, Matrix, is_record
from dbselect.record.groups import groups_of
from dbselect.sources.partial.next_trial import r2_errors

#: Patterns that are kept, unless another limit is given.
MAX_PATTERNS = 200
#: Fields and names shown in a warning.
NAMED = 5
#: Groups in a picture.
MOST_DRAWN = 60


@dataclass(frozen=True, repr=False, eq=False)
class Patterns(InNotebooks, files.Stored):
    """The Grams of a table with gaps, one for each pattern of columns that are missing together.

    `dbselect.patterns` makes it in one pass; every method takes it as a source, and completes it by
    `em`. Patterns of parts of a table add up with ``+``, and ``-`` takes a part away.

    Parameters
    ----------
    grams : Grams, each of the columns that its rows have; of equal columns they are added up

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1.0, 2.0, None, 4.0], "y": [1.0, 3.0, 2.0, None]})
    >>> patterns = ds.patterns(table)
    >>> [(gram.columns, gram.rows) for gram in patterns]
    [(['a', 'y'], 2), (['a'], 1), (['y'], 1)]
    >>> ds.io.Patterns.from_struct(patterns.to_struct()).rows
    4
    """

    grams: tuple[Gram, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "grams", _summed(self.grams, (), 2**62))

    @classmethod
    def of(cls, grams: Sequence[Gram], max_patterns: int) -> "Patterns":
        """Add up the Grams of equal columns, and join the rarest of too many, as `joined` does."""
        return cls._distinct(_summed(grams, (), max_patterns))

    @classmethod
    def _distinct(cls, grams: tuple[Gram, ...]) -> "Patterns":
        """Return patterns of Grams that are added up already."""
        found = object.__new__(cls)
        object.__setattr__(found, "grams", grams)
        return found

    def __repr__(self) -> str:
        return f"Patterns({len(self)} patterns, {len(self.columns)} columns, {self.rows} rows)"

    def __len__(self) -> int:
        return len(self.grams)

    def __iter__(self) -> Any:
        return iter(self.grams)

    @cached_property
    def columns(self) -> list[str]:
        """The columns of all patterns."""
        by_width = sorted(self.grams, key=lambda gram: -len(gram.columns))
        return list(dict.fromkeys(name for gram in by_width for name in gram.columns))

    @property
    def _always(self) -> list[str]:
        """The columns that every row has."""
        return [n for n in self.columns if all(n in g.columns for g in self.grams if g.columns)]

    @property
    def rows(self) -> int:
        """The rows that were read and have a value; nothing that is filled in counts."""
        return sum(gram.rows for gram in self.grams if gram.columns)

    @property
    def dropped(self) -> list[str]:
        """Columns whose values were left out in some rows, as there were too many patterns."""
        return dropped_of(self.grams)

    @property
    def table(self) -> pl.DataFrame:  # type: ignore[override]
        """A row for each pattern: rows, number of columns, and the missing columns."""
        return pl.DataFrame(
            {
                "rows": [gram.rows for gram in self.grams],
                "columns": [len(gram.columns) for gram in self.grams],
                "missing": [
                    [name for name in self.columns if name not in gram.columns]
                    for gram in self.grams
                ],
            },
            schema={"rows": pl.Int64, "columns": pl.Int64, "missing": pl.List(pl.String)},
        )

    def together(
        self,
        groups: Mapping[str, Iterable[str]] | None = None,
        target: str | None = None,
        *,
        more: int = 500,
    ) -> pl.DataFrame:
        """Return the rows that have both groups of each pair: what a next trial is to buy.

        Parameters
        ----------
        groups : name -> columns or globs; default: every top-level field
        target : column whose r2 the next trial is to find; default: rows are counted alone
        more : rows of a next trial with both groups, the target and what every row has

        Returns
        -------
        DataFrame of group, other, rows: the rows with all columns of both, of each pair the first
        group of the table first, and the groups themselves with their own rows; least rows first.
        A pair with 0 rows was never seen together: EM takes it as independent given the rest.
        With a target also r2_error, the standard error that r2 of all groups has as no more rows
        have both, and r2_error_after, with `more` rows; first the pair for which they differ most

        Raises
        ------
        GroupError, ColumnError : `groups` or `target` do not fit the columns
        ArgumentError : `more` is no whole number >= 1

        Notes
        -----
        To first order and under normality: ``2 sqrt(v_g v_h / n) / S_yy``, v the variance of what a
        group adds to the prediction, given the target and the columns that every row has. It is of
        this pair alone, all other moments taken as known. Of 0 rows n is 1, the most that any
        covariance of the two permits.

        References
        ----------
        Moriarity, Scheuren (2001), *J. Off. Stat.* 17: 407-422, and Rässler (2002), *Statistical
        Matching*, chapter 2, for covariances that no row identifies.
        """
        COUNT.check("more", more)
        if target is not None and target not in self.columns:
            raise ColumnError(f"target names {unknown('column', target, self.columns)}")
        names, members, seen = self._seen(groups, target)
        first, second = np.triu_indices(len(names))
        rows = seen[first, second]
        frame = pl.DataFrame(
            {
                "group": [names[at] for at in first],
                "other": [names[at] for at in second],
                "rows": pl.Series(rows, dtype=pl.Int64),
            }
        )
        if target is None:
            return frame.sort("rows", maintain_order=True)
        error = r2_errors(self._completed(), target, members, self._always)[first, second]
        frame = frame.with_columns(
            r2_error=pl.Series(error / np.sqrt(np.maximum(rows, 1))),
            r2_error_after=pl.Series(error / np.sqrt(rows + more)),
        ).with_columns(
            pl.when(pl.col("group") != pl.col("other")).then(pl.col("^r2_error.*$")),
        )
        narrowed = pl.col("r2_error") - pl.col("r2_error_after")
        return frame.sort(narrowed, descending=True, nulls_last=True, maintain_order=True)

    def plot(self, groups: Mapping[str, Iterable[str]] | None = None) -> Any:
        """Plot the rows that have both groups of each pair.

        Parameters
        ----------
        groups : as in `together`; of more than 60 those with the rarest pairs are drawn

        Returns
        -------
        Chart of altair. Its ``data`` is a DataFrame: group, other, rows, share of all rows

        Raises
        ------
        GroupError, ColumnError : `groups` do not fit the columns
        EngineError : altair is not installed
        """
        names, _, seen = self._seen(groups)
        drawn = np.sort(np.argsort(seen.min(axis=1), kind="stable")[:MOST_DRAWN])
        cells = [
            (names[i], names[j], int(seen[i, j]), seen[i, j] / max(self.rows, 1))
            for i in drawn
            for j in drawn
        ]
        schema = {"group": pl.String, "other": pl.String, "rows": pl.Int64, "share": pl.Float64}
        notes = [
            f"{self.rows:,} rows in {len(self)} patterns; on the diagonal the rows of a group.",
            "Of a pair with 0 rows a next trial learns most.",
        ]
        if len(drawn) < len(names):
            notes.append(
                f"The {len(drawn)} of {len(names)} groups with the rarest pairs are drawn."
            )
        frame = pl.DataFrame(cells, schema, orient="row")
        return rows_of_pairs(frame, [names[at] for at in drawn], notes)

    def _seen(
        self, groups: Mapping[str, Iterable[str]] | None, target: str | None = None
    ) -> tuple[list[str], list[list[str]], Matrix]:
        """Return groups, their columns, and the rows that have both of each pair."""
        joint = self.em_terms()
        features = [name for name in self.columns if name != target]
        split = groups_of(features, groups, None, target or (), joint, True)
        members = [[split.members[j] for j in at] for at in split.positions]
        sources = joint.sources()
        fields = [{sources.get(name, name) for name in own} for own in members]
        seen = np.zeros((len(fields), len(fields)))
        for gram in self.grams:
            own = gram.terms.sources()
            held = {own.get(name, name) for name in gram.columns}
            has = np.array([needed <= held for needed in fields])
            seen += gram.rows * np.outer(has, has)
        return list(split.names), members, seen

    def em(
        self,
        *,
        max_iterations: int | None = None,
        tolerance: float | None = None,
        prior: float | None = None,
    ) -> Gram:
        """Return one Gram of all rows, their gaps filled by maximum likelihood under normality.

        Parameters
        ----------
        max_iterations : limit on the steps; default: 500
        tolerance : how little the last step moves a mean, in deviations, or a correlation;
            default: 1e-8
        prior : rows in which the columns of different patterns are uncorrelated, added to those
            read; default: 0, or the number of columns and one where some pair of columns was seen
            together in no more rows than there are columns, or where columns of different patterns
            depend on each other; `terms.em` has it

        Returns
        -------
        Gram: the means and the expected comoments of all rows given what they have, `rows` as
        read; `terms.em` says how it was found. One pattern is returned as it is

        Raises
        ------
        RecordError : there is no row with a value, or the patterns do not fit together

        Warns
        -----
        ConditionWarning : a pair of columns was never seen together, so that their covariance given
            the others is not identified: it is taken as 0; or the steps did not end

        Notes
        -----
        Values must be missing at random given those that are there (Rubin 1976); `check` shows
        where they are not missing completely at random. A step costs O(d^3) a pattern; the
        likelihood never falls. Standard errors, tests and intervals of the completed rows would
        be too narrow, and are refused.

        References
        ----------
        Dempster, Laird, Rubin (1977), *JRSS B* 39: 1-38; Little, Rubin (2002), *Statistical
        Analysis with Missing Data*, section 11.2; Henderson, Varadhan (2019), *J. Comput. Graph.
        Stat.* 28: 834-846, on Anderson's mixing of steps; Dempster (1972), *Biometrics* 28:
        157-175, for pairs that were never seen together.

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "y": [1.0, 3.0, 4.0, None]})
        >>> gram = ds.patterns(table).em()
        >>> gram.rows, gram.missing, gram.mean.round(3).tolist()
        (4, {'y': 1}, [2.5, 3.417])
        """
        options = {"max_iterations": max_iterations, "tolerance": tolerance, "prior": prior}
        gram = self._completed({n: value for n, value in options.items() if value is not None})
        _warn(gram.terms.em)
        return gram

    def _completed(self, options: Mapping[str, Any] | None = None) -> Gram:
        return _complete([self], options or {})[0]

    def em_terms(self) -> Any:
        """Return the terms of all columns."""
        joint = self.grams[0].terms
        for gram in self.grams[1:]:
            joint = _beside(joint, gram.terms)
        return joint

    def check(self) -> pl.DataFrame:
        """Test whether values are missing completely at random, by the means of what is there.

        Returns
        -------
        DataFrame, one row a column that every row has: column; statistic, the F statistic of the
        means of the patterns; p_value; spread, the deviation of these means in deviations of the
        column. A small p-value and a large spread say that rows with gaps are other rows; that
        EM, which needs them to be other only by what is there, is right cannot be tested

        References
        ----------
        Little (1988), *JASA* 83: 1198-1202: one column at a time.
        """
        used = [gram for gram in self.grams if gram.columns and gram.rows]
        rows = []
        for name in self._always:
            at = [gram.columns.index(name) for gram in used]
            weight = np.array([gram.weight for gram in used])
            pairs = list(zip(used, at, strict=True))
            base = used[0].mean[at[0]]
            means = np.array([(g.mean[j] - base) + g.mean_low[j] for g, j in pairs])
            within = sum(float(gram.comoment[j, j]) for gram, j in pairs)
            centre = weight @ means / weight.sum()
            between = float(weight @ (means - centre) ** 2)
            above, below = len(used) - 1, self.rows - len(used)
            total = within + between
            statistic = p_value = spread = None
            if above > 0 and below > 0 and within > 0:
                statistic = between / above / (within / below)
                p_value = float(scipy.special.fdtrc(above, below, statistic))
            if total > 0:
                spread = float(np.sqrt(between / total))
            rows.append((name, statistic, p_value, spread))
        schema = dict.fromkeys(("statistic", "p_value", "spread"), pl.Float64)
        return pl.DataFrame(rows, {"column": pl.String, **schema}, orient="row")

    def __add__(self, other: Self) -> "Patterns":
        """Add the rows of another part of the table."""
        if not isinstance(other, Patterns):
            return NotImplemented
        return Patterns((*self.grams, *other.grams))

    def __radd__(self, other: object) -> "Patterns":
        """Allow ``sum(patterns)``, which starts from 0."""
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Self) -> "Patterns":
        """Take the rows of a part away; RecordError if they are none."""
        if not isinstance(other, Patterns):
            return NotImplemented
        return Patterns._distinct(_summed(self.grams, other.grams, 2**62))

    def joined(self, max_patterns: int) -> "Patterns":
        """Return at most so many patterns: the rarest joins one with which few values are lost.

        The columns that lost some are in `dropped`.
        """
        return Patterns.of(self.grams, max_patterns)

    def to_struct(self) -> dict[str, Any]:
        """Return the records as plain data."""
        return {"patterns": [gram.to_struct() for gram in self.grams]}

    @classmethod
    def from_struct(cls, record: Any) -> Self:
        """Read a list of records, or a mapping with it as ``patterns``; else RecordError."""
        if isinstance(record, pa.Scalar):
            record = record.as_py()
        listed = record.get("patterns") if isinstance(record, Mapping) else record
        if not isinstance(listed, list | tuple) or not listed:
            raise RecordError("patterns must be a list of gram records, one a pattern")
        return cls(tuple(g if isinstance(g, Gram) else Gram.from_struct(g) for g in listed))

    def to_arrow(self) -> pa.StructArray:
        """Return the records as an Arrow array, one a pattern."""
        return _records(self.grams)

    def write_parquet(self, path: str | Path) -> None:
        """Write the list of records to column ``patterns`` of a Parquet file with one row."""
        records = self.to_arrow()
        column = pa.LargeListArray.from_arrays([0, len(records)], records)
        files.write_parquet(pa.table({"patterns": column}), path)

    @classmethod
    def read_parquet(cls, path: str | Path) -> Self:
        """Read one row, column ``patterns``, of `write_parquet`, DuckDB or Polars."""
        return cls.from_struct(files.read_row(path, ["patterns"], "patterns")["patterns"])


def _records(grams: Sequence[Gram]) -> pa.StructArray:
    return pa.array([gram.to_struct() for gram in grams], RECORD_TYPE)


def _summed(grams: Sequence[Gram], less: Sequence[Gram], most: int) -> tuple[Gram, ...]:
    found = _native.sum_patterns(_records(grams), _records(less), most)
    return tuple(Gram.from_struct(record) for record in found)


def _beside(first: Any, second: Any) -> Any:
    """Return the terms of the columns of both, as far as groups need them."""
    known = {category.column for category in first.categories}
    more = [category for category in second.categories if category.column not in known]
    return replace(
        first,
        categories=(*first.categories, *more),
        bases=tuple(dict.fromkeys([*first.bases, *second.bases])),
        computed=tuple(dict.fromkeys([*first.computed, *second.computed])),
        flat=tuple(dict.fromkeys([*first.flat, *second.flat])),
    )


def dropped_of(grams: Iterable[Gram]) -> list[str]:
    """Return the columns that lost values as patterns were joined."""
    return sorted({name for gram in grams for name in gram.terms.dropped})


def is_patterns(type_: pa.DataType) -> bool:
    """Whether a type is that of a list of records."""
    is_list = pa.types.is_list(type_) or pa.types.is_large_list(type_)
    return bool(is_list and is_record(type_.value_type))


def complete_parts(parts: Sequence[Patterns]) -> list[Gram]:
    """Return a Gram for each of some parts, completed by what all of them say together.

    They add up to the Gram of all.
    """
    if not parts:
        raise ArgumentError("patterns are empty; at least one part is needed")
    found = _complete(parts, {})
    _warn(found[0].terms.em)
    return found


def _complete(parts: Sequence[Patterns], options: Mapping[str, Any]) -> list[Gram]:
    grams = [gram for part in parts for gram in part]
    numbers = [at for at, part in enumerate(parts) for _ in part]
    found = _native.em(_records(grams), numbers, options)
    if not len(found):
        raise RecordError("the patterns have no row with a value")
    return [Gram.from_struct(record) for record in found]


def _warn(em: Mapping[str, Any] | None) -> None:
    if em is None:
        return
    if em["unseen"]:
        pairs = ", ".join(f"'{one}' and '{other}'" for one, other in em["pairs"][:NAMED])
        more = f" and {em['unseen'] - NAMED} more" if em["unseen"] > NAMED else ""
        warn_caller(
            f"no row has both of {pairs}{more}: their covariance given the other columns is not "
            "identified, and is taken as 0; patterns.together() shows what a next trial is to buy",
            ConditionWarning,
        )
    if not em["converged"]:
        warn_caller(
            f"EM did not settle in {em['iterations']} steps; raise max_iterations, or give prior, "
            "a number of rows in which columns of different patterns are uncorrelated",
            ConditionWarning,
        )


def added(parts: Iterable[Patterns]) -> Patterns:
    """Return the patterns of all rows of some parts."""
    return reduce(operator.add, parts)

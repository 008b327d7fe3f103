"""The Gram record: count, weight, mean and comoment of the columns of a table."""

import numbers
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect import _native
from dbselect._arrow import to_numpy
from dbselect.errors import RecordError
from dbselect.pages.html import Glance, InNotebooks
from dbselect.record import files
from dbselect.record.columns import SUFFIX, doubled, match, position
from dbselect.record.policies import with_fills, with_joint_fills
from dbselect.record.terms import Terms
from dbselect.record.union import check_read_alike, marked, union, zeros

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]

#: Required fields of a record; the others are 0 or NULL where they are absent.
FIELDS = ("columns", "rows", "skipped", "weight", "mean", "comoment")

#: Largest count of rows in a record: counts have 64 bits.
MOST_ROWS = 2**63 - 1

#: The record in Arrow; frozen, as stored data depend on it.
RECORD_TYPE = pa.struct(
    [
        ("columns", pa.large_list(pa.large_string())),
        ("rows", pa.int64()),
        ("skipped", pa.int64()),
        ("missing", pa.large_list(pa.int64())),
        ("weight", pa.float64()),
        ("mean", pa.large_list(pa.float64())),
        ("mean_low", pa.large_list(pa.float64())),
        ("comoment", pa.large_list(pa.float64())),
        ("terms", pa.large_string()),
    ]
)

_DTYPES = {
    pa.int64(): pl.Int64,
    pa.float64(): pl.Float64,
    pa.bool_(): pl.Boolean,
    pa.string(): pl.String,
    pa.large_string(): pl.String,
}


def dtype_of(type_: pa.DataType) -> Any:
    """Return the Polars type of an Arrow type; a MAP becomes a list of its entries."""
    if isinstance(type_, pa.MapType):
        entry = {"key": dtype_of(type_.key_type), "value": dtype_of(type_.item_type)}
        return pl.List(pl.Struct(entry))
    if isinstance(type_, pa.ListType | pa.LargeListType):
        return pl.List(dtype_of(type_.value_type))
    if isinstance(type_, pa.StructType):
        return pl.Struct({field.name: dtype_of(field.type) for field in type_})
    return _DTYPES[type_]


#: The record in Polars.
RECORD_DTYPE = dtype_of(RECORD_TYPE)


def is_record(type_: pa.DataType) -> bool:
    """Whether a type is that of Gram records."""
    return bool(pa.types.is_struct(type_)) and set(FIELDS) <= {child.name for child in type_}


def check_type(records: pa.Array) -> None:
    """Raise RecordError for a column that does not hold records."""
    if records.null_count == len(records):
        return
    if not pa.types.is_struct(records.type):
        raise RecordError(f"a gram record must be a mapping, not {records.type}")
    _check_fields(name for name in FIELDS if name not in records.type.names)


def _check_fields(missing: Iterable[str]) -> None:
    absent = list(missing)
    if len(absent) == len(FIELDS):
        raise RecordError(
            f"this is no gram record, which has the fields {list(FIELDS)}; of columns by name, "
            "polars.DataFrame(...) makes a table"
        )
    if absent:
        raise RecordError(f"gram record lacks {absent}; its fields must be {list(FIELDS)}")


@dataclass(frozen=True, eq=False)
class Gram(files.Stored, InNotebooks):
    """Weighted count, mean and comoment of d columns: sufficient statistics of selection.

    Parameters
    ----------
    columns : d names
    rows : rows used
    skipped : rows left out: a NULL or NaN in any column or the weight, or weight 0
    weight : sum of the row weights; equals `rows` when no weight is given
    mean : shape (d,), weighted means
    comoment : shape (d, d), symmetric: sum of w (x - mean)(x - mean)'
    missing : column of the table -> rows in which it is NULL or NaN, of all rows read;
        columns without missing values are left out
    mean_low : shape (d,), rounding error of `mean`, so that Grams merged a thousand times are
        as accurate as one pass; default: 0
    terms : how the columns of the table became these; default: unchanged

    Raises
    ------
    RecordError : lengths disagree, a value is not finite or a variance negative

    Notes
    -----
    Grams with equal `terms` can be added; levels of categories and indicators may differ, as
    a level or an indicator that one Gram lacks was 0 in all its rows. The sum has the columns
    of both.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> g = ds.gram(pl.DataFrame({"x": [1, 2, 3], "y": [1, 3, 8]}))
    >>> g.mean.tolist(), g.comoment.tolist()
    ([2.0, 4.0], [[2.0, 7.0], [7.0, 26.0]])
    >>> (g + g).rows
    6
    """

    columns: list[str]
    rows: int
    skipped: int
    weight: float
    mean: Vector
    comoment: Matrix
    missing: Mapping[str, int] = field(default_factory=dict)
    mean_low: Vector = field(default_factory=lambda: np.zeros(0))
    terms: Terms = field(default_factory=Terms)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", list(self.columns))
        # Unary plus drops counts that are not above zero.
        object.__setattr__(self, "missing", dict(+Counter(self.missing)))
        if not np.size(self.mean_low):
            object.__setattr__(self, "mean_low", np.zeros(len(self.columns)))
        for name in ("mean", "mean_low", "comoment"):
            values = np.array(getattr(self, name), np.float64, order="C")
            values.setflags(write=False)
            object.__setattr__(self, name, values)
        self._check()

    def _check(self) -> None:
        width = len(self.columns)
        shapes = {"mean": (width,), "mean_low": (width,), "comoment": (width, width)}
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values.shape != shape:
                raise RecordError(
                    f"gram record has '{name}' of shape {values.shape}; "
                    f"{width} columns need {shape}"
                )
            if not np.isfinite(values).all():
                raise RecordError(f"gram record has a value in '{name}' that is not finite")
        for name in ("rows", "skipped", "weight"):
            value = getattr(self, name)
            if not 0 <= value < np.inf:
                raise RecordError(f"gram record has {value} in '{name}'; it must be >= 0")
        most = max(self.rows, self.skipped, *self.missing.values(), 0)
        if most > MOST_ROWS:
            raise RecordError(f"gram record counts {most} rows; {MOST_ROWS} are the most")
        if (self.rows > 0) != (self.weight > 0):
            raise RecordError(
                f"gram record has {self.rows} rows of total weight {self.weight}; "
                "both must be 0 or neither"
            )
        if (twice := doubled(self.columns)) is not None:
            raise RecordError(f"gram record has column '{twice}' twice")
        negative = np.flatnonzero(np.diagonal(self.comoment) < 0)
        if negative.size:
            raise RecordError(
                f"gram record has a negative diagonal in 'comoment' "
                f"for column '{self.columns[negative[0]]}'"
            )
        _native.check_moments(
            self.columns, self.rows, self.weight, self.mean, self.mean_low, self.comoment
        )

    def __repr__(self) -> str:
        return f"Gram({len(self.columns)} columns, {self.rows} rows, {self.skipped} skipped)"

    @property
    def _glance(self) -> Glance:
        sources = self.terms.sources()
        with np.errstate(invalid="ignore"):
            deviation = np.sqrt(np.diagonal(self.covariance()))
        return Glance(
            pl.DataFrame(
                {
                    "column": self.columns,
                    "mean": self.mean,
                    "deviation": deviation,
                    "missing": [self.missing.get(sources.get(n, n), 0) for n in self.columns],
                },
                schema_overrides={"column": pl.String, "missing": pl.Int64},
            )
        )

    def __add__(self, other: Self) -> "Gram":
        """Merge the statistics of other rows (Chan, Golub, LeVeque 1983, eq. 2.1)."""
        if not isinstance(other, Gram):
            return NotImplemented
        first, second = aligned([self, other])
        weight = first.weight + second.weight
        share = second.weight / weight if weight else 0.0
        # Overflow is reported when the result is checked.
        with np.errstate(over="ignore", invalid="ignore"):
            distance = first._distance_to(second)
            comoment = first.comoment + second.comoment
            comoment += first.weight * share * np.outer(distance, distance)
            mean, mean_low = first._moved(share * distance)
        if not first.weight:
            mean, mean_low = second.mean, second.mean_low
        rows, skipped = first.rows + second.rows, first.skipped + second.skipped
        missing = Counter(first.missing) + Counter(second.missing)
        return Gram(
            first.columns, rows, skipped, weight, mean, comoment, missing, mean_low, first.terms
        )

    def __radd__(self, other: object) -> "Gram":
        """Allow ``sum(grams)``, which starts from 0."""
        return self if other == 0 else NotImplemented

    def __sub__(self, other: Self) -> "Gram":
        """Remove the rows of a part: the inverse of ``+``.

        Raises
        ------
        RecordError : they are not a part, or only rounding error of a column is left, as after
            removing an outlier; merge the Grams of the remaining rows instead
        """
        if not isinstance(other, Gram):
            return NotImplemented
        first, second = aligned([self, other])
        rows, skipped = first.rows - second.rows, first.skipped - second.skipped
        weight = first.weight - second.weight
        if rows < 0 or skipped < 0 or (rows > 0 and weight <= 0):
            raise RecordError(
                f"cannot remove {second.rows} rows of weight {second.weight} from {first.rows} "
                f"of weight {first.weight}; the second record must be a part of the first"
            )
        missing = Counter(first.missing) - Counter(second.missing)
        if rows == 0:
            weight, comoment = 0.0, np.zeros_like(first.comoment)
            mean = mean_low = np.zeros_like(first.mean)
        else:
            mean, mean_low, comoment = first._without(second)
        return Gram(
            first.columns, rows, skipped, weight, mean, comoment, missing, mean_low, first.terms
        )

    def _without(self, part: "Gram") -> tuple[Vector, Vector, Matrix]:
        """Return mean, its low part and comoment of the rows that remain without a part."""
        share = part.weight / (self.weight - part.weight)
        distance = self._distance_to(part)
        comoment = self.comoment - part.comoment
        comoment -= self.weight * share * np.outer(distance, distance)
        before, after = self.comoment.diagonal().copy(), comoment.diagonal().copy()
        constant = _native.without_variation(
            self.columns, self.rows - part.rows, self.weight, self.mean, before, after
        )
        comoment[constant, :] = comoment[:, constant] = 0.0
        return *self._moved(-share * distance), comoment

    def _distance_to(self, other: "Gram") -> Vector:
        """Return the mean of the other Gram minus the mean of this one."""
        return np.asarray((other.mean - self.mean) + (other.mean_low - self.mean_low))

    def _moved(self, step: Vector) -> tuple[Vector, Vector]:
        """Return the mean after a step, and its rounding error (Knuth 1969, 4.2.2)."""
        low = self.mean_low + step
        mean = self.mean + low
        back = mean - self.mean
        return mean, (self.mean - (mean - back)) + (low - back)

    def select(self, columns: Sequence[str]) -> "Gram":
        """Return the Gram of columns, by name or glob, in that order."""
        names = match(columns, self.columns, "columns")
        terms = self.terms.of(names)
        means = dict(zip(self.columns, self.mean.tolist(), strict=True))
        unfilled = [name for name in self.terms.fills if not means.get(name + SUFFIX)]
        if unfilled:
            kept_means = {name: mean for name, mean in terms.means.items() if name not in unfilled}
            terms = replace(terms, means=kept_means)
        sources = terms.sources()
        kept = {sources.get(name, name) for name in names}
        selected = self.spread(names, terms)
        missing = {name: rows for name, rows in self.missing.items() if name in kept}
        return replace(selected, missing=missing)

    def spread(self, columns: Sequence[str], terms: Terms) -> "Gram":
        """Return the Gram of columns under joint terms; a column that it lacks is 0."""
        places = {name: at for at, name in enumerate(marked(self.columns, self.terms, terms))}
        at = [places.get(name, -1) for name in columns]
        return replace(
            self,
            columns=list(columns),
            mean=np.append(self.mean, 0.0)[at],
            mean_low=np.append(self.mean_low, 0.0)[at],
            comoment=np.pad(self.comoment, (0, 1))[np.ix_(at, at)],
            terms=terms,
        )

    def extend(self, sums: Any, table: Any, key: Any | None = None, **options: Any) -> "Gram":
        """Return the Gram with the columns of a table that is joined by a key.

        The facts are not read again and the join is not computed; the result equals the Gram
        of the joined rows.

        Parameters
        ----------
        sums : result of `dbselect.key_sums` for the facts of this Gram
        table, key, options : as in `KeySums.extend`

        Raises
        ------
        RecordError : the sums are of other rows, or lack a column of this Gram
        ColumnError, ArgumentError, DataError : as `KeySums.extend`

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> facts = pl.DataFrame({"shop": ["a", "a", "b", "c"], "sales": [2, 4, 7, 7]})
        >>> shops = pl.DataFrame({"id": ["a", "b"], "area": [10.0, 30.0]})
        >>> gram = ds.gram(facts, ["sales"])
        >>> sums = ds.key_sums(facts, "shop", gram=gram)
        >>> gram.extend(sums, shops, key="id").columns
        ['sales', 'area', 'area.missing']
        """
        extended: Gram = sums.of(self).extend(table, key, **options).gram
        return extended

    def position(self, column: str, what: str) -> int:
        """Return the index of a column."""
        return position(column, self.columns, what)

    def covariance(self) -> Matrix:
        """Return ``comoment / weight``, shape (d, d); NaN if there are no rows."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.comoment / np.float64(self.weight))

    def correlation(self) -> Matrix:
        """Return the correlation matrix, shape (d, d); NaN for constant columns."""
        deviation = np.sqrt(np.diagonal(self.comoment))
        with np.errstate(invalid="ignore", divide="ignore"):
            correlation = self.comoment / np.outer(deviation, deviation)
        np.fill_diagonal(correlation, np.where(deviation > 0, 1.0, np.nan))
        return np.asarray(correlation)

    def plot(self, groups: Mapping[str, Iterable[str]] | None = None, *, most: int = 60) -> Any:
        """Plot how groups of columns correlate.

        Parameters
        ----------
        groups : name -> columns or globs; default: every top-level field
        most : number of groups in the chart, at most 70: those that correlate most with another

        Returns
        -------
        Chart of altair. Its ``data`` is a DataFrame with one row for each pair of groups:
        group, other, correlation, strength, columns. The correlation is that of the two
        columns that correlate most; groups that correlate are neighbours

        Raises
        ------
        ArgumentError : `most` is not a whole number from 2 to 70
        GroupError, ColumnError : `groups` do not fit the columns
        EngineError : altair is not installed

        Examples
        --------
        >>> import dbselect as ds
        >>> import polars as pl
        >>> chart = ds.gram(pl.DataFrame({"x": [1, 2, 3], "y": [3, 2, 1], "z": [1, 0, 1]})).plot()
        >>> chart.data.filter(group="x", other="y")["correlation"].round(6).to_list()
        [-1.0]
        """
        # Imported here, as it imports this module.
        from dbselect.record.correlations import drawn_pairs

        return drawn_pairs(self, groups, most)

    def to_struct(self) -> dict[str, Any]:
        """Return the record as plain Python data, comoment as a packed lower triangle."""
        lower = self.comoment[np.tril_indices(len(self.columns))]
        sources = self.terms.sources()
        marks = {name + SUFFIX for name in self.terms.indicators}
        return {
            "columns": list(self.columns),
            "rows": int(self.rows),
            "skipped": int(self.skipped),
            "missing": [
                0 if name in marks else self.missing.get(sources.get(name, name), 0)
                for name in self.columns
            ],
            "weight": float(self.weight),
            "mean": self.mean.tolist(),
            "mean_low": self.mean_low.tolist(),
            "comoment": lower.tolist(),
            "terms": self.terms.without_shares().to_json(),
        }

    @classmethod
    def from_struct(cls, record: Any) -> "Gram":
        """Read a record, a mapping or an Arrow struct scalar; RecordError for anything else."""
        if isinstance(record, pa.Scalar):
            record = _from_arrow(record)
        if not isinstance(record, Mapping):
            raise RecordError(f"a gram record must be a mapping, not {type(record).__name__}")
        _check_fields(field for field in FIELDS if record.get(field) is None)
        columns = record["columns"]
        if not isinstance(columns, list | tuple) or not all(
            isinstance(name, str) for name in columns
        ):
            raise RecordError(f"gram record has {columns!r} in 'columns'; it must list names")
        for name in ("rows", "skipped"):
            if not isinstance(record[name], numbers.Integral):
                raise RecordError(
                    f"gram record has {record[name]!r} in '{name}'; it must be a whole number"
                )
        try:
            mean = np.asarray(record["mean"], dtype=np.float64)
            lower = np.asarray(record["comoment"], dtype=np.float64)
            weight = float(record["weight"])
            low = record.get("mean_low")
            mean_low = np.asarray([] if low is None else low, dtype=np.float64)
            counts = [int(count) for count in record.get("missing") or [0] * len(columns)]
        except (TypeError, ValueError) as error:
            raise RecordError(f"gram record holds something else than numbers: {error}") from None
        rows, skipped = int(record["rows"]), int(record["skipped"])
        width = len(columns)
        if lower.shape != (width * (width + 1) // 2,):
            raise RecordError(
                f"gram record has {lower.size} values in 'comoment'; "
                f"{width} columns need {width * (width + 1) // 2}"
            )
        if len(counts) != len(columns) or min(counts, default=0) < 0:
            raise RecordError(
                f"gram record has {counts} in 'missing'; {len(columns)} columns need a count each"
            )
        terms = Terms.from_json(record.get("terms"))
        sources = terms.sources()
        named = zip(columns, counts, strict=True)
        absent = {sources.get(name, name): count for name, count in named if count}
        comoment = np.zeros((width, width))
        comoment[np.tril_indices(width)] = lower
        comoment += np.tril(comoment, -1).T
        return cls(list(columns), rows, skipped, weight, mean, comoment, absent, mean_low, terms)

    def to_arrow(self) -> pa.StructArray:
        """Return the record as an Arrow array of length 1."""
        return pa.array([self.to_struct()], RECORD_TYPE)

    def write_parquet(self, path: str | Path) -> None:
        """Write the record to column ``gram`` of a Parquet file with one row."""
        files.write_parquet(pa.table({"gram": self.to_arrow()}), path)

    @classmethod
    def read_parquet(cls, path: str | Path) -> "Gram":
        """Read one row, column ``gram``, of `write_parquet`, DuckDB or Polars; else SourceError."""
        return cls.from_struct(files.read_row(path, ["gram"], "a gram")["gram"])


def aligned(grams: Sequence[Gram]) -> list[Gram]:
    """Return Grams with joint columns; RecordError if more than levels and indicators differ."""
    first = grams[0]
    means = [gram.terms.means for gram in grams]
    if all(gram.columns == first.columns and gram.terms == first.terms for gram in grams[1:]):
        return with_joint_fills(grams, means)
    columns, terms = first.columns, first.terms
    for gram in grams[1:]:
        columns, terms = union(columns, terms, gram.columns, gram.terms)
    return with_joint_fills([gram.spread(columns, terms) for gram in grams], means)


def as_fitted(gram: Gram, columns: Sequence[str], terms: Terms) -> Gram:
    """Return a Gram with the columns of a fit; levels that it lacks are columns of 0."""
    check_read_alike(gram.terms.of(columns), terms.of(columns))
    lacking = zeros(gram.terms, terms) - set(gram.columns)
    match([name for name in columns if name not in lacking], gram.columns, "columns")
    filled: Gram = with_fills(gram.spread(columns, terms), gram.terms.means, terms.means)
    return filled


def _from_arrow(record: pa.Scalar) -> Any:
    """Convert an Arrow struct to a dict without a Python object for every number."""
    if not pa.types.is_struct(record.type) or not record.is_valid:
        return record.as_py()
    return {
        name: to_numpy(value.values) if _are_doubles(value) else value.as_py()
        for name, value in record.items()
    }


def _are_doubles(value: pa.Scalar) -> bool:
    """Whether a value is a list of doubles, none of them NULL."""
    of = getattr(value.type, "value_type", None)
    return value.is_valid and of == pa.float64() and not value.values.null_count

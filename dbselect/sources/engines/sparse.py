"""Sparse features: SciPy matrices, and SVMlight files of lines ``2 qid:10 1:0.03 3:0.25``."""

import glob
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import issparse

from dbselect.errors import ArgumentError, ColumnError, SourceError
from dbselect.options.kinds import COUNT
from dbselect.record.entries import as_map
from dbselect.record.files import replacing
from dbselect.record.foreign import is_frame, native
from dbselect.record.gram import Matrix, Vector
from dbselect.sources.paths import is_data


def sparse_table(X: Any, columns: Any, *, field: str = "x") -> pa.Table:
    """Return the rows of a sparse matrix as a table, for a search with ``gram="lazy"``.

    Parameters
    ----------
    X : matrix or array of SciPy, shape (n, D); of a CSR matrix nothing is copied
    columns : the other columns, the target among them: a frame, an Arrow table, or a mapping
        of names to n values each
    field : name of the field of X: column j of X is column ``x[j]``, j from 0 on

    Returns
    -------
    Arrow table of `columns`, and of `field`, a MAP of the entries of each row

    Raises
    ------
    ArgumentError : X is no sparse matrix; columns are none; field is no text
    ColumnError : columns have another number of rows, or a column of the name of the field

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> from scipy import sparse
    >>> X = sparse.csr_matrix([[0, 1], [2, 0], [0, 0], [1, 1]])
    >>> table = ds.io.sparse_table(X, {"y": [6.0, 9.0, 5.0, 8.0]})
    >>> seq = ds.anytime_sequence(table, "y", gram="lazy")
    >>> seq.groups.names
    ['x[0]', 'x[1]']
    >>> seq.at().predict(X).round(6).tolist()
    [6.0, 9.0, 5.0, 8.0]
    """
    if not issparse(X):
        raise ArgumentError(
            f"X is a {type(X).__name__}; it must be a sparse matrix or array of SciPy"
        )
    if not isinstance(field, str):
        raise ArgumentError(f"field is {field!r}; it must be the name of a column")
    beside = _table_of(columns)
    if field in beside.column_names:
        raise ColumnError(f"columns has '{field}', the name of the field of X; give another field")
    if beside.num_rows != X.shape[0]:
        raise ColumnError(f"columns has {beside.num_rows} rows, and X {X.shape[0]}")
    return beside.append_column(field, as_map(X))


def _table_of(columns: Any) -> pa.Table:
    columns = native(columns)
    try:
        if is_frame(columns):
            return pa.table(columns.collect() if hasattr(columns, "collect") else columns)
        if isinstance(columns, dict) and columns:
            return pa.table(columns)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise ArgumentError(f"columns make no table: {error}") from None
    raise ArgumentError(
        f"columns is a {type(columns).__name__}; it must be a frame, an Arrow table, or a mapping "
        "of names to values, the target among them"
    )


#: Names of the columns that are no features.
QUERY, RELEVANCE = "query", "relevance"
#: A line: relevance, query, and features with their values.
FORM = re.compile(rb"[-+.\w]+\s+qid:\d+(?:\s+\d+:[-+.\w]+)*")
#: Relevance at the start of a line without a query.
WITHOUT_QUERY = re.compile(rb"^([-+.\w]+)(?=$|\s+\d+:)")
#: Number of the last feature of a line.
LAST = re.compile(rb"(\d+):[^:\s]*$")
#: Bytes of text read at a time: about a thousand lines, which take 80 MB once parsed.
BLOCK_BYTES = 2**20


def svmlight_to_parquet(
    source: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    features: int | None = None,
    entries: str | None = None,
) -> Path:
    r"""Write files of learning to rank, as of MSLR-WEB or Yahoo, as one Parquet file.

    A line ``2 qid:10 1:0.03 3:0.25 # remark`` becomes a row: `query` 10, `relevance` 2, `f1`
    0.03, `f2` 0, `f3` 0.25, and so on. A feature that a line does not name is 0, as the form
    has it.

    Parameters
    ----------
    source : path, glob or list of paths; files may be compressed (``.gz``)
    out : Parquet file to write, whole or not at all
    features : F, the largest number of a feature; None reads the files once more to find it
    entries : name of one field for all features, a MAP of those that a line names, in the
        place of F columns: feature 3 is column ``f[3]`` of field ``f``. It is for the many
        features of a search with ``gram="lazy"``; lines may have no query then, which is 0

    Returns
    -------
    `out`, to be read by `gram`

    Raises
    ------
    ArgumentError : features is no whole number >= 1, or a line has a larger number; entries
        is no name, or that of another column
    SourceError : there is no such file or no line in it; a line is not of this form

    Notes
    -----
    Memory is that of about a thousand lines, whatever the size of the files. On the
    command line it is ``dbselect svmlight``; SQL and Polars read what it writes.

    References
    ----------
    Qin, Liu (2013) for MSLR-WEB; Chapelle, Chang (2011) for Yahoo! Learning to Rank.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import dbselect as ds
    >>> import polars as pl
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.txt").write_text("2 qid:10 1:0.5 3:0.25\n0 qid:10 2:1 # none\n")
    >>> rows = ds.io.svmlight_to_parquet(folder / "train.txt", folder / "train.parquet")
    >>> pl.read_parquet(rows).rows()
    [(10, 2.0, 0.5, 0.0, 0.25), (10, 0.0, 0.0, 1.0, 0.0)]
    """
    if features is not None:
        COUNT.check("features", features)
    paths = _paths_of(source)
    target = Path(os.path.realpath(out))
    if target in [Path(os.path.realpath(path)) for path in paths]:
        raise ArgumentError(f"out is {str(out)!r}, which is a file to read")
    named: list[tuple[str, pa.DataType]]
    if entries is None:
        width = _largest(paths) if features is None else int(features)
        named = [(f"f{j + 1}", pa.float64()) for j in range(width)]
    elif isinstance(entries, str) and entries not in ("", QUERY, RELEVANCE):
        named = [(entries, pa.map_(pa.int64(), pa.float64()))]
    else:
        raise ArgumentError(
            f"entries is {entries!r}; it must be the name of a field, and no other column's"
        )
    schema = pa.schema([(QUERY, pa.int64()), (RELEVANCE, pa.float64()), *named])
    with replacing(out) as temporary, pq.ParquetWriter(temporary, schema) as writer:
        for place in _lines(paths):
            block = _block_of(*place, needs_query=entries is None)
            largest = int(block.feature.max(initial=0))
            if features is not None and largest > features:
                raise ArgumentError(f"features is {features!r}; a line names feature {largest}")
            values = block.columns(len(named)) if entries is None else [block.entries()]
            columns = [pa.array(column) for column in (block.query, block.relevance, *values)]
            writer.write_table(pa.table(columns, schema=schema))
    return Path(out)


def _largest(paths: Sequence[Path]) -> int:
    """Return the largest feature number; in a line the last one is the largest."""
    largest = 0
    for _, _, lines in _lines(paths):
        last = (LAST.search(line) for line in lines)
        largest = max(largest, max((int(match[1]) for match in last if match), default=0))
    if not largest:
        raise SourceError(
            f"{list(map(str, paths))} name no feature; lines must be like '2 qid:10 1:0.03 3:0.25'"
        )
    return largest


def _paths_of(source: str | Path | Sequence[str | Path]) -> list[Path]:
    sources = [source] if isinstance(source, str | Path) else source
    listed = isinstance(sources, list | tuple) and bool(sources)
    if not (listed and all(isinstance(path, str | Path) for path in sources)):
        raise ArgumentError(f"source is {source!r}; it must be a path, a glob or a list of paths")
    paths = []
    for pattern in sources:
        matched = [str(pattern)] if Path(pattern).is_file() else sorted(glob.glob(str(pattern)))
        matches = [Path(name) for name in matched if is_data(Path(name).name, str(pattern))]
        if not matches:
            raise SourceError(f"no file is at '{pattern}'; a file in SVMlight form is needed")
        paths += matches
    return paths


@dataclass(frozen=True)
class _Block:
    """Documents of a block of lines, and the features that they name."""

    query: npt.NDArray[np.int64]  # shape (n,)
    relevance: Vector  # shape (n,)
    #: shape (m,) each, one entry per feature named in a line: document, feature number, value
    document: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int64]
    value: Vector

    def columns(self, width: int) -> Matrix:
        """Return the features as columns, 0 if a line does not name them; shape (width, n)."""
        values = np.zeros((width, len(self.query)))
        values[self.feature - 1, self.document] = self.value
        return values

    def entries(self) -> pa.MapArray:
        """Return the features as one field of entries."""
        ends = np.searchsorted(self.document, np.arange(len(self.query) + 1))
        return pa.MapArray.from_arrays(ends.astype(np.int32), self.feature, self.value)


def _lines(paths: Iterable[Path]) -> Iterator[tuple[Path, int, list[bytes]]]:
    """Yield the file, the number of lines before, and about a thousand lines without remarks."""
    for path in paths:
        before = 0
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                while read := file.readlines(BLOCK_BYTES):
                    yield path, before, [line.split(b"#", 1)[0].strip() for line in read]
                    before += len(read)
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise SourceError(f"cannot read '{path}': {reason}") from error


def _block_of(
    path: Path, before: int, lines: Sequence[bytes], *, needs_query: bool = True
) -> _Block:
    """Parse lines of a file, after the first `before` lines; skip empty lines."""
    if not needs_query:
        lines = [WITHOUT_QUERY.sub(rb"\1 qid:0", line) for line in lines]
    for number, line in enumerate(lines, before + 1):
        if line and not FORM.fullmatch(line):
            raise SourceError(
                f"'{path}', line {number} begins {line[:60].decode(errors='replace')!r}; a line "
                "must be like '2 qid:10 1:0.03 3:0.25'"
            )
    kept = [line for line in lines if line]
    text = b" ".join(kept).replace(b"qid:", b"").replace(b":", b" ")
    # Parsed by Python's rules, so that text that is no number is an error.
    try:
        numbers = np.array(text.split(), dtype="S").astype(float) if kept else np.empty(0)
    except ValueError as error:
        raise SourceError(
            f"'{path}', lines {before + 1} to {before + len(lines)}: {error}"
        ) from error
    named = np.array([line.count(b":") - 1 for line in kept], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(2 * named + 2)])[:-1].astype(np.int64)
    pairs = np.ones(len(numbers), dtype=bool)
    pairs[starts] = pairs[starts + 1] = False
    feature, value = numbers[pairs].reshape(-1, 2).T
    document = np.repeat(np.arange(len(kept)), named)
    falling = (np.diff(feature) <= 0) & (np.diff(document) == 0)
    wrong = document[:-1][falling].tolist() + document[feature < 1].tolist()
    if wrong:
        begins = kept[min(wrong)][:60].decode(errors="replace")
        raise SourceError(
            f"'{path}' has a line {begins!r}; the numbers of its features must rise, from 1 on"
        )
    return _Block(
        query=numbers[starts + 1].astype(np.int64),
        relevance=numbers[starts],
        document=document,
        feature=feature.astype(np.int64),
        value=value,
    )

"""Files of learning to rank in SVMlight form to Parquet, block by block.

    2 qid:10 1:0.03 3:0.25 # a document: relevance, query, and the features that are not 0

A line that names F features is 2 F + 2 numbers, once its colons are blanks and ``qid`` is away:
so NumPy reads a block of lines at once.
"""

import glob
import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dbselect.errors import ArgumentError, SourceError
from dbselect.options.kinds import COUNT
from dbselect.record.gram import Matrix, Vector
from dbselect.record.writing import replacing
from dbselect.sources.paths import is_data

#: Names of the columns that are no features.
QUERY, RELEVANCE = "query", "relevance"
#: Relevance, query, and features with their values.
FORM = re.compile(rb"[-+.\w]+\s+qid:\d+(?:\s+\d+:[-+.\w]+)*")
#: What a line begins with that names no query.
WITHOUT_QUERY = re.compile(rb"^([-+.\w]+)(?=$|\s+\d+:)")
#: The number of the last feature.
LAST = re.compile(rb"(\d+):[^:\s]*$")
#: Bytes of text that are read at a time: about a thousand lines, which take 80 MB in all.
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
            most = int(block.feature.max(initial=0))
            if features is not None and most > features:
                raise ArgumentError(f"features is {features!r}; a line names feature {most}")
            found = block.columns(len(named)) if entries is None else [block.entries()]
            columns = [pa.array(each) for each in (block.query, block.relevance, *found)]
            writer.write_table(pa.table(columns, schema=schema))
    return Path(out)


def _largest(paths: Sequence[Path]) -> int:
    """Return the largest number of a feature: that of the last one of some line."""
    largest = 0
    for _, _, lines in _lines(paths):
        last = (LAST.search(line) for line in lines)
        largest = max(largest, max((int(each[1]) for each in last if each), default=0))
    if not largest:
        raise SourceError(
            f"{list(map(str, paths))} name no feature; lines must be like '2 qid:10 1:0.03 3:0.25'"
        )
    return largest


def _paths_of(source: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files of a path, a glob or a list."""
    given = [source] if isinstance(source, str | Path) else source
    listed = isinstance(given, list | tuple) and bool(given)
    if not (listed and all(isinstance(one, str | Path) for one in given)):
        raise ArgumentError(f"source is {source!r}; it must be a path, a glob or a list of paths")
    paths = []
    for one in given:
        matched = [str(one)] if Path(one).is_file() else sorted(glob.glob(str(one)))
        found = [Path(name) for name in matched if is_data(Path(name).name, str(one))]
        if not found:
            raise SourceError(f"no file is at '{one}'; a file in SVMlight form is needed")
        paths += found
    return paths


@dataclass(frozen=True)
class _Block:
    """Documents of a block of lines, and the features that they name."""

    query: npt.NDArray[np.int64]  # shape (n,)
    relevance: Vector  # shape (n,)
    #: shape (m,), of every feature named: which document, number, value
    document: npt.NDArray[np.int64]
    feature: npt.NDArray[np.int64]
    value: Vector

    def columns(self, width: int) -> Matrix:
        """Return the features as columns, 0 where a line names none; shape (width, n)."""
        values = np.zeros((width, len(self.query)))
        values[self.feature - 1, self.document] = self.value
        return values

    def entries(self) -> pa.MapArray:
        """Return the features as one field of entries."""
        ends = np.searchsorted(self.document, np.arange(len(self.query) + 1))
        return pa.MapArray.from_arrays(ends.astype(np.int32), self.feature, self.value)


def _lines(paths: Iterable[Path]) -> Iterator[tuple[Path, int, list[bytes]]]:
    """Yield some thousand lines at a time without remarks, of which file and after how many."""
    for path in paths:
        before = 0
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                while read := file.readlines(BLOCK_BYTES):
                    yield path, before, [line.split(b"#", 1)[0].strip() for line in read]
                    before += len(read)
        except (OSError, EOFError, zlib.error) as error:
            why = getattr(error, "strerror", None) or error
            raise SourceError(f"cannot read '{path}': {why}") from error


def _block_of(
    path: Path, before: int, lines: Sequence[bytes], *, needs_query: bool = True
) -> _Block:
    """Read lines of a file, `before` of which are read already; empty ones are none."""
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
    # By Python's own rules: what is no number is an error.
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

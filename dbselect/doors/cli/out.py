"""Where results go: ``--out`` by the ending of its name; ``-`` and ``--json``: standard output."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    import polars as pl

    from dbselect.record.gram import Gram
    from dbselect.results.prefixes import Prefixes

STDOUT = "-"
#: Endings of a stored record, of a table with records in it, of any table, and of either of the
#: first two. A name without one is Parquet.
RECORDS = (".parquet", ".json")
NESTED = (".parquet", ".ndjson", ".jsonl", ".arrow", ".feather")
TABLES = (*NESTED, ".csv", ".tsv")
GRAMS = tuple(dict.fromkeys(RECORDS + NESTED))
#: A file of any name.
ANY: tuple[str, ...] = ()


def check_ending(out: str, endings: tuple[str, ...]) -> None:
    """Refuse a name with an ending of another kind; one without is Parquet."""
    ending = Path(out).suffix
    if out != STDOUT and ending and endings and ending not in endings:
        raise ArgumentError(
            f"--out is '{out}'; its name must end in {', '.join(endings)}, or be '-'"
        )


def write_record(record: "Gram | Prefixes[Any]", out: str | None) -> None:
    """Write a Gram or a sequence as Parquet or JSON; to standard output as JSON."""
    from dbselect.record.files import sealed_json

    if out == STDOUT:
        print(sealed_json(record.to_struct()))
    elif out is not None and Path(out).suffix == ".json":
        record.write_json(out)
    elif out is not None:
        record.write_parquet(out)


def write_frame(frame: "pl.DataFrame", out: str | None) -> None:
    """Write a table by the ending of its name; Parquet with a digest."""
    from dbselect.record.files import write_parquet

    if out is None:
        return
    if out != STDOUT and Path(out).suffix in ("", ".parquet"):
        write_parquet(frame.to_arrow(), out)
        return
    with writing_rows(out) as write:
        write(frame)


@contextmanager
def writing_rows(out: str) -> Iterator[Callable[["pl.DataFrame"], None]]:
    """Give what writes batches of a table; on standard output CSV, or JSON if nested."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dbselect.record.writing import replacing

    ending = None if out == STDOUT else Path(out).suffix
    opened: list[Any] = []
    file: Any = sys.stdout.buffer

    def write_text(batch: "pl.DataFrame") -> None:
        nested = any(dtype.is_nested() for dtype in batch.dtypes)
        if nested and ending in (".csv", ".tsv"):
            raise ArgumentError(f"--out ends in {ending}, a format without nested columns")
        # The text is written here: an engine has errors of its own for a pipe that is closed.
        if nested or ending in (".ndjson", ".jsonl"):
            text = batch.write_ndjson()
        else:
            separator = "\t" if ending == ".tsv" else ","
            text = batch.write_csv(include_header=not opened, separator=separator)
        opened.append(None)
        left = memoryview(text.encode())
        while left:  # without a buffer (PYTHONUNBUFFERED) a pipe takes what it takes
            left = left[file.write(left) :]

    def write_arrow(batch: "pl.DataFrame") -> None:
        import polars as pl

        table = batch.to_arrow(compat_level=pl.CompatLevel.oldest())
        if not opened:
            is_parquet = ending in ("", ".parquet")
            opened.append((pq.ParquetWriter if is_parquet else pa.ipc.new_file)(file, table.schema))
        opened[0].write_table(table)

    arrow = ending in ("", ".parquet", ".arrow", ".feather")
    with ExitStack() as files:
        if out != STDOUT:
            file = files.enter_context(files.enter_context(replacing(out)).open("wb"))
        try:
            yield write_arrow if arrow else write_text
        finally:
            if arrow:
                for writer in opened:
                    writer.close()

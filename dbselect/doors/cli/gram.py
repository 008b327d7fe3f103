"""``dbselect gram``: read a table once and write its record, or one record per group of rows."""

from typing import TYPE_CHECKING, Any

from dbselect.doors.cli.command import SEVERAL, SOURCE, Command, Options, Parser
from dbselect.doors.cli.out import GRAMS, NESTED, RECORDS, check_ending, write_frame, write_record
from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    import polars as pl

    from dbselect.record.gram import Gram

#: Options of `gram` and `gram_by`, and those of `gram_by` only.
_COMMON = ("columns", "weight", "null_policy", "categories", "max_levels")
_GROUPS = ("by", "fold", "key", "seed")


def _add(parser: Parser) -> None:
    parser.add_argument("source", help=SOURCE)
    lists = {
        "columns": "names and globs; default: every usable one",
        "categories": "columns whose levels become columns of 0 and 1",
        "by": "columns whose values make groups of rows, with a record each",
    }
    parser.add_flags(lists, **SEVERAL)
    parser.add_flags({"weight": "column of row weights"})
    parser.add_null_policy()
    parser.add_argument("--basis", help='JSON file: column -> ["poly", 3] or ["spline", 5]')
    parser.add_flags({"key": "with --fold: equal keys stay together"})
    wholes = {
        "max-levels": "levels with a column of their own",
        "fold": "cut each group into so many",
        "seed": "with --fold: of the hash",
    }
    parser.add_flags(wholes, type=int)
    parser.add_max_skipped()
    parser.add_out("the record, or the table of records", GRAMS, required=True)


def _run(options: Options) -> None:
    from dbselect.doors.cli.stored import source_of
    from dbselect.sources.read import gram, gram_by

    check_ending(options.out, NESTED if options.given(_GROUPS) else RECORDS)
    reading = options.given(_COMMON) | {"basis": _basis(options)}
    groups = options.given(_GROUPS)
    if groups:
        give_records(options, gram_by(options.source, **reading, **groups))
        return
    give_gram(options, gram(source_of(options.source), **reading))


def give_gram(options: Options, gram: "Gram") -> None:
    """Check and write a Gram, and print its summary."""
    options.check_skipped(gram.rows, gram.skipped)
    write_record(gram, options.out)
    lines = [
        f"{options.out}: {len(gram.columns)} columns, {gram.rows:,} rows, {gram.skipped:,} skipped",
        *(f"{name}: missing in {rows:,} rows" for name, rows in gram.missing.items()),
    ]
    facts = {"rows": gram.rows, "skipped": gram.skipped, "columns": gram.columns}
    options.tell(lines, {**facts, "missing": dict(gram.missing)})


def give_records(options: Options, frame: "pl.DataFrame") -> None:
    """Check and write a table of records, and print its summary."""
    records = frame["gram"].struct
    rows, skipped = records.field("rows").sum(), records.field("skipped").sum()
    options.check_skipped(rows, skipped)
    write_frame(frame, options.out)
    line = f"{options.out}: {frame.height:,} records, {rows:,} rows, {skipped:,} skipped"
    options.tell([line], {"records": frame.height, "rows": rows, "skipped": skipped})


def _basis(options: Options) -> Any:
    mapping = options.from_file("basis")
    if mapping is None:
        return None
    if not isinstance(mapping, dict) or not all(isinstance(v, list) for v in mapping.values()):
        raise ArgumentError(f"--basis: '{options.basis}' must map columns to [kind, size]")
    return {name: tuple(value) for name, value in mapping.items()}


COMMAND = Command(_add, _run)

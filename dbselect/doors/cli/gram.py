"""``dbselect gram``: read a table once and write its record, or one for each group of rows."""

from typing import TYPE_CHECKING, Any

from dbselect.doors.cli.command import SEVERAL, SOURCE, Command, Options, Parser
from dbselect.doors.cli.out import GRAMS, NESTED, RECORDS, check_ending, write_frame, write_record
from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    import polars as pl

    from dbselect.record.gram import Gram

#: What `gram` and `gram_by` take, and what only the second does.
_EVERY = ("columns", "weight", "null_policy", "categories", "max_levels")
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
    asked = options.given(_EVERY) | {"basis": _basis(options)}
    groups = options.given(_GROUPS)
    if groups:
        give_records(options, gram_by(options.source, **asked, **groups))
        return
    give_gram(options, gram(source_of(options.source), **asked))


def give_gram(options: Options, found: "Gram") -> None:
    """Check and write a Gram, and print what it has."""
    options.check_skipped(found.rows, found.skipped)
    write_record(found, options.out)
    lines = [
        f"{options.out}: {len(found.columns)} columns, {found.rows:,} rows, "
        f"{found.skipped:,} skipped",
        *(f"{name}: missing in {rows:,} rows" for name, rows in found.missing.items()),
    ]
    facts = {"rows": found.rows, "skipped": found.skipped, "columns": found.columns}
    options.tell(lines, {**facts, "missing": dict(found.missing)})


def give_records(options: Options, found: "pl.DataFrame") -> None:
    """Check and write a table of records, and print what it has."""
    records = found["gram"].struct
    rows, skipped = records.field("rows").sum(), records.field("skipped").sum()
    options.check_skipped(rows, skipped)
    write_frame(found, options.out)
    line = f"{options.out}: {found.height:,} records, {rows:,} rows, {skipped:,} skipped"
    options.tell([line], {"records": found.height, "rows": rows, "skipped": skipped})


def _basis(options: Options) -> Any:
    told = options.from_file("basis")
    if told is None:
        return None
    if not isinstance(told, dict) or not all(isinstance(one, list) for one in told.values()):
        raise ArgumentError(f"--basis: '{options.basis}' must map columns to [kind, size]")
    return {name: tuple(one) for name, one in told.items()}


COMMAND = Command(_add, _run)

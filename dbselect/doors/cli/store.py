"""``dbselect store``: keep the Grams of a table's partitions, updated by ``refresh``."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from dbselect.doors.cli.command import SEVERAL, SOURCE, Command, Options, Parser
from dbselect.doors.cli.gram import give_gram
from dbselect.doors.cli.method import add_method, run_method
from dbselect.doors.cli.out import RECORDS, TABLES, write_frame
from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    from dbselect.record.gram import Gram


def _add(parser: Parser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="store_command")
    added = {}
    for name, run, text in (
        ("refresh", _refresh, "read what is new or has changed, all or nothing"),
        ("show", _show_records, "what the store has"),
        (
            "window",
            lambda options: give_gram(options, _window(options)),
            "write the Gram of a window",
        ),
        ("sequence", _sequence, "order groups of columns by gain per cost in a window"),
    ):
        command = added[name] = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run_in_store=run, parser=command)
        command.add_argument("store", help="file of DuckDB (.duckdb, .db) or folder")
        command.add_max_skipped()
    command = added["refresh"]
    command.add_argument("source", help=f"{SOURCE}: the whole table")
    lists = {
        "by": "keys; needed at the first refresh",
        "columns": "names and globs; default: every usable one",
    }
    command.add_flags(lists, **SEVERAL)
    command.add_null_policy()
    options = {
        "weight": "column of row weights",
        "keep": "table: parts that are gone are dropped; all: they are retained",
        "new-columns": "how to treat new columns: version, ignore, null or error",
        "on-error": "skip: leave a file that cannot be read for the next refresh",
    }
    command.add_flags(options)
    wholes = {"max-levels": "most levels of text", "max-dropped": "most parts that may go"}
    command.add_flags(wholes, type=int)
    command.add_argument("--json", action="store_true", help="print JSON, for other programs")
    command.set_defaults(out=None)
    added["show"].add_out("a row for each record", TABLES)
    added["window"].add_out("the record", RECORDS, required=True)
    added["sequence"].add_problem(fields=("intercept", "ridge", "scale", "always"))
    add_method(added["sequence"], "anytime_sequence")
    added["sequence"].add_out("the sequence", RECORDS)
    for name in ("window", "sequence"):
        added[name].add_argument("--first", help="first key, included: 2013-01; default: no limit")
        added[name].add_argument("--last", help="last key, included: 2013-03; default: no limit")


def _refresh(options: Options) -> None:
    from dbselect.store.gram_store import GramStore

    names = ("by", "columns", "weight", "null_policy", "max_levels", "keep", "new_columns",
             "max_dropped", "on_error")  # fmt: skip
    store = GramStore(options.store)
    refreshed = store.refresh(options.source, **options.given(names))
    options.tell([str(refreshed)], asdict(refreshed))
    # Check after the refresh, which is kept, so that the next one reads only later changes.
    records = store.show()
    options.check_skipped(records["rows"].sum(), records["skipped"].sum())


def _show_records(options: Options) -> None:
    from dbselect.doors.printing import plain_rows
    from dbselect.store.gram_store import GramStore

    store = GramStore(options.store)
    records, versions = store.show(), store.versions()
    rows, skipped = records["rows"].sum(), records["skipped"].sum()
    options.check_skipped(rows, skipped)
    write_frame(records, options.out)
    lines = [
        f"{records.height:,} records, {records['part'].n_unique():,} parts, "
        f"{rows:,} rows, {skipped:,} skipped"
    ]
    for number, columns, first, last, count, changes in versions.iter_rows():
        line = f"version {number}, {first} to {last}, {count:,} records: {', '.join(columns)}"
        lines.append(f"{line}; {', '.join(changes)}" if changes else line)
    for part, error in store.quarantine().iter_rows():
        lines.append(f"not read: {part}: {error}")
    options.tell(lines, {"records": plain_rows(records), "versions": plain_rows(versions)})


def _sequence(options: Options) -> None:
    from dbselect.doors.printing import show

    show(
        options,
        run_method(options.problem(_window(options)), "anytime_sequence", options),
        "In no group",
    )


def _window(options: Options) -> "Gram":
    """Return the Gram of a window; its ends are numbers if the key is numeric."""
    from dbselect.store.gram_store import GramStore

    store = GramStore(options.store)
    key = store.show().to_series(0)
    to_number = {True: int, False: float}[key.dtype.is_integer()]
    ends = {}
    for name in ("first", "last"):
        ends[name] = value = getattr(options, name)
        if value is not None and key.dtype.is_numeric():
            try:
                ends[name] = to_number(value)
            except ValueError:
                raise ArgumentError(
                    f"--{name} is '{value}'; the key '{key.name}' is a number"
                ) from None
    return store.window(**ends)


COMMAND = Command(_add, lambda options: options.run_in_store(options))

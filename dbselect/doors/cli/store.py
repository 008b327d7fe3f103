"""``dbselect store``: keep the Grams of a table's partitions; a cron job runs its ``refresh``."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from dbselect.doors.cli.command import SEVERAL, SOURCE, Command, Options, Parser
from dbselect.doors.cli.gram import give_gram
from dbselect.doors.cli.method import add_method, answer_asked
from dbselect.doors.cli.out import RECORDS, TABLES, write_frame
from dbselect.errors import ArgumentError

if TYPE_CHECKING:
    from dbselect.record.gram import Gram


def _add(parser: Parser) -> None:
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="store_command")
    every = {}
    for name, run, told in (
        ("refresh", _refresh, "read what is new or has changed, all or nothing"),
        ("show", _show_records, "what the store has"),
        (
            "window",
            lambda options: give_gram(options, _window(options)),
            "write the Gram of a window",
        ),
        ("sequence", _sequence, "order groups of columns by gain per cost in a window"),
    ):
        command = every[name] = commands.add_parser(name, help=told, description=told)
        command.set_defaults(run_in_store=run, parser=command)
        command.add_argument("store", help="file of DuckDB (.duckdb, .db) or folder")
        command.add_max_skipped()
    command = every["refresh"]
    command.add_argument("source", help=f"{SOURCE}: the whole table")
    lists = {
        "by": "keys; needed at the first refresh",
        "columns": "names and globs; default: every usable one",
    }
    command.add_flags(lists, **SEVERAL)
    command.add_null_policy()
    texts = {
        "weight": "column of row weights",
        "keep": "table: parts that are gone are dropped; all: they are retained",
        "new-columns": "how to treat new columns: version, ignore, null or error",
        "on-error": "skip: leave a file that cannot be read for the next refresh",
    }
    command.add_flags(texts)
    wholes = {"max-levels": "most levels of text", "max-dropped": "most parts that may go"}
    command.add_flags(wholes, type=int)
    command.add_argument("--json", action="store_true", help="print JSON, for other programs")
    command.set_defaults(out=None)
    every["show"].add_out("a row for each record", TABLES)
    every["window"].add_out("the record", RECORDS, required=True)
    every["sequence"].add_problem(fields=("intercept", "ridge", "scale", "always"))
    add_method(every["sequence"], "anytime_sequence")
    every["sequence"].add_out("the sequence", RECORDS)
    for name in ("window", "sequence"):
        every[name].add_argument("--first", help="first key, included: 2013-01; default: no limit")
        every[name].add_argument("--last", help="last key, included: 2013-03; default: no limit")


def _refresh(options: Options) -> None:
    from dbselect.store.gram_store import GramStore

    names = ("by", "columns", "weight", "null_policy", "max_levels", "keep", "new_columns",
             "max_dropped", "on_error")  # fmt: skip
    store = GramStore(options.store)
    refreshed = store.refresh(options.source, **options.given(names))
    options.tell([str(refreshed)], asdict(refreshed))
    # Checked after the refresh, which is kept: the next one reads only later changes.
    records = store.show()
    options.check_skipped(records["rows"].sum(), records["skipped"].sum())


def _show_records(options: Options) -> None:
    from dbselect.doors.cli.printing import plain_rows
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
        told = f"version {number}, {first} to {last}, {count:,} records: {', '.join(columns)}"
        lines.append(f"{told}; {', '.join(changes)}" if changes else told)
    for part, error in store.quarantine().iter_rows():
        lines.append(f"not read: {part}: {error}")
    options.tell(lines, {"records": plain_rows(records), "versions": plain_rows(versions)})


def _sequence(options: Options) -> None:
    from dbselect.doors.cli.printing import show

    show(
        options,
        answer_asked(options.problem(_window(options)), "anytime_sequence", options),
        "In no group",
    )


def _window(options: Options) -> "Gram":
    """Return the Gram of a window, whose ends are numbers where the key is."""
    from dbselect.store.gram_store import GramStore

    store = GramStore(options.store)
    key = store.show().to_series(0)
    number = {True: int, False: float}[key.dtype.is_integer()]
    ends = {}
    for name in ("first", "last"):
        ends[name] = value = getattr(options, name)
        if value is not None and key.dtype.is_numeric():
            try:
                ends[name] = number(value)
            except ValueError:
                raise ArgumentError(
                    f"--{name} is '{value}'; the key '{key.name}' is a number"
                ) from None
    return store.window(**ends)


COMMAND = Command(_add, lambda options: options.run_in_store(options))

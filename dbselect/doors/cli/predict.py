"""``dbselect predict``: the rows of a table with what a sequence or a model predicts."""

from collections.abc import Callable, Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbselect._arrow import empty_table
from dbselect.doors.cli.command import SOURCE, Command, Options, Parser
from dbselect.doors.cli.out import STDOUT, TABLES, writing_rows
from dbselect.errors import ArgumentError, ColumnError, unknown

if TYPE_CHECKING:
    import polars as pl

    from dbselect.sources.request import Table

    #: Rows and options -> their predictions, and how many have less than the best.
    Answer = Callable[[pl.DataFrame, dict[str, Any]], tuple[pl.DataFrame, int]]

#: Of the column that is added; several responses or classes have one each, ``prediction.<name>``.
NAME = "prediction"


def _add(parser: Parser) -> None:
    parser.add_prediction()
    told = "columns that the source lacks: error, or unavailable for a prefix without them"
    parser.add_flags({"missing-columns": told})
    parser.add_argument(
        "--available",
        action="store_true",
        help="predict each row from all groups that it has, not from a prefix of the order",
    )
    parser.add_flags({"level": "of --available: probability of an interval"}, type=float)
    parser.add_argument("source", help=f"{SOURCE}; - for one from a pipe")
    parser.add_argument(
        "--keep", nargs="+", action="extend", help="columns to write beside; default: all"
    )
    parser.add_max_skipped()
    parser.add_out("the rows", TABLES)


def _run(options: Options) -> None:
    from dbselect.doors.cli.stored import source_of, stored_predictor
    from dbselect.options.kinds import BUDGET
    from dbselect.sources.open import open_table

    if options.out is None and options.json:
        raise ArgumentError("--json reports on the file that is written, so it needs --out")
    options.out = options.out or STDOUT
    given = options.given(("budget", "handle_unknown", "missing_columns", "level"))
    BUDGET.check("budget", given.get("budget"))
    if options.available:
        answer, told = _by_groups(stored_predictor(options.sequence), options.out), "some groups"
    elif "level" in given:
        raise ArgumentError("--level is for --available, which predicts with intervals")
    else:
        answer, told = _by_stored(options.sequence, given), "a shorter prefix"
    if options.source == STDOUT == options.sequence:
        raise ArgumentError(
            "the sequence and the source are both '-'; one of them can come from a pipe"
        )
    table = open_table(source_of(options.source), None)
    kept = _kept(table, options)
    rows = shorter = missing = 0
    batches = _predicted(answer, table, kept, given)
    with writing_rows(options.out) as write, closing(batches):
        for batch, fewer, without in batches:
            rows += batch.height
            shorter += fewer
            missing += without
            write(batch)
        # Within: what is refused leaves no file.
        options.check_skipped(rows - missing, missing)
    line = f"{options.out}: {rows:,} rows, {shorter:,} by {told}, {missing:,} without a prediction"
    options.tell([line], {"rows": rows, "shorter": shorter, "missing": missing})


def _by_stored(path: str, given: dict[str, Any]) -> "Answer":
    """Return what predicts rows by a stored model, or by prefixes of a stored sequence."""
    import polars as pl

    from dbselect.doors.cli.stored import stored_model
    from dbselect.results.prefixes import Prefixes

    model = stored_model(path, given)
    if isinstance(model, Prefixes):
        return _by_prefix(model, given.get("budget"))

    def answer(batch: "pl.DataFrame", given: dict[str, Any]) -> "tuple[pl.DataFrame, int]":
        found = model.predict(batch, **given)
        several = getattr(model, "classes", ()) or getattr(model, "responses", ())
        names = [NAME] if found.ndim == 1 else [f"{NAME}.{each}" for each in several]
        return pl.DataFrame(found.reshape(-1, len(names)), names, orient="row").fill_nan(None), 0

    return answer


def _by_prefix(sequence: Any, budget: float | None) -> "Answer":
    """Return what predicts rows by their prefixes, and counts those of shorter ones."""
    import polars as pl

    from dbselect.record.steps import longest_within

    longest = longest_within(sequence.spent, budget)

    def answer(batch: "pl.DataFrame", given: dict[str, Any]) -> "tuple[pl.DataFrame, int]":
        answers = sequence.anytime_predict(batch, **given)
        found = answers.select(NAME)
        if isinstance(found.schema[NAME], pl.Struct):
            found = found[NAME].struct.unnest().select(pl.all().name.prefix(f"{NAME}."))
        return found, int((answers["step"] != longest).sum())

    return answer


def _by_groups(predictor: Any, out: str) -> "Answer":
    """Return what predicts rows by the groups that they have, and counts those without some."""
    import polars as pl

    is_flat = out == STDOUT or Path(out).suffix in (".csv", ".tsv")

    def answer(batch: "pl.DataFrame", given: dict[str, Any]) -> "tuple[pl.DataFrame, int]":
        found = predictor.predict(batch, **given)
        fewer = (found["groups"].list.len() < len(predictor.costs)).sum()
        # A text has no lists.
        shown = found.with_columns(pl.col("groups").list.join(", ")) if is_flat else found
        return shown, int(fewer)

    return answer


def _kept(table: "Table", options: Options) -> list[str]:
    names: list[str] = table.schema.names
    for name in options.keep or []:
        if name not in names:
            raise ColumnError(f"--keep has {unknown('column', name, names)}")
    kept = names if options.keep is None else list(dict.fromkeys(options.keep))
    for name in kept:
        if name.split(".")[0] == NAME:
            raise ColumnError(
                f"the table has a column '{name}' already; choose columns with --keep"
            )
    return kept


def _predicted(
    answer: "Answer", table: "Table", kept: list[str], given: dict[str, Any]
) -> "Generator[tuple[pl.DataFrame, int, int]]":
    """Yield rows with predictions, how many have fewer groups, and how many none."""
    import polars as pl

    def predicted(batch: pl.DataFrame) -> tuple[pl.DataFrame, int, int]:
        found, fewer = answer(batch, given)
        own = [name for name in found.columns if name.split(".")[0] == NAME]
        without = found.select(pl.any_horizontal(pl.col(own).is_null()).sum()).item()
        taken = [name for name in found.columns if name in kept]
        if taken:
            raise ColumnError(
                f"the table has a column '{taken[0]}' already; choose columns with --keep"
            )
        return pl.concat([batch.select(kept), found], how="horizontal"), fewer, int(without)

    came = False
    with closing(table.batches(table.schema.names)) as batches:
        for batch in batches:
            came = True
            yield predicted(pl.DataFrame(batch))
    if not came:
        yield predicted(pl.DataFrame(empty_table(table.schema)))


COMMAND = Command(_add, _run)

"""``dbselect predict``: the rows of a table with the predictions of a sequence or a model."""

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

    #: Rows and options -> predictions, and the number of rows with a reduced model.
    Answer = Callable[[pl.DataFrame, dict[str, Any]], tuple[pl.DataFrame, int]]

#: Name of the added column; several responses or classes have one each, ``prediction.<name>``.
NAME = "prediction"
#: Options of predictions by groups.
OF_AVAILABLE = ("level", "accept_above", "worth", "payoff")


def _add(parser: Parser) -> None:
    parser.add_prediction()
    text = "columns that the source lacks: error, or unavailable for a prefix without them"
    parser.add_flags({"missing-columns": text})
    parser.add_argument(
        "--available",
        action="store_true",
        help="predict each row from all groups that it has, not from a prefix of the order",
    )
    parser.add_flags({"level": "of --available: probability of an interval"}, type=float)
    text = "of --available: accept rows with a higher prediction, and buy next what pays for it"
    parser.add_flags({"accept-above": text}, type=float)
    parser.add_flags({"worth": "what one unit above it is worth, in the unit of cost"}, type=float)
    text = "instead: what a row earns if its target is 1, and loses if it is 0"
    parser.add_flags({"payoff": text}, nargs=2, type=float, metavar=("GAIN", "LOSS"))
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
    given = options.given(("budget", "handle_unknown", "missing_columns", *OF_AVAILABLE))
    BUDGET.check("budget", given.get("budget"))
    if options.available:
        answer, why = _by_groups(stored_predictor(options.sequence), options.out), "some groups"
    elif own := next((name for name in OF_AVAILABLE if name in given), None):
        raise ArgumentError(
            f"--{own.replace('_', '-')} is for --available, which predicts by groups"
        )
    else:
        answer, why = _by_stored(options.sequence, given), "a shorter prefix"
    if options.source == STDOUT == options.sequence:
        raise ArgumentError(
            "the sequence and the source are both '-'; one of them can come from a pipe"
        )
    table = open_table(source_of(options.source), None)
    kept = _kept(table, options)
    rows = shorter = missing = 0
    batches = _predicted(answer, table, kept, given)
    with writing_rows(options.out) as write, closing(batches):
        for batch, n_shorter, n_missing in batches:
            rows += batch.height
            shorter += n_shorter
            missing += n_missing
            write(batch)
        # Check before the file is in place, so that a refused result leaves no file.
        options.check_skipped(rows - missing, missing)
    line = f"{options.out}: {rows:,} rows, {shorter:,} by {why}, {missing:,} without a prediction"
    options.tell([line], {"rows": rows, "shorter": shorter, "missing": missing})


def _by_stored(path: str, given: dict[str, Any]) -> "Answer":
    """Return a function that predicts rows by a stored model or sequence."""
    import polars as pl

    from dbselect.doors.cli.stored import stored_model
    from dbselect.results.prefixes import Prefixes

    model = stored_model(path, given)
    if isinstance(model, Prefixes):
        return _by_prefix(model, given.get("budget"))

    def answer(batch: "pl.DataFrame", given: dict[str, Any]) -> "tuple[pl.DataFrame, int]":
        values = model.predict(batch, **given)
        outputs = getattr(model, "classes", ()) or getattr(model, "responses", ())
        names = [NAME] if values.ndim == 1 else [f"{NAME}.{output}" for output in outputs]
        return pl.DataFrame(values.reshape(-1, len(names)), names, orient="row").fill_nan(None), 0

    return answer


def _by_prefix(sequence: Any, budget: float | None) -> "Answer":
    """Return a function that predicts rows by prefixes, and counts shorter prefixes."""
    import polars as pl

    from dbselect.record.steps import longest_within

    longest = longest_within(sequence.spent, budget)

    def answer(batch: "pl.DataFrame", given: dict[str, Any]) -> "tuple[pl.DataFrame, int]":
        answers = sequence.anytime_predict(batch, **given)
        predictions = answers.select(NAME)
        if isinstance(predictions.schema[NAME], pl.Struct):
            predictions = predictions[NAME].struct.unnest().select(pl.all().name.prefix(f"{NAME}."))
        return predictions, int((answers["step"] != longest).sum())

    return answer


def _by_groups(predictor: Any, out: str) -> "Answer":
    """Return a function that predicts rows by their groups, and counts rows without some."""
    import polars as pl

    is_flat = out == STDOUT or Path(out).suffix in (".csv", ".tsv")

    def answer(batch: "pl.DataFrame", given: dict[str, Any]) -> "tuple[pl.DataFrame, int]":
        frame = predictor.predict(batch, **given)
        n_fewer = (frame["groups"].list.len() < len(predictor.costs)).sum()
        if is_flat:  # text formats have no lists
            names = pl.col("groups").cast(pl.List(pl.String))
            frame = frame.with_columns(names.list.join(", "))
        return frame, int(n_fewer)

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
    """Yield rows with predictions, and the numbers of reduced models and of missing ones."""
    import polars as pl

    def predicted(batch: pl.DataFrame) -> tuple[pl.DataFrame, int, int]:
        answers, n_fewer = answer(batch, given)
        columns = [name for name in answers.columns if name.split(".")[0] == NAME]
        n_missing = answers.select(pl.any_horizontal(pl.col(columns).is_null()).sum()).item()
        clashes = [name for name in answers.columns if name in kept]
        if clashes:
            raise ColumnError(
                f"the table has a column '{clashes[0]}' already; choose columns with --keep"
            )
        return pl.concat([batch.select(kept), answers], how="horizontal"), n_fewer, int(n_missing)

    has_batches = False
    with closing(table.batches(table.schema.names)) as batches:
        for batch in batches:
            has_batches = True
            yield predicted(pl.DataFrame(batch))
    if not has_batches:
        yield predicted(pl.DataFrame(empty_table(table.schema)))


COMMAND = Command(_add, _run)

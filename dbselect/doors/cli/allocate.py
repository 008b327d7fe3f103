"""``dbselect allocate``: one budget for the sequences of many segments."""

from dbselect.doors.cli.command import Command, Options, Parser
from dbselect.doors.cli.out import TABLES, write_frame


def _add(parser: Parser) -> None:
    text = "Parquet file with a column 'sequence', as anytime_sequence_by returns it"
    parser.add_argument("sequences", help=text)
    text = "limit on the mean cost of a row"
    parser.add_argument("--budget", type=float, required=True, help=text)
    parser.add_flags({
        "rows": "column with the rows of each segment",
        "worth": "column with what the whole variance of a row is worth; default: 1",
    })  # fmt: skip
    parser.add_out("the table, without the sequences,", TABLES)


def _run(options: Options) -> None:
    import polars as pl

    from dbselect.doors.printing import plain_rows, table_text
    from dbselect.errors import SourceError
    from dbselect.results.allocation import allocate

    try:
        sequences = pl.read_parquet(options.sequences)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SourceError(f"'{options.sequences}' is no Parquet file that can be read") from error
    found = allocate(sequences, options.budget, **options.given(("rows", "worth")))
    table = found.table.drop("sequence")
    write_frame(table, options.out)
    totals = {"value": found.value, "spent": found.spent, "bound": found.bound}
    options.tell([table_text(table), f"{found!r}."], {**totals, "rows": plain_rows(table)})


COMMAND = Command(_add, _run)

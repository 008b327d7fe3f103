"""``dbselect svmlight``: convert files of learning to rank to Parquet."""

from dbselect.doors.cli.command import Command, Options, Parser
from dbselect.doors.cli.out import STDOUT
from dbselect.errors import ArgumentError


def _add(parser: Parser) -> None:
    parser.add_argument("source", nargs="+", help="files or globs; .gz are read as well")
    parser.add_argument("--out", required=True, metavar="FILE", help="Parquet file to write")
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")
    parser.set_defaults(endings=(".parquet",))
    parser.add_flags({"features": "largest number of a feature; default: found"}, type=int)
    text = "one field of entries for all features, as sequence --gram lazy reads it"
    parser.add_flags({"entries": text}, metavar="FIELD")


def _run(options: Options) -> None:
    import pyarrow.parquet as pq

    from dbselect.sources.engines.sparse import svmlight_to_parquet

    if options.out == STDOUT:
        raise ArgumentError(
            "--out is '-'; a Parquet file cannot be written to standard output: give a file name"
        )
    arguments = options.given(("features", "entries"))
    svmlight_to_parquet(options.source, options.out, **arguments)
    schema, rows = pq.read_schema(options.out), pq.read_metadata(options.out).num_rows
    contents: dict[str, int | str] = {"features": len(schema) - 2}
    description = f"{len(schema) - 2:,} features"
    if "entries" in arguments:
        contents = {"entries": arguments["entries"]}
        description = f"features in field '{arguments['entries']}'"
    line = f"{options.out}: {rows:,} documents, {description}, query and relevance"
    options.tell([line], {"path": options.out, "rows": rows, **contents})


COMMAND = Command(_add, _run)

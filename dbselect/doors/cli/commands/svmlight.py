"""``dbselect svmlight``: files of learning to rank, written as a Parquet file."""

import argparse

from dbselect.doors.cli.arguments import add_flags, options_given
from dbselect.doors.cli.command import Command
from dbselect.doors.cli.out import STDOUT, tell
from dbselect.errors import ArgumentError


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", nargs="+", help="files or globs; .gz are read as well")
    parser.add_argument("--out", required=True, metavar="FILE", help="Parquet file to write")
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")
    parser.set_defaults(endings=(".parquet",))
    add_flags(parser, {"features": "largest number of a feature; default: found"}, type=int)
    told = "one field of entries for all features, as sequence --gram lazy reads it"
    add_flags(parser, {"entries": told}, metavar="FIELD")


def _run(options: argparse.Namespace) -> None:
    import pyarrow.parquet as pq

    from dbselect.sources.engines.svmlight import svmlight_to_parquet

    if options.out == STDOUT:
        raise ArgumentError(
            "--out is '-'; a Parquet file cannot be written to standard output: give a file name"
        )
    given = options_given(options, ("features", "entries"))
    svmlight_to_parquet(options.source, options.out, **given)
    schema, rows = pq.read_schema(options.out), pq.read_metadata(options.out).num_rows
    told: dict[str, int | str] = {"features": len(schema) - 2}
    what = f"{len(schema) - 2:,} features"
    if "entries" in given:
        told = {"entries": given["entries"]}
        what = f"features in field '{given['entries']}'"
    line = f"{options.out}: {rows:,} documents, {what}, query and relevance"
    tell(options, [line], {"path": options.out, "rows": rows, **told})


COMMAND = Command(_add, _run)

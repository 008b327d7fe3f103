"""``dbselect gram``: read a table once and write its record."""

import argparse

from dbselect.doors.cli.arguments import UNSET, add_null_policy, options_given
from dbselect.doors.cli.command import Command


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="Parquet file, folder or glob")
    parser.add_argument("--out", required=True, help="Parquet file to write")
    parser.add_argument(
        "--columns", default=UNSET, nargs="+", help="names and globs; default: every numeric one"
    )
    parser.add_argument("--weight", default=UNSET, help="column of row weights")
    add_null_policy(parser)
    parser.add_argument(
        "--categories",
        default=UNSET,
        nargs="+",
        help="columns whose levels become columns of 0 and 1",
    )
    parser.add_argument(
        "--max-levels", default=UNSET, type=int, help="levels with a column of their own"
    )


def _run(options: argparse.Namespace) -> None:
    from dbselect.sources.read import gram

    names = ("columns", "weight", "null_policy", "categories", "max_levels")
    found = gram(options.source, **options_given(options, names))
    found.write_parquet(options.out)
    print(
        f"{options.out}: {len(found.columns)} columns, {found.rows:,} rows, "
        f"{found.skipped:,} skipped"
    )
    for name, rows in found.missing.items():
        print(f"{name}: missing in {rows:,} rows")


COMMAND = Command(_add, _run)

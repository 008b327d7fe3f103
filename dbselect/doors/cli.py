"""The command line: ``dbselect gram`` and ``dbselect sequence``."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from dbselect.anytime import anytime_sequence
from dbselect.errors import ArgumentError, DbselectError, SourceError
from dbselect.files import replacing
from dbselect.gram import Gram
from dbselect.selection.criteria import RULES
from dbselect.sources.read import gram


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, or 2 after one sentence about a user's mistake."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except (DbselectError, OSError) as error:
        print(f"dbselect: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("dbselect: interrupted", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dbselect", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("gram", help="read a table once and write its Gram record")
    command.set_defaults(command=_gram)
    command.add_argument("source", help="Parquet file, folder or glob")
    command.add_argument("--out", required=True, help="Parquet file to write")
    command.add_argument("--columns", nargs="+", help="names and globs; default: every numeric one")
    command.add_argument("--weight", help="column of row weights")

    command = commands.add_parser("sequence", help="order groups of columns by gain per cost")
    command.set_defaults(command=_sequence)
    command.add_argument("source", help="Parquet file, folder or glob, or what 'gram' wrote")
    command.add_argument("--target", required=True, help="column to predict")
    command.add_argument("--groups", help="JSON file: name -> list of columns or globs")
    command.add_argument("--costs", help="JSON file: name -> cost")
    command.add_argument("--rule", default="fr", choices=list(RULES))
    command.add_argument("--ridge", type=float, default=0.0)
    command.add_argument("--budget", type=float, help="limit on the summed cost")
    command.add_argument("--max-groups", type=int)
    command.add_argument("--always", nargs="+", default=[], help="groups to take first")
    command.add_argument("--out", help="Parquet file to write the steps to")
    return parser


def _gram(options: argparse.Namespace) -> None:
    result = gram(options.source, options.columns, options.weight)
    result.write_parquet(options.out)
    print(
        f"{options.out}: {len(result.columns)} columns, {result.rows:,} rows, "
        f"{result.skipped:,} skipped"
    )


def _sequence(options: argparse.Namespace) -> None:
    groups, costs = _read_json(options.groups, "--groups"), _read_json(options.costs, "--costs")
    sequence = anytime_sequence(
        _open(options.source),
        options.target,
        groups,
        costs,
        rule=options.rule,
        ridge=options.ridge,
        budget=options.budget,
        max_groups=options.max_groups,
        always=options.always,
    )
    if options.out is not None:
        with replacing(options.out) as path:
            sequence.steps.write_parquet(path)
    _print_table(sequence.steps)
    print(f"{sequence.stop.value}.")
    if sequence.aliased:
        print(f"Linearly dependent, coefficient 0: {', '.join(sequence.aliased)}.")
    if sequence.unused:
        print(f"In no group: {', '.join(sequence.unused)}.")


def _open(source: str) -> Any:
    """Return the Gram of a file that holds nothing else, or the path of a table."""
    path = Path(source)
    if path.is_file():
        try:
            if pq.read_schema(path).names == ["gram"]:
                return Gram.read_parquet(path)
        except OSError as error:
            raise SourceError(f"cannot read '{source}' as Parquet: {error}") from None
    return source


def _read_json(path: str | None, option: str) -> Any:
    if path is None:
        return None
    try:
        return json.loads(Path(path).read_text())
    except ValueError as error:
        raise ArgumentError(f"{option}: '{path}' is not JSON: {error}") from None


def _print_table(steps: pl.DataFrame) -> None:
    with pl.Config(
        tbl_rows=-1,
        tbl_cols=-1,
        tbl_width_chars=120,
        tbl_hide_dataframe_shape=True,
        tbl_hide_column_data_types=True,
        tbl_formatting="UTF8_BORDERS_ONLY",
        float_precision=4,
    ):
        print(steps.select("step", "action", "group", "cost", "spent", "gain", "r2", "useful"))


if __name__ == "__main__":
    sys.exit(main())

"""``dbselect extension``: where the DuckDB extension lies, and how each client loads it."""

import argparse
from pathlib import Path

from dbselect.doors.cli.command import Command


def _add(parser: argparse.ArgumentParser) -> None:
    from dbselect.doors.extension import FILE_NAME

    parser.add_argument("--out", help="file to copy it to; it must be called " + FILE_NAME)
    parser.add_argument(
        "--platform", help="as PRAGMA platform of the client says; default: this machine's"
    )


def _run(options: argparse.Namespace) -> None:
    from dbselect.doors.extension import (
        LOWEST_DUCKDB,
        copied,
        extension_path,
        loading,
        platform_of_this_machine,
    )

    platform = options.platform or platform_of_this_machine()
    path = extension_path(platform)
    if options.out is not None:
        path = copied(path, Path(options.out))
    print(f"The DuckDB extension for {platform}, DuckDB {LOWEST_DUCKDB} or newer:\n{path}\n")
    for client, lines in loading(path).items():
        print(f"{client}\n    " + "\n    ".join(lines))


COMMAND = Command(_add, _run)

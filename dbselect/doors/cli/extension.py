"""``dbselect extension``: the path of the DuckDB extension, and how clients load it."""

from pathlib import Path

from dbselect.doors.cli.command import Command, Options, Parser
from dbselect.doors.cli.out import ANY


def _add(parser: Parser) -> None:
    parser.add_argument(
        "--out", metavar="FILE", help="file or folder to copy it to, under its own name"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for other programs")
    parser.set_defaults(endings=ANY)
    parser.add_argument("--platform", help="the client's PRAGMA platform; default: this machine's")


def _run(options: Options) -> None:
    from dbselect.doors.extension import (
        LOWEST_DUCKDB,
        copied,
        lasting_path,
        loading,
        platform_of_this_machine,
    )

    platform = options.platform or platform_of_this_machine()
    path = lasting_path(platform)
    if options.out is not None:
        path = copied(path, Path(options.out))
    clients = loading(path)
    lines = [f"The DuckDB extension for {platform}, DuckDB {LOWEST_DUCKDB} or newer:\n{path}\n"]
    lines += [f"{client}\n    " + "\n    ".join(code) for client, code in clients.items()]
    facts = {"path": path, "platform": platform, "lowest_duckdb": LOWEST_DUCKDB}
    options.tell(lines, {**facts, "loading": clients})


COMMAND = Command(_add, _run)

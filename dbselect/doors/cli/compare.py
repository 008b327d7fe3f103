"""``dbselect compare``: compare the timeliness of several sequences."""

from pathlib import Path
from typing import Any

from dbselect.doors.cli.command import SOURCE, Command, Options, Parser
from dbselect.doors.cli.out import TABLES, write_frame
from dbselect.errors import ArgumentError


def _add(parser: Parser) -> None:
    parser.add_argument(
        "sequences",
        nargs="+",
        metavar="[NAME=]FILE",
        help="files that 'sequence --out' wrote; without a name they are called as the file",
    )
    texts = {
        "reference": "whose stopping cost cuts all",
        "data": f"to judge on other rows: {SOURCE}",
        "weight": "of the data: column of row weights",
    }
    parser.add_flags(texts)
    parser.add_flags({"fraction": "0 to 1; default: plateau"}, type=float)
    parser.add_out("the table", TABLES)


def _run(options: Options) -> None:
    from dbselect.doors.cli.stored import stored_sequence
    from dbselect.doors.printing import plain_rows, table_text
    from dbselect.validation.timeliness import compare

    paths: dict[str, str] = {}
    for text in options.sequences:
        # A file name may contain "=".
        name, equals, path = text.partition("=")
        if not equals or Path(text).exists():
            name, path = Path(text).stem, text
        if name in paths:
            raise ArgumentError(f"two sequences are called '{name}'; give names: a={text}")
        paths[name] = path
    arguments = options.given(("reference", "fraction", "data", "weight"))
    comparison: Any = compare(
        {name: stored_sequence(path) for name, path in paths.items()}, **arguments
    )
    write_frame(comparison.table, options.out)
    lines = [table_text(comparison.table), f"Cut at cost {comparison.cut:g}."]
    options.tell(lines, {"cut": comparison.cut, "sequences": plain_rows(comparison.table)})


COMMAND = Command(_add, _run)

"""``dbselect refit``: fit a stored sequence or model to other rows."""

from typing import Any

from dbselect.doors.cli.command import Command, Options, Parser
from dbselect.doors.cli.out import RECORDS, write_record


def _add(parser: Parser) -> None:
    parser.add_argument("sequence", help="file that 'sequence --out' wrote, or of a stored model")
    parser.add_source()
    parser.add_max_skipped()
    parser.add_out("what was fitted", RECORDS, required=True)


def _run(options: Options) -> None:
    from dbselect.doors.cli.stored import source_of, stored_model

    model: Any = stored_model(options.sequence, {}).refit(source_of(options.source))
    start = model.model(0) if hasattr(model, "steps") else model
    options.check_skipped(start.rows, start.skipped)
    write_record(model, options.out)
    facts = {"result": repr(model), "rows": start.rows, "skipped": start.skipped}
    options.tell([f"{model!r}."], facts)


COMMAND = Command(_add, _run)

"""``dbselect sql``: the prediction of a sequence or a model as the text of an SQL expression."""

from dbselect.doors.cli.command import Command, Options, Parser
from dbselect.doors.cli.out import STDOUT


def _add(parser: Parser) -> None:
    parser.add_prediction()
    parser.add_flags({"dialect": "default: duckdb; others need sqlglot"})
    parser.add_flags({"booleans": "columns of BOOLEAN; needed in PostgreSQL"}, nargs="+")
    parser.add_argument("--out", metavar="FILE", help="file to write; default: standard output")
    parser.set_defaults(endings=(), json=False)


def _run(options: Options) -> None:
    from dbselect.doors.cli.stored import stored_model
    from dbselect.record.files import replacing

    arguments = options.given(("budget", "dialect", "handle_unknown", "booleans"))
    text = stored_model(options.sequence, arguments).sql(**arguments)
    if options.out in (None, STDOUT):
        print(text)
        return
    with replacing(options.out) as path:
        path.write_text(text + "\n", encoding="utf-8")


COMMAND = Command(_add, _run)

"""``dbselect drift``: compare two sets of rows."""

from dbselect.doors.cli.command import SOURCE, Command, Options, Parser
from dbselect.doors.cli.method import add_method
from dbselect.doors.cli.out import TABLES, write_frame
from dbselect.errors import ArgumentError

#: The tables of a `Drift`, values of ``--table``.
_TABLES = ("worth", "columns", "correlations", "groups", "sequence", "coefficients")


def _add(parser: Parser) -> None:
    parser.add_argument(
        "before", help=f"{SOURCE}; a Gram; or a sequence that 'sequence --out' wrote, with its rows"
    )
    parser.add_argument("after", help="the same of other rows: a table or a Gram")
    parser.add_problem(
        fields=("weight", "intercept", "ridge", "null_policy", "always"), needed=False
    )
    add_method(parser, "anytime_sequence", judged=False)
    parser.add_flags({"table": f"which table to print or write: {', '.join(_TABLES)}"})
    parser.add_out("the table", TABLES)


def _run(options: Options) -> None:
    from dbselect.doors.cli.method import method_options
    from dbselect.doors.cli.stored import sequence_or_source
    from dbselect.doors.printing import plain_rows, table_text
    from dbselect.options.kinds import one_of
    from dbselect.problem.several import drift
    from dbselect.results.prefixes import Prefixes

    name = options.given(("table",)).get("table", _TABLES[0])
    one_of(_TABLES).check("--table", name)
    before = sequence_or_source(options.before)
    fields = options.fields()
    if not isinstance(before, Prefixes) and not fields["target"]:
        raise ArgumentError("--target is missing; only a sequence has one of its own")
    fields = {name: value for name, value in fields.items() if value}
    search_options = method_options("anytime_sequence", options)
    result = drift(before, sequence_or_source(options.after), **fields, **search_options)
    table = getattr(result, name)
    write_frame(table, options.out)
    options.tell([table_text(table), f"{result!r}."], {name: plain_rows(table)})


COMMAND = Command(_add, _run)

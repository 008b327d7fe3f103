"""``dbselect report``: a sequence as one page of HTML."""

from dbselect.doors.cli.command import Command, Options, Parser
from dbselect.doors.cli.method import add_method, cross_validated, run_method
from dbselect.doors.cli.out import ANY

_METHOD = "anytime_sequence"


def _add(parser: Parser) -> None:
    parser.add_source()
    parser.add_problem()
    add_method(parser, _METHOD)
    parser.add_max_skipped()
    parser.add_argument("--title", help="title of the page")
    parser.add_argument("--unit", default="", help="unit of the costs, such as €")
    text = "what all of the target's variance is worth: adds the price up to which each group pays"
    parser.add_argument("--worth", type=float, help=text)
    parser.add_out("the page of HTML", ANY, required=True)


def _run(options: Options) -> None:
    from dbselect.doors.cli.stored import source_of
    from dbselect.results.report.write import check_page
    from dbselect.sources.open import stored_gram

    check_page(options.out)
    source = source_of(options.source)
    table = None if stored_gram(source) is not None else source
    problem = options.problem(source)
    held_out = cross_validated(problem, _METHOD, options)
    sequence = run_method(problem, _METHOD, options)
    start = sequence.model(0)
    options.check_skipped(start.rows, start.skipped)
    sequence.report(
        options.out, source=table, held_out=held_out, title=options.title, unit=options.unit,
        worth=options.worth,
    )  # fmt: skip
    steps, stop = len(sequence.spent) - 1, sequence.stop.value
    lines = [f"{options.out}: {steps} steps, {stop}"]
    if table is None:
        lines.append("Residuals and calibration need the table; this was a Gram.")
    facts = {"steps": steps, "stop": stop, "rows": start.rows, "skipped": start.skipped}
    options.tell(lines, {**facts, "has_residuals": table is not None})


COMMAND = Command(_add, _run)

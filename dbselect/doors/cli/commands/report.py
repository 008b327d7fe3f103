"""``dbselect report``: a sequence as one page of HTML."""

import argparse

from dbselect.doors.cli.arguments import add_problem, add_source
from dbselect.doors.cli.command import Command
from dbselect.doors.cli.commands.method import add_method, answer_asked, cross_validated, problem_of
from dbselect.doors.cli.exits import add_max_skipped, check_skipped
from dbselect.doors.cli.out import ANY, add_out, tell

_METHOD = "anytime_sequence"


def _add(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_problem(parser)
    add_method(parser, _METHOD)
    add_max_skipped(parser)
    parser.add_argument("--title", help="title of the page")
    parser.add_argument("--unit", default="", help="unit of the costs, such as €")
    add_out(parser, "the page of HTML", ANY, required=True)


def _run(options: argparse.Namespace) -> None:
    from dbselect.doors.cli.stored import source_of
    from dbselect.results.report.write import check_page
    from dbselect.sources.open import stored_gram

    check_page(options.out)
    source = source_of(options.source)
    table = None if stored_gram(source) is not None else source
    problem = problem_of(source, options)
    held_out = cross_validated(problem, _METHOD, options)
    sequence = answer_asked(problem, _METHOD, options)
    start = sequence.model(0)
    check_skipped(options, start.rows, start.skipped)
    sequence.report(
        options.out, source=table, held_out=held_out, title=options.title, unit=options.unit
    )
    steps, stop = len(sequence.spent) - 1, sequence.stop.value
    lines = [f"{options.out}: {steps} steps, {stop}"]
    if table is None:
        lines.append("Residuals and calibration need the table; this was a Gram.")
    facts = {"steps": steps, "stop": stop, "rows": start.rows, "skipped": start.skipped}
    tell(options, lines, {**facts, "has_residuals": table is not None})


COMMAND = Command(_add, _run)

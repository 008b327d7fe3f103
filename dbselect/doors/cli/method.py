"""``dbselect <method>``: a method of a problem, with its options and fields as flags."""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from dbselect.doors.cli.command import Command, Options, Parser
from dbselect.doors.cli.out import RECORDS, TABLES, write_frame
from dbselect.errors import ArgumentError, SourceError
from dbselect.options.kinds import SPLITS
from dbselect.options.option import Option
from dbselect.spec.methods import CHOOSING, JUDGED, METHODS

if TYPE_CHECKING:
    import polars as pl

    from dbselect.problem.problem import Problem
    from dbselect.validation.cross_validation import CrossValidation

#: Methods that run another method, and accept its options.
_OF_OTHERS = ("cross_validate", "stability")


def command_of(name: str) -> Command:
    """Return the command of a method."""

    def add(parser: Parser) -> None:
        parser.add_source()
        parser.add_problem()
        add_method(parser, name)
        parser.add_max_skipped()
        if METHODS[name].returns == "sequence":
            parser.add_out("the sequence", RECORDS)
        else:
            parser.add_out("the table", TABLES)

    return Command(add, partial(_run, name))


def add_method(parser: Parser, name: str, *, judged: bool = True) -> None:
    """Add the options of a method; with `judged` also --resume and --cv."""
    for key, option in _options_of(name).items():
        parser.add_option(key, option)
    if name == "anytime_sequence" and judged:
        text = "go on from what a search with --gram lazy wrote"
        parser.add_flags({"resume": text}, metavar="FILE")
    if name in _OF_OTHERS:
        parser.add_argument("--method", default="anytime_sequence", help="method that is judged")
    if name in JUDGED and judged:
        text = "cut the table into so many folds, or by a column, for r2 on held-out rows"
        parser.add_flags({"cv": text}, type=SPLITS.parse, metavar="FOLDS")


def _options_of(name: str) -> Mapping[str, Option]:
    tables = [METHODS[method].known for method in CHOOSING if name in _OF_OTHERS]
    of_others = {key: option for table in tables for key, option in table.items()}
    # The options of other methods are optional, as each belongs to some methods only.
    optional = {key: Option(None, one.kind, one.text) for key, one in of_others.items()}
    return {**optional, **METHODS[name].known}


def run_method(problem: "Problem", name: str, options: Options) -> Any:
    """Run a method with the options of the command line."""
    arguments = method_options(name, options)
    if name in _OF_OTHERS:
        arguments["method"] = options.method
    return getattr(problem, name)(**arguments)


def cross_validated(problem: "Problem", name: str, options: Options) -> "CrossValidation | None":
    """Return the scores of a method on held-out rows, None without ``--cv``."""
    from dbselect.sources.open import stored_gram

    if getattr(options, "cv", None) is None:
        return None
    if stored_gram(problem.source) is not None:
        raise ArgumentError(
            f"--cv is {options.cv}; a Gram has no rows to divide into folds: give the table"
        )
    return problem.cross_validate(name, folds=options.cv, **method_options(name, options))


def method_options(name: str, options: Options) -> dict[str, Any]:
    """Return the given options of a method."""
    from dbselect.doors.cli.stored import stored_sequence

    given = options.given([*_options_of(name), "grid"])
    if "resume" in given:
        try:
            given["resume"] = stored_sequence(given["resume"])
        except SourceError as error:
            raise SourceError(f"--resume: {error}") from None
    return given


def _run(name: str, options: Options) -> None:
    from dbselect.doors.cli.stored import source_of
    from dbselect.doors.printing import show

    problem = options.problem(source_of(options.source))
    held_out = cross_validated(problem, name, options)
    scores = None if held_out is None else _scores(held_out)
    result = run_method(problem, name, options)
    if METHODS[name].returns == "sequence":
        show(options, result, "In no group", scores)
    else:
        _show(name, options, result, scores)


def _scores(held_out: "CrossValidation") -> "pl.DataFrame":
    names = ["step", "spent", "r2", "r2_std_error", "mse", "deviance", "accuracy"]
    kept = [name for name in names if held_out.table[name].count()]
    return held_out.table.select(*kept, "best", "one_standard_error")


def _show(name: str, options: Options, result: Any, scores: "pl.DataFrame | None") -> None:
    """Check, write and print a result without a sequence: a line, and its table."""
    from dbselect.doors.printing import plain_rows, table_text
    from dbselect.results.selected import model_in

    model = model_in(result)
    if hasattr(model, "skipped"):
        options.check_skipped(model.rows, model.skipped)
    is_table = METHODS[name].returns == "table"
    table = result if is_table else result._glance.table
    write_frame(table, options.out)
    lines = [table_text(table), *([] if is_table else [f"{result!r}."])]
    facts: dict[str, Any] = {"rows": plain_rows(table)}
    if not is_table:
        facts = {"result": repr(result), **facts}
    if scores is not None:
        lines += ["On held-out rows:", table_text(scores)]
        facts["held_out"] = plain_rows(scores)
    options.tell(lines, facts)

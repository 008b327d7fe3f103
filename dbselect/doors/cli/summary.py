"""``dbselect summary``: least squares on named columns, and how sure each coefficient is."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from dbselect.doors.cli.command import SEVERAL, Command, Options, Parser
from dbselect.doors.cli.out import TABLES, write_frame
from dbselect.pages.summary import test_text

if TYPE_CHECKING:
    import polars as pl

    from dbselect.results.model import Model
    from dbselect.validation.robust import RobustErrors

#: Columns to print, which fit into a terminal.
_SHOWN = ("term", "estimate", "std_error", "p_value", "low", "high", "standardized", "vif")
#: Fields of the problem, and options of `robust_errors`.
_FIELDS = ("weight", "intercept", "null_policy", "rows", "seed")
_ROBUST = ("cov_type", "cluster", "time", "maxlags")


def _add(parser: Parser) -> None:
    parser.add_source()
    parser.add_problem(fields=_FIELDS)
    parser.add_flags({"columns": "names and globs; default: all"}, **SEVERAL)
    parser.add_argument("--level", default=0.95, type=float, help="of the intervals; default 0.95")
    texts = {
        "cov-type": "HC0, HC1, HC2 or HC3, by one more pass over the rows",
        "time": "column of the order of rows, for HAC",
    }
    parser.add_flags(texts)
    text = "column whose values are clusters, or two, by one more pass"
    parser.add_flags({"cluster": text}, nargs="+")
    parser.add_flags({"maxlags": "times back that count for HAC"}, type=int)
    parser.add_max_skipped()
    parser.add_out("the table of terms", TABLES)


def _run(options: Options) -> None:
    from dbselect.doors.cli.stored import source_of
    from dbselect.doors.printing import plain_rows, table_text
    from dbselect.options.kinds import SHARE
    from dbselect.validation.robust import check_kind

    SHARE.check("--level", options.level)
    robust = options.given(_ROBUST)
    check_kind(*(robust.get(name) for name in _ROBUST[:3]))
    source = source_of(options.source)
    problem = options.problem(source)
    model = cast("Model", problem.fit(**options.given(("columns",))))
    options.check_skipped(model.rows, model.skipped)
    errors = None
    if robust:
        errors = model.robust_errors(source, **robust)
    table = _terms(model, errors, options.level)
    write_frame(table, options.out)
    # The F test assumes errors of equal variance, which robust errors do not.
    test = model.f_test() if errors is None else None
    facts = {
        "rows": model.rows,
        "skipped": model.skipped,
        "r2": model.r2,
        "condition_number": model.condition_number,
        "f_test": None if test is None else plain_rows(test)[0],
        "cov_type": "nonrobust" if errors is None else errors.cov_type,
        "clusters": None if errors is None else errors.clusters,
        "terms": plain_rows(table),
    }
    options.tell([table_text(table.select(_SHOWN)), *_lines(model, errors, test)], facts)


def _terms(model: "Model", errors: "RobustErrors | None", level: float) -> "pl.DataFrame":
    """Return one row per term: estimate, errors, interval, and dependence on other columns."""
    result: Any = model if errors is None else errors
    columns = model.vif().join(model.partial_correlations(), on="column")
    frames = (
        result.intervals(level).select("term", "low", "high"),
        model.summary().select("term", "standardized"),
        columns.select("vif", "partial", term="column"),
    )
    table: pl.DataFrame = result.summary().select(
        "term", "estimate", "std_error", "statistic", "p_value"
    )
    for frame in frames:
        table = table.join(frame, on="term", how="left", maintain_order="left")
    return table


def _lines(
    model: "Model", errors: "RobustErrors | None", test: "pl.DataFrame | None"
) -> Iterator[str]:
    f_test = ""
    if test is not None and test["statistic"][0] is not None:
        df, free, statistic, p_value = test.row(0)
        f_test = f", F({df}, {free:,}) {test_text(statistic, p_value)}"
    yield f"r2 {model.r2:.4f}{f_test}; condition number {model.condition_number:,.4g}."
    if errors is not None:
        clusters = "" if errors.clusters is None else f", {errors.clusters:,} clusters"
        yield f"Standard errors: {errors.cov_type}{clusters}."
    yield f"{model.rows:,} rows, {model.skipped:,} skipped."
    if model.aliased:
        yield f"Dependent on others: {', '.join(model.aliased)}."


COMMAND = Command(_add, _run)

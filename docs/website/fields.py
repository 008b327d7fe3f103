"""The page of the fields of a problem: which method takes which field, at which door, or why not.

Made from the tables that the calls themselves read: ``python docs/website/fields.py`` writes
``docs/fields.md``, and ``tests/problem/test_fields.py`` runs every cell.
"""

from collections.abc import Iterator
from pathlib import Path

from dbselect.options.option import options_of
from dbselect.spec.fields import ProblemOptions
from dbselect.spec.methods import METHODS, OF_RECORDS
from dbselect.spec.refusals import REFUSED

PAGE = Path(__file__).parents[1] / "fields.md"
FIELDS = list(options_of(ProblemOptions))
#: Calls beside the methods of a problem.
OTHERS = ["drift", "anytime_tables", "predictor", "coverage"]
#: Fields that only rows of a family have.
OF_FAMILIES = ("offset", "exposure", "positive")

#: What a method reads -> what happens by engine; a word of `ENGINES_SAY` or a sentence.
READS = {
    "sums": ("here", "once", "there", "there"),
    "folds": ("here", "once", "here, warned", "there"),
    "draws": ("here", "once", "here, warned", "here, warned"),
    "passes": ("here", "refused", "here, warned", "there"),
    "rows": ("here", "once", "here, warned", "here, warned"),
}
ENGINES = (
    "Polars, DuckDB, files, Arrow, pandas, Daft", "a stream that is read once",
    "ibis, elsewhere", "Spark, Dask, Ray",
)  # fmt: skip
#: What methods of Grams read, but for those that read sums; and of families and lazy searches.
OF_GRAMS = {"cross_validate": "folds", "stopped_sequence": "folds", "stability": "draws"}
OF_PASSES = ("anytime_sequence", "fit", "cross_validate")

HEAD = """# Fields of a problem, by method and door

A [problem](calls.md) carries everything that is asked about the data. Every method takes every
field, or refuses it in one sentence, the same in Python (`ds.foba(table, "y", ...)`,
`ds.Problem(...).foba()`), on frames of Polars (`lf.dbselect.foba("y", ...)`) and on the command
line (`dbselect foba ...`).
This page is made from the tables that the calls read, and a test runs every cell.
"""


def reason_of(method: str, field: str) -> str | None:
    """Return why a method refuses a field, as a template; None where it takes it."""
    reasons = REFUSED[method]
    return reasons.get("family" if field in OF_FAMILIES else field)


def reads(method: str, kind: str) -> str | None:
    """Return what a method reads: of a Gram, of a ``"family"`` or ``"lazy"``; None if refused."""
    if kind == "gram":
        return OF_GRAMS.get(method, "sums")
    if reason_of(method, {"lazy": "gram"}.get(kind, kind)) is not None:
        return None
    if method == "stopped_sequence":
        return "folds"
    return "passes" if kind == "lazy" or method in OF_PASSES else "rows"


def of_engines() -> Iterator[str]:
    """Yield the lines of what methods read, and what becomes of that by engine."""
    yield from ('| | least squares | another `family` | `gram="lazy"` |', "|---|---|---|---|")
    lines: dict[tuple[str, ...], list[str]] = {}
    for method in METHODS:
        cells = tuple(reads(method, kind) or "refused" for kind in ("gram", "family", "lazy"))
        lines.setdefault(cells, []).append(f"`{method}`")
    for cells, names in lines.items():
        yield f"| {', '.join(names)} | {' | '.join(cells)} |"
    yield from ("", f"| | {' | '.join(ENGINES)} |", "|---" * (len(ENGINES) + 1) + "|")
    for kind, cells in READS.items():
        yield f"| {kind} | {' | '.join(cells)} |"


def of_tables(methods: list[str], fields: list[str]) -> Iterator[str]:
    """Yield the lines of a table of methods and fields, and then the reasons."""
    numbers: dict[str, int] = {}
    yield f"| | {' | '.join(f'`{one}`' for one in fields)} |"
    yield "|---" * (len(fields) + 1) + "|"
    for method in methods:
        cells = []
        for field in fields:
            reason = reason_of(method, field)
            if reason is not None:
                number = numbers.setdefault(reason, len(numbers) + 1)
            cells.append("yes" if reason is None else f"[{number}]")
        yield f"| `{method}` | {' | '.join(cells)} |"
    yield ""
    for reason, number in numbers.items():
        told = reason.format(method="the method")
        yield f"{number}. {told[0].upper()}{told[1:]}."


def page() -> str:
    """Return the page as Markdown."""
    known = options_of(ProblemOptions)
    engine = [name for name, option in known.items() if option.in_engines]
    rows = [name for name in FIELDS if name not in engine]
    lines = [HEAD, "## Of a table: Python, frames, command line", ""]
    lines += of_tables([*METHODS, *OTHERS], ["target", *FIELDS])
    lines += [
        "",
        "`target` means a list of several responses. A Gram holds no rows: of one all methods take "
        f"{_listed(engine)}, and refuse the others in a sentence that names the call of the table.",
        "", "## Of an engine", "",
        "A method reads sums of a table, those of its folds, draws of its rows, passes over it, or "
        "rows that it holds:", "", *of_engines(), "",
        "*There* is where the rows lie: in SQL, or by the workers. *Here, warned* has rows pass "
        "into this process, with a `DriverWarning` where they are of ibis or Spark. A stream gives "
        "its rows *once*, so that the levels of a text must be given; to read it again is refused.",
        "", "## Of a Gram record: SQL and expressions of Polars", "",
        "`SELECT foba(record, 'y', ridge := 1)` and "
        '`pl.col("gram").dbselect.foba("y", ridge=1.0)` take '
        f"{_listed(engine)}. A record holds no rows, and {_listed(rows)} are refused: "
        "\"family is 'binomial'; a record holds no rows: "
        "dbselect.foba(table, ..., family='binomial') reads a table\".",
        "",
    ]  # fmt: skip
    records = [name for name in OF_RECORDS if name in REFUSED]
    lines += of_tables(records, engine)
    lines += [
        "",
        "`summary` and `f_test` refuse a `ridge`: standard errors are those of least squares, at "
        "ridge 0.",
        "",
        "In SQL `anytime_sequence_glm(table, target, family)` takes every field but `gram` and "
        "`terms`, and `anytime_sequence_wide(table, target)` those of the linear model with an "
        "intercept, as both read a table by its name.",
        "", "## Estimators for scikit-learn", "",
        "`X`, `y` and `sample_weight` stand for source, target and weight. `groups`, `costs`, "
        "`ridge`, `scale` and `fit_intercept` are parameters of every estimator, `always` of all "
        "but `SGHTSelector`, `family` of `AnytimeRegressor` and `AnytimeClassifier`, whose "
        "`classes_` say what counts as 1. `null_policy` is `\"indicator\"` by default: a column "
        "with gaps has an indicator. `handle_unknown=\"mean\"`, the default, predicts a level or a "
        "first gap that the fit has not seen with means of the fit; `max_levels` limits the levels "
        "of text.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _listed(names: list[str]) -> str:
    *most, last = (f"`{name}`" for name in names)
    return f"{', '.join(most)} and {last}"


if __name__ == "__main__":
    PAGE.write_text(page())

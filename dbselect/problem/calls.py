"""The methods of a problem as calls of one line: each makes the problem and asks it once.

Editors and type checkers read the stub beside this file, which ``release/stub.py`` writes.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from dbselect.options.names import PROBLEM_FIELDS
from dbselect.options.option import check_known, options_of, shows
from dbselect.problem.problem import Problem
from dbselect.spec.fields import FIRST, GRID, METHOD, OF_METHOD, ProblemOptions
from dbselect.spec.methods import METHODS
from dbselect.spec.options import CoverageOptions

#: Docstring lines of what a call takes by its place beside `FIRST`.
LINES = {
    "budget": "budget : limit on the summed cost, >= 0",
    "columns": "columns : names and globs; default: all columns of the groups",
    "method": METHOD,
    "grid": GRID,
}
#: Docstring line of a source of `cross_validate`.
TABLE_OR_FOLDS = (
    "source : table, with `folds`; or records of folds, as `gram_by` returns them: a frame "
    "with the columns ``fold`` and ``gram``, others being keys of segments, or a list of Grams"
)


def one_line(
    name: str, *placed: str, options: type | None = None, source: str = FIRST[0]
) -> Callable[..., Any]:
    """Return the call of one line of a method, whose other options are of a table.

    It takes source, target, the parameters of the method that are `placed`, groups and costs by
    their places, and all else by name.
    """
    method: Callable[..., Any] = getattr(Problem, name)
    table = options or METHODS[name].options
    own = {
        each.name: each
        for each in list(inspect.signature(method).parameters.values())[1:]
        if each.kind is each.POSITIONAL_OR_KEYWORD
    }
    # One that takes the options of another method checks them itself.
    is_open = "options" in inspect.signature(method).parameters
    known = [*own, *options_of(table), *PROBLEM_FIELDS, "groups", "costs"]

    def call(*values: Any, **named: Any) -> Any:
        given = signature.bind(*values, **named)
        if not is_open:
            check_known(name, given.arguments.get("options", {}), known)
        given.apply_defaults()
        taken = given.arguments
        fields, others = apart(taken.pop("options"))
        if isinstance(taken["groups"], str) and "key" in options_of(table):
            # As scikit-learn calls the groups of rows that stay together.
            others["key"], taken["groups"] = taken["groups"], None
        problem = Problem(*(taken.pop(each) for each in _OF_PROBLEM), **fields)
        return method(problem, **taken, **others)

    signature = inspect.Signature([
        inspect.Parameter("source", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *(_with_default(own.get(each), each) for each in ("target", *placed, "groups", "costs")),
        *(each.replace(kind=each.KEYWORD_ONLY) for each in own.values() if each.name not in placed),
        inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD),
    ])  # fmt: skip
    call.__name__ = call.__qualname__ = name
    vars(call)["__signature__"] = signature
    lines = [source, FIRST[1], *(LINES[each] for each in own if each in LINES), *FIRST[2:]]
    return shows(table, ProblemOptions, first=[*lines, OF_METHOD], like=method)(call)


def _with_default(parameter: inspect.Parameter | None, name: str) -> inspect.Parameter:
    """Return a parameter of a call, which is None where the method has no default."""
    default = None if parameter is None else parameter.default
    if default is inspect.Parameter.empty:
        default = None
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


def of_name(name: str) -> Callable[..., Any]:
    """Return the call of one line of a method, also of those that have no name at top level."""
    found: Callable[..., Any] | None = globals().get(name)
    return found or one_line(name)


def without_source(call: Callable[..., Any]) -> str:
    """Return the docstring of a call without its source, as a method of the source has it."""
    names = list(inspect.signature(call).parameters)
    first = next(
        line for line in (call.__doc__ or "").split("\n") if line.startswith(f"{names[0]} :")
    )
    return (call.__doc__ or "").replace(f"{first}\n", "")


def apart(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields of the problem among options, and the others."""
    fields = {name: value for name, value in options.items() if name in PROBLEM_FIELDS}
    return fields, {name: value for name, value in options.items() if name not in fields}


#: What a problem takes by its place.
_OF_PROBLEM = ("source", "target", "groups", "costs")

anytime_sequence = one_line("anytime_sequence")
foba = one_line("foba")
backward = one_line("backward")
floating = one_line("floating")
step = one_line("step")
exchange = one_line("exchange")
greedy = one_line("greedy")
dash = one_line("dash")
sght = one_line("sght")
lasso_path = one_line("lasso_path")
group_lasso_path = one_line("group_lasso_path")
best_within = one_line("best_within", "budget")
fit = one_line("fit", "columns")
cross_validate = one_line("cross_validate", "method", "grid", source=TABLE_OR_FOLDS)
stability = one_line("stability")
knockoffs = one_line("knockoffs")
# Baselines of the papers, in `dbselect.reference`, and a building block of searches.
top_k = one_line("top_k")
random_k = one_line("random_k")
group_lasso = one_line("group_lasso")
lasso = one_line("lasso")
sparse_group_lasso = one_line("sparse_group_lasso")
coverage = one_line("coverage", options=CoverageOptions)

"""The methods of a problem as functions: each makes a problem and calls its method.

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

#: Docstring lines of positional parameters besides `FIRST`.
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
    """Return the function of a method: it makes a problem and calls the method.

    It takes source, target, the `placed` parameters of the method, groups and costs by position,
    and all else by name.
    """
    method: Callable[..., Any] = getattr(Problem, name)
    table = options or METHODS[name].options
    parameters = {
        p.name: p
        for p in list(inspect.signature(method).parameters.values())[1:]
        if p.kind is p.POSITIONAL_OR_KEYWORD
    }
    # A method that takes the options of another one checks them itself.
    is_open = "options" in inspect.signature(method).parameters
    allowed = [*parameters, *options_of(table), *PROBLEM_FIELDS, "groups", "costs"]

    def call(*values: Any, **named: Any) -> Any:
        bound = signature.bind(*values, **named)
        if not is_open:
            check_known(name, bound.arguments.get("options", {}), allowed)
        bound.apply_defaults()
        arguments = bound.arguments
        fields, rest = apart(arguments.pop("options"))
        if isinstance(arguments["groups"], str) and "key" in options_of(table):
            # scikit-learn's name for the groups of rows that stay together.
            rest["key"], arguments["groups"] = arguments["groups"], None
        problem = Problem(*(arguments.pop(field) for field in _OF_PROBLEM), **fields)
        return method(problem, **arguments, **rest)

    signature = inspect.Signature([
        inspect.Parameter("source", inspect.Parameter.POSITIONAL_OR_KEYWORD),
        *(_with_default(parameters.get(p), p) for p in ("target", *placed, "groups", "costs")),
        *(p.replace(kind=p.KEYWORD_ONLY) for p in parameters.values() if p.name not in placed),
        inspect.Parameter("options", inspect.Parameter.VAR_KEYWORD),
    ])  # fmt: skip
    call.__name__ = call.__qualname__ = name
    vars(call)["__signature__"] = signature
    lines = [source, FIRST[1], *(LINES[name] for name in parameters if name in LINES), *FIRST[2:]]
    return shows(table, ProblemOptions, first=[*lines, OF_METHOD], like=method)(call)


def _with_default(parameter: inspect.Parameter | None, name: str) -> inspect.Parameter:
    """Return a positional parameter, with default None if the method has no default."""
    default = None if parameter is None else parameter.default
    if default is inspect.Parameter.empty:
        default = None
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)


def of_name(name: str) -> Callable[..., Any]:
    """Return the function of a method, also of methods that have no name at top level."""
    call: Callable[..., Any] | None = globals().get(name)
    return call or one_line(name)


def without_source(call: Callable[..., Any]) -> str:
    """Return the docstring of a function without its source, for a method of the source."""
    names = list(inspect.signature(call).parameters)
    first = next(
        line for line in (call.__doc__ or "").split("\n") if line.startswith(f"{names[0]} :")
    )
    return (call.__doc__ or "").replace(f"{first}\n", "")


def apart(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into fields of the problem and all others."""
    fields = {name: value for name, value in options.items() if name in PROBLEM_FIELDS}
    return fields, {name: value for name, value in options.items() if name not in fields}


#: Positional parameters of `Problem`.
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
break_even = one_line("break_even", "budget")
near_best = one_line("near_best", "budget")
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

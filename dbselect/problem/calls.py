"""The methods of a problem as calls of one line: each makes the problem and asks it once."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Concatenate, TypeVar, Unpack

import polars as pl

from dbselect.errors import ArgumentError, shown
from dbselect.methods.anytime_tables import anytime_tables as tables_sequence
from dbselect.methods.candidates import Candidates
from dbselect.methods.fit import columns_read
from dbselect.methods.records import fits_of_records, sequences_of
from dbselect.methods.sets.best_within import check_budget
from dbselect.options.names import PROBLEM_FIELDS
from dbselect.options.option import check_known, options_of, shows
from dbselect.problem.problem import Problem
from dbselect.problem.records import of_records
from dbselect.record.groups import Costs, GroupColumns
from dbselect.results.glm.model import GlmModel
from dbselect.results.joint import AnySequence
from dbselect.results.model import Model
from dbselect.results.penalty_path import GroupLassoPath, LassoPath
from dbselect.results.prefixes import Prefixes
from dbselect.results.selected import Selected
from dbselect.results.sequence import Sequence as LinearSequence
from dbselect.sources.types import Source
from dbselect.spec import options
from dbselect.spec.fields import FIRST, GRID, METHOD, OF_METHOD, ProblemOptions
from dbselect.spec.methods import METHODS
from dbselect.spec.options import TablesOptions
from dbselect.spec.spec import Target
from dbselect.validation.cross_validation import CrossValidation
from dbselect.validation.drift import Drift, drift_from
from dbselect.validation.grid import MethodOf
from dbselect.validation.knockoffs import KnockoffSelection
from dbselect.validation.stability import Stability

#: Groups of the columns of facts, or None.
Groups = GroupColumns | None
T = TypeVar("T")


def ask(
    method: Callable[..., T], source: Any, target: Any, groups: Any, costs: Any,
    options: Mapping[str, Any], *first: Any,
) -> T:  # fmt: skip
    """Make the problem of a call, and ask it."""
    name = method.__name__
    check_known(name, options, [*METHODS[name].known, *PROBLEM_FIELDS, "groups", "costs"])
    fields, asked = apart(options)
    return method(Problem(source, target, groups, costs, **fields), *first, **asked)


class AnytimeCall(options.AnytimeOptions, ProblemOptions):
    """Options of a call of `anytime_sequence` or of `drift`."""


@shows(options.AnytimeOptions, ProblemOptions, first=FIRST, like=Problem.anytime_sequence)
def anytime_sequence(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[AnytimeCall],
) -> AnySequence:
    """Ask `Problem.anytime_sequence` once."""
    return ask(Problem.anytime_sequence, source, target, groups, costs, options)


class FobaCall(options.FobaOptions, ProblemOptions):
    """Options of a call of `foba`."""


@shows(options.FobaOptions, ProblemOptions, first=FIRST, like=Problem.foba)
def foba(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[FobaCall],
) -> AnySequence:
    """Ask `Problem.foba` once."""
    return ask(Problem.foba, source, target, groups, costs, options)


class BackwardCall(options.BackwardOptions, ProblemOptions):
    """Options of a call of `backward`."""


@shows(options.BackwardOptions, ProblemOptions, first=FIRST, like=Problem.backward)
def backward(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[BackwardCall],
) -> AnySequence:
    """Ask `Problem.backward` once."""
    return ask(Problem.backward, source, target, groups, costs, options)


class FloatingCall(options.FloatingOptions, ProblemOptions):
    """Options of a call of `floating`."""


@shows(options.FloatingOptions, ProblemOptions, first=FIRST, like=Problem.floating)
def floating(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[FloatingCall],
) -> AnySequence:
    """Ask `Problem.floating` once."""
    return ask(Problem.floating, source, target, groups, costs, options)


class StepCall(options.StepOptions, ProblemOptions):
    """Options of a call of `step`."""


@shows(options.StepOptions, ProblemOptions, first=FIRST, like=Problem.step)
def step(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[StepCall],
) -> AnySequence:
    """Ask `Problem.step` once."""
    return ask(Problem.step, source, target, groups, costs, options)


class ExchangeCall(options.ExchangeOptions, ProblemOptions):
    """Options of a call of `exchange`."""


@shows(options.ExchangeOptions, ProblemOptions, first=FIRST, like=Problem.exchange)
def exchange(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[ExchangeCall],
) -> Selected[Any]:
    """Ask `Problem.exchange` once."""
    return ask(Problem.exchange, source, target, groups, costs, options)


class GreedyCall(options.GreedyOptions, ProblemOptions):
    """Options of a call of `greedy`."""


@shows(options.GreedyOptions, ProblemOptions, first=FIRST, like=Problem.greedy)
def greedy(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[GreedyCall],
) -> Selected[Any]:
    """Ask `Problem.greedy` once."""
    return ask(Problem.greedy, source, target, groups, costs, options)


class DashCall(options.DashOptions, ProblemOptions):
    """Options of a call of `dash`."""


@shows(options.DashOptions, ProblemOptions, first=FIRST, like=Problem.dash)
def dash(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[DashCall],
) -> Selected[Any]:
    """Ask `Problem.dash` once."""
    return ask(Problem.dash, source, target, groups, costs, options)


class SghtCall(options.SghtOptions, ProblemOptions):
    """Options of a call of `sght`."""


@shows(options.SghtOptions, ProblemOptions, first=FIRST, like=Problem.sght)
def sght(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[SghtCall],
) -> Selected[Any]:
    """Ask `Problem.sght` once."""
    return ask(Problem.sght, source, target, groups, costs, options)


class LassoPathCall(options.LassoPathOptions, ProblemOptions):
    """Options of a call of `lasso_path`."""


@shows(options.LassoPathOptions, ProblemOptions, first=FIRST, like=Problem.lasso_path)
def lasso_path(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[LassoPathCall],
) -> LassoPath:
    """Ask `Problem.lasso_path` once."""
    return ask(Problem.lasso_path, source, target, groups, costs, options)


class GroupLassoPathCall(options.GroupLassoPathOptions, ProblemOptions):
    """Options of a call of `group_lasso_path`."""


@shows(options.GroupLassoPathOptions, ProblemOptions, first=FIRST, like=Problem.group_lasso_path)
def group_lasso_path(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[GroupLassoPathCall],
) -> GroupLassoPath:
    """Ask `Problem.group_lasso_path` once."""
    return ask(Problem.group_lasso_path, source, target, groups, costs, options)


class BestWithinCall(options.BestWithinOptions, ProblemOptions):
    """Options of a call of `best_within`."""


@shows(
    options.BestWithinOptions, ProblemOptions, like=Problem.best_within,
    first=(*FIRST[:2], "budget : limit on the summed cost, >= 0", *FIRST[2:]),
)  # fmt: skip
def best_within(
    source: Source,
    target: str | None = None,
    budget: float | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[BestWithinCall],
) -> Selected[Model]:
    """Ask `Problem.best_within` once."""
    check_budget(budget)
    return ask(Problem.best_within, source, target, groups, costs, options, budget)


class FitCall(options.FitOptions, ProblemOptions):
    """Options of a call of `fit`."""


@shows(
    options.FitOptions, ProblemOptions, like=Problem.fit,
    first=(
        *FIRST[:2], "columns : names and globs; default: all columns of the groups", *FIRST[2:],
    ),
)  # fmt: skip
def fit(
    source: Source,
    target: str,
    columns: Sequence[str] | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[FitCall],
) -> Model | GlmModel:
    """Ask `Problem.fit` once."""
    return ask(Problem.fit, source, target, groups, costs, options, columns_read(columns))


@shows(
    options.CrossValidateOptions, ProblemOptions, like=Problem.cross_validate,
    first=(
        "source : table, with `folds`; or records of folds, as `gram_by` returns them: a frame "
        "with the columns ``fold`` and ``gram``, others being keys of segments, or a list of Grams",
        *FIRST[1:], METHOD, GRID, OF_METHOD,
    ),
)  # fmt: skip
def cross_validate(
    source: Any,
    target: Target,
    method: MethodOf = "anytime_sequence",
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]] | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Any,
) -> CrossValidation:
    """Ask `Problem.cross_validate` once."""
    fields, own = apart(options)
    problem = Problem(source, target, groups, costs, **fields)
    return problem.cross_validate(method, grid, **own)


@shows(
    options.StabilityOptions, ProblemOptions, like=Problem.stability,
    first=(*FIRST, METHOD, OF_METHOD),
)  # fmt: skip
def stability(
    source: Any,
    target: str,
    groups: Groups = None,
    costs: Costs | None = None,
    *,
    method: MethodOf = "anytime_sequence",
    **options: Any,
) -> Stability:
    """Ask `Problem.stability` once."""
    fields, own = apart(options)
    return Problem(source, target, groups, costs, **fields).stability(method, **own)


@shows(options.KnockoffOptions, ProblemOptions, like=Problem.knockoffs, first=(*FIRST, OF_METHOD))
def knockoffs(
    source: Source,
    target: str,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Any,
) -> KnockoffSelection:
    """Ask `Problem.knockoffs` once."""
    fields, own = apart(options)
    return Problem(source, target, groups, costs, **fields).knockoffs(**own)


@shows(
    options.AnytimeOptions, ProblemOptions, like=Problem.drift,
    first=(
        "a, b : tables or Grams of the same columns; or a sequence, which has all that follows "
        "from its search, and rows to compare with those of it", *FIRST[1:],
    ),
)  # fmt: skip
def drift(
    a: Source | LinearSequence,
    b: Source | LinearSequence,
    target: str | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[AnytimeCall],
) -> Drift:
    """Compare two sets of rows."""
    check_known("drift", options, [*METHODS["anytime_sequence"].known, *PROBLEM_FIELDS])
    fields, own = apart(options)
    if not isinstance(a, Prefixes):
        return Problem(a, target, groups, costs, **fields).drift(b, **own)
    told = {"target": target, "groups": groups, "costs": costs, **options}
    given = next((name for name, value in told.items() if value is not None), None)
    if given is not None:
        raise ArgumentError(f"{given} is {shown(told[given])}; a sequence has its own")
    return drift_from(a, b)


class TablesCall(options.TablesOptions, ProblemOptions):
    """Options of a call of `anytime_tables`."""


@shows(
    options.TablesOptions, ProblemOptions, like=tables_sequence,
    first=(
        "facts : table with the target and the keys, which can be read again",
        "target : column of the facts to predict",
        "candidates : name -> ``(table, key, cost)`` or a `dbselect.io.Candidate`. The key is a "
        "field, a list of fields, or a mapping of the facts' names to the table's. Columns are "
        "called ``<name>.<column>``",
        "groups : name -> columns or globs of the facts' own; default: none",
        "costs : cost of each of these groups; default: 1 each",
    ),
)  # fmt: skip
def anytime_tables(
    facts: Any,
    target: str,
    candidates: Candidates,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[TablesCall],
) -> LinearSequence:
    """Order tables to join to facts."""
    check_known("anytime_tables", options, [*options_of(TablesOptions), *PROBLEM_FIELDS])
    fields, own = apart(options)
    return tables_sequence(Problem(facts, target, groups, costs, **fields), candidates, **own)


_GRAMS = "grams : DataFrame with a column ``gram`` of Gram records, as `gram_by` returns it"


@shows(options.AnytimeOptions, ProblemOptions, like=sequences_of, first=(_GRAMS, *FIRST[1:]))
def anytime_sequence_by(
    grams: pl.DataFrame,
    target: str,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[AnytimeCall],
) -> pl.DataFrame:
    """Search each record of a frame."""
    problem, own = of_records(
        "anytime_sequence", target, {"groups": groups, "costs": costs, **options}
    )
    return sequences_of(grams, problem, own)


@shows(
    ProblemOptions, like=fits_of_records,
    first=(_GRAMS, FIRST[1], "columns : names and globs; default: all but the target"),
)  # fmt: skip
def fit_by(
    grams: pl.DataFrame,
    target: str,
    columns: Sequence[str] | None = None,
    **options: Unpack[ProblemOptions],
) -> pl.DataFrame:
    """Fit each record of a frame."""
    problem, _ = of_records("fit", target, options)
    return fits_of_records(grams, problem, columns)


def once(method: Callable[Concatenate[Problem, ...], T], known: type) -> Callable[..., T]:
    """Return the call of one line of a method, which takes its options and fields of a problem."""
    # One that takes the options of another method checks them itself.
    is_open = "options" in inspect.signature(method).parameters

    def call(
        source: Source, target: Target | None = None, groups: Groups = None,
        costs: Costs | None = None, **options: Any,
    ) -> T:  # fmt: skip
        if not is_open:
            check_known(method.__name__, options, [*options_of(known), *PROBLEM_FIELDS])
        fields, own = apart(options)
        return method(Problem(source, target, groups, costs, **fields), **own)

    call.__name__ = call.__qualname__ = method.__name__
    return shows(known, ProblemOptions, first=(*FIRST, OF_METHOD), like=method)(call)


def of_name(name: str) -> Callable[..., Any]:
    """Return the call of one line of a method, also of those that have no name at top level."""
    found: Callable[..., Any] | None = globals().get(name)
    return found or once(getattr(Problem, name), METHODS[name].options)


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

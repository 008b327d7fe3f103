"""Calls of one line for baselines of the papers and building blocks of searches."""

from typing import Any, Unpack

from dbselect.objectives.diversity import Coverage
from dbselect.options import table
from dbselect.options.fields import FIRST, ProblemOptions
from dbselect.options.names import PROBLEM_FIELDS
from dbselect.options.option import check_known, options_of, shows
from dbselect.problem.calls import Groups, apart, ask
from dbselect.problem.problem import Problem, Target
from dbselect.record.groups import Costs
from dbselect.results.every import AnySequence
from dbselect.results.model import Model
from dbselect.results.selected import Selected
from dbselect.sources.types import Source


class BaselineCall(table.BaselineOptions, ProblemOptions):
    """Options of a call of `top_k` or of `random_k`."""


@shows(table.BaselineOptions, ProblemOptions, first=FIRST, like=Problem.top_k)
def top_k(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[BaselineCall],
) -> Selected[Any]:
    """Ask `Problem.top_k` once."""
    return ask(Problem.top_k, source, target, groups, costs, options)


@shows(table.BaselineOptions, ProblemOptions, first=FIRST, like=Problem.random_k)
def random_k(
    source: Source,
    target: Target | None = None,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[BaselineCall],
) -> Selected[Any]:
    """Ask `Problem.random_k` once."""
    return ask(Problem.random_k, source, target, groups, costs, options)


class GroupLassoCall(table.GroupLassoOptions, ProblemOptions):
    """Options of a call of `group_lasso`."""


@shows(table.GroupLassoOptions, ProblemOptions, first=FIRST, like=Problem.group_lasso)
def group_lasso(
    source: Source,
    target: str,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[GroupLassoCall],
) -> AnySequence:
    """Ask `Problem.group_lasso` once."""
    return ask(Problem.group_lasso, source, target, groups, costs, options)


class LassoCall(table.LassoOptions, ProblemOptions):
    """Options of a call of `lasso`."""


@shows(table.LassoOptions, ProblemOptions, first=FIRST, like=Problem.lasso)
def lasso(
    source: Source,
    target: str,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[LassoCall],
) -> Selected[Model]:
    """Ask `Problem.lasso` once."""
    return ask(Problem.lasso, source, target, groups, costs, options)


class SparseGroupLassoCall(table.SparseGroupLassoOptions, ProblemOptions):
    """Options of a call of `sparse_group_lasso`."""


@shows(table.SparseGroupLassoOptions, ProblemOptions, first=FIRST, like=Problem.sparse_group_lasso)
def sparse_group_lasso(
    source: Source,
    target: str,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[SparseGroupLassoCall],
) -> Selected[Model]:
    """Ask `Problem.sparse_group_lasso` once."""
    return ask(Problem.sparse_group_lasso, source, target, groups, costs, options)


class CoverageCall(table.CoverageOptions, ProblemOptions):
    """Options of a call of `coverage`."""


@shows(table.CoverageOptions, ProblemOptions, first=FIRST, like=Problem.coverage)
def coverage(
    source: Source,
    target: str,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[CoverageCall],
) -> Coverage:
    """Ask `Problem.coverage` once."""
    check_known("coverage", options, [*options_of(table.CoverageOptions), *PROBLEM_FIELDS])
    fields, own = apart(options)
    return Problem(source, target, groups, costs, **fields).coverage(**own)


class EpsilonCall(table.EpsilonOptions, ProblemOptions):
    """Options of a call of `foba_epsilon`."""


@shows(table.EpsilonOptions, ProblemOptions, first=FIRST, like=Problem.foba_epsilon)
def foba_epsilon(
    source: Source,
    target: str,
    groups: Groups = None,
    costs: Costs | None = None,
    **options: Unpack[EpsilonCall],
) -> float:
    """Ask `Problem.foba_epsilon` once."""
    check_known("foba_epsilon", options, [*options_of(table.EpsilonOptions), *PROBLEM_FIELDS])
    fields, own = apart(options)
    return Problem(source, target, groups, costs, **fields).foba_epsilon(**own)

"""Open the search of a problem: on its Gram, on rows in memory, or on a lazy Gram."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TypeVar, cast

from dbselect.errors import ArgumentError
from dbselect.objectives.contract import is_objective
from dbselect.objectives.score import Score
from dbselect.options.option import changed, checked_options
from dbselect.results.call import APART, Call
from dbselect.search.gram import GramSearch, gram_search
from dbselect.search.lazy import LazySearch, lazy_search
from dbselect.search.rows import GlmObjective, RowSearch, row_search
from dbselect.search.score import ScoreSearch, check_slow, score_search
from dbselect.search.table import gram_given, patterns_read
from dbselect.search.width import is_lazy
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec

T = TypeVar("T")


def asked(problem: Spec, method: str, table: type[T], options: Mapping[str, Any]) -> tuple[T, Call]:
    """Check a problem and the options of a method; return the options and the call."""
    checked = checked_options(table, method, options)
    refuse(problem, method)
    values = cast(Mapping[str, Any], checked)
    check_slow(problem.source, method, values)
    changes = changed(table, {name: values[name] for name in options})
    return checked, call_of(problem, method, changes)


def call_of(problem: Spec, method: str, options: Mapping[str, Any]) -> Call:
    """Return the call that a result records, with the options that are not at their defaults."""
    source = problem.source
    if isinstance(source, GlmObjective):
        costs = source.call.problem.costs if problem.costs is None else problem.costs
        problem = source.call.problem.replace(costs=costs, always=problem.always, seed=problem.seed)
    elif is_objective(source):
        recorded = {name: value for name, value in options.items() if name not in APART}
        return Call(problem, method, recorded)
    is_gram = source is not None and problem.is_linear and gram_given(problem) is not None
    return Call.of(problem, method, options, is_gram)


def open_search(
    problem: Spec,
    call: Call,
    options: Mapping[str, object] = MappingProxyType({}),
    *,
    lazy: bool = False,
    several: bool = False,
    sharing: bool = False,
    adds_only: bool = False,
) -> GramSearch | LazySearch | RowSearch | ScoreSearch:
    """Set up the search of a problem; `lazy` if the method can search a lazy Gram."""
    if isinstance(problem.source, Score):
        return score_search(problem, call, options, lead_search)
    if isinstance(problem.source, GlmObjective) or not problem.is_linear:
        return row_search(problem, call)
    if is_objective(problem.source):
        raise ArgumentError(
            f"source is a {type(problem.source).__name__}, whose candidates have no columns, so "
            f"that {call.method} has no models; greedy, top_k, random_k, exchange and dash take it"
        )
    if lazy and is_lazy(problem, patterns_read(problem)):
        return lazy_search(problem, call, sharing=sharing, adds_only=adds_only)
    return gram_search(problem, call, several=several, sharing=sharing, adds_only=adds_only)


def lead_search(problem: Spec) -> Any:
    """Open the linear search that shortlists the candidates of a score."""
    return open_search(problem, call_of(problem, "greedy", {}), several=True, sharing=True)

"""Open the search of a problem: on its Gram, on rows in memory, or on a lazy Gram if it is wide."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar, cast

from dbselect.errors import ArgumentError, SourceError, WideWarning, warn_caller
from dbselect.objectives.contract import is_objective
from dbselect.objectives.score import Score
from dbselect.options.option import changed, checked_options
from dbselect.record.computed import computed_names
from dbselect.results.call import APART, Call
from dbselect.search.gram import GramSearch, gram_search
from dbselect.search.lazy import LazySearch, lazy_search
from dbselect.search.rows import GlmObjective, RowSearch, row_search
from dbselect.search.score import ScoreSearch, check_slow, score_search
from dbselect.search.table import gram_given, patterns_read, table_of
from dbselect.search.wide_table import WideTable
from dbselect.sources.request import columns_of, not_computed, selected
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec

T = TypeVar("T")


def asked(problem: Spec, method: str, table: type[T], options: Mapping[str, Any]) -> tuple[T, Call]:
    """Check a problem and the options of a method; return the options and the call."""
    checked = checked_options(table, method, options)
    refuse(problem, method)
    values = cast("Mapping[str, Any]", checked)
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


#: Columns up to which ``gram="auto"`` makes the whole Gram: 4 GB.
MOST_COLUMNS = 10_000
#: Memory of a search on a Gram, in bytes per pair of columns.
BYTES = 40


def is_lazy(problem: Spec, patterns: Sequence[str] | None) -> bool:
    """Whether the Gram is lazy: by the option, or, with a WideWarning, for a very wide table.

    ArgumentError if the problem needs it whole; SourceError if the table can be read only once.
    """
    if problem.gram != "auto" or isinstance(problem.source, WideTable):
        return problem.gram != "full"
    if "gram" in problem._read or gram_given(problem) is not None:
        return False
    table = table_of(problem, patterns)
    columns = columns_of(table.schema)
    computed = computed_names(problem.terms.computed) if problem.terms else []
    count = len(columns) + len(computed)
    if count > MOST_COLUMNS:
        count = len(selected(columns, not_computed(patterns, problem.terms))) + len(computed)
    if count <= MOST_COLUMNS:
        return False
    size = (
        f"source has {count:,} columns, and a search on their Gram takes some "
        f"{BYTES * count**2 / 1e9:,.0f} GB"
    )
    if not isinstance(problem.target, str):
        raise ArgumentError(f"{size}, which several responses need: gram='full' makes it")
    if not problem.intercept:
        raise ArgumentError(f"{size}, which models through the origin need: gram='full' makes it")
    if not table.again:
        raise SourceError(
            f"{size}; gram='lazy' takes less and reads the rows again, but this stream can be "
            "read only once: give a table, a relation or a file, or gram='full'"
        )
    warn_caller(
        f"{size}: this one is lazy, and reads the table again for the rows of the Gram that it "
        "needs; gram='lazy' says that this is meant, gram='full' makes the Gram",
        WideWarning,
    )
    return True

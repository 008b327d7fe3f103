"""The main method: order groups by gain per cost."""

from collections.abc import Mapping
from typing import Any, Unpack, cast

from dbselect.errors import ArgumentError, shown
from dbselect.methods.across import check_share, order_across, records_in
from dbselect.objectives.contract import is_objective
from dbselect.objectives.score import Score
from dbselect.options.kinds import one_of
from dbselect.options.option import checked_options, shows
from dbselect.record.gram import Gram
from dbselect.record.steps import Record, Stop
from dbselect.results.call import Call
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import AnySequence
from dbselect.results.wide import WideSequence
from dbselect.search.lazy import LazySearch, resumed, screened
from dbselect.search.open import asked, open_search
from dbselect.search.passes import PassSearch, pass_search
from dbselect.search.protocol import Search, check_first
from dbselect.selection.criteria import RULES, rules_of_glm
from dbselect.selection.greedy import doubling, greedy_search
from dbselect.spec.options import AnytimeOptions
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec


@shows(AnytimeOptions)
def anytime_sequence(problem: Spec, **options: Unpack[AnytimeOptions]) -> AnySequence:
    """Order groups of columns by their gain in prediction per cost.

    Each step takes the group with the largest ``criterion(g | S) / cost(g)``; the
    objective is F(S) = 1/2 c_S' C_SS^-1 c_S, C = G + ridge I, for several responses the sum
    over them. With another family it is the deviance of a generalised linear model, which
    takes many passes over the table.

    Returns
    -------
    Sequence with at most J + 1 steps; WideSequence if the Gram is lazy; JointSequence for a
    list of responses, each of unit variance; GlmSequence for another family; of a list of
    Grams or records with `share` OrderAcross, one order for all of them

    Raises
    ------
    ColumnError : an unknown column
    GroupError : a group is empty, or with a family shares columns with another; a cost is
        missing, surplus or not > 0
    ArgumentError : an option or a field of the problem is out of range
    SourceError : a family or a lazy Gram with a stream that can be read only once
    DataError : no usable rows, or a target that is constant, that is 0 where it is missing,
        or that the family does not allow

    Warns
    -----
    ConditionWarning : the selected columns are so nearly dependent that their
        coefficients keep fewer than six digits
    SeparationWarning : with a family, from some step on the columns determine the target of some
        rows
    SkippedRowsWarning : more than a tenth of the rows of the table is left out
    WideWarning : the table has so many columns that its Gram is lazy

    Notes
    -----
    O(D^3) for a full sequence over D columns, for every rule; about 40 D^2 bytes. Further
    responses add O(D^2) each, and J D doubles for the coefficients of their models. On a
    Gram groups may share columns: a group gains only by the columns that the model does not
    have yet, but you pay its whole cost. If no group fits the doubling limit, rule
    ``doubling`` takes the cheapest and ``doubling_capable`` of the result is False.

    A family reads the table once for the start (as in `fit`), then once for each Newton step
    of a refit but the last, mostly two or three passes per step: a pass at the current
    coefficients gives the gradient and the information of all columns. Rule ``fr`` refits with
    all groups within the budget in the same passes, drops those that can no longer have the
    largest gain per cost, and makes one more pass per step; a pass computes up to J Grams of the
    selected groups and one more, and takes J D^2 doubles. Steps start at the coefficients of the
    previous step, and stop at a looser tolerance than a fit.

    Ctrl-C returns the sequence so far.

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), Algorithms 1 and 2, and appendix B for families.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> seq = ds.anytime_sequence(table, "y", costs={"a": 2.0, "b": 1.0})
    >>> seq.steps["group"].to_list()
    [None, 'a', 'b']
    >>> seq.at(budget=2.0).coefficients
    {'a': 2.0}
    """
    of_objective = is_objective(problem.source)
    needs_lazy = options.get("resume") is not None or options.get("screen") is not None
    if needs_lazy and not of_objective:
        problem = problem if problem.gram == "full" else problem.replace(gram="lazy")
    several = None if options.get("share") is None else records_in(problem.source)
    if several is not None:
        return _across(problem, several, options)  # type: ignore[no-any-return]
    checked, call = asked(problem, "anytime_sequence", AnytimeOptions, options)
    check_share(problem.source, checked["share"])
    if not (problem.is_linear or of_objective):
        return _walked(_passes(problem, call, checked), checked)
    _check(problem, checked, passes=False)
    search = open_search(
        problem, call, checked, lazy=True, several=True, sharing=True, adds_only=True
    )
    check_first(search.groups, search.first, checked["budget"], checked["max_groups"])
    if isinstance(search, LazySearch):
        if checked["resume"] is not None:
            search = resumed(search, checked["resume"], checked["budget"], checked["max_groups"])
        if checked["screen"] is not None:
            search = screened(search, checked["screen"])
    return _walked(search, checked)


def _across(problem: Spec, grams: list[Gram], options: AnytimeOptions) -> Any:
    checked = checked_options(AnytimeOptions, "anytime_sequence", options)
    refuse(problem, "anytime_sequence")
    for name in options:
        if name not in ("budget", "max_groups", "share"):
            value = cast("Mapping[str, Any]", options)[name]
            raise ArgumentError(
                f"{name} is {shown(value)}; an order for several records takes budget, max_groups "
                "and share"
            )
    return order_across(problem, grams, checked)


def sequence_in_passes(problem: Spec, **options: Unpack[AnytimeOptions]) -> GlmSequence:
    """Compute the sequence by passes over the rows, for any family including gaussian."""
    checked, call = asked(problem, "anytime_sequence", AnytimeOptions, options)
    sequence: Any = _walked(_passes(problem, call, checked), checked)
    return cast("GlmSequence", sequence)


def _passes(problem: Spec, call: Call, options: AnytimeOptions) -> PassSearch:
    """Open a search that reads the table in passes."""
    _check(problem, options, passes=True)
    return pass_search(
        problem, call, budget=options["budget"], most=options["max_groups"], tol=options["tol"],
        max_iter=options["max_iter"],
    )  # fmt: skip


def _walked(search: Search, options: AnytimeOptions) -> AnySequence:
    rule, budget, max_groups = options["rule"], options["budget"], options["max_groups"]
    check_first(search.groups, search.first, budget, max_groups)
    # The progress bar of a lazy Gram has no total: all groups are hardly ever taken.
    is_lazy = isinstance(search, LazySearch)
    total = max_groups or (len(search.first) or None if is_lazy else len(search.groups.costs))

    costs = search.groups.prices.offers([]).costs
    limit = doubling(costs, options["c_min"]) if RULES[rule].doubling else None

    def walk(record: Record) -> Stop:
        _, stop = greedy_search(
            search.state, search.groups, search.criterion(rule, budget),
            cost_limit=limit, budget=budget, max_groups=max_groups,
            always=search.first, record=record,
        )  # fmt: skip
        return stop

    return search.run(rule, walk, options["callback"], total=total, unit="groups")


def _check(problem: Spec, checked: AnytimeOptions, *, passes: bool) -> None:
    rule, c_min, options = checked["rule"], checked["c_min"], cast("Mapping[str, Any]", checked)
    is_score = isinstance(problem.source, Score)
    is_linear = not passes and not is_objective(problem.source)
    if not is_linear and not is_score:
        one_of(rules_of_glm()).check("rule", rule)
    if c_min is not None and not RULES[rule].doubling:
        raise ArgumentError(
            f"c_min is {c_min!r}; rule {rule!r} has none, 'doubling' of the linear model has"
        )
    for name in ("resume", "screen"):
        value = options[name]
        resumes = is_score and name == "resume"
        if value is not None and not resumes and (problem.gram == "full" or not is_linear):
            raise ArgumentError(f"{name} is {shown(value)}; it needs gram='lazy'")
    reason = "the linear model needs no iterations" if is_linear else "it is for tables"
    for name in ("tol", "max_iter"):
        if options[name] is not None and not passes:
            raise ArgumentError(f"{name} is {options[name]!r}; {reason}")
    if is_linear and not isinstance(checked["resume"], WideSequence | None):
        raise ArgumentError(
            f"resume is {shown(checked['resume'])}; it must be the result of "
            "anytime_sequence(..., gram='lazy')"
        )

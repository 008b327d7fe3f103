"""Stepwise searches: FoBa, floating, backward elimination, and R's `step` by AIC or BIC."""

import math
from typing import Any, Unpack

import numpy as np

from dbselect.errors import ArgumentError, DataError, GroupError
from dbselect.linear.information import SMALLEST_SHARE, gaussian_loss
from dbselect.objectives.contract import ask_sets
from dbselect.options.option import shows
from dbselect.record.prices import APART
from dbselect.record.steps import Choice, Record, Step, Stop, held_after
from dbselect.results.joint import AnySequence
from dbselect.search.gram import GramSearch
from dbselect.search.open import asked, open_search
from dbselect.search.protocol import Search, check_first
from dbselect.search.rows import RowSearch
from dbselect.selection.foba import Beaten, Share, backward_search, foba_search
from dbselect.selection.moves import beginning
from dbselect.selection.step import Judge, step_search
from dbselect.spec.options import BackwardOptions, FloatingOptions, FobaOptions, StepOptions
from dbselect.spec.spec import Spec


@shows(FobaOptions)
def foba(problem: Spec, **options: Unpack[FobaOptions]) -> AnySequence:
    """Add groups greedily, and remove those that later groups make superfluous.

    Forward: add the group with the largest gain (or gradient) per cost. Backward: remove the
    least useful group while its loss is at most nu times the gain of the last step to the
    present number of groups.

    Returns
    -------
    Sequence whose steps add and remove; ``at(size=k)`` is the best model of k groups

    Raises
    ------
    ArgumentError, ColumnError, GroupError, DataError, SourceError : as `anytime_sequence`

    Warns
    -----
    SampleWarning : with a family, the rows do not fit into memory, and a sample is searched
    WideWarning : as `anytime_sequence`

    Notes
    -----
    Beside ``always`` at most 1 / ((1 - nu) epsilon) additions. O(D |S|) per step, and O(D |S|^2)
    at most for the state. With a family every gain and loss is an exact refit on rows in memory,
    8 n D bytes. Ctrl-C returns the sequence so far.

    References
    ----------
    Zhang (2008), FoBa.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.foba(table, "y").steps["group"].to_list()
    [None, 'a', 'b']
    """
    checked, call = asked(problem, "foba", FobaOptions, options)
    search = open_search(problem, call, checked, lazy=True)
    return _both_ways(
        search, checked, Share(float(checked["nu"])), epsilon=float(checked["epsilon"]),
        backward=checked["backward"],
    )  # fmt: skip


def _both_ways(
    search: Search, options: Any, allowance: Share | Beaten, *, epsilon: float, backward: str
) -> AnySequence:
    """Add groups, and remove those whose loss the allowance permits."""
    budget, most = options["budget"], options.get("max_groups")
    check_first(search.groups, search.first, budget, most)

    def walk(record: Record) -> Stop:
        return foba_search(
            search.state, search.groups, search.criterion(options["rule"]),
            search.usefulness(backward), record, epsilon=epsilon, allowance=allowance,
            budget=budget, max_groups=most, max_steps=options["max_steps"], always=search.first,
        )  # fmt: skip

    return search.run(f"{search.call.method}-{options['rule']}", walk, options["callback"])


@shows(FloatingOptions)
def floating(problem: Spec, **options: Unpack[FloatingOptions]) -> AnySequence:
    """Add groups greedily, and remove groups while that beats all earlier sets of the same cost.

    After every addition the least useful group is removed, as long as the rest explains more
    than every earlier set that cost no more: at costs of 1, than the best set of its size. This
    is sequential floating forward selection (SFFS).

    Returns
    -------
    Sequence whose steps add and remove; ``at(size=k)`` is the best model of k groups; with
    another family a GlmSequence

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : rule, max_groups, max_steps, ridge, budget or family out of range

    Notes
    -----
    `foba` with `nu` near 1 is nearly the same: it removes a group whose loss is below the gain
    of the last step to the present size, and ignores better sets of that size found earlier.
    mlxtend's ``SequentialFeatureSelector(floating=True)`` also requires that a smaller set
    explain more than the present one, which is impossible on the rows of the fit: it is forward
    selection, and this search is at least as good. `exchange` and `best_within` search further.
    A step costs O(D |S|) after the update of the state; in Python, one record at a time.

    References
    ----------
    Pudil, Novovicova, Kittler (1994), Floating search methods in feature selection, Pattern
    Recognition Letters 15.

    Examples
    --------
    c is best alone, and superfluous beside a and b:

    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, 2, 3, 4, 5, 6], [3, 1, 4, 1, 5, 9]
    >>> c = [i + j + d for i, j, d in zip(a, b, [0.1, -0.2, 0.1, 0.2, -0.1, -0.1])]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": [i + j for i, j in zip(a, b)]})
    >>> seq = ds.floating(table, "y")
    >>> seq.steps.select("action", "group").rows()[1:]
    [('add', 'c'), ('add', 'b'), ('add', 'a'), ('remove', 'c')]
    >>> seq.at(size=2).groups
    ['b', 'a']
    """
    checked, call = asked(problem, "floating", FloatingOptions, options)
    search = open_search(problem, call, checked, lazy=True)
    return _both_ways(search, checked, Beaten(search.groups.prices), epsilon=0.0, backward="loss")


@shows(BackwardOptions)
def backward(problem: Spec, **options: Unpack[BackwardOptions]) -> AnySequence:
    """Start from all groups and repeatedly remove the least useful one.

    Returns
    -------
    Sequence whose steps add every group, in the order given, and then remove them;
    ``at(size=k)`` is the model of k groups; after a complete elimination ``at(budget)`` is
    the largest model within the budget, otherwise the last

    Raises
    ------
    ArgumentError, ColumnError, GroupError, SourceError : as `anytime_sequence`
    DataError : no usable rows, or a constant target; with ``"coefficient"`` columns that
        depend linearly on others, as the levels of a category do, without a ridge

    Warns
    -----
    SampleWarning : as `foba`

    Notes
    -----
    O(D |S|) per step, and O(D |S|^2) at most for the state: O(D^3 J) in all. A group whose
    columns depend on other groups has loss 0 and is removed first; of several the most
    expensive, then the one named first.

    References
    ----------
    Zhang (2008), section 2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.backward(table, "y").steps.filter(action="remove")["group"].to_list()
    ['b', 'a']
    """
    checked, call = asked(problem, "backward", BackwardOptions, options)
    search = open_search(problem, call, checked)
    check_first(search.groups, search.first, checked["budget"])

    def walk(record: Record) -> Stop:
        state = search.state
        order = beginning(state, search.groups.prices, search.first)
        ask_sets(state, [order[:end] for end in range(1, len(order) + 1)])
        for group in order:
            cost = search.groups.prices.offers(state.held).counted[group]
            gain = state.add(group)
            score = gain / cost
            record(Step("add", group, float(score), gain, state.value, Choice.FORCED))
        # Dependent columns have a well-defined loss, but no unique coefficients.
        names = search.dependent() if checked["backward"] == "coefficient" else []
        if names and not problem.ridge:
            raise DataError(
                f"columns {names} depend linearly on others, so that coefficients are not certain; "
                "take backward 'loss', leave them out, or give a ridge > 0"
            )
        search.check_held()
        return backward_search(
            state, search.groups, search.usefulness(checked["backward"]), record,
            budget=checked["budget"], max_steps=checked["max_steps"], always=search.first,
        )  # fmt: skip

    return search.run("backward", walk, checked["callback"])


@shows(StepOptions)
def step(problem: Spec, **options: Unpack[StepOptions]) -> AnySequence:
    """Add or remove the group that lowers AIC most, until no move lowers it: R's `step`.

    Returns
    -------
    Sequence whose steps add and remove groups; `score` is the decrease of the criterion by
    each move. If no group lowers the criterion it has only step 0. With another family a
    GlmSequence

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range; the groups to start with exceed the budget; a
        family without a likelihood, or an objective with a ridge

    Notes
    -----
    O(D |S|) per step and some trials, as `foba`. ``seq.criteria()`` differs from R's ``AIC`` by
    2, for the variance parameter; the AIC that R's ``step`` prints for a linear model is lower
    by n (log(2 pi) + 1). Standard errors after a search are too small, as in R.

    References
    ----------
    Venables, Ripley (2002), Modern Applied Statistics with S, section 6.8.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, 2, 3, 4, 5, 6, 7, 8], [3, 1, 4, 1, 5, 9, 2, 6]
    >>> c = [2, 7, 1, 8, 2, 8, 1, 8]
    >>> y = [2 * i + j + e for i, j, e in zip(a, b, [0.3, -0.2, 0.1, 0.2, -0.3, -0.1, 0.2, -0.2])]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": y})
    >>> steps = ds.step(table, "y", start=["c"]).steps
    >>> steps.select("action", "group", pl.col("score").round(1)).rows()[1:]
    [('add', 'c', -1.5), ('add', 'a', 14.0), ('add', 'b', 37.9), ('remove', 'c', 1.3)]
    """
    checked, call = asked(problem, "step", StepOptions, options)
    search: Any = open_search(problem, call)
    judge = _judge(search, checked)
    start = _start(search, checked)
    start = search.groups.prices.closed(dict.fromkeys([*search.first, *start]))
    check_first(search.groups, start, checked["budget"])
    penalty = checked["penalty"]
    name = f"step-{checked['criterion']}" if penalty is None else f"step-{penalty:g}"

    def walk(record: Record) -> Stop:
        return step_search(
            search.state, search.groups, judge, record, start=start,
            adds=checked["direction"] != "backward", removes=checked["direction"] != "forward",
            budget=checked["budget"], max_steps=checked["max_steps"], always=search.first,
        )  # fmt: skip

    sequence: AnySequence = search.run(name, walk, checked["callback"])
    if sequence.records and not held_after(sequence.records):
        # A sequence that ends empty would be read as one of `backward`, whose longest prefix
        # within a budget comes right after all groups.
        stop = sequence.stop
        sequence = search.run(name, lambda _: stop, None)
    return sequence


def _start(search: Search, options: StepOptions) -> list[int]:
    start = options["start"]
    if start is None:
        every = list(range(len(search.groups.costs)))
        if options["direction"] != "backward":
            return []
        if search.groups.prices.may_hold(every):
            return every
        return beginning(search.state, search.groups.prices, search.first)
    numbers = [search.groups.number(name, "start") for name in start]
    if not search.groups.prices.may_hold(search.groups.prices.closed([*search.first, *numbers])):
        raise GroupError(f"start is {list(start)}; {APART}")
    return numbers


def _judge(search: GramSearch | RowSearch, options: StepOptions) -> Judge:
    free, is_quadratic = 1.0, True
    if isinstance(search, RowSearch):
        _check_likelihood(search)
        data, family = search.data, search.data.roles.family
        free, is_quadratic = float(family.basis.shape[1]), family.quadratic
        rows, has_intercept, null = data.rows, data.roles.has_intercept, search.state.fit.deviance
    else:
        at = search.gram.position(search.target, "target")
        rows, null = search.gram.rows, float(search.gram.comoment[at, at])
        has_intercept = search.call.problem.intercept
    price, null_parameters = options["penalty"], free * has_intercept
    if price is None:
        price = 2.0 if options["criterion"] == "aic" else math.log(rows)

    def of(value: float, parameters: float) -> float:
        if rows - parameters / free <= 0:
            return math.inf
        residual = max(1.0 - value, SMALLEST_SHARE) * null
        loss = float(gaussian_loss(rows, np.array(residual))) if is_quadratic else residual
        return loss + float(price) * parameters

    def parameters(state: Any) -> float:
        linear = state.fit.state if isinstance(search, RowSearch) else state
        return null_parameters + float(linear.degrees())

    return Judge(of, parameters, [free * len(columns) for columns in search.groups.positions])


def _check_likelihood(search: RowSearch) -> None:
    family, ridge = search.data.roles.family, search.state.call.problem.ridge
    if ridge:
        raise ArgumentError(
            f"the objective has ridge {ridge}; a criterion counts parameters, which a ridge "
            "reduces: set ridge to 0, or choose by held-out rows"
        )
    if family.has_dispersion and not family.quadratic:
        raise ArgumentError(
            f"family is '{family.name}'; there is no likelihood to compare, because the "
            "deviance does not determine the dispersion: choose by held-out rows, with "
            "cross_validate"
        )

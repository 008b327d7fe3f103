"""Stepwise search by AIC or BIC, like R's `step`."""

import math
from typing import Any, Unpack

import numpy as np

from dbselect.errors import ArgumentError, GroupError
from dbselect.linear.information import SMALLEST_SHARE, gaussian_loss
from dbselect.options.option import shows
from dbselect.record.prices import APART
from dbselect.record.steps import Record, Stop, held_after
from dbselect.results.joint import AnySequence
from dbselect.search.gram import GramSearch
from dbselect.search.open import asked, open_search
from dbselect.search.protocol import Search, check_first
from dbselect.search.rows import RowSearch
from dbselect.selection.moves import beginning
from dbselect.selection.step import Judge, step_search
from dbselect.spec.options import StepOptions
from dbselect.spec.spec import Spec


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
    first_groups = search.groups.prices.closed(dict.fromkeys([*search.first, *start]))
    start = first_groups
    check_first(search.groups, first_groups, checked["budget"])
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
        numbers = list(range(len(search.groups.costs)))
        if options["direction"] != "backward":
            return []
        if search.groups.prices.may_hold(numbers):
            return numbers
        return beginning(search.state, search.groups.prices, search.first)
    numbers = [search.groups.number(name, "start") for name in start]
    if not search.groups.prices.may_hold(search.groups.prices.closed([*search.first, *numbers])):
        raise GroupError(f"start is {list(start)}; {APART}")
    return numbers


def _penalty(options: StepOptions, rows: int) -> float:
    if options["penalty"] is not None:
        return float(options["penalty"])
    return 2.0 if options["criterion"] == "aic" else math.log(rows)


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
    price, null_parameters = _penalty(options, rows), free * has_intercept

    def of(value: float, parameters: float) -> float:
        if rows - parameters / free <= 0:
            return math.inf
        residual = max(1.0 - value, SMALLEST_SHARE) * null
        loss = float(gaussian_loss(rows, np.array(residual))) if is_quadratic else residual
        return loss + price * parameters

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

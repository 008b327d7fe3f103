"""Searches that give groups back: FoBa and backward elimination."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, DataError
from dbselect.gram import Vector
from dbselect.methods.search import Search, check_choice, check_count, check_ridge, finish, prepare
from dbselect.selection import backward as elimination
from dbselect.selection import foba as forward_backward
from dbselect.selection.criteria import RULES
from dbselect.selection.removal import USEFULNESS
from dbselect.sequence import Sequence as AnytimeSequence
from dbselect.sources.request import NullPolicy
from dbselect.steps import Choice, Record, Step, Stop

#: Rules of the forward step: exact gain, and the gradient.
FORWARD = ("fr", "omp")


def foba(
    gram: Any,
    target: str,
    *,
    groups: Mapping[str, Iterable[str]] | None = None,
    costs: Mapping[str, float] | None = None,
    epsilon: float = 0.0,
    nu: float = 0.5,
    rule: str = "fr",
    backward: str = "loss",
    max_steps: int | None = None,
    ridge: float = 0.0,
    always: Sequence[str] = (),
    null_policy: NullPolicy = "skip",
) -> AnytimeSequence:
    """Add groups greedily, and give back those that later ones made dispensable.

    Forward: the group with the largest gain (or gradient) per cost. Backward: while the
    least useful group's loss is at most nu times the gain of the last step to the
    present number of groups, it is removed.

    Parameters
    ----------
    gram : Gram, record or table, as `anytime_sequence` takes it
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each
    epsilon : >= 0, share of the target's variance that a group must gain
    nu : in (0, 1), share of a gain that a removal may lose
    rule : ``"fr"``, the exact gain, or ``"omp"``, the group-whitened gradient
    backward : least useful by ``"loss"``, the exact loss per cost, or by
        ``"coefficient"``, the length of its coefficients on unit-variance columns
    max_steps : limit on additions and removals together
    ridge : >= 0, lambda on unit-variance columns
    always : groups taken first, which stay
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy

    Returns
    -------
    Sequence whose steps add and remove; ``at(size=k)`` is the best model of k groups

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : epsilon, nu, rule, backward, max_steps or ridge out of range

    Notes
    -----
    Besides `always` at most 1 / ((1 - nu) epsilon) additions. O(D |S|) a step, and
    O(D |S|^2) at most for the state.

    References
    ----------
    Zhang (2008), FoBa (paper 003).

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.foba(table, "y").steps["group"].to_list()
    [None, 'a', 'b']
    """
    check_options(epsilon, nu, rule, backward, max_steps, ridge)
    search = prepare(
        gram, target, groups, costs, ridge=ridge, always=always, null_policy=null_policy
    )

    def run(record: Record) -> Stop:
        return forward_backward.foba(
            search.state,
            search.groups,
            RULES[rule].criterion(search.state),
            USEFULNESS[backward],
            record,
            epsilon=float(epsilon),
            nu=float(nu),
            max_steps=max_steps,
            always=search.first,
        )

    return _recorded(search, f"foba-{rule}", run)


def backward(
    gram: Any,
    target: str,
    *,
    groups: Mapping[str, Iterable[str]] | None = None,
    costs: Mapping[str, float] | None = None,
    backward: str = "loss",
    max_steps: int | None = None,
    ridge: float = 0.0,
    always: Sequence[str] = (),
    null_policy: NullPolicy = "skip",
) -> AnytimeSequence:
    """Start from all groups and remove the least useful one, again and again.

    Parameters
    ----------
    gram : Gram, record or table, as `anytime_sequence` takes it
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each
    backward : least useful by ``"loss"``, the exact loss per cost, or by
        ``"coefficient"``, the length of its coefficients on unit-variance columns
    max_steps : limit on the removals
    ridge : >= 0, lambda on unit-variance columns
    always : groups that stay
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy

    Returns
    -------
    Sequence whose steps add every group, in the order given, and then remove them;
    ``at(size=k)`` is the model of k groups; after a whole elimination ``at(budget)`` is
    the largest that the budget buys, otherwise the last

    Raises
    ------
    ColumnError, GroupError, ArgumentError : as `anytime_sequence`
    DataError : columns depend linearly on others, so that coefficients and losses have no
        one value, and there is no ridge

    Notes
    -----
    O(D |S|) a step, and O(D |S|^2) at most for the state: O(D^3 J) in all.

    References
    ----------
    Zhang (2008), section 2 (paper 003).

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.backward(table, "y").steps.filter(action="remove")["group"].to_list()
    ['b', 'a']
    """
    check_options(backward=backward, max_steps=max_steps, ridge=ridge)
    search = prepare(
        gram, target, groups, costs, ridge=ridge, always=always, null_policy=null_policy
    )
    rest = [group for group in range(len(search.groups.costs)) if group not in search.first]

    def run(record: Record) -> Stop:
        state = search.state
        for group in [*search.first, *rest]:
            gain = state.add(group)
            score = gain / search.groups.costs[group]
            record(Step("add", group, float(score), gain, state.explained, Choice.FORCED))
        if state.aliased and not ridge:
            names = [search.groups.members[j] for j in state.aliased]
            raise DataError(
                f"columns {names} depend linearly on others; backward elimination needs a full "
                "rank: leave them out, or give a ridge > 0"
            )
        return elimination.backward(
            state,
            search.groups,
            USEFULNESS[backward],
            record,
            max_steps=max_steps,
            always=search.first,
        )

    return _recorded(search, "backward", run)


def check_options(
    epsilon: Any = 0.0,
    nu: Any = 0.5,
    rule: Any = "fr",
    backward: Any = "loss",
    max_steps: Any = None,
    ridge: Any = 0.0,
    **_: Any,
) -> None:
    """Refuse options that no Gram could make right."""
    if not (isinstance(epsilon, numbers.Real) and 0 <= float(epsilon) < math.inf):
        raise ArgumentError(f"epsilon is {epsilon!r}; it must be a number >= 0")
    if not (isinstance(nu, numbers.Real) and 0 < float(nu) < 1):
        raise ArgumentError(f"nu is {nu!r}; it must lie between 0 and 1, both excluded")
    check_choice("rule", rule, FORWARD)
    check_choice("backward", backward, USEFULNESS)
    check_count("max_steps", max_steps)
    check_ridge(ridge)


def _recorded(search: Search, rule: str, run: Callable[[Record], Stop]) -> AnytimeSequence:
    """Run a search and keep every step with its coefficients."""
    steps: list[Step] = []
    coef: list[Vector] = [search.state.coef()]

    def record(step: Step) -> None:
        steps.append(step)
        coef.append(search.state.coef())

    stop = run(record)
    return finish(search, rule, steps, np.array(coef), stop)

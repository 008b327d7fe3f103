"""Searches that give groups back: FoBa and backward elimination."""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, DataError
from dbselect.linear.state import State
from dbselect.methods.glm_objective import GlmObjective, data_of_objective
from dbselect.methods.setup import LinearSetup, finish, numbers_of, prepare
from dbselect.record.checks import check_choice, check_count, check_ridge
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups, costs_of
from dbselect.record.steps import Choice, Record, Step, Stop
from dbselect.results.glm.build import Prefix, prefix_of, sequence_of, warn_of_fit
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.selection.backward import backward_search
from dbselect.selection.criteria import RULES, Criterion
from dbselect.selection.foba import foba_search
from dbselect.selection.removal import USEFULNESS
from dbselect.sources.request import NullPolicy

#: Rules of the forward step: exact gain, and the gradient.
FORWARD = ("fr", "omp")


def foba(
    gram: Any,
    target: str | None = None,
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
) -> AnytimeSequence | GlmSequence:
    """Add groups greedily, and give back those that later ones made dispensable.

    Forward: the group with the largest gain (or gradient) per cost. Backward: while the
    least useful group's loss is at most nu times the gain of the last step to the
    present number of groups, it is removed.

    Parameters
    ----------
    gram : Gram, record or table, as `anytime_sequence` takes it; or a `glm_objective`,
        without target, groups and ridge, which it has
    target : column to predict
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each
    epsilon : >= 0, share of the target's variance, or null deviance, that a group must gain
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
    Sequence whose steps add and remove; ``at(size=k)`` is the best model of k groups; of
    a `glm_objective` a GlmSequence

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
    Zhang (2008), FoBa.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.foba(table, "y").steps["group"].to_list()
    [None, 'a', 'b']
    """
    check_options(epsilon, nu, rule, backward, max_steps, ridge)
    search = _prepared(gram, target, groups, costs, ridge, always, null_policy)

    def run(record: Record) -> Stop:
        return foba_search(
            search.state,
            search.groups,
            _criterion(rule, search.state),
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
    target: str | None = None,
    *,
    groups: Mapping[str, Iterable[str]] | None = None,
    costs: Mapping[str, float] | None = None,
    backward: str = "loss",
    max_steps: int | None = None,
    ridge: float = 0.0,
    always: Sequence[str] = (),
    null_policy: NullPolicy = "skip",
) -> AnytimeSequence | GlmSequence:
    """Start from all groups and remove the least useful one, again and again.

    Parameters
    ----------
    gram : Gram, record or table, as `anytime_sequence` takes it; or a `glm_objective`,
        without target, groups and ridge, which it has
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
    the largest that the budget buys, otherwise the last; of a `glm_objective` a
    GlmSequence

    Raises
    ------
    ColumnError, GroupError, ArgumentError : as `anytime_sequence`
    DataError : columns depend linearly on those of other groups, so that what a group is
        worth depends on the order of removals, and there is no ridge; by ``"coefficient"``
        also on those of their own group, as the levels of a category do

    Notes
    -----
    O(D |S|) a step, and O(D |S|^2) at most for the state: O(D^3 J) in all.

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
    check_options(backward=backward, max_steps=max_steps, ridge=ridge)
    search = _prepared(gram, target, groups, costs, ridge, always, null_policy)
    rest = [group for group in range(len(search.groups.costs)) if group not in search.first]

    def run(record: Record) -> Stop:
        state = search.state
        for group in [*search.first, *rest]:
            gain = state.add(group)
            score = gain / search.groups.costs[group]
            record(Step("add", group, float(score), gain, state.value, Choice.FORCED))
        # Within a group a loss is that of all its columns, whichever of them is aliased.
        names = _dependent(search, within=backward != "loss")
        if names and not search.ridge:
            raise DataError(
                f"columns {names} depend linearly on others; backward elimination needs groups "
                "that do not: leave them out, or give a ridge > 0"
            )
        return backward_search(
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


@dataclass(frozen=True)
class _GlmSearch:
    """A search on an objective, in the place of a `LinearSetup` on a Gram."""

    state: GlmObjective
    groups: Groups
    ridge: float
    first: list[int]


def _prepared(
    gram: Any,
    target: str | None,
    groups: Mapping[str, Iterable[str]] | None,
    costs: Mapping[str, float] | None,
    ridge: float,
    always: Sequence[str],
    null_policy: NullPolicy,
) -> LinearSetup | _GlmSearch:
    if target is not None:
        return prepare(
            gram, target, groups, costs, ridge=ridge, always=always, null_policy=null_policy
        )
    about = data_of_objective(gram, groups=groups, ridge=ridge, null_policy=null_policy)
    found = replace(about.groups, costs=costs_of(about.groups.names, costs))
    return _GlmSearch(gram.copy(), found, about.ridge, numbers_of(always, found))


def _criterion(rule: str, state: State | GlmObjective) -> Criterion:
    """Return what the forward step maximises per unit of cost."""
    if isinstance(state, State):
        return RULES[rule].criterion(state)
    if rule == "fr":
        return GlmObjective.gains
    # Each fit has another linear problem near it.
    return lambda state: RULES[rule].criterion(state.local)(state.local)


def _dependent(search: LinearSetup | _GlmSearch, within: bool) -> list[str]:
    """Return the selected columns that depend linearly on others.

    Parameters
    ----------
    within : whether also those that depend on columns of their own group alone; a
        generalised linear model does not tell these apart
    """
    if isinstance(search, _GlmSearch):
        return search.state.aliased()
    found = search.state.aliased if within else search.state.entangled
    return [search.groups.members[j] for j in found]


def _recorded(
    search: LinearSetup | _GlmSearch, rule: str, run: Callable[[Record], Stop]
) -> AnytimeSequence | GlmSequence:
    """Run a search and keep every step with its coefficients."""
    if isinstance(search, _GlmSearch):
        state, data = search.state, search.state.about.data
        empty = prefix_of(data, state.fit)
        taken: list[tuple[Step, Prefix]] = []
        try:
            stop = run(lambda step: taken.append((step, prefix_of(data, state.fit))))
        except KeyboardInterrupt:
            # As in `anytime_sequence`: the step under way is lost, and the last one stands.
            stop = Stop.INTERRUPTED
        warn_of_fit(state.fit)
        return sequence_of(
            data, state.fit, search.groups, rule, search.ridge, True, empty, taken, stop
        )
    steps: list[Step] = []
    coef: list[Vector] = [search.state.coef()]

    def record(step: Step) -> None:
        steps.append(step)
        coef.append(search.state.coef())

    stop = run(record)
    return finish(search, rule, steps, np.array(coef), stop)

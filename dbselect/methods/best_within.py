"""The best groups for a budget, with proof or with the gap that the time left."""

import numbers
from dataclasses import dataclass
from time import perf_counter
from typing import ClassVar

from dbselect.errors import ArgumentError
from dbselect.linear.condition import check_possible, warn_of
from dbselect.linear.relaxation import Groupwise
from dbselect.linear.state import State
from dbselect.methods.options import Options
from dbselect.methods.setup import LinearSetup, check_first, fitted, prepare
from dbselect.methods.types import Costs, GroupColumns, GroupNames, NullPolicy, Source
from dbselect.record.checks import (
    check_budget,
    check_column,
    check_flag,
    check_names,
    check_ridge,
    check_scale,
)
from dbselect.record.policies import check_policies
from dbselect.results.model import Model
from dbselect.results.selected import Proof, Selected
from dbselect.selection.branch_and_bound import branch_and_bound
from dbselect.selection.exchange import TimeUp, improve
from dbselect.selection.greedy import greedy_search
from dbselect.sources.turns import Callback, check_callback, turns

#: Share of the time limit for leaps and bounds, and most seconds: what they do not prove in
#: these they hardly ever prove.
LEAPS_SHARE, LEAPS_SECONDS = 0.25, 2.0


@dataclass(frozen=True, kw_only=True)
class BestWithinOptions(Options):
    """The options of `best_within`."""

    method: ClassVar[str] = "best_within"

    budget: float
    always: GroupNames = ()
    ridge: float = 0.0
    scale: bool = True
    intercept: bool = True
    null_policy: NullPolicy = "skip"
    weight: str | None = None
    time_limit: float = 10.0

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        check_budget(self.budget)
        if self.budget is None:
            raise ArgumentError("budget is None; it must be a number >= 0")
        check_names("always", self.always)
        check_ridge(self.ridge)
        check_scale(self.scale)
        check_flag("intercept", self.intercept)
        check_policies(self.null_policy)
        check_column("weight", self.weight)
        if not (isinstance(self.time_limit, numbers.Real) and float(self.time_limit) > 0):
            raise ArgumentError(
                f"time_limit is {self.time_limit!r}; it must be a number of seconds > 0"
            )


def best_within(
    source: Source,
    target: str,
    budget: float,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    always: GroupNames = BestWithinOptions.always,
    ridge: float = BestWithinOptions.ridge,
    scale: bool = BestWithinOptions.scale,
    intercept: bool = BestWithinOptions.intercept,
    null_policy: NullPolicy = BestWithinOptions.null_policy,
    weight: str | None = BestWithinOptions.weight,
    time_limit: float = BestWithinOptions.time_limit,
    callback: Callback | None = None,
) -> Selected[Model]:
    """Return the model on the groups that explain most for a budget, with proof.

    The largest F(S) = 1/2 c_S' C_SS^-1 c_S of all S whose summed cost is at most the budget,
    by branch and bound. A prefix ``seq.at(budget)`` of a sequence only is what the order of
    the sequence leaves for a budget; below the first group's cost it is empty.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it
    target : column to predict
    budget : limit on the summed cost, >= 0, in the unit of the costs
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each
    always : groups of every set; they count in the budget
    ridge : >= 0, lambda on unit-variance columns; the intercept is not penalised
    scale : False takes `ridge` on the columns as they are
    intercept : False for models through the origin, as in `anytime_sequence`
    null_policy : what becomes of missing values while a table is read, as in
        `dbselect.gram`; rows without the target are left out under every policy
    weight : column of row weights, of a table
    time_limit : seconds for the search, > 0, after which the best set found comes back
    callback : is called with a `Progress` at every node and exchange, whenever the search
        asks whether its time is up; what it raises ends the call

    Returns
    -------
    Selected, whose ``how`` says whether the set is proven to be the best; otherwise what
    none can exceed, and the gap. Its groups are those of `always`, then in their order

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range; groups of `always` that cost more than the budget

    Warns
    -----
    ConditionWarning : the chosen columns are so nearly dependent that their coefficients
        keep fewer than six digits

    Notes
    -----
    Sets that explain the same up to 1e-10 of the target's variance are ties: the cheapest
    is taken, if time is left to prove that, too, and exchanges of single groups prefer those
    named first. The search starts from the greedy sequence within the budget and from the group
    that is best alone, both improved by exchanges. It takes O(D^3) a node and 2^J nodes at
    worst; some tens of 30 groups, some thousands where columns are nearly dependent. Where
    they depend on each other, or there are more columns than rows, bounds are weak. What a
    search finds that is stopped depends on the machine; the root of the tree, once it is
    begun, is always finished.

    References
    ----------
    Furnival, Wilson (1974), Technometrics 16; Frangioni, Gentile (2006), Mathematical
    Programming 106; Bertsimas, Van Parys (2020), Annals of Statistics 48.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> costs = {"a": 5.0, "b": 1.0}
    >>> ds.anytime_sequence(table, "y", costs=costs).at(4.0).groups  # a is first
    []
    >>> found = ds.best_within(table, "y", 4.0, costs=costs)
    >>> found
    Selected(best_within: b; explained 0.0476, spent 1; proven; 4 rows)
    >>> found.how.proven, found.how.gap
    (True, 0.0)
    """
    check_callback(callback)
    options = BestWithinOptions(
        budget=budget, always=always, ridge=ridge, scale=scale, intercept=intercept,
        null_policy=null_policy, weight=weight, time_limit=time_limit,
    )  # fmt: skip
    search = prepare(
        source, target, groups, costs, ridge=ridge, scale=scale, always=always,
        null_policy=null_policy, weight=weight, intercept=intercept,
    )  # fmt: skip
    check_first(search.groups, search.first, options.budget, None)
    begin = perf_counter()

    with turns(None, "questions", callback) as turn:

        def time_up() -> bool:
            turn(None, None)
            return perf_counter() - begin >= options.time_limit

        found = branch_and_bound(
            search.state,
            Groupwise(search.problem, search.groups.positions, search.groups.costs),
            options.budget,
            _start(search, options.budget, time_up),
            search.first,
            time_up,
            min(LEAPS_SHARE * options.time_limit, LEAPS_SECONDS),
        )
    state = search.state
    if found.groups:
        state.add_all(found.groups)
    check_possible(state)
    warn_of(state.condition())
    how = Proof(
        explained=state.explained,
        bound=state.explained if found.proven else max(found.bound, state.explained),
        proven=found.proven,
        nodes=found.nodes,
        seconds=perf_counter() - begin,
    )
    return Selected(Model(**fitted(search, state)), tuple(found.groups), options.method, how)


def _start(search: LinearSetup, budget: float, time_up: TimeUp) -> State:
    """Return the better of two sets: the greedy one, and that around the best single group."""
    costs = search.groups.costs
    greedy, single = search.state.copy(), search.state.copy()
    greedy_search(greedy, search.groups, State.gains, budget=budget, always=search.first)
    if search.first:
        single.add_all(search.first)
    for state in (greedy, single):
        improve(state, costs, budget, search.first, time_up)
    return max(greedy, single, key=lambda state: state.explained)

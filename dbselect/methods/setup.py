"""What every search begins and ends with: from a source to a state, from steps to a Sequence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, ColumnError, GroupError
from dbselect.linear.condition import check_possible, warn_of, warn_of_dropped
from dbselect.linear.inference import FittedRows, through_origin
from dbselect.linear.problem import Linear, check_filled, check_usable, linear
from dbselect.linear.refine import prefix_residuals, refined
from dbselect.linear.state import State
from dbselect.methods.types import Costs, GroupColumns, GroupNames, NullPolicy
from dbselect.record.checks import check_names
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import Groups, groups_of, patterns_of
from dbselect.record.missing import features_of
from dbselect.record.rows import at_most_all, is_saturated
from dbselect.record.steps import Record, Step, Stop, fits, name_of
from dbselect.results.joint import JointSequence
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.results.sequence import build
from dbselect.selection.criteria import RULES, Criterion
from dbselect.sources.open import open_table, stored_gram
from dbselect.sources.read import check_no_rows, read_columns
from dbselect.sources.target import check_numeric
from dbselect.sources.turns import Callback, turns

#: Condition numbers between which the coefficients of all prefixes are refined: below,
#: they keep ten of sixteen digits without that; above, a correction has no digit right.
REFINED_CONDITIONS = (1e6, 1e14)
#: Each round brings back 16 - log10(condition) digits, and two are all that the Gram has.
REFINED_ROUNDS = 2


@dataclass(frozen=True)
class LinearSetup:
    """A problem that is set up, and the state that a method changes.

    Parameters
    ----------
    gram : of a search through the origin with raw moments and means of 0
    targets : the column to predict, or several
    first : numbers of the groups of ``always``
    intercept : False for models through the origin
    """

    gram: Gram
    targets: list[str]
    groups: Groups
    ridge: float
    scale: bool
    problem: Linear
    state: State
    first: list[int]
    intercept: bool = True

    @property
    def target(self) -> str:
        """The column to predict, where there is one."""
        return self.targets[0]

    @property
    def is_joint(self) -> bool:
        """Whether the problem is one of several responses, be it of one in a list."""
        return self.problem.c.ndim > 1

    def criterion(self, rule: str) -> Criterion:
        """Return what a rule maximises per unit of cost."""
        return RULES[rule].criterion(self.state)

    def dependent(self) -> list[str]:
        """Return the selected columns that depend linearly on others."""
        return [self.groups.members[j] for j in self.state.aliased]

    def check_held(self) -> None:
        """Refuse columns that no rows have, and warn of those that depend but for a trace.

        A search that removes groups asks before, as what it holds in the end does not tell.
        """
        check_possible(self.state)
        warn_of_dropped(self.state, self.groups.members)

    def fitted_rows(self, chosen: bool) -> FittedRows:
        """Return the rows, for the standard errors of a model that they chose or not."""
        return FittedRows(self.gram, self.ridge, chosen, self.intercept)

    def ended(self, stop: Stop, coef: Matrix) -> Stop:
        """Return why a search ended, or that some prefix of it is saturated.

        Parameters
        ----------
        coef : shape (steps + 1, D), or (steps + 1, K, D) of K responses
        """
        used = (coef != 0).sum(axis=-1).max(initial=len(self.state.support))
        used += self.intercept
        return Stop.SATURATED if is_saturated(self.gram.rows, used, self.ridge) else stop

    def recorded(
        self, rule: str, run: Callable[[Record], Stop], callback: Callback | None = None
    ) -> AnytimeSequence:
        """Run a search that adds and removes, and keep every step with its coefficients.

        Parameters
        ----------
        rule : name of the result
        run : the search, which writes down its steps
        callback : who is told of each
        """
        steps: list[Step] = []
        coef: list[Vector] = [self.state.coef()]

        with turns(None, "steps", callback) as turn:

            def record(step: Step) -> None:
                steps.append(step)
                coef.append(self.state.coef())
                turn(name_of(step, self.groups), step.explained)

            stop = run(record)
        return finish(self, rule, steps, np.array(coef), stop)


def prepare(
    source: Any,
    target: str | Sequence[str] | None,
    groups: GroupColumns | None,
    costs: Costs | None,
    *,
    ridge: float = 0.0,
    scale: bool = True,
    always: GroupNames | None = None,
    null_policy: NullPolicy = "skip",
    weight: str | None = None,
    several: bool = False,
    intercept: bool = True,
    sharing: bool = False,
) -> LinearSetup:
    """Read the source, match the groups and set up the problem.

    Parameters
    ----------
    weight : column of row weights, of a table
    several : whether `target` may be a list of columns
    intercept : False for models through the origin, whose problem is that of raw moments
    sharing : whether a column may lie in several groups: where no group is given back

    Raises
    ------
    ColumnError, GroupError, ArgumentError, DataError : as `dbselect.anytime_sequence`
    """
    joint = several and isinstance(target, list | tuple)
    if several and isinstance(target, list | tuple):
        check_targets(target)
    else:
        check_target(target)
    targets = [target] if isinstance(target, str) else list(target or ())
    gram, unread = _gram_of(source, targets, groups, null_policy, weight)
    for name in targets:
        gram.position(name, "target")
    if not intercept:
        check_filled(gram, targets)
        gram = through_origin(gram)
    # Before the groups: of a table without usable rows no level of a category is known.
    check_usable(gram, targets)
    features = features_of(gram.columns, targets, gram.terms)
    resolved = groups_of(features, groups, costs, targets, gram.terms, sharing)
    resolved = replace(resolved, unused=(*resolved.unused, *unread))
    first = numbers_of(always or (), resolved)
    problem = linear(gram, targets if joint else targets[0], resolved.members, ridge, scale)
    state = State(problem, resolved.positions)
    return LinearSetup(gram, targets, resolved, ridge, scale, problem, state, first, intercept)


def refuse_several(target: Any) -> None:
    """Refuse several responses, for a method of one."""
    if isinstance(target, list | tuple):
        raise ArgumentError(
            f"target is {target!r}; it must be one column here, lists are for anytime_sequence "
            "and sght of one Gram or table"
        )


def check_target(target: Any) -> None:
    """Refuse a target that is not one column."""
    refuse_several(target)
    if not isinstance(target, str):
        raise ColumnError(f"target is {target!r}; it must be the name of a column")


def check_targets(targets: Sequence[Any]) -> None:
    """Refuse a list of responses that is empty or names one twice."""
    if not targets:
        raise ArgumentError(f"target is {targets!r}; it must name at least one column")
    for name in targets:
        if not isinstance(name, str):
            raise ColumnError(f"target has {name!r}; it must list names of columns")
        if targets.count(name) > 1:
            raise ColumnError(f"target names column '{name}' twice")


def prefix_coefficients(search: LinearSetup) -> Matrix:
    """Return w of the groups added so far, after none, one, two, ... of them.

    Returns
    -------
    shape (groups added + 1, D), on unit-variance columns; least squares on nearly
    dependent columns is refined, for the digits that the solver lost
    """
    return _refined(search, search.target, search.problem, search.state.coefficients())


def _refined(search: LinearSetup, target: str, problem: Linear, coef: Matrix) -> Matrix:
    lowest, highest = REFINED_CONDITIONS
    if search.ridge or not lowest <= search.state.condition() <= highest:
        return coef
    own = problem.target_spread / problem.spread
    # From the comoments to correlations.
    unit = 1.0 / (search.gram.weight * problem.target_spread * problem.spread)
    members = search.groups.members
    for _ in range(REFINED_ROUNDS):
        left = prefix_residuals(search.gram, target, members, coef * own)
        coef = coef + search.state.corrections(left * unit)
    return coef


def finish(
    search: LinearSetup,
    rule: str,
    records: list[Step],
    coef: Matrix,
    stop: Stop,
) -> AnytimeSequence:
    """Return the sequence of some steps.

    Parameters
    ----------
    coef : shape (steps + 1, D), w of every prefix on unit-variance columns

    Warns
    -----
    ConditionWarning : the columns selected at the end are nearly dependent
    DependenceWarning : a column that is left out as dependent may explain much
    """
    check_possible(search.state)
    condition = search.state.condition()
    warn_of(condition)
    warn_of_dropped(search.state, search.groups.members)
    return build(
        search.gram,
        search.problem,
        target=search.target,
        groups=search.groups,
        rule=rule,
        ridge=search.ridge,
        scale=search.scale,
        records=records,
        coef=coef,
        aliased=search.state.aliased,
        stop=search.ended(stop, coef),
        condition=condition,
        has_intercept=search.intercept,
    )


def finish_joint(search: LinearSetup, rule: str, records: list[Step], stop: Stop) -> JointSequence:
    """Return the sequence of the groups added, for several responses.

    Warns
    -----
    ConditionWarning : the columns selected at the end are nearly dependent
    """
    check_possible(search.state)
    condition = search.state.condition()
    warn_of(condition)
    share = search.problem.share
    gains = search.state.response_gains() / share
    coef = search.state.coefficients() / np.sqrt(share)[:, None]
    stop = search.ended(stop, coef)
    responses = {}
    for k, target in enumerate(search.targets):
        problem = search.problem.response(k)
        responses[target] = build(
            search.gram,
            problem,
            target=target,
            groups=search.groups,
            rule=f"{rule}, for several responses",
            ridge=search.ridge,
            scale=search.scale,
            records=[
                replace(step, gain=float(gain), explained=float(explained))
                for step, gain, explained in zip(
                    records, gains[:, k], at_most_all(np.cumsum(gains[:, k])), strict=True
                )
            ],
            coef=_refined(search, target, problem, coef[:, k]),
            aliased=search.state.aliased,
            stop=stop,
            condition=condition,
            has_intercept=search.intercept,
        )
    return JointSequence(rule, responses)


def fitted(search: LinearSetup, state: State) -> dict[str, Any]:
    """Return the parts of the `Model` on the selected groups of a state."""
    problem, groups = search.problem, search.groups
    scaled = state.coef()
    coef = scaled * (problem.target_spread / problem.spread)
    members = groups.members
    at = np.concatenate([np.empty(0, np.intp), *(groups.positions[g] for g in state.held)])
    if search.ridge == 0 and not state.apart:
        kept = {members[j]: float(coef[j]) for j in state.support}
        coef[state.support] = list(refined(search.gram, search.target, kept).values())
    return {
        "target": search.target,
        "intercept": float(problem.target_mean - coef @ problem.mean),
        "coefficients": {members[j]: float(coef[j]) for j in at.tolist()},
        "groups": [groups.names[group] for group in state.held],
        "spent": float(groups.costs[state.held].sum()),
        "explained": state.explained,
        "r2": float(at_most_all(state.explained + scaled**2 @ problem.ridge)),
        "aliased": tuple(members[j] for j in state.aliased),
        "rows": search.gram.rows,
        "skipped": search.gram.skipped,
        "fit": search.fitted_rows(0 < len(state.held) < len(groups.names)),
        "terms": search.gram.terms.of({members[j] for j in at.tolist()}),
    }


def check_first(
    groups: Groups, first: Sequence[int], budget: float | None, max_groups: int | None
) -> None:
    """Refuse groups to take first that go beyond the limits."""
    cost = float(groups.costs[list(first)].sum())
    if not fits(cost, budget):
        raise ArgumentError(f"always costs {cost:g} in all; that is over the budget of {budget}")
    if max_groups is not None and len(first) > max_groups:
        raise ArgumentError(f"always names {len(first)} groups; max_groups allows {max_groups}")


def _gram_of(
    source: Any, targets: list[str], groups: Any, null_policy: NullPolicy, weight: str | None
) -> tuple[Gram, list[str]]:
    """Take a Gram as it is; read of a table only what the groups name.

    Also returns the numeric columns of the table that were not read.
    """
    if isinstance(source, Mapping):
        source = Gram.from_struct(source)
    stored = stored_gram(source)
    if stored is not None:
        check_no_rows(weight, null_policy)
        return stored, []
    named = named_in(groups, source)
    patterns = None if named is None else list(dict.fromkeys([*targets, *named]))
    table = open_table(source, patterns)
    check_numeric(table, targets)
    return read_columns(table, patterns, weight, policy_but_for(targets, null_policy))


def policy_but_for(targets: Sequence[str], null_policy: NullPolicy) -> NullPolicy:
    """Return a policy by which rows without a target are left out."""
    if null_policy == "skip":
        return null_policy
    policies = dict(null_policy) if isinstance(null_policy, Mapping) else {"*": null_policy}
    others = {name: each for name, each in policies.items() if name not in targets}
    return {**others, **dict.fromkeys(targets, "skip")}  # the last one holds


def named_in(groups: Any, source: Any) -> list[str] | None:
    """Return the columns and globs that groups name; None if there are no groups.

    Raises
    ------
    ArgumentError : the source is an array, whose columns groups do not put in order
    """
    if isinstance(source, np.ndarray):
        raise ArgumentError(
            "source is an array, whose columns have no names; give a frame, or a Gram made by "
            "gram(array, columns=[...])"
        )
    if not isinstance(groups, Mapping):
        return None
    named = [each for name, means in groups.items() for each in patterns_of(name, means)]
    return list(dict.fromkeys(named))


def numbers_of(always: Sequence[str], groups: Groups) -> list[int]:
    """Return the numbers of the groups to take first."""
    check_names("always", always)
    first = [groups.number(name, "always") for name in always]
    if len(set(first)) < len(first):
        raise GroupError(f"always is {list(always)}; it names a group twice")
    return first

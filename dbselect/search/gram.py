"""Search on one Gram matrix: the linear problem, its state, and the sequence of its steps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dbselect.linear.condition import check_held, warn_of_leak
from dbselect.linear.inference import FittedRows, check_read, through_origin
from dbselect.linear.least_squares import least_squares, refined
from dbselect.linear.problem import Index, Linear, check_filled, check_usable, linear
from dbselect.linear.state import LinearState
from dbselect.record.dependences import shares_of
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import groups_of, numbers_of
from dbselect.record.missing import features_of
from dbselect.record.policies import clip_share, is_saturated
from dbselect.record.steps import Step, Stop, spent_after
from dbselect.results.call import Call
from dbselect.results.joint import JointSequence
from dbselect.results.model import Model
from dbselect.results.sequence import Sequence as LinearSequence
from dbselect.results.sequence import build
from dbselect.search.compiled import compiled_sequence
from dbselect.search.protocol import Search
from dbselect.search.table import gram_of_problem
from dbselect.selection.criteria import RULES, Criterion
from dbselect.sources.progress import Turn
from dbselect.spec.spec import Spec

#: Condition numbers between which the coefficients of all prefixes are refined: below,
#: they keep ten of sixteen digits without that; above, a correction has no digit right.
REFINED_CONDITIONS = (1e6, 1e14)


@dataclass(eq=False)
class GramSearch(Search):
    """A linear problem on its Gram matrix."""

    gram: Gram  # through the origin for models without intercept
    # whether a walk only adds groups, so that all prefixes can be computed at its end
    adds_only: bool = False
    is_joint: bool = False  # whether target is a list, even of one response

    @cached_property
    def linear(self) -> Linear:
        """The problem on unit-variance columns; compiled walks make their own."""
        problem = self.call.problem
        target = problem.targets if self.is_joint else self.target
        return linear(self.gram, target, self.groups.members, problem.ridge, problem.scale)

    @cached_property
    def state(self) -> LinearState:
        """The selected groups; compiled walks keep a state of their own."""
        return LinearState(self.linear, self.groups.positions)

    @property
    def target(self) -> str:
        """The column to predict, the first of several."""
        return self.call.problem.targets[0]

    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return the criterion that a rule maximises per unit of cost."""
        return RULES[rule].criterion(self.state)

    def dependent(self) -> list[str]:
        """Return the selected columns that depend linearly on others."""
        return [self.groups.members[j] for j in self.state.aliased]

    def check_held(self) -> None:
        """Refuse an impossible Gram, and warn of nearly dependent columns."""
        check_held(self.state, self.groups.members)

    def kept(self) -> Any:
        """Return the coefficients; None if those of all prefixes are computed at the end."""
        return None if self.adds_only else self.state.coef()

    def restored(self, steps: Sequence[Step]) -> None:
        """Repeat the steps on a new state."""
        fresh = LinearState(self.linear, self.groups.positions)
        for step in steps:
            (fresh.add if step.action == "add" else fresh.remove)(step.group)
        self.state = fresh

    def compiled(self, rule: str, turn: Turn) -> Any:
        """Run the walk in the compiled library; None if the library lacks it."""
        return compiled_sequence(self, rule, turn)

    def sequence(
        self, rule: str, steps: list[Step], kept: list[Any], stop: Stop
    ) -> LinearSequence | JointSequence:
        """Build the sequence of the steps."""
        condition = check_held(self.state, self.groups.members)
        if self.is_joint:
            return self._joint(rule, steps, stop, condition)
        coef = prefix_coefficients(self) if self.adds_only else np.array(kept)
        return build(
            self.gram, self.linear, call=self.call, target=self.target, groups=self.groups,
            rule=rule, records=steps, coef=coef, aliased=self.state.aliased,
            stop=self._ended(stop, coef), condition=condition,
        )  # fmt: skip

    def _joint(self, rule: str, steps: list[Step], stop: Stop, condition: float) -> JointSequence:
        share = self.linear.share
        gains = self.state.response_gains() / share
        coef = self.state.coefficients() / np.sqrt(share)[:, None]
        stop, spent = self._ended(stop, coef), spent_after(steps, self.groups)
        responses = {}
        for k, target in enumerate(self.call.problem.targets):
            response = self.linear.response(k)
            reached = clip_share(np.cumsum(gains[:, k]))
            responses[target] = build(
                self.gram, response, call=self.call, target=target, groups=self.groups,
                rule=f"{rule}, for several responses",
                records=[
                    Step(step.action, step.group, step.score, gain, explained, step.choice)
                    for step, gain, explained in zip(
                        steps, gains[:, k].tolist(), reached.tolist(), strict=True
                    )
                ],
                spent=spent, coef=_refined(self, target, coef[:, k]), aliased=self.state.aliased,
                stop=stop, condition=condition,
            )  # fmt: skip
        return JointSequence(rule, responses)

    def _ended(self, stop: Stop, coef: Matrix) -> Stop:
        """Return the reason of a stop; `Stop.SATURATED` if a prefix is saturated."""
        problem = self.call.problem
        used = (coef != 0).sum(axis=-1).max(initial=len(self.state.support)) + problem.intercept
        return Stop.SATURATED if is_saturated(self.gram.rows, used, problem.ridge) else stop

    def fitted_rows(self, chosen: bool) -> FittedRows:
        """Return the rows for standard errors; `chosen` if they also selected the groups."""
        problem = self.call.problem
        return FittedRows(self.gram, problem.ridge, chosen, problem.intercept)

    def model(self, state: LinearState) -> Model:
        """Return the model on the selected groups of a state."""
        check_held(state, self.groups.members)
        chosen = 0 < len(state.held) < len(self.groups.names)
        return Model(**self.parts(state), fit=self.fitted_rows(chosen))

    def parts(self, state: LinearState) -> dict[str, Any]:
        """Return the fields of the model on the selected groups, without `fit`."""
        problem, members = self.linear, self.groups.members
        coef = state.coef() * (problem.target_spread / problem.spread)
        if self.call.problem.ridge == 0 and not state.apart:
            columns = [members[j] for j in state.support]
            refit = least_squares(self.gram, self.target, columns)
            if not refit.is_aliased.any():
                coef[state.support] = refit.coef
        at = np.concatenate([np.empty(0, np.intp), *(self.groups.positions[g] for g in state.held)])
        fields = self.parts_of(self.target, problem, coef, at, state.held, state.explained)
        return fields | {"aliased": tuple(members[j] for j in state.aliased)}

    def parts_of(
        self, target: str, problem: Linear, coef: Vector, at: Index, held: Sequence[int],
        explained: float,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the fields of a model; `coef` has D numbers, `at` the columns of the model."""
        groups, scaled = self.groups, coef * (problem.spread / problem.target_spread)
        coefficients = {groups.members[j]: float(coef[j]) for j in at.tolist()}
        return {
            "target": target,
            "intercept": float(problem.target_mean - coef @ problem.mean),
            "coefficients": coefficients,
            "groups": [groups.names[group] for group in held],
            "spent": groups.spent(held),
            "explained": explained,
            "r2": float(clip_share(explained + scaled**2 @ problem.ridge)),
            "rows": self.gram.rows,
            "skipped": self.gram.skipped,
            "terms": self.gram.terms.of(coefficients).with_shares(shares_of(self.gram)),
            "call": self.call,
        }


def gram_search(
    problem: Spec,
    call: Call,
    *,
    several: bool = False,
    sharing: bool = False,
    adds_only: bool = False,
) -> GramSearch:
    """Read the Gram of a problem, match its groups and set up the search, in 24 D^2 bytes.

    `several`: the method takes a list of responses; `sharing`: groups may share columns.
    """
    gram, unread = gram_of_problem(problem)
    targets = problem.targets
    for name in targets:
        gram.position(name, "target")
    if call.method in ("step", "knockoffs"):
        check_read(gram, call.method)
    if not problem.intercept:
        check_filled(gram, targets)
        gram = through_origin(gram)
    # Before matching groups, as a table without usable rows has no levels.
    check_usable(gram, targets)
    features = features_of(gram.columns, targets, gram.terms)
    groups = groups_of(
        features,
        problem.groups,
        problem.costs,
        targets,
        gram.terms,
        sharing,
        adds_only,
        problem.told,
    )
    if unread:
        groups = replace(groups, unused=(*groups.unused, *unread))
    first = numbers_of(problem.always, groups)
    is_joint = several and isinstance(problem.target, list | tuple)
    search = GramSearch(call, groups, first, gram, adds_only, is_joint)
    if problem.intercept and not is_joint:
        warn_of_leak(gram, groups, targets[0])
    return search


def prefix_coefficients(search: GramSearch) -> Matrix:
    """Return the coefficients of all prefixes, (steps + 1, D); refined if ill-conditioned."""
    return _refined(search, search.target, search.state.coefficients())


def _refined(search: GramSearch, target: str, coef: Matrix) -> Matrix:
    lowest, highest = REFINED_CONDITIONS
    if search.call.problem.ridge or not lowest <= search.state.condition() <= highest:
        return coef
    support = search.state.support
    columns = [search.groups.members[j] for j in support]
    result = coef.copy()
    result[:, support] = refined(search.gram, target, columns, coef[:, support])
    return result

"""A search on one Gram matrix: the linear problem, its state, and the sequence of its steps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dbselect.linear.condition import check_held, warn_of_leak
from dbselect.linear.inference import FittedRows, through_origin
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

    gram: Gram  # of the rows; through the origin where the models are
    # whether a walk only adds groups, so that the models of all prefixes are known at its end
    adds_only: bool = False
    is_joint: bool = False  # whether there is a list of responses, even of one

    @cached_property
    def linear(self) -> Linear:
        """The problem on unit-variance columns; the compiled library has one of its own."""
        problem = self.call.problem
        target = problem.targets if self.is_joint else self.target
        return linear(self.gram, target, self.groups.members, problem.ridge, problem.scale)

    @cached_property
    def state(self) -> LinearState:
        """The selected groups; the compiled library has a state of its own."""
        return LinearState(self.linear, self.groups.positions)

    @property
    def target(self) -> str:
        """The column to predict, the first of several."""
        return self.call.problem.targets[0]

    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return what a rule maximises per unit of cost."""
        return RULES[rule].criterion(self.state)

    def dependent(self) -> list[str]:
        """Return the selected columns that depend linearly on others."""
        return [self.groups.members[j] for j in self.state.aliased]

    def check_held(self) -> None:
        """Refuse columns that no rows can have, and warn of those that nearly depend on others."""
        check_held(self.state, self.groups.members)

    def kept(self) -> Any:
        """Return the coefficients; None where those of all prefixes are computed at the end."""
        return None if self.adds_only else self.state.coef()

    def restored(self, steps: Sequence[Step]) -> None:
        """Make the steps again on a state without selected groups."""
        fresh = LinearState(self.linear, self.groups.positions)
        for step in steps:
            (fresh.add if step.action == "add" else fresh.remove)(step.group)
        self.state = fresh

    def compiled(self, rule: str, turn: Turn) -> Any:
        """Return the sequence that the compiled library finds; None where it has no such walk."""
        return compiled_sequence(self, rule, turn)

    def sequence(
        self, rule: str, steps: list[Step], kept: list[Any], stop: Stop
    ) -> LinearSequence | JointSequence:
        """Return the sequence of some steps."""
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
            own = self.linear.response(k)
            reached = clip_share(np.cumsum(gains[:, k]))
            responses[target] = build(
                self.gram, own, call=self.call, target=target, groups=self.groups,
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
        """Return why a search ended, or that some prefix of it is saturated."""
        problem = self.call.problem
        used = (coef != 0).sum(axis=-1).max(initial=len(self.state.support)) + problem.intercept
        return Stop.SATURATED if is_saturated(self.gram.rows, used, problem.ridge) else stop

    def fitted_rows(self, chosen: bool) -> FittedRows:
        """Return the rows, for the standard errors of a model whose groups they chose or not."""
        problem = self.call.problem
        return FittedRows(self.gram, problem.ridge, chosen, problem.intercept)

    def model(self, state: LinearState) -> Model:
        """Return the model on the selected groups of a state."""
        check_held(state, self.groups.members)
        chosen = 0 < len(state.held) < len(self.groups.names)
        return Model(**self.parts(state), fit=self.fitted_rows(chosen))

    def parts(self, state: LinearState) -> dict[str, Any]:
        """Return the parts of the model on the selected groups of a state, but for its rows."""
        own, members = self.linear, self.groups.members
        coef = state.coef() * (own.target_spread / own.spread)
        if self.call.problem.ridge == 0 and not state.apart:
            kept = [members[j] for j in state.support]
            alone = least_squares(self.gram, self.target, kept)
            if not alone.is_aliased.any():
                coef[state.support] = alone.coef
        at = np.concatenate([np.empty(0, np.intp), *(self.groups.positions[g] for g in state.held)])
        found = self.parts_of(self.target, own, coef, at, state.held, state.explained)
        return found | {"aliased": tuple(members[j] for j in state.aliased)}

    def parts_of(
        self, target: str, own: Linear, coef: Vector, at: Index, held: Sequence[int],
        explained: float,
    ) -> dict[str, Any]:  # fmt: skip
        """Return the parts of a model by its coefficients, of which some columns have one."""
        groups, scaled = self.groups, coef * (own.spread / own.target_spread)
        coefficients = {groups.members[j]: float(coef[j]) for j in at.tolist()}
        return {
            "target": target,
            "intercept": float(own.target_mean - coef @ own.mean),
            "coefficients": coefficients,
            "groups": [groups.names[group] for group in held],
            "spent": groups.spent(held),
            "explained": explained,
            "r2": float(clip_share(explained + scaled**2 @ own.ridge)),
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
    if not problem.intercept:
        check_filled(gram, targets)
        gram = through_origin(gram)
    # Before the groups: of a table without usable rows no level of a category is known.
    check_usable(gram, targets)
    features = features_of(gram.columns, targets, gram.terms)
    groups = groups_of(
        features, problem.groups, problem.costs, targets, gram.terms, sharing, adds_only
    )
    if unread:
        groups = replace(groups, unused=(*groups.unused, *unread))
    first = numbers_of(problem.always, groups)
    is_joint = several and isinstance(problem.target, list | tuple)
    search = GramSearch(call, groups, first, gram, adds_only, is_joint)
    if problem.intercept and not is_joint:
        warn_of_leak(gram, groups.columns, targets[0])
    return search


def prefix_coefficients(search: GramSearch) -> Matrix:
    """Return the coefficients of all prefixes, (steps + 1, D), refined if nearly dependent."""
    return _refined(search, search.target, search.state.coefficients())


def _refined(search: GramSearch, target: str, coef: Matrix) -> Matrix:
    lowest, highest = REFINED_CONDITIONS
    if search.call.problem.ridge or not lowest <= search.state.condition() <= highest:
        return coef
    support = search.state.support
    columns = [search.groups.members[j] for j in support]
    found = coef.copy()
    found[:, support] = refined(search.gram, target, columns, coef[:, support])
    return found

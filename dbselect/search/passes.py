"""Search of a generalised linear model in passes: one refit a step, many candidates a pass."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dbselect.errors import ArgumentError, ColumnError, DataError
from dbselect.families import parse
from dbselect.glm.constrained import fitted_under_signs
from dbselect.glm.dispersion import most_likely
from dbselect.glm.families import LARGEST_DEVIANCE, Offset
from dbselect.glm.links import ESTIMATED, family_of
from dbselect.glm.newton import GlmFit, GlmProblem, extended, solved, start
from dbselect.glm.passes import Data, Roles, first_pass
from dbselect.glm.state import PassState
from dbselect.linear.blas import SMALL_SQUARE
from dbselect.linear.least_squares import Constraint, sign_numbers
from dbselect.linear.problem import Linear
from dbselect.linear.state import LinearState
from dbselect.record.columns import Leaf
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups, groups_of, numbers_of
from dbselect.record.steps import Step, Stop, within
from dbselect.record.terms import Terms
from dbselect.results.call import Call
from dbselect.results.glm.build import aliased_of, model_of, prefix_of, sequence_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.search.protocol import Search, check_first
from dbselect.search.table import gram_given, policy_but_for, referenced_columns, table_of
from dbselect.selection.criteria import RULES, Criterion, OnGlm, Rule
from dbselect.sources.passes import Passes
from dbselect.sources.progress import Callback, Turn, turns
from dbselect.sources.read import read_columns
from dbselect.sources.request import Table, refusal
from dbselect.spec.spec import Spec

#: Most classes of a multinomial target: a pass makes a Gram for each two of them.
MOST_CLASSES = 40
#: A fit (a fit within a search) stops if a step explains less than this share of the null deviance;
#: it moves predictors by about 1e-5 (1e-4), and the error of Newton's method is its square.
FIT_TOL, STEP_TOL = 1e-10, 1e-8
#: Most passes of a fit; few fits need eight.
MAX_ITER = 25
#: Null deviance per unit of weight below which there is nothing to explain.
ROUNDING_DEVIANCE = 1e-14
#: Factor of the tolerance for links that are not canonical: Fisher scoring converges linearly.
SCORING_SHARE = 1e-4


@dataclass(frozen=True)
class Columns:
    """The columns of a model, made of those of a table."""

    terms: Terms | None = None  # with the numbers that fill missing values
    names: Sequence[str] | None = None  # columns of each Gram; None: all columns of the terms


def family_table(problem: Spec, columns: Sequence[str] | None = None) -> Table:
    """Return the table of a problem that is fitted in passes; `columns` None reads all."""
    gram_given(problem)
    return table_of(problem, columns)


def passes_of(
    problem: Spec, table: Table, columns: Sequence[str] | None, made: Columns | None = None
) -> Passes:
    """Check the types of the columns and set up the passes; `made` None learns the terms.

    `columns` are names and globs of the model, by default all but target, weight and offset.
    """
    offset = Offset(problem.offset, problem.exposure)
    target = problem.targets[0]
    apart = [target, *offset.names]
    if made is None:
        made = _learn(problem, table, columns, apart)
    passes = Passes(table, columns, problem.weight, apart, made.terms, made.names)
    _check_target(problem, passes.leaf(target, "target"))
    for name, role in offset.named.items():
        leaf = passes.leaf(name, role)
        if not leaf.is_numeric:
            raise ColumnError(f"{role} '{name}' has type {leaf.type}; it must be numeric")
    logs = [name for name in offset.coefficients if name != offset.offset]
    if not set(logs).isdisjoint(passes.names):
        raise ColumnError(
            f"exposure '{problem.exposure}' becomes '{logs[0]}', and there is a column of that "
            "name; rename one"
        )
    return passes


def _learn(problem: Spec, table: Table, columns: Sequence[str] | None, apart: list[str]) -> Columns:
    """Learn the columns of the model; filling missing values takes one pass."""
    if problem.null_policy == "skip" or not table.again:
        return Columns(problem.terms)
    patterns = None if columns is None else list(dict.fromkeys([*columns, *apart]))
    policy = policy_but_for(apart, problem.null_policy)
    gram, _ = read_columns(table, patterns, problem.weight, policy, problem.terms)
    sources = gram.terms.sources()
    names = [name for name in gram.columns if sources.get(name, name) not in apart]
    return Columns(gram.terms, names)


def _check_target(problem: Spec, leaf: Leaf) -> None:
    family = parse(problem.family)
    is_number = leaf.is_numeric and leaf.unit is None
    if is_number or (leaf.is_text and family.name in ("binomial", "multinomial")):
        return
    if family.has_classes:
        raise ColumnError(
            f"target '{leaf.name}' has type {leaf.type}; a multinomial target must be text, "
            "numeric or boolean"
        )
    allowed = family_of(str(family)).allowed
    raise ColumnError(refusal(leaf.name, leaf.type, allowed, str(family)))


def groups_in(problem: Spec, passes: Passes) -> Groups:
    """Match the groups of a problem to the columns that are read in passes."""
    groups = groups_of(
        passes.names,
        problem.groups,
        problem.costs,
        problem.targets[0],
        passes.terms,
        told=problem.told,
    )
    return replace(groups, unused=(*groups.unused, *passes.unread))


def opened(problem: Spec) -> tuple[Passes, Groups]:
    """Open the table of a problem and match its groups; only levels of texts are read."""
    columns = referenced_columns(problem)
    passes = passes_of(problem, family_table(problem, columns), columns)
    return passes, groups_in(problem, passes)


def roles_of(problem: Spec, passes: Passes, members: list[str]) -> Roles:
    """Return the roles of the columns; classes or levels of the target are read."""
    target = problem.targets[0]
    leaf, name = passes.leaf(target, "target"), str(parse(problem.family))
    if parse(problem.family).has_classes:
        family = family_of(name, _classes(passes, leaf))
    elif leaf.is_text or problem.positive is not None:
        family = family_of(name, _levels(passes, leaf, problem.positive))
    else:
        family = family_of(name)
    offset = Offset(problem.offset, problem.exposure)
    return Roles(family, target, members, offset, bool(problem.intercept))


def _classes(passes: Passes, leaf: Leaf) -> list[Any]:
    classes = passes.values_of(leaf, MOST_CLASSES)
    if not 2 <= len(classes) <= MOST_CLASSES:
        count = len(classes) if len(classes) < 2 else f"more than {MOST_CLASSES}"
        raise DataError(
            f"target '{leaf.name}' has {count} different values; a multinomial target must have "
            f"2 to {MOST_CLASSES}"
        )
    if any(isinstance(value, float) and math.isinf(value) for value in classes):
        raise DataError(f"target '{leaf.name}' has an infinite value; a class must be finite")
    return classes


def _levels(passes: Passes, leaf: Leaf, positive: Any) -> list[Any]:
    """Read the two levels of a binomial target; the second counts as 1."""
    levels = passes.values_of(leaf, 2)
    if len(levels) != 2:
        count = f"only {levels[0]!r}" if levels else "no value"
        raise DataError(
            f"target '{leaf.name}' has {count if len(levels) < 2 else 'more than two levels'}; a "
            "binomial target must have two: of more, predict all with family 'multinomial'"
        )
    if positive is None:
        return levels
    # The command line passes any level as text.
    same = [level for level in levels if level == positive or _text_of(level) == positive]
    if len(same) != 1:
        raise ArgumentError(
            f"positive is {positive!r}; target '{leaf.name}' has the levels {levels}"
        )
    return [level for level in levels if level != same[0]] + same


def _text_of(level: Any) -> str:
    """Return a level as text of the command line; booleans as SQL writes them."""
    return str(level).lower() if isinstance(level, bool) else str(level)


def data_of(problem: Spec, passes: Passes, members: list[str]) -> Data:
    """Make the first pass; if the family has a parameter to estimate, more passes for it."""
    data = first_pass(passes, roles_of(problem, passes, members))
    if str(parse(problem.family)) != ESTIMATED:
        return data
    all_columns = Groups({"columns": members}, np.ones(1))
    settled = settled_problem(data, all_columns, problem.ridge, tol=FIT_TOL)
    name = f"{ESTIMATED}({most_likely(data, *settled):.8g})"
    return first_pass(passes, replace(data.roles, family=family_of(name)))


def begun(
    problem: Spec, passes: Passes, groups: Groups, tol: float, max_iter: int | None = None
) -> tuple[Data, GlmProblem, GlmFit]:
    """Make the first pass; return its data, the problem of all passes, and the null model."""
    data = data_of(problem, passes, groups.members)
    settled, null = settled_problem(
        data, groups, problem.ridge, scale=problem.scale, tol=tol, max_iter=max_iter or MAX_ITER
    )
    return data, settled, null


def settled_problem(
    data: Data,
    groups: Groups,
    ridge: float,
    *,
    scale: bool = True,
    tol: float,
    max_iter: int = MAX_ITER,
) -> tuple[GlmProblem, GlmFit]:
    """Return the problem, which is the same in all passes, and the null model."""
    family = data.roles.family
    point, model = data.start()
    if model.deviance <= ROUNDING_DEVIANCE * data.weight:
        raise DataError(
            f"target '{data.roles.target}' is predicted exactly by the model without columns; "
            "there is nothing to explain"
        )
    bounded = bool(data.roles.offsets.names) and not family.at_zero
    if bounded and model.deviance >= LARGEST_DEVIANCE * data.weight:
        what = " and ".join(f"{role} '{name}'" for name, role in data.roles.offsets.named.items())
        raise DataError(
            f"family '{family.name}' has no mean for some rows where {what} is all of the "
            "predictor; take another link"
        )
    unit = np.ones(len(data.mean)) if scale else data.spread
    problem = GlmProblem(
        correlation=data.correlation,
        constant=data.constant,
        ridge=ridge / unit**2,
        unit=unit,
        members=groups.positions,
        weight=data.weight,
        null_deviance=model.deviance,
        free=family.basis.shape[1],
        exact=family.quadratic,
        tol=tol if family.is_canonical else tol * SCORING_SHARE,
        max_iter=max_iter,
        has_intercept=data.roles.has_intercept,
        is_canonical=family.is_canonical,
        bounded_weight=None if family.at_zero else float(np.trace(model.corner)),
    )
    return problem, start(problem, point, model)


class FamilySearch(Search):
    """Base of the searches of a generalised linear model, whose states have a fit."""

    if TYPE_CHECKING:

        @property
        def data(self) -> Data:
            """The rows after their first pass."""

    def dependent(self) -> list[str]:
        """Return the selected columns that depend linearly on others."""
        return list(aliased_of(self.data, self.state.fit))

    def kept(self) -> Any:
        """Return the fit without its matrices."""
        return prefix_of(self.data, self.state.fit)

    def sequence(self, rule: str, steps: list[Step], kept: list[Any], stop: Stop) -> GlmSequence:
        """Build the sequence of the steps, with the fit after each."""
        return self.fitted(self.data, self.state.fit, rule, steps, kept, stop)

    def fitted(
        self, data: Data, last: GlmFit, rule: str, steps: list[Step], kept: list[Any], stop: Stop,
        rows_searched: int | None = None,
    ) -> GlmSequence:  # fmt: skip
        """Build the sequence from steps and their fits to the rows of `data`."""
        warn_of_fit(data, last)
        return sequence_of(data, self.groups, rule, self.call, steps, kept, stop, rows_searched)


@dataclass(eq=False)
class PassSearch(FamilySearch):
    """A generalised linear model that is fitted in passes over its table."""

    state: PassState
    data: Data

    @contextmanager
    def progress(self, total: int | None, unit: str, callback: Callback | None) -> Iterator[Turn]:
        """Count the passes on a terminal, and call back after each turn of a walk."""
        with turns(total, unit, callback, bar=False) as turn, self.data.passes.shown():
            yield turn

    @property
    def is_small(self) -> bool:
        """Whether products are so small that one BLAS thread is fastest."""
        return len(self.groups.members) <= SMALL_SQUARE

    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return the criterion that a rule maximises per unit of cost."""
        if self.state.problem.exact or RULES[rule].on_glm is not OnGlm.REFITS:
            return lambda state: criterion_near(state.problem, state.fit, RULES[rule])
        groups = self.groups
        self.state.in_companies = True

        def gains_of_refits(state: PassState) -> Vector:
            offers = groups.prices.offers(state.held)
            waiting = np.ones(len(groups.costs), dtype=bool)
            waiting[state.held] = False
            fitting = offers.among(waiting) & within(
                groups.spent(state.held) + offers.costs, budget
            )
            candidates = np.flatnonzero(fitting).tolist()
            gains = np.zeros(len(waiting))
            companies = [groups.prices.with_needs(group, state.held) for group in candidates]
            gains[candidates] = state.try_all(companies, offers.counted)
            return gains

        return gains_of_refits

    def model(self, state: PassState) -> GlmModel:
        """Return the model on the selected groups of a state."""
        return model_of_groups(self.call, self.data, self.groups, state.problem, state.fit)


def pass_search(
    problem: Spec,
    call: Call,
    *,
    budget: float | None,
    most: int | None,
    tol: float | None,
    max_iter: int | None,
) -> PassSearch:
    """Check `always` against `budget` and `most`, and make the first pass over the table."""
    passes, groups = opened(problem)
    first = numbers_of(problem.always, groups)
    check_first(groups, first, budget, most)
    with passes.shown():
        data, settled, null = begun(problem, passes, groups, tol or STEP_TOL, max_iter)
    return PassSearch(call, groups, first, PassState(settled, null, data.read), data)


def fitted_in_passes(
    problem: Spec,
    call: Call,
    columns: Sequence[str] | None,
    groups_of: Any,
    *,
    tol: float | None,
    max_iter: int | None,
    signs: Mapping[str, str] | None = None,
) -> GlmModel:
    """Fit all columns at once, in passes; `groups_of` makes groups of the columns of passes."""
    passes: Passes = passes_of(problem, family_table(problem, columns), columns)
    groups = groups_of(passes)
    signed = sign_numbers(signs or {}, groups.members)
    with passes.shown():
        data, settled, null = begun(problem, passes, groups, tol or FIT_TOL, max_iter)
        every = range(len(groups.costs))
        fittings = [extended(settled, null, every)]
        if signs:
            # The passes also serve the fit without signs, which shows what they cost.
            fittings.append(fitted_under_signs(settled, null, every, signed))
        free, *under_signs = solved(fittings, data.read)
    fit = under_signs[0] if under_signs else free
    constraint = None
    if fit.violation is not None:
        cost = max(fit.deviance - free.deviance, 0.0) / settled.null_deviance
        at_zero = (fit.point.coef[:, 0] == 0.0) & (signed != 0.0)
        names = tuple(np.array(groups.members)[at_zero].tolist())
        constraint = Constraint(cost, names, fit.violation, {"signs": dict(signs or {})})
    warn_of_fit(data, fit)
    return model_of_groups(call, data, groups, settled, fit, constraint=constraint)


def model_of_groups(
    call: Call, data: Data, groups: Groups, settled: Any, fit: GlmFit, **more: Any
) -> GlmModel:
    """Return the model of a fit on some groups."""
    return model_of(
        data, settled, fit,
        [groups.members[j] for j in settled.columns(fit.groups).tolist()],
        call,
        groups=[groups.names[group] for group in fit.groups],
        spent=groups.spent(fit.groups),
        **more,
    )  # fmt: skip


def criterion_near(problem: GlmProblem, fit: GlmFit, rule: Rule) -> Vector:
    """Return the scores of the J groups by a rule without refits; O(D P) by the gradient."""
    near = fit.state
    if rule.on_glm is OnGlm.GRADIENT:
        size = len(problem.unit)
        b = fit.state.b.reshape(size, problem.free).T
        linear = Linear(
            problem.correlation, b, problem.ridge, problem.unit, np.ones(size), problem.constant,
            np.zeros(size), 0.0, problem.scale,
        )  # fmt: skip
        near = LinearState(linear, problem.members)
    return rule.criterion(near)(near)

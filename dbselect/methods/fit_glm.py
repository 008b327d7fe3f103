"""Generalised linear models of tables that are read in passes: one fit, or a sequence."""

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dbselect.errors import ArgumentError, ColumnError, DataError, SourceError
from dbselect.glm.families import Family
from dbselect.glm.named import check_family_name, family_of
from dbselect.glm.newton import GlmFit, Problem, extended, solved, start
from dbselect.glm.pass_state import PassState
from dbselect.glm.passes import Data, Roles, first_pass
from dbselect.methods.options import Options
from dbselect.methods.setup import check_first, named_in, numbers_of, refuse_several
from dbselect.methods.types import (
    Costs,
    FamilyName,
    GlmRuleName,
    GroupColumns,
    GroupNames,
    TableSource,
)
from dbselect.record.checks import (
    check_budget,
    check_choice,
    check_column,
    check_count,
    check_names,
    check_ridge,
    check_scale,
)
from dbselect.record.columns import Leaf
from dbselect.record.gram import Gram, Vector
from dbselect.record.groups import Groups, groups_of
from dbselect.record.steps import Step, Stop, fits, name_of
from dbselect.record.terms import Terms
from dbselect.results.glm.build import Prefix, model_of, prefix_of, sequence_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.selection.criteria import RULES, Criterion, OnGlm, rules_of_glm
from dbselect.selection.greedy import greedy_search
from dbselect.selection.on_glm import criterion_near
from dbselect.sources.passes import Passes
from dbselect.sources.target import refusal
from dbselect.sources.turns import Callback, turns

#: Most classes of a multinomial target: a pass makes a Gram for each two of them.
MOST_CLASSES = 40
#: Null deviance below which, a unit of weight, there is nothing to explain.
ROUNDING_DEVIANCE = 1e-14
#: Share of the null deviance that the next step of a fit would explain, below which it is
#: the last. It moves predictors by some 1e-5 (1e-4), Newton's method errs by the square of
#: that and the deviance by less; a sequence goes on from there anyway.
FIT_TOL, STEP_TOL = 1e-10, 1e-8
#: What this is multiplied by where the link is not the canonical one: Fisher's scoring errs by a
#: share of the last step, not by its square.
SCORING_SHARE = 1e-4
#: Passes after which a fit gives up; eight are many.
MAX_ITER = 25


@dataclass(frozen=True, kw_only=True)
class FitGlmOptions(Options):
    """The options of `fit_glm`."""

    method: ClassVar[str] = "fit_glm"

    family: FamilyName = "binomial"
    ridge: float = 0.0
    weight: str | None = None
    offset: str | None = None
    max_iter: int = MAX_ITER
    tol: float = FIT_TOL
    terms: Terms | None = None

    def __post_init__(self) -> None:
        """Refuse options that no table could make right."""
        super().__post_init__()
        check_model(self.family, self.ridge, self.weight, self.offset)
        _check_ends(self.max_iter, self.tol)
        if not isinstance(self.terms, Terms | None):
            raise ArgumentError(
                f"terms is a {type(self.terms).__name__}; it must come from ds.terms"
            )


@dataclass(frozen=True, kw_only=True)
class AnytimeGlmOptions(Options):
    """The options of `anytime_sequence` with a family that needs passes."""

    method: ClassVar[str] = "anytime_sequence_glm"

    family: FamilyName
    rule: GlmRuleName = "fr"
    ridge: float = 0.0
    scale: bool = True
    budget: float | None = None
    max_groups: int | None = None
    always: GroupNames = ()
    weight: str | None = None
    offset: str | None = None
    max_iter: int = MAX_ITER
    tol: float = STEP_TOL

    def __post_init__(self) -> None:
        """Refuse options that no table could make right."""
        super().__post_init__()
        check_choice("rule", self.rule, rules_of_glm())
        check_scale(self.scale)
        check_budget(self.budget)
        check_count("max_groups", self.max_groups)
        check_names("always", self.always)
        check_model(self.family, self.ridge, self.weight, self.offset)
        _check_ends(self.max_iter, self.tol)


def fit_glm(
    source: TableSource,
    target: str,
    columns: Sequence[str] | None = None,
    family: FamilyName = FitGlmOptions.family,
    *,
    ridge: float = FitGlmOptions.ridge,
    weight: str | None = FitGlmOptions.weight,
    offset: str | None = FitGlmOptions.offset,
    max_iter: int = FitGlmOptions.max_iter,
    tol: float = FitGlmOptions.tol,
    terms: Terms | None = FitGlmOptions.terms,
) -> GlmModel:
    """Fit a generalised linear model to a table that is read in passes, never copied.

    The coefficients minimise ``deviance / (2 n) + ridge / 2 * sum of their squares`` on
    unit-variance columns, n the sum of the row weights; the intercept is free.

    Parameters
    ----------
    source : a table that `gram` reads, but no stream that can be read only once; a NumPy
        array needs all its column names in `columns`
    target : column to predict: 0/1 or boolean (binomial), >= 0 (poisson, negative_binomial,
        tweedie below 2), > 0 (gamma, inverse_gaussian, tweedie from 2 on), any number
        (gaussian) or one of several values (multinomial)
    columns : names and globs; default: every column of numbers, booleans, dates and text
        but the target, the weight and the offset
    family : ``"binomial"`` (logit), ``"poisson"`` (log), ``"gaussian"`` (identity),
        ``"multinomial"`` (softmax, at most 40 classes), ``"gamma"`` or ``"inverse_gaussian"``
        (log); in brackets another link, ``"binomial(probit)"``, ``"binomial(cloglog)"``,
        ``"binomial(log)"``, or a number, ``"tweedie(1.5)"``, ``"negative_binomial(0.8)"``, as
        `glm_family` makes them
    ridge : >= 0, lambda on unit-variance columns; the intercept is not penalised
    weight : column of row weights, >= 0
    offset : column that is added to the predictor, but of multinomial
    max_iter : limit on the passes of the fit after the first
    tol : the fit ends when the next step explains less than this share of the null
        deviance; that step is still taken
    terms : categories and curves, as `dbselect.terms` learns them; default: text columns as
        categories, learnt by one pass more

    Returns
    -------
    GlmModel, whose `status` says whether the fit converged

    Raises
    ------
    SourceError : there is no such table, or it can be read only once
    ColumnError : a column is unknown, named twice or not numeric
    ArgumentError : family, ridge, offset, max_iter or tol out of range
    DataError : no usable rows (a NULL or NaN, or weight 0, leaves a row out), a target
        that the family does not allow or that is the same in all rows

    Warns
    -----
    ConditionWarning : the columns are so nearly dependent that their coefficients keep
        fewer than six digits
    SeparationWarning : some columns determine the target of some rows: there are no best
        coefficients
    SkippedRowsWarning : more than half of the rows are left out

    Notes
    -----
    Passes: one for means and the model without columns (two with an offset, one more
    over the target for classes), then one for each Newton step but the last: about six
    in all. Family gaussian takes one; links that are not the canonical one some more, by
    Fisher's scoring. O(n D^2) a pass, for K classes times K (K - 1) / 2;
    memory O(D^2) a thread, for K classes O(D^2 K^2).
    Rows that some columns separate have no best coefficients: `status` is then
    ``Status.SEPARATED``, and the coefficients are those of the last pass.

    References
    ----------
    McCullagh, Nelder (1989), section 2.5; Hu, Grubb, Bagnell, Hebert (2016), appendix B.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"x": [0, 0, 1, 1], "y": [1, 3, 4, 8]})
    >>> model = ds.fit_glm(table, "y", family="poisson")
    >>> model.predict(table.select("x")).round(6).tolist()  # the mean of each x
    [2.0, 2.0, 6.0, 6.0]
    """
    options = FitGlmOptions(
        family=family, ridge=ridge, weight=weight, offset=offset, max_iter=max_iter, tol=tol,
        terms=terms,
    )  # fmt: skip
    passes = opened(source, target, columns, family, weight, offset, terms)
    if not passes.names:
        raise ColumnError(f"there is no column besides the target '{target}'; one is needed")
    groups = Groups({"columns": passes.names}, np.ones(1))
    with passes.shown():
        data = first_pass(passes, roles_of(passes, target, family, offset, passes.names))
        problem, null = problem_of(data, groups, options.ridge, True, options.max_iter, options.tol)
        (fit,) = solved([extended(problem, null, [0])], data.read)
    warn_of_fit(fit)
    return model_of(data, problem, fit, passes.names, GlmModel)


def glm_sequence(
    source: Any,
    target: Any,
    groups: GroupColumns | None,
    costs: Costs | None,
    options: AnytimeGlmOptions,
    callback: Callback | None = None,
) -> GlmSequence:
    """Order groups by how much deviance each explains for its cost, in passes over a table.

    What `dbselect.anytime_sequence` does with a family that needs passes; its parameters and
    errors are explained there, and in `fit_glm`.
    """
    family, rule, budget = options.family, options.rule, options.budget
    offset, max_groups = options.offset, options.max_groups
    passes = opened(source, target, named_in(groups, source), family, options.weight, offset)
    found = groups_of(passes.names, groups, costs, target, passes.terms)
    found = replace(found, unused=(*found.unused, *passes.unread))
    first = numbers_of(options.always, found)
    check_first(found, first, budget, max_groups)
    taken: list[tuple[Step, Prefix]] = []

    def record(step: Step) -> None:
        taken.append((step, prefix_of(data, search.fit)))
        turn(name_of(step, found), step.explained)

    # The bar is that of the passes.
    most = max_groups or len(found.costs)
    with turns(most, "groups", callback, bar=False) as turn, passes.shown():
        data = first_pass(passes, roles_of(passes, target, family, offset, found.members))
        problem, null = problem_of(
            data, found, options.ridge, options.scale, options.max_iter, options.tol
        )
        search = PassState(problem, null, data.read)
        empty = prefix_of(data, null)
        try:
            _, stop = greedy_search(
                search,
                found,
                _criterion(rule, problem.exact, found, budget),
                budget=budget,
                max_groups=max_groups,
                always=first,
                record=record,
            )
        except KeyboardInterrupt:
            # The step under way is lost, and the last one stands.
            stop = Stop.INTERRUPTED
    warn_of_fit(search.fit)
    return sequence_of(
        data, search.fit, found, rule, options.ridge, options.scale, empty, taken, stop
    )


def _criterion(rule: str, exact: bool, groups: Groups, budget: float | None) -> Criterion:
    """Return what a rule maximises per unit of cost."""
    if exact or RULES[rule].on_glm is not OnGlm.REFITS:
        return lambda search: criterion_near(search.problem, search.fit, RULES[rule])

    def gains_of_refits(search: PassState) -> Vector:
        held = search.fit.groups
        spent = groups.costs[held].sum()
        gains = np.zeros(len(groups.costs))
        open_to = [
            group
            for group, cost in enumerate(groups.costs)
            if group not in held and fits(spent + cost, budget)
        ]
        gains[open_to] = search.try_all(open_to, groups.costs)
        return gains

    return gains_of_refits


def opened(
    source: Any,
    target: Any,
    columns: Sequence[str] | None,
    family: str,
    weight: str | None,
    offset: str | None,
    terms: Terms | None = None,
) -> Passes:
    """Open the table and check what its columns are."""
    refuse_several(target)
    refuse_records(source)
    apart = [name for name in (target, offset) if name is not None]
    passes = Passes(source, columns, weight, apart, terms)
    leaf = passes.leaf(target, "target")
    if offset is not None:
        type_ = passes.leaf(offset, "offset").type
        if not passes.leaf(offset, "offset").is_numeric:
            raise ColumnError(f"offset '{offset}' has type {type_}; it must be numeric or boolean")
    is_number = leaf.is_numeric and leaf.unit is None
    if family != "multinomial" and not is_number:
        allowed = family_of(family).allowed
        raise ColumnError(refusal(target, leaf.type, allowed, family))
    if not (is_number or leaf.is_text):
        raise ColumnError(
            f"target '{target}' has type {leaf.type}; a multinomial target must be text, "
            "numeric or boolean"
        )
    return passes


def refuse_records(source: Any) -> None:
    """Refuse a Gram or its record, for a fit of rows."""
    if isinstance(source, Gram | Mapping | pa.Scalar):
        raise SourceError(
            f"source is a {type(source).__name__} and holds no rows, which every step of the fit "
            "reads again; give the table"
        )


def roles_of(
    passes: Passes, target: str, family: str, offset: str | None, members: list[str]
) -> Roles:
    """Return what the columns are; of a multinomial target the classes are read."""
    if family != "multinomial":
        return Roles(family_of(family), target, members, offset)
    return Roles(_of_classes(passes, passes.leaf(target, "target")), target, members, offset)


def _of_classes(passes: Passes, leaf: Leaf) -> Family:
    """Read which classes there are."""
    classes = passes.values_of(leaf, MOST_CLASSES)
    if not 2 <= len(classes) <= MOST_CLASSES:
        count = len(classes) if len(classes) < 2 else f"more than {MOST_CLASSES}"
        raise DataError(
            f"target '{leaf.name}' has {count} different values; a multinomial target must have "
            f"2 to {MOST_CLASSES}"
        )
    if any(isinstance(one, float) and math.isinf(one) for one in classes):
        raise DataError(f"target '{leaf.name}' has an infinite value; a class must be finite")
    return family_of("multinomial", classes)


def problem_of(
    data: Data, groups: Groups, ridge: float, scale: bool, max_iter: int, tol: float
) -> tuple[Problem, GlmFit]:
    """Return what does not change from pass to pass, and the model without columns."""
    point, model = data.start()
    if model.deviance <= ROUNDING_DEVIANCE * data.weight:
        raise DataError(
            f"target '{data.roles.target}' is told exactly by the model without columns; there is "
            "nothing to explain"
        )
    unit = np.ones(len(data.mean)) if scale else data.spread
    problem = Problem(
        correlation=data.correlation,
        constant=data.constant,
        ridge=ridge / unit**2,
        unit=unit,
        members=groups.positions,
        weight=data.weight,
        null_deviance=model.deviance,
        free=data.roles.family.basis.shape[1],
        exact=data.roles.family.quadratic,
        tol=tol if data.roles.family.is_canonical else tol * SCORING_SHARE,
        max_iter=max_iter,
    )
    return problem, start(problem, point, model)


def check_model(family: Any, ridge: Any, weight: Any, offset: Any) -> None:
    """Refuse what no table could make right of a model."""
    check_family_name(family)
    check_ridge(ridge)
    check_column("weight", weight)
    check_column("offset", offset)
    if offset is not None and family == "multinomial":
        raise ArgumentError(f"offset is {offset!r}; added to all classes it would change nothing")


def _check_ends(max_iter: Any, tol: Any) -> None:
    """Refuse what could not end a fit."""
    if max_iter is None:
        raise ArgumentError("max_iter is None; it must be a whole number >= 1")
    check_count("max_iter", max_iter)
    if not (isinstance(tol, numbers.Real) and 0 < float(tol) < 1):
        raise ArgumentError(f"tol is {tol!r}; it must be a number above 0 and below 1")

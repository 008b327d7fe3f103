"""Generalised linear models of tables that are read in passes: one fit, or a sequence."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dbselect.errors import ColumnError, DataError
from dbselect.glm.dispersion import most_likely
from dbselect.glm.links import FAR
from dbselect.glm.named import ESTIMATED, family_of
from dbselect.glm.newton import GlmFit, Problem, extended, solved, start
from dbselect.glm.pass_state import PassState
from dbselect.glm.passes import Data, first_pass
from dbselect.methods.family_options import (
    FIT_TOL,
    MAX_ITER,
    AnytimeGlmOptions,
    FitGlmOptions,
    GlmOptions,
)
from dbselect.methods.family_table import opened, roles_of
from dbselect.methods.setup import check_first, named_in, numbers_of
from dbselect.methods.types import Costs, FamilyName, GroupColumns, Level, TableSource
from dbselect.record.columns import check_roles
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups, groups_of
from dbselect.record.steps import Step, Stop, fits, name_of
from dbselect.record.terms import Terms
from dbselect.results.glm.build import Prefix, model_of, prefix_of, sequence_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.selection.criteria import RULES, Criterion, OnGlm
from dbselect.selection.greedy import greedy_search
from dbselect.selection.on_glm import criterion_near
from dbselect.sources.passes import Passes
from dbselect.sources.turns import Callback, turns

#: Null deviance below which, a unit of weight, there is nothing to explain.
ROUNDING_DEVIANCE = 1e-14
#: What a tolerance is multiplied by where the link is not the canonical one: Fisher's scoring
#: errs by a share of the last step, not by its square.
SCORING_SHARE = 1e-4


def fit_glm(
    source: TableSource,
    target: str,
    columns: Sequence[str] | None = None,
    family: FamilyName = FitGlmOptions.family,
    *,
    link: str | None = FitGlmOptions.link,
    ridge: float = FitGlmOptions.ridge,
    intercept: bool = FitGlmOptions.intercept,
    weight: str | None = FitGlmOptions.weight,
    offset: str | None = FitGlmOptions.offset,
    exposure: str | None = FitGlmOptions.exposure,
    positive: Level | None = FitGlmOptions.positive,
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
    target : column to predict: 0/1, boolean or text of two levels (binomial), >= 0 (poisson,
        negative_binomial, tweedie below 2), > 0 (gamma, inverse_gaussian, tweedie from 2 on),
        any number (gaussian) or one of several values (multinomial)
    columns : names and globs; default: every column of numbers, booleans, dates and text
        but the target, the weight and the offset
    family : ``"binomial"`` (logit), ``"poisson"`` (log), ``"gaussian"`` (identity),
        ``"multinomial"`` (softmax, at most 40 classes), ``"gamma"`` or ``"inverse_gaussian"``
        (log); in brackets another link, ``"binomial(probit)"``, ``"gamma(inverse)"``, or a
        number, ``"tweedie(1.5)"``, ``"negative_binomial(0.8)"``, or both,
        ``"tweedie(1.5, inverse)"``, as `glm_family` makes them. Without a number
        ``"negative_binomial"`` takes the one that is most likely with all columns; the result's
        family has it
    link : the same as in the brackets of `family`; `glm_family` lists those of each
    ridge : >= 0, lambda on unit-variance columns; the intercept is not penalised
    intercept : False for models through the origin: explained is then a share of the deviance
        of the predictor 0 (beside the offset), as in R, a column of one value explains some of
        it, and what is said of unit variance holds of a mean square of 1
    weight : column of row weights, >= 0
    offset : column that is added to the predictor, but of multinomial
    exposure : column of numbers > 0 whose logarithm is added to the predictor, of links log: of
        a count, for how long or over how many it was counted
    positive : of a binomial target of two texts, booleans or numbers, the one that counts as
        1; default: of text the second in order, as in R; `GlmModel.levels` has both
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
    ArgumentError : family, link, ridge, offset, exposure, positive, max_iter or tol out of range
    DataError : no usable rows (a NULL or NaN, or weight 0, leaves a row out), a target
        that the family does not allow or that is the same in all rows, or an offset that alone
        gives some rows no mean

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
    The most likely dispersion of ``"negative_binomial"`` takes some twenty passes before: fits
    at a dispersion and Newton's steps of it at the means take turns, as in MASS's ``glm.nb``.
    `summary` takes it as known, as that does.
    Rows that some columns separate have no best coefficients: `status` is then
    ``Status.SEPARATED``, and the coefficients are those of the last pass.

    References
    ----------
    McCullagh, Nelder (1989), section 2.5; Hu, Grubb, Bagnell, Hebert (2016), appendix B;
    Lawless (1987), Canadian Journal of Statistics 15; Venables, Ripley (2002), section 7.4.

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
        family=family, link=link, ridge=ridge, intercept=intercept, weight=weight,
        offset=offset, exposure=exposure, positive=positive, max_iter=max_iter, tol=tol,
        terms=terms,
    )  # fmt: skip
    if not isinstance(source, np.ndarray):  # of which all columns are named
        roles = {"target": target, "weight": weight, "offset": offset, "exposure": exposure}
        check_roles(columns, roles)
    passes = opened(source, target, columns, options, terms)
    if not passes.names:
        raise ColumnError(f"there is no column besides the target '{target}'; one is needed")
    groups = Groups({"columns": passes.names}, np.ones(1))
    with passes.shown():
        data = data_of(passes, target, options, passes.names)
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
    rule, budget, max_groups = options.rule, options.budget, options.max_groups
    passes = opened(source, target, named_in(groups, source), options)
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
        data = data_of(passes, target, options, found.members)
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


def data_of(passes: Passes, target: str, options: GlmOptions, members: list[str]) -> Data:
    """Read the table once; where the family's number is to be estimated, until it is known.

    That is done on a model of all members, so that every prefix of a search has one family.
    """
    data = first_pass(passes, roles_of(passes, target, options, members))
    if options.family != ESTIMATED:
        return data
    every = Groups({"columns": members}, np.ones(1))
    problem, null = problem_of(data, every, options.ridge, True, MAX_ITER, FIT_TOL)
    name = f"{ESTIMATED}({most_likely(data, problem, null):.8g})"
    return first_pass(passes, replace(data.roles, family=family_of(name)))


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
    if model.deviance >= FAR:
        raise DataError(
            f"family '{data.roles.family.name}' has no mean for some rows where offset "
            f"'{data.roles.beside.offset}' is all of the predictor; take another link"
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
        has_intercept=data.roles.has_intercept,
        is_canonical=data.roles.family.is_canonical,
    )
    return problem, start(problem, point, model)

"""Generalised linear models of tables that are read in passes: one fit, or a sequence."""

import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect.columns import Leaf
from dbselect.errors import ArgumentError, ColumnError, DataError
from dbselect.glm_model import GlmModel, family_of, on_table
from dbselect.glm_sequence import GlmSequence
from dbselect.gram import Matrix, Vector
from dbselect.groups import Groups, patterns_of, resolve
from dbselect.methods.glm_passes import Data, Roles, first_pass
from dbselect.methods.search import (
    check_choice,
    check_count,
    check_first,
    check_ridge,
    check_scale,
    numbers_of,
    refuse_several,
    warn_of,
)
from dbselect.objectives.families import FAMILIES, Family
from dbselect.objectives.glm import (
    Fit,
    Point,
    Problem,
    Search,
    Status,
    extended,
    solved,
    start,
)
from dbselect.selection.criteria import RULES, Criterion
from dbselect.selection.greedy import greedy
from dbselect.sequence import check_budget
from dbselect.sources.passes import Passes
from dbselect.steps import Step, Stop

#: Most classes of a multinomial target: a pass makes a Gram for each two of them.
MOST_CLASSES = 40
#: Null deviance below which, a unit of weight, there is nothing to explain.
ROUNDING_DEVIANCE = 1e-14
#: Share of the null deviance that the next step of a fit would explain, below which it is
#: the last. It moves predictors by some 1e-5 (1e-4), Newton's method errs by the square of
#: that and the deviance by less; a sequence goes on from there anyway.
FIT_TOL, STEP_TOL = 1e-10, 1e-8
#: Passes after which a fit gives up; eight are many.
MAX_ITER = 25

#: Types of text that an engine may give.
TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
FAMILY_NAMES = (*FAMILIES, "multinomial")
#: The rules: the criterion on the quadratic model of the last pass; None refits.
GLM_RULES = {
    "score": "fr",
    "omp": "omp",
    "omp-unwhitened": "omp-unwhitened",
    "omp-single": "omp-single",
    "fr": None,
}


def fit_glm(
    source: Any,
    target: str,
    columns: Sequence[str] | None = None,
    family: str = "binomial",
    *,
    ridge: float = 0.0,
    weight: str | None = None,
    offset: str | None = None,
    max_iter: int = MAX_ITER,
    tol: float = FIT_TOL,
) -> GlmModel:
    """Fit a generalised linear model to a table that is read in passes, never copied.

    The coefficients minimise ``deviance / (2 n) + ridge / 2 * sum of their squares`` on
    unit-variance columns, n the sum of the row weights; the intercept is free.

    Parameters
    ----------
    source : a table that `gram` reads, but no stream that can be read only once; a NumPy
        array needs all its column names in `columns`
    target : column to predict: 0/1 or boolean (binomial), >= 0 (poisson), any number
        (gaussian) or one of several values (multinomial)
    columns : names and globs; default: every numeric or boolean column but the target,
        the weight and the offset
    family : ``"binomial"`` (logit), ``"poisson"`` (log), ``"gaussian"`` (identity) or
        ``"multinomial"`` (softmax, at most 40 classes)
    ridge : >= 0, lambda on unit-variance columns; the intercept is not penalised
    weight : column of row weights, >= 0
    offset : family poisson only: column that is added to the predictor
    max_iter : limit on the passes of the fit after the first
    tol : the fit ends when the next step explains less than this share of the null
        deviance; that step is still taken

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

    Notes
    -----
    Passes: one for means and the model without columns (two with an offset, one more
    over the target for classes), then one for each Newton step but the last: about six
    in all. Family gaussian takes one. O(n D^2) a pass, for K classes times K (K - 1) / 2;
    memory O(D^2) a thread, for K classes O(D^2 K^2).
    Rows that some columns tell for certain have no best coefficients: `status` is then
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
    _check(family, ridge, offset, max_iter, tol)
    passes, roles = _open(source, target, columns, family, weight, offset)
    if not passes.names:
        raise ColumnError(f"there is no column besides the target '{target}'; one is needed")
    data = first_pass(passes, replace(roles, members=passes.names))
    groups = Groups({"columns": passes.names}, np.ones(1))
    problem, null = _problem(data, groups, ridge, True, max_iter, tol)
    (fit,) = solved([extended(problem, null, [0])], data.read)
    _warn(fit)
    intercept, coef = _in_units(data, fit.point)
    classes = data.roles.family.classes
    intercept, coefficients = on_table(classes, intercept, coef, passes.names)
    return GlmModel(
        target=target,
        family=family,
        classes=classes,
        offset=offset,
        intercept=intercept,
        coefficients=coefficients,
        groups=[],
        spent=0.0,
        deviance=fit.deviance,
        null_deviance=null.deviance,
        explained=fit.explained,
        status=fit.status,
        aliased=_aliased(data, fit),
        rows=data.rows,
        skipped=data.skipped,
        passes=passes.count,
        rows_read=passes.rows_read,
        bytes_read=passes.bytes_read,
    )


def glm_sequence(
    source: Any,
    target: str,
    groups: Mapping[str, Iterable[str]] | None = None,
    costs: Mapping[str, float] | None = None,
    *,
    family: str,
    rule: str = "fr",
    ridge: float = 0.0,
    scale: bool = True,
    budget: float | None = None,
    max_groups: int | None = None,
    always: Sequence[str] = (),
    weight: str | None = None,
    offset: str | None = None,
    max_iter: int | None = None,
    tol: float | None = None,
) -> GlmSequence:
    """Order groups by how much deviance each explains for its cost, in passes over a table.

    What `dbselect.anytime_sequence` does with a `family`; its parameters and errors are
    explained there, and in `fit_glm`.
    """
    max_iter = MAX_ITER if max_iter is None else max_iter
    tol = STEP_TOL if tol is None else tol
    check_choice("rule", rule, GLM_RULES)
    check_scale(scale)
    check_budget(budget)
    check_count("max_groups", max_groups)
    _check(family, ridge, offset, max_iter, tol)
    patterns = None
    if isinstance(groups, Mapping):
        named = [p for name, means in groups.items() for p in patterns_of(name, means)]
        patterns = list(dict.fromkeys(named))
    passes, roles = _open(source, target, patterns, family, weight, offset)
    found = resolve(passes.names, groups, costs, target)
    found = replace(found, unused=(*found.unused, *passes.unread))
    first = numbers_of(always, found)
    check_first(found, first, budget, max_groups)
    data = first_pass(passes, replace(roles, members=found.members))
    problem, null = _problem(data, found, ridge, scale, max_iter, tol)
    search = Search(problem, null, data.read)
    steps: list[Step] = []
    prefixes = [_prefix(data, null)]

    def record(step: Step) -> None:
        steps.append(step)
        prefixes.append(_prefix(data, search.fit))

    try:
        _, stop = greedy(
            search,
            found,
            _criterion(rule, problem.exact),
            budget=budget,
            max_groups=max_groups,
            always=first,
            record=record,
        )
    except KeyboardInterrupt:
        # The step under way is lost, and the last one stands.
        stop = Stop.INTERRUPTED
    _warn(search.fit)
    costs_taken = [found.costs[step.group] for step in steps]
    return GlmSequence(
        target=target,
        family=family,
        classes=data.roles.family.classes,
        offset=offset,
        groups=found,
        rule=rule,
        ridge=ridge,
        scale=scale,
        records=steps,
        spent=np.cumsum([0.0, *costs_taken]),
        explained=np.array([prefix.explained for prefix in prefixes]),
        deviance=np.array([prefix.deviance for prefix in prefixes]),
        intercept=np.stack([prefix.intercept for prefix in prefixes]),
        coef=np.stack([prefix.coef for prefix in prefixes]),
        status=[prefix.status for prefix in prefixes],
        passes=np.array([prefix.passes for prefix in prefixes]),
        aliased=_aliased(data, search.fit),
        stop=stop,
        rows=data.rows,
        skipped=data.skipped,
        passes_made=passes.count,
        rows_read=passes.rows_read,
        bytes_read=passes.bytes_read,
    )


def _warn(fit: Fit) -> None:
    """Warn of coefficients without digits; rows told for certain are another matter."""
    if fit.status is Status.CONVERGED:
        warn_of(fit.state.condition(), stacklevel=5)


@dataclass(frozen=True, eq=False)
class _Prefix:
    """What is kept of the fit of a prefix; its matrices are not."""

    intercept: Vector  # (K,)
    coef: Matrix  # (D, K)
    deviance: float
    explained: float
    status: Status
    passes: int


def _prefix(data: Data, fit: Fit) -> _Prefix:
    intercept, coef = _in_units(data, fit.point)
    return _Prefix(intercept, coef, fit.deviance, fit.explained, fit.status, data.passes.count)


def _in_units(data: Data, point: Point) -> tuple[Vector, Matrix]:
    """Return intercepts (K,) and coefficients (D, K) in the table's units."""
    basis = data.roles.family.basis
    coef = point.coef @ basis.T / data.spread[:, None]
    return basis @ point.intercept - data.mean @ coef, coef


def _aliased(data: Data, fit: Fit) -> tuple[str, ...]:
    """Return the columns that are aliased; of several predictors, for any of them."""
    numbers = [wide // data.roles.family.basis.shape[1] for wide in fit.state.aliased]
    return tuple(data.roles.members[j] for j in dict.fromkeys(numbers))


def _criterion(rule: str, exact: bool) -> Criterion:
    """Return what a rule maximises per unit of cost."""
    on_model = GLM_RULES[rule] or ("fr" if exact else None)
    if on_model is not None:
        # Each pass makes a new model, and so a new criterion.
        return lambda search: RULES[on_model].criterion(search.fit.state)(search.fit.state)
    return _refits


def _refits(search: Search) -> Vector:
    gains = np.zeros(len(search.problem.members))
    waiting = [group for group in range(len(gains)) if group not in search.fit.groups]
    gains[waiting] = search.try_all(waiting)
    return gains


def _open(
    source: Any,
    target: Any,
    columns: Sequence[str] | None,
    family: str,
    weight: str | None,
    offset: str | None,
) -> tuple[Passes, Roles]:
    """Open the table and see what its columns are."""
    refuse_several(target)
    apart = [name for name in (target, offset) if name is not None]
    if isinstance(source, np.ndarray) and columns is not None and target not in columns:
        columns = [target, *columns]
    passes = Passes(source, columns, weight, apart)
    leaf = passes.leaf(target, "target")
    if offset is not None:
        type_ = passes.leaf(offset, "offset").type
        if not passes.leaf(offset, "offset").is_numeric:
            raise ColumnError(f"offset '{offset}' has type {type_}; it must be numeric or boolean")
    if family == "multinomial":
        return passes, Roles(_of_classes(passes, leaf), target, [], offset)
    made = FAMILIES[family]
    if not leaf.is_numeric:
        raise ColumnError(
            f"target '{target}' has type {leaf.type}; a {family} target must be {made.allowed}"
        )
    return passes, Roles(made, target, [], offset)


def _of_classes(passes: Passes, leaf: Leaf) -> Family:
    """Read which classes there are."""
    type_ = leaf.type.value_type if pa.types.is_dictionary(leaf.type) else leaf.type
    if not (leaf.is_numeric or any(is_text(type_) for is_text in TEXTS)):
        raise ColumnError(
            f"target '{leaf.name}' has type {leaf.type}; a multinomial target must be text, "
            "numeric or boolean"
        )
    classes = passes.values_of(leaf, MOST_CLASSES)
    if not 2 <= len(classes) <= MOST_CLASSES:
        count = len(classes) if len(classes) < 2 else f"more than {MOST_CLASSES}"
        raise DataError(
            f"target '{leaf.name}' has {count} different values; a multinomial target must have "
            f"2 to {MOST_CLASSES}"
        )
    return family_of("multinomial", classes)


def _problem(
    data: Data, groups: Groups, ridge: float, scale: bool, max_iter: int, tol: float
) -> tuple[Problem, Fit]:
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
        tol=tol,
        max_iter=max_iter,
    )
    return problem, start(problem, point, model)


def _check(family: Any, ridge: Any, offset: Any, max_iter: Any, tol: Any) -> None:
    """Refuse options that no table could make right."""
    check_choice("family", family, FAMILY_NAMES)
    check_ridge(ridge)
    check_count("max_iter", max_iter)
    if not (isinstance(tol, numbers.Real) and 0 < float(tol) < 1):
        raise ArgumentError(f"tol is {tol!r}; it must be a number above 0 and below 1")
    if offset is not None and not (family in FAMILIES and FAMILIES[family].offset):
        raise ArgumentError(f"offset is {offset!r}; family {family!r} has none, 'poisson' has")

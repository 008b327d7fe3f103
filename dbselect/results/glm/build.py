"""Build public models and sequences from fits of generalised linear models."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from dbselect.errors import LeakageWarning, SeparationWarning, warn_caller
from dbselect.glm.expansion import Coefficients
from dbselect.glm.newton import GlmFit, GlmProblem, Status
from dbselect.glm.passes import Data
from dbselect.linear.condition import LEAK_ROWS, LEAK_SHARE, warn_of, warn_of_dropped
from dbselect.linear.least_squares import Constraint
from dbselect.pages.html import listed
from dbselect.record.columns import numbers_among
from dbselect.record.gram import Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.record.policies import is_saturated
from dbselect.record.steps import Step, Stop, spent_after
from dbselect.results.call import Call
from dbselect.results.glm.model import GlmModel, StandardErrors, on_table
from dbselect.results.glm.sequence import GlmSequence, Precision

#: Share of the largest change along the step below which a predictor counts as unchanged. Levels
#: that are not separated change by less: the rounding of a fit that converged apart from these.
STILL = 1e-3
#: Least share of the largest part of that step for a column to be named: columns that separate
#: nothing have small parts by chance.
MUCH = 0.1

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Separation:
    """Separated levels: their columns `at`; `moved`: columns of a category -> its new base."""

    at: Indices
    moved: tuple[tuple[Indices, int], ...]

    def in_units(self, intercept: Vector, coef: Matrix) -> tuple[Vector, Matrix]:
        """Return the same model on the new bases, shapes (K,) and (D, K)."""
        intercept, coef = intercept.copy(), coef.copy()
        for columns, base in self.moved:
            intercept += coef[base]
            coef[columns] -= coef[base].copy()
        return intercept, coef

    def aliased(self, names: tuple[str, ...], members: list[str]) -> tuple[str, ...]:
        """Return the columns without coefficients."""
        separated = {members[j] for j in self.at}
        aliased = {*names} - separated | {members[base] for _, base in self.moved}
        return tuple(name for name in members if name in aliased)


def _last_step(fit: GlmFit) -> Vector:
    """Return the next Newton step, shape (D P,), on unit-variance columns."""
    return np.asarray(fit.state.coef() * fit.state.problem.target_spread)


def diverging_columns(data: Data, fit: GlmFit) -> tuple[str, ...]:
    """Return columns along which a fit diverges, by falling part of the last step."""
    if fit.status is not Status.SEPARATED:
        return ()
    members = data.roles.members
    parts = np.linalg.norm(_last_step(fit).reshape(len(members), -1), axis=1)
    order = np.argsort(-parts, kind="stable")
    return tuple(members[j] for j in order if parts[j] >= MUCH * parts[order[0]])


def separation_of(data: Data, fit: GlmFit) -> Separation | None:
    """Return the separated levels; None if a fit converged, or diverges for another reason."""
    members = {name: at for at, name in enumerate(data.roles.members)}
    free, is_signed = data.roles.family.basis.shape[1], fit.violation is not None
    if fit.status is not Status.SEPARATED or free > 1 or is_signed or not data.roles.has_intercept:
        return None
    flat = _last_step(fit)
    step = flat / data.spread
    shift = float((fit.model.start - fit.model.follow @ flat)[0] - data.mean @ step)
    held = {*fit.state.support, *fit.state.aliased}
    moved, still = [], STILL * max(float(np.abs(step).max()), abs(shift))
    separated: list[int] = []
    for category in data.passes.terms.categories:
        at = np.array([members[name] for name in category.marked_names if name in members])
        if not len(at) or not held.issuperset(at.tolist()):
            continue
        # The most common step becomes the base; rows of a reference level have no column.
        share = [data.centre[at][np.abs(step[at] - s) <= still].sum() for s in step[at]]
        common = step[at[int(np.argmax(share))]] if category.reference is None else 0.0
        step[at], shift = step[at] - common, shift + common
        gone = at[np.abs(step[at]) > still].tolist()
        stay = [j for j in at.tolist() if j not in gone]
        if not {*gone}.isdisjoint(fit.state.aliased):
            moved.append((at, stay[-1]))
        separated += gone
        step[gone] = 0.0
    if not separated or max(abs(shift), float(np.abs(step * data.spread).max())) > still:
        return None
    return Separation(np.array(separated, np.intp), tuple(moved))


@dataclass(frozen=True, eq=False)
class Prefix:
    """The part of a prefix's fit that a sequence keeps, without the matrices."""

    intercept: Vector  # shape (K,)
    coef: Matrix  # shape (D, K)
    # deviance, explained, status, passes: of the fit
    deviance: float
    explained: float
    status: Status
    passes: int
    degrees: float  # parameters, effective ones with a ridge
    # dispersion, errors: errors of shape (K, 1 + D), as in `Precision`
    dispersion: float
    errors: Matrix
    separated: tuple[str, ...]  # levels; the other coefficients are those of the other rows
    diverging: tuple[str, ...]  # columns that separate rows otherwise, largest part first
    aliased: tuple[str, ...]  # columns without a coefficient


def model_of(
    data: Data,
    problem: GlmProblem,
    fit: GlmFit,
    columns: Sequence[str],
    call: Call,
    *,
    groups: Sequence[str] = (),
    spent: float = 0.0,
    rows_searched: int | None = None,
    constraint: Constraint | None = None,
) -> GlmModel:
    """Build the model of a fit; `rows_searched` if the search used a sample of the rows."""
    family = data.roles.family
    prefix = prefix_of(data, fit)
    if fit.status is Status.SEPARATED:
        _warn_of_separation("in this model", prefix)
    else:
        _warn_of_leak(data, prefix)
    intercept, coef = prefix.intercept, prefix.coef
    at = numbers_among(columns, data.roles.members).tolist()
    intercept, coefficients = on_table(family.classes, intercept, coef[at], columns)
    return GlmModel(
        **_common(data, call, rows_searched),
        intercept=intercept,
        coefficients=coefficients,
        groups=list(groups),
        spent=spent,
        deviance=fit.deviance,
        null_deviance=problem.null_deviance,
        explained=fit.explained,
        status=fit.status,
        aliased=prefix.aliased,
        passes=data.passes.count,
        errors=_of_model(data, problem, fit, prefix, at, constraint),
    )


def sequence_of(
    data: Data,
    groups: Groups,
    rule: str,
    call: Call,
    steps: list[Step],
    prefixes: Sequence[Prefix],
    stop: Stop,
    rows_searched: int | None = None,
) -> GlmSequence:
    """Build the sequence of steps; the first prefix has no columns."""
    for number, (step, prefix) in enumerate(zip(steps, prefixes[1:], strict=True), 1):
        if prefix.status is Status.SEPARATED:
            where = f"from step {number} on, with '{groups.names[step.group]}',"
            _warn_of_separation(where, prefix)
            break
    else:
        # A backward search begins with all groups and ends with none.
        _warn_of_leak(data, max(prefixes, key=lambda prefix: prefix.explained))
    used = max(int(prefix.coef.any(axis=1).sum()) for prefix in prefixes)
    full = is_saturated(data.rows, data.roles.has_intercept + used, call.problem.ridge)
    return GlmSequence(
        **_common(data, call, rows_searched),
        groups=groups,
        rule=rule,
        records=steps,
        spent=spent_after(steps, groups),
        explained=np.array([prefix.explained for prefix in prefixes]),
        deviance=np.array([prefix.deviance for prefix in prefixes]),
        intercept=np.stack([prefix.intercept for prefix in prefixes]),
        coef=np.stack([prefix.coef for prefix in prefixes]),
        status=[prefix.status for prefix in prefixes],
        passes=np.array([prefix.passes for prefix in prefixes]),
        aliased=prefixes[-1].aliased,
        stop=Stop.SATURATED if full else stop,
        passes_made=data.passes.count,
        precision=Precision(
            np.array([prefix.degrees for prefix in prefixes]),
            np.array([prefix.dispersion for prefix in prefixes]),
            np.stack([prefix.errors for prefix in prefixes]),
            data.centre,
        ),
    )


def _common(data: Data, call: Call, rows_searched: int | None) -> dict[str, Any]:
    """Return the fields of `OfFamily`; the terms have the share of each level in the rows."""
    family, passes = data.roles.family, data.passes
    shares = dict(zip(data.roles.members, data.centre.tolist(), strict=True))
    return {
        "family": family.name, "classes": family.classes, "levels": family.levels,
        "rows": data.rows, "skipped": data.skipped, "rows_searched": rows_searched,
        "rows_read": passes.rows_read, "bytes_read": passes.bytes_read,
        "terms": passes.terms.with_shares(shares), "call": call,
    }  # fmt: skip


def _warn_of_separation(where: str, prefix: Prefix) -> None:
    """Warn that a likelihood has no maximum, with the columns; `where` is the model in words."""
    if prefix.separated:
        warn_caller(
            f"{where} all rows of {listed(prefix.separated)} have one value of the target "
            "(separation), so that this coefficient diverges and has no standard error; the others "
            "are those of the other rows",
            SeparationWarning,
        )
        return
    warn_caller(
        f"{where} some columns determine the target of some rows (separation), so the "
        f"coefficients diverge, most those of {listed(prefix.diverging)}; these are from the last "
        "pass, and a ridge > 0 gives finite ones; if a column is known only with the target or "
        "made of it, leave it out",
        SeparationWarning,
    )


def _warn_of_leak(data: Data, prefix: Prefix) -> None:
    """Warn of a target that is explained almost completely, with the strongest column."""
    if data.rows >= LEAK_ROWS and prefix.explained > LEAK_SHARE:
        worst = int((np.linalg.norm(prefix.coef, axis=1) * data.spread).argmax())
        warn_caller(
            f"the model explains {prefix.explained:.4f} of the deviance of '{data.roles.target}', "
            f"most by column '{data.roles.members[worst]}'; if it is known only with the target or "
            "made of it, leave it out",
            LeakageWarning,
        )


def warn_of_fit(data: Data, fit: GlmFit) -> None:
    """Warn of ill-conditioned or dropped columns, if the fit converged."""
    if fit.status is Status.CONVERGED:
        warn_of(fit.state.condition())
        names = np.repeat(data.roles.members, fit.point.coef.shape[1]).tolist()
        warn_of_dropped(fit.state, names, is_linear=False)


def prefix_of(data: Data, fit: GlmFit) -> Prefix:
    """Return the part of a fit that a sequence keeps."""
    intercept, coef = in_units(data, fit.point)
    aliased, levels = aliased_of(data, fit), separation_of(data, fit)
    if levels is not None:
        intercept, coef = levels.in_units(intercept, coef)
        aliased = levels.aliased(aliased, data.roles.members)
    return Prefix(
        intercept,
        coef,
        fit.deviance,
        fit.explained,
        fit.status,
        data.passes.count,
        _degrees(data, fit),
        _dispersion(data, fit),
        standard_errors(data, fit, levels),
        () if levels is None else tuple(data.roles.members[j] for j in levels.at.tolist()),
        diverging_columns(data, fit) if levels is None else (),
        aliased,
    )


def _degrees(data: Data, fit: GlmFit) -> float:
    of_intercept = data.roles.family.basis.shape[1] if data.roles.has_intercept else 0
    return float(of_intercept + fit.state.degrees())


def _of_model(
    data: Data, problem: GlmProblem, fit: GlmFit, prefix: Prefix, at: Sequence[int],
    constraint: Constraint | None,
) -> StandardErrors | None:  # fmt: skip
    if fit.state.held != fit.groups:
        return None  # the coefficients are those of a descent, without information
    chosen = 0 < len(at) < len(data.roles.members)
    values = prefix.errors[:, [0, *(1 + j for j in at)]]
    ridge = float(problem.ridge.max(initial=0.0))
    covariance = None
    if constraint is None:
        covariance = _covariance(data, fit, separation_of(data, fit), at)
    else:
        values = np.full_like(values, np.nan)
    centre = data.centre[list(at)]
    return StandardErrors(values, ridge, chosen, prefix.dispersion, centre, covariance, constraint)


def standard_errors(data: Data, fit: GlmFit, levels: Separation | None) -> Matrix:
    """Return standard errors of intercept and columns, shape (K, 1 + D); O(d^3) for d free ones.

    NaN for columns that are aliased or not held, without an intercept, for information that is
    numerically singular, and for coefficients that a separation leaves undetermined.
    """
    members, free = data.roles.members, data.roles.family.basis.shape[1]
    roots, corner = _roots(data, fit, levels)
    variances = (roots**2).sum(axis=0)
    variances[:, 0] += np.diagonal(corner)
    estimated = np.zeros(len(members), dtype=bool)
    estimated[np.array(fit.state.support, dtype=np.intp) // free] = True
    aliased = aliased_of(data, fit)
    estimated &= [name not in aliased for name in members]
    if levels is not None:
        estimated[[*levels.at, *(base for _, base in levels.moved)]] = False
    variances[:, ~np.append(data.roles.has_intercept, estimated)] = np.nan
    return np.asarray(np.sqrt(variances * (_dispersion(data, fit) / data.weight)))


def _covariance(data: Data, fit: GlmFit, levels: Separation | None, at: Sequence[int]) -> Matrix:
    """Return the covariance by predictor; undefined where `standard_errors` are NaN."""
    roots, corner = _roots(data, fit, levels)
    selected = roots[:, :, [0, *(1 + j for j in at)]]
    covariance = np.einsum("ika,ilb->kalb", selected, selected, optimize=True)
    covariance[:, 0, :, 0] += corner
    size = selected.shape[1] * selected.shape[2]
    return np.asarray(covariance.reshape(size, size) * (_dispersion(data, fit) / data.weight))


def _roots(data: Data, fit: GlmFit, levels: Separation | None) -> tuple[Matrix, Matrix]:
    """Return R and C with ``cov = (R'R + C for intercepts) dispersion / sum of weights``.

    With L L' the information of the free coefficients b of the columns held, the intercept
    minimised out, and a the free intercept at their means::

        cov(b) = (L L')^-1      a = a_0 - follow b      cov(a_0) = corner^-1, apart from b

    An entry in the table's units is ``q a + r b``, so that its column of R is
    ``L^-1 (r - q follow)'``, and of C ``q corner^-1 q'``. R has shape (d, K, 1 + D), the intercept
    first, C (K, K).
    """
    basis, members = data.roles.family.basis, data.roles.members
    size, free = basis.shape
    kept, model = np.array(fit.state.support, dtype=np.intp), fit.model
    no_roots = np.full((len(kept), size, 1 + len(members)), np.nan)
    no_corner = np.full((size, size), np.nan)
    if fit.status is Status.SEPARATED and levels is None:
        return no_roots, no_corner
    try:
        factor = np.linalg.cholesky(model.information[np.ix_(kept, kept)])
        corner = basis @ np.linalg.inv(model.corner) @ basis.T
    except np.linalg.LinAlgError:
        return no_roots, no_corner
    inverse = scipy.linalg.solve_triangular(factor, np.eye(len(kept)), lower=True)
    # Entry (i, j, p): row i of L^-1, predictor p of column j.
    wide = np.zeros((len(kept), len(members) * free))
    wide[:, kept] = inverse
    rows = wide.reshape(len(kept), len(members), free) @ basis.T / data.spread[:, None]
    lever = -np.einsum("ijk,j->ik", rows, data.mean) - inverse @ model.follow[:, kept].T @ basis.T
    for columns, base in () if levels is None else levels.moved:
        lever += rows[:, base]
        rows[:, columns] -= rows[:, [base]]
    return np.concatenate([lever[:, :, None], rows.transpose(0, 2, 1)], axis=2), corner


def _dispersion(data: Data, fit: GlmFit) -> float:
    """Return the dispersion: 1, or an estimate if the family does not fix it."""
    family = data.roles.family
    if not family.has_dispersion:
        return 1.0
    free = data.rows - _degrees(data, fit)
    squares = fit.deviance if family.quadratic else fit.model.pearson * data.weight
    return squares / free if free > 0 else math.nan


def in_units(data: Data, point: Coefficients) -> tuple[Vector, Matrix]:
    """Return intercepts (K,) and coefficients (D, K) in the table's units."""
    basis = data.roles.family.basis
    coef = point.coef @ basis.T / data.spread[:, None]
    return basis @ point.intercept - data.mean @ coef, coef


def aliased_of(data: Data, fit: GlmFit) -> tuple[str, ...]:
    """Return the columns that are aliased in any predictor."""
    numbers = [wide // data.roles.family.basis.shape[1] for wide in sorted(fit.dependent)]
    return tuple(data.roles.members[j] for j in dict.fromkeys(numbers))

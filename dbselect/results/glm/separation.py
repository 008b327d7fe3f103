"""Levels of categories whose rows all have one value of the target, and the model beside them.

Along the last Newton step towards infinity only the predictors of these rows change: all other
coefficients are those of a fit without the rows. Where the level without a coefficient is a
separated one, another takes its place: ``b_k - b_base``, ``intercept + b_base``.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dbselect.glm.newton import GlmFit, Status
from dbselect.glm.passes import Data
from dbselect.record.gram import Matrix, Vector

#: Share of the longest change along the step below which a predictor stays where it is. Of levels
#: that are not separated it is the rounding of a fit that has converged but for them.
STILL = 1e-3
#: Share of the largest part of that step which a column must have to be named: columns that
#: separate nothing have what chance gives them, a small one.
MUCH = 0.1

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Separation:
    """Separated levels: their columns `at`; `moved`: columns of a category -> its new base."""

    at: Indices
    moved: tuple[tuple[Indices, int], ...]

    def in_units(self, intercept: Vector, coef: Matrix) -> tuple[Vector, Matrix]:
        """Return the same model, of shapes (K,) and (D, K)."""
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
    """Return the next Newton step, shape (D P,), of columns of deviation 1."""
    return np.asarray(fit.state.coef() * fit.state.problem.target_spread)


def diverging_columns(data: Data, fit: GlmFit) -> tuple[str, ...]:
    """Return columns along which a fit diverges, those with most of the last step first."""
    if fit.status is not Status.SEPARATED:
        return ()
    members = data.roles.members
    parts = np.linalg.norm(_last_step(fit).reshape(len(members), -1), axis=1)
    order = np.argsort(-parts, kind="stable")
    return tuple(members[j] for j in order if parts[j] >= MUCH * parts[order[0]])


def separation_of(data: Data, fit: GlmFit) -> Separation | None:
    """Return the levels that are separated; None if a fit converged, or diverges otherwise."""
    members, free = list(data.roles.members), data.roles.family.basis.shape[1]
    if fit.status is not Status.SEPARATED or free > 1 or not data.roles.has_intercept:
        return None
    flat = _last_step(fit)
    step = flat / data.spread
    shift = float((fit.model.start - fit.model.follow @ flat)[0] - data.mean @ step)
    held = {*fit.state.support, *fit.state.aliased}
    moved, still = [], STILL * max(float(np.abs(step).max()), abs(shift))
    separated: list[int] = []
    for category in data.passes.terms.categories:
        at = np.array([members.index(name) for name in category.marked_names if name in members])
        if not len(at) or not held.issuperset(at.tolist()):
            continue
        # Most of the rows stay where they are; those of a reference have no column.
        share = [data.centre[at][np.abs(step[at] - one) <= still].sum() for one in step[at]]
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

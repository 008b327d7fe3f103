"""Refits of generalised linear models on rows in memory, in batches.

A fit with one group more (or less) than the current one starts from that, and runs conjugate
gradients, preconditioned by the information at the current fit::

    g = X'(share (y - mu)) - ridge w            gradient, each candidate's own columns
    z = C^-1 g                                  C: information at the current fit, + ridge
    d = z + max(0, z'(g - g_before) / (z'g)_before) d_before
    w = w + (g'd / d'C_now d) d                 halved until the deviance does not rise

The first d is the Newton step, and as the new group moves few predictors by much, a handful
of steps is enough. All products are with all candidates at once: O(n |S| B) a step for B
of them, where Newton's method would need the information of each, O(n |S|^2 B). A step ends
a refit when the next one would explain less than `REFIT_SHARE` of the null deviance.

Source: Polak, Ribiere (1969).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dbselect.glm.held_rows import Block, HeldRows, WorkingResponse
from dbselect.glm.newton import HALVINGS, GlmFit, GlmProblem, completed, extended, reduced, solved
from dbselect.linear.problem import Index, blocks_of, inverse_root
from dbselect.linear.state import RANK_SHARE, by_size
from dbselect.record.gram import Matrix, Vector

#: Error of a refit, as a share of the null deviance: a tenth of what counts as a gain.
REFIT_SHARE = 1e-13
#: Most steps of a refit: only coefficients on their way to infinity, which gain less and
#: less, need more than some twenty.
REFIT_STEPS = 60
#: Numbers in a block, candidates times rows: a block stays in the caches.
BLOCK = 2**17


@dataclass(frozen=True, eq=False)
class Candidates:
    """The columns of B models; P coefficients for intercept, common and own columns each."""

    rows: HeldRows
    common: Matrix  # shape (k, n)
    own: Block  # shape (B, s, n)
    ridge: Matrix  # shape (B, m), 0 for the intercept

    def predictors(self, theta: Matrix) -> Block:
        """Return the free predictors, (P, B, n), of coefficients of shape (B, m)."""
        intercept, common, own = self._parts(theta)
        free = intercept.shape[1]
        return np.stack(
            [
                intercept[:, p, None]
                + common[:, :, p] @ self.common
                + np.matmul(own[:, None, :, p], self.own)[:, 0]
                for p in range(free)
            ]
        )

    def gradient(self, working: WorkingResponse, theta: Matrix) -> Matrix:
        """Return the gradient, downwards, by each coefficient, shape (B, m)."""
        score = self.rows.score(working)
        size = len(theta)
        intercept = score.sum(axis=2).T
        common = np.stack([part @ self.common.T for part in score], axis=2)
        own = np.stack([np.matmul(self.own, part[:, :, None])[:, :, 0] for part in score], axis=2)
        products = np.hstack([intercept, common.reshape(size, -1), own.reshape(size, -1)])
        return products - self.ridge * theta

    def _parts(self, theta: Matrix) -> tuple[Matrix, Block, Block]:
        free, size = self.rows.family.contrasts.shape[1], len(theta)
        end = free * (1 + len(self.common))
        common = theta[:, free:end].reshape(size, -1, free)
        return theta[:, :free], common, theta[:, end:].reshape(size, -1, free)


#: Gradients of B models, shape (B, m) -> Newton steps with the information at one point.
Steps = Callable[[Matrix], Matrix]


def minimised(design: Candidates, theta: Matrix, newton: Steps, tol: float) -> Vector:
    """Return half the least penalised deviance of each model, per weight, to within `tol`."""
    rows = design.rows
    predictors = design.predictors(theta)
    working = rows.working_response(predictors)
    least = _objective(design, working, theta)
    gradient = design.gradient(working, theta)
    direction = step = newton(gradient)
    for _ in range(REFIT_STEPS):
        slope = _dots(gradient, step)
        active = slope > tol
        if not active.any():
            break
        along = design.predictors(direction)
        curvature = rows.curvature(working, along) + _dots(design.ridge * direction, direction)
        length = np.zeros((len(theta), 1))
        length[active, 0] = _dots(gradient, direction)[active] / curvature[active]
        for tries in reversed(range(HALVINGS + 1)):
            working = rows.working_response(predictors + length * along)
            objective = _objective(design, working, theta + length * direction)
            worse = ~(objective <= least + tol)
            if not worse.any():
                break
            # The last try is no step at all.
            length[worse] *= 0.5 if tries > 1 else 0.0
        predictors, theta = predictors + length * along, theta + length * direction
        least = np.fmin(least, objective)
        before, gradient = gradient, design.gradient(working, theta)
        step = newton(gradient)
        share = np.maximum(_dots(step, gradient - before), 0.0) / np.where(active, slope, 1.0)
        direction = step + share[:, None] * direction
        direction = np.where(_dots(gradient, direction)[:, None] > 0, direction, step)
    return least


def _objective(design: Candidates, working: WorkingResponse, theta: Matrix) -> Vector:
    return np.asarray(0.5 * (working.deviance + _dots(design.ridge * theta, theta)))


def _dots(a: Matrix, b: Matrix) -> Vector:
    return np.asarray(np.einsum("bm,bm->b", a, b))


class InformationPreconditioner:
    """The information at a fit of k columns, which preconditions refits that start there."""

    def __init__(self, problem: GlmProblem, fit: GlmFit) -> None:
        self.problem = problem
        self.columns = problem.columns(fit.groups)
        self._local = fit.state.problem
        self._at = problem.wide(self.columns)
        # Through the origin the intercept does not change.
        corner = fit.model.corner
        self._corner = np.linalg.inv(corner) if problem.has_intercept else np.zeros(corner.shape)
        self._follow = fit.model.follow
        size, kept = len(self._at), np.isin(self._at, fit.state.support)
        C = self._local.G[np.ix_(self._at, self._at)] + np.diag(self._local.ridge[self._at])
        self._inverse = np.zeros((size, size))
        self._inverse[np.ix_(kept, kept)] = np.linalg.inv(C[np.ix_(kept, kept)])
        self._intercept = fit.point.intercept
        self._coef = fit.point.coef[self.columns].ravel()

    def ridge(self, own: Index) -> Matrix:
        """Return the ridge of the coefficients of models with own columns, shape (B, s)."""
        ridges = self._local.ridge
        fixed = np.concatenate([np.zeros(self.problem.free), ridges[self._at]])
        return np.hstack([np.tile(fixed, (len(own), 1)), ridges[self._wide(own)]])

    def _wide(self, own: Index) -> Index:
        return np.asarray(self.problem.wide(own.ravel()).reshape(len(own), -1))

    def more(self, own: Index) -> tuple[Matrix, Steps]:
        """Return starts of the models with own columns, shape (B, s), and their Newton steps."""
        wide = self._wide(own)
        size, width = wide.shape
        free, n_common = self.problem.free, len(self._at)
        start = np.hstack([self._intercept, self._coef, np.zeros(width)])
        follow, inverse = self._follow[:, self._at], self._inverse
        own_follow = self._follow[:, wide]  # (P, B, s P)
        cross = self._local.G[self._at][:, wide]  # (k P, B, s P)
        blocks = blocks_of(self._local, wide)
        floor = RANK_SHARE * np.einsum("bss->bs", blocks).max(axis=1)
        # Condition on the common columns.
        conditional = inverse @ cross.reshape(n_common, size * width)
        blocks -= np.einsum("kbs,kbt->bst", cross, conditional.reshape(cross.shape))
        root = inverse_root(blocks, floor[:, None])

        def newton(gradient: Matrix) -> Matrix:
            first, common, last = np.split(gradient, [free, free + n_common], axis=1)
            common = common - first @ follow
            last = last - np.einsum("bp,pbs->bs", first, own_follow)
            last -= np.einsum("bk,kbs->bs", common @ inverse, cross)
            last = np.einsum("bst,but,bu->bs", root, root, last)
            common = (common - np.einsum("kbs,bs->bk", cross, last)) @ inverse
            first = first @ self._corner - common @ follow.T
            first -= np.einsum("bs,pbs->bp", last, own_follow)
            return np.hstack([first, common, last])

        return np.tile(start, (size, 1)), newton

    def less(self, removed: Index) -> tuple[Matrix, Steps]:
        """Return starts of the models without columns, shape (B, s), and their Newton steps."""
        places = np.searchsorted(np.sort(self._at), self._wide(removed))
        at = np.argsort(self._at)[places]
        rows = np.arange(len(at))[:, None]
        inverse_rows = self._inverse[at]
        shares = np.linalg.solve(self._inverse[at[:, :, None], at[:, None, :]], inverse_rows)
        follow, free = self._follow[:, self._at], self.problem.free

        def dropped(coef: Matrix) -> Matrix:
            coef = coef - np.einsum("bs,bsk->bk", coef[rows, at], shares)
            coef[rows, at] = 0.0
            return coef

        def newton(gradient: Matrix) -> Matrix:
            first, common = gradient[:, :free], gradient[:, free:]
            common = dropped((common - first @ follow) @ self._inverse)
            return np.hstack([first @ self._corner - common @ follow.T, common])

        coef = dropped(np.tile(self._coef, (len(at), 1)))
        return np.hstack([self._intercept - (coef - self._coef) @ follow.T, coef]), newton


class InMemory:
    """Refits on rows in memory."""

    def __init__(self, problem: GlmProblem, rows: HeldRows) -> None:
        self.problem = problem
        self.rows = rows

    def extended(self, fit: GlmFit, groups: Sequence[int]) -> GlmFit:
        """Return the fit with more groups."""
        # Newton steps need the information of the selected groups only.
        (partial_fit,) = solved([extended(self.problem, fit, groups, alone=True)], self.rows.read)
        return completed(self.problem, partial_fit, self.rows.read)

    def reduced(self, fit: GlmFit, group: int) -> GlmFit:
        """Return the fit without one of its groups."""
        return solved([reduced(self.problem, fit, group)], self.rows.read)[0]

    def with_each(self, fit: GlmFit, groups: Sequence[int]) -> Vector:
        """Return the explained shares of the fit with each of the groups added."""
        preconditioner = InformationPreconditioner(self.problem, fit)
        common = self.rows.X[preconditioner.columns]
        explained = np.empty(len(groups))
        for which, own in self._blocks([self.problem.members[group] for group in groups]):
            design = Candidates(self.rows, common, self.rows.X[own], preconditioner.ridge(own))
            explained[which] = self._explained(design, *preconditioner.more(own))
        return explained

    def without_each(self, fit: GlmFit) -> Vector:
        """Return the explained shares of the fit without each of its groups."""
        if fit.state.aliased:
            # Columns that depend on a group come back without it.
            without = [reduced(self.problem, fit, group, alone=True) for group in fit.groups]
            return np.array([refit.explained for refit in solved(without, self.rows.read)])
        preconditioner = InformationPreconditioner(self.problem, fit)
        common = self.rows.X[preconditioner.columns]
        explained = np.empty(len(fit.groups))
        for which, removed in self._blocks([self.problem.members[group] for group in fit.groups]):
            empty = removed[:, :0]
            design = Candidates(self.rows, common, self.rows.X[empty], preconditioner.ridge(empty))
            explained[which] = self._explained(design, *preconditioner.less(removed))
        return explained

    def _explained(self, design: Candidates, start: Matrix, newton: Steps) -> Vector:
        null = self.problem.null_deviance / self.problem.weight
        return 1.0 - 2.0 * minimised(design, start, newton, REFIT_SHARE * null) / null

    def _blocks(self, members: Sequence[Index]) -> Iterator[tuple[Index, Index]]:
        """Yield groups of one size, as many as fit in a block."""
        for groups, columns in by_size(members):
            most = max(1, BLOCK // (self.rows.X.shape[1] * columns.shape[1]))
            for start in range(0, len(groups), most):
                yield groups[start : start + most], columns[start : start + most]

"""Refits of generalised linear models on rows in memory, many side by side.

A fit with one group more (or less) than the present one starts where that left off, and
is found by conjugate gradients, preconditioned by the information at the present fit::

    g = X'(share (y - mu)) - ridge w            gradient, each candidate's own columns
    z = C^-1 g                                  C: information at the present fit, + ridge
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

#: Share of the null deviance that a refit leaves: a tenth of what counts as a gain.
REFIT_SHARE = 1e-13
#: Steps after which a refit is given up: only coefficients on their way to infinity, which
#: gain less and less, need more than some twenty.
REFIT_STEPS = 60
#: Numbers in a block, candidates times rows: a block stays in the caches.
BLOCK = 2**17


@dataclass(frozen=True, eq=False)
class Candidates:
    """The columns of B models; P coefficients of intercept, each common and each own column."""

    rows: HeldRows
    common: Matrix  # shape (k, n)
    own: Block  # shape (B, s, n)
    ridge: Matrix  # shape (B, m), 0 for the intercept

    def predictors(self, theta: Matrix) -> Block:
        """Return what coefficients, shape (B, m), add to the free predictors, (P, B, n)."""
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

    def gradient(self, look: WorkingResponse, theta: Matrix) -> Matrix:
        """Return the gradient, downwards, by each coefficient, shape (B, m)."""
        score = self.rows.score(look)
        size = len(theta)
        intercept = score.sum(axis=2).T
        common = np.stack([one @ self.common.T for one in score], axis=2)
        own = np.stack([np.matmul(self.own, one[:, :, None])[:, :, 0] for one in score], axis=2)
        products = np.hstack([intercept, common.reshape(size, -1), own.reshape(size, -1)])
        return products - self.ridge * theta

    def _parts(self, theta: Matrix) -> tuple[Matrix, Block, Block]:
        free, size = self.rows.family.contrasts.shape[1], len(theta)
        end = free * (1 + len(self.common))
        common = theta[:, free:end].reshape(size, -1, free)
        return theta[:, :free], common, theta[:, end:].reshape(size, -1, free)


#: Gradients of B models, shape (B, m) -> Newton steps, by the information at one point.
Steps = Callable[[Matrix], Matrix]


def minimised(design: Candidates, theta: Matrix, newton: Steps, enough: float) -> Vector:
    """Return half the least penalised deviance of each model, per weight, to within `enough`."""
    rows = design.rows
    predictors = design.predictors(theta)
    look = rows.look(predictors)
    found = _objective(design, look, theta)
    gradient = design.gradient(look, theta)
    direction = step = newton(gradient)
    for _ in range(REFIT_STEPS):
        slope = _dots(gradient, step)
        going = slope > enough
        if not going.any():
            break
        along = design.predictors(direction)
        curvature = rows.curvature(look, along) + _dots(design.ridge * direction, direction)
        length = np.zeros((len(theta), 1))
        length[going, 0] = _dots(gradient, direction)[going] / curvature[going]
        for left in reversed(range(HALVINGS + 1)):
            look = rows.look(predictors + length * along)
            now = _objective(design, look, theta + length * direction)
            worse = ~(now <= found + enough)
            if not worse.any():
                break
            # The last try is to stay.
            length[worse] *= 0.5 if left > 1 else 0.0
        predictors, theta = predictors + length * along, theta + length * direction
        found = np.fmin(found, now)
        before, gradient = gradient, design.gradient(look, theta)
        step = newton(gradient)
        share = np.maximum(_dots(step, gradient - before), 0.0) / np.where(going, slope, 1.0)
        direction = step + share[:, None] * direction
        direction = np.where(_dots(gradient, direction)[:, None] > 0, direction, step)
    return found


def _objective(design: Candidates, look: WorkingResponse, theta: Matrix) -> Vector:
    return np.asarray(0.5 * (look.deviance + _dots(design.ridge * theta, theta)))


def _dots(a: Matrix, b: Matrix) -> Vector:
    return np.asarray(np.einsum("bm,bm->b", a, b))


class InformationPreconditioner:
    """The information at a fit of k columns, which preconditions refits that start there."""

    def __init__(self, problem: GlmProblem, fit: GlmFit) -> None:
        self.problem = problem
        self.columns = problem.columns(fit.groups)
        self._local = fit.state.problem
        self._at = problem.wide(self.columns)
        # Through the origin the intercept stays where it is.
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
        """Return where models with own columns, shape (B, s), start, and their steps."""
        wide = self._wide(own)
        size, width = wide.shape
        free, held = self.problem.free, len(self._at)
        start = np.hstack([self._intercept, self._coef, np.zeros(width)])
        follow, inverse = self._follow[:, self._at], self._inverse
        own_follow = self._follow[:, wide]  # (P, B, s P)
        cross = self._local.G[self._at][:, wide]  # (k P, B, s P)
        blocks = blocks_of(self._local, wide)
        floor = RANK_SHARE * np.einsum("bss->bs", blocks).max(axis=1)
        # Given the common columns.
        given = inverse @ cross.reshape(held, size * width)
        blocks -= np.einsum("kbs,kbt->bst", cross, given.reshape(cross.shape))
        root = inverse_root(blocks, floor[:, None])

        def newton(gradient: Matrix) -> Matrix:
            first, common, last = np.split(gradient, [free, free + held], axis=1)
            common = common - first @ follow
            last = last - np.einsum("bp,pbs->bs", first, own_follow)
            last -= np.einsum("bk,kbs->bs", common @ inverse, cross)
            last = np.einsum("bst,but,bu->bs", root, root, last)
            common = (common - np.einsum("kbs,bs->bk", cross, last)) @ inverse
            first = first @ self._corner - common @ follow.T
            first -= np.einsum("bs,pbs->bp", last, own_follow)
            return np.hstack([first, common, last])

        return np.tile(start, (size, 1)), newton

    def less(self, gone: Index) -> tuple[Matrix, Steps]:
        """Return where models without some columns, shape (B, s), start, and their steps."""
        places = np.searchsorted(np.sort(self._at), self._wide(gone))
        at = np.argsort(self._at)[places]
        rows = np.arange(len(at))[:, None]
        of_gone = self._inverse[at]
        shares = np.linalg.solve(self._inverse[at[:, :, None], at[:, None, :]], of_gone)
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
        # Newton's steps need the information of the groups held only.
        (found,) = solved([extended(self.problem, fit, groups, alone=True)], self.rows.read)
        return completed(self.problem, found, self.rows.read)

    def reduced(self, fit: GlmFit, group: int) -> GlmFit:
        """Return the fit without one of its groups."""
        return solved([reduced(self.problem, fit, group)], self.rows.read)[0]

    def with_each(self, fit: GlmFit, groups: Sequence[int]) -> Vector:
        """Return what each of some groups and those of the fit explain."""
        near = InformationPreconditioner(self.problem, fit)
        common = self.rows.X[near.columns]
        explained = np.empty(len(groups))
        for which, own in self._blocks([self.problem.members[group] for group in groups]):
            design = Candidates(self.rows, common, self.rows.X[own], near.ridge(own))
            explained[which] = self._explained(design, *near.more(own))
        return explained

    def without_each(self, fit: GlmFit) -> Vector:
        """Return what the groups of the fit explain without each of them."""
        if fit.state.aliased:
            # Without a group, columns that depended on it come back.
            without = [reduced(self.problem, fit, group, alone=True) for group in fit.groups]
            return np.array([one.explained for one in solved(without, self.rows.read)])
        near = InformationPreconditioner(self.problem, fit)
        common = self.rows.X[near.columns]
        explained = np.empty(len(fit.groups))
        for which, gone in self._blocks([self.problem.members[group] for group in fit.groups]):
            none = gone[:, :0]
            design = Candidates(self.rows, common, self.rows.X[none], near.ridge(none))
            explained[which] = self._explained(design, *near.less(gone))
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

"""Rows in memory, column by column, 8 n (D + R) bytes, to which many models are fitted at once.

Source: McCullagh, Nelder (1989), section 2.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dbselect.glm.expansion import Coefficients, Expansion, Pair, expansion
from dbselect.glm.families import FamilyFormulas
from dbselect.glm.newton import PassRequest
from dbselect.glm.state import Slope
from dbselect.linear.problem import Index
from dbselect.record.formulas import Formula, Path, arrays, column, translate
from dbselect.record.gram import Matrix, Vector

#: Numbers of B models and n rows.
Block = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WorkingResponse:
    """Deviance, weights and residuals at some predictors, for B models side by side."""

    deviance: Vector  # shape (B,), per unit of weight
    # of each of the T pairs, shape (B, n), times the row's share of the weight
    weights: list[Block]
    residuals: list[Block]  # working residual of each pair, shape (B, n)


@dataclass(frozen=True, eq=False)
class HeldRows:
    """Rows of a table in memory."""

    family: FamilyFormulas
    # shape (D, n), columns of mean 0 and variance 1 by the row weights, or of zeros; through the
    # origin of mean square 1
    X: Matrix
    y: Matrix  # shape (R, n), the responses
    share: Vector  # shape (n,), row weights, which sum to 1
    offset: Vector  # shape (n,), added to the predictor
    weight: float  # sum of the row weights
    has_intercept: bool = True  # False for models through the origin

    def working_response(self, predictors: Block) -> WorkingResponse:
        """Return deviance, weights and residuals at free predictors, shape (P, B, n)."""
        basis = self.family.basis
        columns: dict[Path, Block] = {(f"y{r}",): y for r, y in enumerate(self.y)}
        for k, coefficients in enumerate(basis):
            columns[(f"eta{k}",)] = np.tensordot(coefficients, predictors, 1) + self.offset
        deviance, *parts = _evaluated(self._formulas, columns)
        size = predictors.shape[1:]
        parts = [np.broadcast_to(part, size) for part in parts]
        weights = [weight * self.share for weight in parts[::2]]
        return WorkingResponse(deviance @ self.share, weights, parts[1::2])

    @cached_property
    def _formulas(self) -> list[Formula]:
        """Deviance of a row, then weight and residual of each pair."""
        eta = [column((f"eta{k}",)) for k in range(len(self.family.basis))]
        row = self.family.row(eta, [column((f"y{r}",)) for r in range(len(self.y))])
        return [row.deviance, *(part for pair in row.pairs for part in pair)]

    def score(self, working: WorkingResponse) -> Block:
        """Return the gradient of half the deviance by the free predictors, shape (P, B, n)."""
        pairs = zip(self.family.contrasts, working.weights, working.residuals, strict=True)
        return sum(
            (q[:, None, None] * (weight * residual) for q, weight, residual in pairs),
            np.zeros((self.family.contrasts.shape[1], *working.weights[0].shape)),
        )

    def curvature(self, working: WorkingResponse, direction: Block) -> Vector:
        """Return the second derivative of half the deviance along directions (P, B, n)."""
        curvatures = np.zeros(direction.shape[1])
        for q, weight in zip(self.family.contrasts, working.weights, strict=True):
            along = np.tensordot(q, direction, 1)
            curvatures += np.einsum("bn,bn,bn->b", weight, along, along)
        return curvatures

    def read(self, requests: Sequence[PassRequest]) -> list[Expansion]:
        """Return the expansions, like a pass over a table."""
        return [self._quadratic(request) for request in requests]

    def slope(self, point: Coefficients) -> Slope:
        """Return the deviance at some coefficients and its gradient."""
        working = self._working_at(point)
        score = self.score(working)[:, 0]
        deviance = float(working.deviance[0]) * self.weight
        if not self.has_intercept:
            return Slope(deviance, 0.0, np.zeros(len(score)), self.X @ score.T)
        corner = np.zeros((len(score), len(score)))
        for q, weight in zip(self.family.contrasts, working.weights, strict=True):
            corner += weight.sum() * np.outer(q, q)
        slope = score.sum(axis=1)
        start = np.linalg.solve(corner, slope)
        for q, weight in zip(self.family.contrasts, working.weights, strict=True):
            score -= np.outer(q, weight[0]) * (q @ start)
        return Slope(deviance, float(slope @ start), start, self.X @ score.T)

    def _working_at(self, point: Coefficients) -> WorkingResponse:
        used = np.flatnonzero(point.coef.any(axis=1))
        predictors = point.intercept[:, None] + point.coef[used].T @ self.X[used]
        return self.working_response(predictors[:, None])

    def _quadratic(self, request: PassRequest) -> Expansion:
        working = self._working_at(request.point)
        columns = np.arange(len(self.X)) if request.columns is None else request.columns
        pairs = [
            self._pair(weight[0], residual[0], columns)
            for weight, residual in zip(working.weights, working.residuals, strict=True)
        ]
        deviance = float(working.deviance[0]) * self.weight
        return expansion(pairs, self.family.contrasts, deviance, self.has_intercept)

    def _pair(self, weight: Vector, residual: Vector, columns: Index) -> Pair:
        X = self.X[columns]
        width = len(self.X)
        mean, cross, comoment = np.zeros(width), np.zeros(width), np.zeros((width, width))
        total = float(weight.sum())
        mean[columns] = X @ weight / total
        centre = float(weight @ residual) / total
        cross[columns] = X @ (weight * (residual - centre))
        X -= mean[columns, None]
        X *= np.sqrt(weight)
        comoment[np.ix_(columns, columns)] = X @ X.T
        return Pair(total, mean, comoment, centre, cross, float(weight @ residual**2))


def _evaluated(formulas: Sequence[Formula], columns: dict[Path, Block]) -> list[Block]:
    """Evaluate formulas of columns; shared subexpressions are evaluated once."""
    values: dict[int, Block] = {}

    def kept(formula: Formula) -> Block:
        if id(formula) not in values:
            values[id(formula)] = translate(formula.parts[0], algebra)
        return values[id(formula)]

    algebra = arrays(columns.__getitem__, kept)
    # Overflow gives inf or NaN, and the step is halved.
    with np.errstate(all="ignore"):
        return [translate(formula, algebra) for formula in formulas]

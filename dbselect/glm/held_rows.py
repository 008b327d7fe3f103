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
from dbselect.glm.newton import Ask
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

    def look(self, predictors: Block) -> WorkingResponse:
        """Return deviance, weights and residuals at free predictors, shape (P, B, n)."""
        basis = self.family.basis
        known: dict[Path, Block] = {(f"y{r}",): y for r, y in enumerate(self.y)}
        for k, own in enumerate(basis):
            known[(f"eta{k}",)] = np.tensordot(own, predictors, 1) + self.offset
        deviance, *parts = _evaluated(self._formulas, known)
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

    def score(self, look: WorkingResponse) -> Block:
        """Return the gradient of half the deviance by the free predictors, shape (P, B, n)."""
        pairs = zip(self.family.contrasts, look.weights, look.residuals, strict=True)
        return sum(
            (q[:, None, None] * (weight * residual) for q, weight, residual in pairs),
            np.zeros((self.family.contrasts.shape[1], *look.weights[0].shape)),
        )

    def curvature(self, look: WorkingResponse, direction: Block) -> Vector:
        """Return the second derivative of half the deviance along directions (P, B, n)."""
        found = np.zeros(direction.shape[1])
        for q, weight in zip(self.family.contrasts, look.weights, strict=True):
            along = np.tensordot(q, direction, 1)
            found += np.einsum("bn,bn,bn->b", weight, along, along)
        return found

    def read(self, asks: Sequence[Ask]) -> list[Expansion]:
        """Answer as a pass over a table does."""
        return [self._quadratic(ask) for ask in asks]

    def slope(self, point: Coefficients) -> Slope:
        """Return the deviance at some coefficients and its gradient."""
        look = self._look_at(point)
        score = self.score(look)[:, 0]
        deviance = float(look.deviance[0]) * self.weight
        if not self.has_intercept:
            return Slope(deviance, 0.0, np.zeros(len(score)), self.X @ score.T)
        corner = np.zeros((len(score), len(score)))
        for q, weight in zip(self.family.contrasts, look.weights, strict=True):
            corner += weight.sum() * np.outer(q, q)
        slope = score.sum(axis=1)
        start = np.linalg.solve(corner, slope)
        for q, weight in zip(self.family.contrasts, look.weights, strict=True):
            score -= np.outer(q, weight[0]) * (q @ start)
        return Slope(deviance, float(slope @ start), start, self.X @ score.T)

    def _look_at(self, point: Coefficients) -> WorkingResponse:
        used = np.flatnonzero(point.coef.any(axis=1))
        predictors = point.intercept[:, None] + point.coef[used].T @ self.X[used]
        return self.look(predictors[:, None])

    def _quadratic(self, ask: Ask) -> Expansion:
        look = self._look_at(ask.point)
        columns = np.arange(len(self.X)) if ask.columns is None else ask.columns
        pairs = [
            self._pair(weight[0], residual[0], columns)
            for weight, residual in zip(look.weights, look.residuals, strict=True)
        ]
        deviance = float(look.deviance[0]) * self.weight
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


def _evaluated(formulas: Sequence[Formula], known: dict[Path, Block]) -> list[Block]:
    """Return formulas of columns; what is marked by `kept` is computed once."""
    found: dict[int, Block] = {}

    def kept(formula: Formula) -> Block:
        if id(formula) not in found:
            found[id(formula)] = translate(formula.parts[0], algebra)
        return found[id(formula)]

    algebra = arrays(known.__getitem__, kept)
    # What overflows makes a deviance that is too large, or none: the step is halved.
    with np.errstate(all="ignore"):
        return [translate(formula, algebra) for formula in formulas]

"""Bayesian A-optimality: by how much observed rows shrink the posterior variance.

Coefficients have the prior N(0, Lambda^-1), Lambda = beta2 I; a row x is answered
with noise of variance sigma2. With s = 1 / sigma2::

    P(S) = (Lambda + s X_S' X_S)^-1        posterior covariance
    f(S) = Tr(Lambda^-1) - Tr(P(S))
    f(S + x) - f(S) = s |P x|^2 / (1 + s x'P x)

This module evaluates whole sets; the compiled library adds rows one by one.

Source: Qian, Singer (2019), corollary 9 and appendix D, eq. 4.
"""

import numpy as np
from scipy import linalg
from scipy.linalg import blas

from dbselect.objectives.contract import SetFunction
from dbselect.record.gram import Matrix, Vector


class AOptimal(SetFunction):
    """A-optimality of rows selected from the candidates `X`, shape (n, d)."""

    def __init__(self, X: Matrix, beta2: float = 1.0, sigma2: float = 1.0) -> None:
        self.X = np.ascontiguousarray(X)
        self.beta2 = beta2
        self.sigma2 = sigma2
        self.held: list[int] = []
        self._marginal: Vector | None = None

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.X)

    @property
    def value(self) -> float:
        """f(S) of the selected rows, from the singular values of X_S; O(|S| d min(|S|, d))."""
        if not self.held:
            return 0.0
        squares = linalg.svdvals(self.X[self.held]) ** 2
        return float((squares / (self.sigma2 * self.beta2 + squares)).sum() / self.beta2)

    def gains(self) -> Vector:
        """Return f(S + a) - f(S) of each candidate; 0 for the selected ones."""
        gains = self._marginals().copy()
        gains[self.held] = 0.0
        return gains

    def losses(self) -> Vector:
        """Return f(S) - f(S - a) of each candidate; 0 for those not selected."""
        losses = np.zeros(self.size)
        losses[self.held] = self._marginals()[self.held]
        return losses

    def _become(self, held: list[int]) -> float:
        self._marginal = None
        return super()._become(held)

    def _marginals(self) -> Vector:
        """Return ``f(S + a) - f(S - a)`` of every candidate a, its marginal value; shape (n,).

        With ``M = I + s / beta2 X_S X_S'``, a row of S has P x_a = [M^-1 X_S]_a / beta2 and 1 - s
        x_a'P x_a = [M^-1]_aa. O(n d^2 + |S|^2 (|S| + d)) time, 16 n d bytes.
        """
        if self._marginal is not None:
            return self._marginal
        X = self.X[self.held]
        root = self._root(X)
        A = _product(self.X, root)
        marginal = _squares(_product(A, root)) / (self.sigma2 + _squares(A))
        M = _product(X, X.T) / (self.sigma2 * self.beta2)
        M[np.diag_indices(len(X))] += 1.0
        inverse = linalg.inv(M)
        without = self.sigma2 * self.beta2**2 * np.diagonal(inverse)
        marginal[self.held] = _squares(_product(inverse, X)) / without
        self._marginal = marginal
        return marginal

    def _root(self, X: Matrix) -> Matrix:
        """Return the symmetric root of P after the rows of X, which keeps half its digits."""
        _, singular, V = linalg.svd(X, full_matrices=False)
        precision = self.beta2 + singular**2 / self.sigma2
        shrink = self.beta2**-0.5 - precision**-0.5
        return np.asarray(np.eye(X.shape[1]) * self.beta2**-0.5 - _product(V.T * shrink, V))


def _product(A: Matrix, B: Matrix) -> Matrix:
    """Return A B in C order by SciPy's BLAS, as threads of NumPy's would spin beside."""
    return np.asarray(blas.dgemm(1.0, B.T, A.T).T)


def _squares(rows: Matrix) -> Vector:
    """Return the squared norm of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))

"""Bayesian A-optimality: how far some rows, once observed, shrink the posterior variance.

Coefficients have the prior N(0, Lambda^-1), Lambda = beta2 I; a row x is answered
with noise of variance sigma2. With s = 1 / sigma2::

    P(S) = (Lambda + s X_S' X_S)^-1        posterior covariance
    f(S) = Tr(Lambda^-1) - Tr(P(S))
    f(S + x) - f(S) = s |P x|^2 / (1 + s x'P x)

The posterior is kept as a root, P = T T', because ``P - s Px (Px)' / (1 + s x'Px)``
loses all digits where s |x|^2 / beta2 nears 1e16, which an unscaled column reaches; the
root loses half as many. With a = T'x, y = T a = P x and z = 1 + s a'a, a new row is a
rank-one update::

    T - s / (z + sqrt(z)) y a'

The products A = X T and Y = X P of other rows follow by rank-one updates as well, several
steps at once (`Tracked`). A new row costs O(d^2), and O(m d) for m rows that follow.

The gain is not submodular (Qian, Singer 2019, appendix D): that of one row may grow when others
are taken, so an old gain bounds nothing. Its variance x'Px does only fall, and
|P x|^2 <= lambda_max(P) x'Px, which gives a bound that stays true (`least_variance`).

Source: Qian, Singer (2019), corollary 9 and appendix D, eq. 4; the update of the root is
Potter's (Bierman, Factorization Methods for Discrete Sequential Estimation, 1977).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.linalg import blas

from dbselect.objectives.contract import SetFunction
from dbselect.record.gram import Matrix, Vector

#: Share added to lambda_max(P): the digits of x'Px that the root keeps where
#: s |x|^2 / beta2 reaches 1e16.
BOUND_SLACK = 1e-8
#: Rows taken between two looks at the eigenvalues, as a share of the columns: a look
#: costs some d^3 and an update d^2.
LOOK_SHARE = 1 / 16
#: Steps that rows may lag behind, as a share of the columns: to follow L steps costs
#: 6 L d a row, and new products 4 d^2.
LAG_SHARE = 2 / 3
#: Products are computed anew once the largest gain has fallen to this share: what was
#: subtracted has cost as many digits.
FADED_SHARE = 1e-2

Index = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class RankOne:
    """What a new row takes off: root_share y a' off T, and share y y' off P."""

    a: Vector
    y: Vector
    root_share: float
    share: float


class Posterior:
    """What is known of d coefficients after some rows.

    Parameters
    ----------
    width : d
    beta2 : > 0, prior precision of each coefficient
    sigma2 : > 0, variance of the noise
    """

    def __init__(self, width: int, beta2: float = 1.0, sigma2: float = 1.0) -> None:
        self.scale = 1.0 / sigma2
        self.root: Matrix = np.eye(width) / np.sqrt(beta2)
        self.steps: list[RankOne] = []
        self._largest = 1.0 / beta2
        self._looked = 0

    @classmethod
    def after(cls, X: Matrix, beta2: float = 1.0, sigma2: float = 1.0) -> Self:
        """Return the posterior after the rows of X, shape (m, d); O(m d min(m, d) + d^3)."""
        posterior = cls(X.shape[1], beta2, sigma2)
        _, singular, V = linalg.svd(X, full_matrices=False)
        shrink = 1.0 / np.sqrt(beta2) - 1.0 / np.sqrt(beta2 + posterior.scale * singular**2)
        posterior.root -= _product(V.T * shrink, V)
        return posterior

    @property
    def covariance(self) -> Matrix:
        """P, shape (d, d)."""
        return np.asarray(self.root @ self.root.T)

    def add(self, x: Vector) -> float:
        """Take a row, shape (d,), and return its gain."""
        a = blas.dgemv(1.0, self.root.T, x)
        y = blas.dgemv(1.0, self.root.T, a, trans=1)
        z = 1.0 + self.scale * float(a @ a)
        step = RankOne(a, y, self.scale / (z + np.sqrt(z)), self.scale / z)
        # A transposed view is in Fortran order: it is changed in place.
        blas.dger(-step.root_share, a, y, a=self.root.T, overwrite_a=1)
        self.steps.append(step)
        self._look()
        return step.share * float(y @ y)

    def _look(self) -> None:
        """Lower lambda_max(P): below d rows it is that of the prior, and it never grows."""
        width, rows = len(self.root), len(self.steps)
        if rows >= width and rows >= self._looked + LOOK_SHARE * width:
            self._looked = rows
            P = _product(self.root, self.root.T)
            self._largest = float(linalg.eigvalsh(P, subset_by_index=[width - 1, width - 1])[0])

    def least_variance(self, gain: float) -> float:
        """Return the x'Px that a row needs, or needed at any time before, to gain so much now.

        ``s |Px|^2 / (1 + s x'Px) <= lambda_max(P) s v / (1 + s v)`` for every v >= x'Px.
        """
        ceiling = (1.0 + BOUND_SLACK) * self._largest
        return gain / (self.scale * (ceiling - gain)) if gain < ceiling else np.inf


class Tracked:
    """Rows whose gains are updated at O(d) each for every row added.

    Parameters
    ----------
    X : shape (m, d), not changed; memory is twice that of X besides
    """

    def __init__(self, X: Matrix) -> None:
        self._X = np.ascontiguousarray(X)
        self._A = self._Y = np.empty((0, X.shape[1]))
        self._steps = 0
        self._fresh = 0.0

    def gains(self, posterior: Posterior) -> tuple[Vector, Vector]:
        """Return ``f(S + x) - f(S)`` and ``x'Px`` of each row, for the rows added so far."""
        behind = posterior.steps[self._steps :]
        self._steps = len(posterior.steps)
        computed = not len(self._A) or len(behind) > LAG_SHARE * self._X.shape[1]
        if computed:
            self._A = _product(self._X, posterior.root)
            self._Y = _product(self._A, posterior.root.T)
        elif behind:
            self._follow(behind)
        variance = _squares(self._A)
        gains = posterior.scale * _squares(self._Y) / (1.0 + posterior.scale * variance)
        largest = float(gains.max(initial=0.0))
        if computed:
            self._fresh = largest
        elif largest < FADED_SHARE * self._fresh:
            self._A = np.empty((0, self._X.shape[1]))
        return gains, variance

    def _follow(self, behind: Sequence[RankOne]) -> None:
        a = np.array([step.a for step in behind])
        y = np.array([step.y for step in behind])
        u = blas.dgemm(1.0, y.T, self._X.T, trans_a=1)
        root_share = np.array([[step.root_share] for step in behind])
        share = np.array([[step.share] for step in behind])
        blas.dgemm(-1.0, a.T, root_share * u, 1.0, self._A.T, overwrite_c=1)
        blas.dgemm(-1.0, y.T, share * u, 1.0, self._Y.T, overwrite_c=1)


class AOptimal:
    """The objective over a fixed set of candidates, for sets given at once.

    Parameters
    ----------
    X : shape (n, d), the candidate rows
    beta2 : > 0, prior precision of each coefficient
    sigma2 : > 0, variance of the noise

    Examples
    --------
    >>> import numpy as np
    >>> from dbselect.objectives.a_optimal import AOptimal
    >>> objective = AOptimal(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    >>> round(objective.value([0, 1]), 6), objective.gains([0, 1]).round(6).tolist()
    (1.0, [0.5, 0.5, 0.25])
    """

    def __init__(self, X: Matrix, beta2: float = 1.0, sigma2: float = 1.0) -> None:
        self.X = np.ascontiguousarray(X)
        self.beta2 = beta2
        self.sigma2 = sigma2

    def value(self, rows: Sequence[int] | Index) -> float:
        """Return f(S), from the singular values of X_S; O(|S| d min(|S|, d))."""
        squares = linalg.svdvals(self.X[np.asarray(rows, dtype=np.intp)]) ** 2
        return float((squares / (self.sigma2 * self.beta2 + squares)).sum() / self.beta2)

    def gains(self, rows: Sequence[int] | Index) -> Vector:
        """Return ``f(S + a) - f(S - a)`` of every candidate a: what it adds to the others.

        With ``M = I + s / beta2 X_S X_S'``, a row of S has P x_a = [M^-1 X_S]_a / beta2 and
        1 - s x_a'P x_a = [M^-1]_aa.

        Returns
        -------
        shape (n,)

        Notes
        -----
        O(n d^2 + |S|^2 (|S| + d)) time, 16 n d bytes.
        """
        at = np.asarray(rows, dtype=np.intp)
        X = self.X[at]
        gains, _ = Tracked(self.X).gains(Posterior.after(X, self.beta2, self.sigma2))
        M = _product(X, X.T) / (self.sigma2 * self.beta2)
        M[np.diag_indices(len(at))] += 1.0
        inverse = linalg.inv(M)
        without = self.sigma2 * self.beta2**2 * np.diagonal(inverse)
        gains[at] = _squares(_product(inverse, X)) / without
        return gains


class ChosenRows(SetFunction):
    """Chosen candidates, and what every other one would add: A-optimality as an `Objective`.

    Parameters
    ----------
    candidates : AOptimal
    held : numbers of the rows chosen
    """

    def __init__(self, candidates: AOptimal, held: Sequence[int] = ()) -> None:
        self.candidates = candidates
        self.held = list(held)
        self._marginal: Vector | None = None

    @property
    def size(self) -> int:
        """Number of candidates."""
        return len(self.candidates.X)

    @property
    def value(self) -> float:
        """f(S) of the rows chosen."""
        return self.candidates.value(self.held) if self.held else 0.0

    def gains(self) -> Vector:
        """Return f(S + a) - f(S) of each candidate; 0 for the chosen ones."""
        gains = self._marginals().copy()
        gains[self.held] = 0.0
        return gains

    def losses(self) -> Vector:
        """Return f(S) - f(S - a) of each candidate; 0 for those not chosen."""
        losses = np.zeros(self.size)
        losses[self.held] = self._marginals()[self.held]
        return losses

    def _become(self, held: list[int]) -> float:
        self._marginal = None
        return super()._become(held)

    def _marginals(self) -> Vector:
        """Return ``f(S + a) - f(S - a)`` of every candidate."""
        if self._marginal is None:
            self._marginal = self.candidates.gains(self.held)
        return self._marginal


def _product(A: Matrix, B: Matrix) -> Matrix:
    """Return A B in C order, by the BLAS of SciPy like all products here.

    The thread pools of NumPy's BLAS and SciPy's would spin against each other.
    """
    return np.asarray(blas.dgemm(1.0, B.T, A.T).T)


def _squares(rows: Matrix) -> Vector:
    """Return the squared norm of each row."""
    return np.asarray(np.einsum("ij,ij->i", rows, rows))

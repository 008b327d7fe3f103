"""The epsilon of FoBa at which its theorem finds a sparse truth."""

import math
from typing import TYPE_CHECKING, Unpack

import numpy as np

from dbselect.errors import DataError
from dbselect.options.option import shows
from dbselect.options.table import EpsilonOptions
from dbselect.search.gram import gram_search
from dbselect.search.open import asked

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

#: Below this share of the largest one an eigenvalue is 0, by rounding.
LEAST_EIGENVALUE = 1e-10


@shows(EpsilonOptions)
def foba_epsilon(problem: "Problem", **options: Unpack[EpsilonOptions]) -> float:
    """Return the least epsilon at which FoBa's theorem finds a sparse truth.

    That is ``64 noise^2 ln(2 d / eta) / (rho^2 n)``, as a share of the target's variance, as
    `foba` takes it. A smaller one may be better on real data: the theorem's is on the safe side.

    Returns
    -------
    epsilon; above 1 there is no promise for any group

    Raises
    ------
    ColumnError, GroupError : as `foba`
    ArgumentError : noise, failure or eigenvalue out of range
    DataError : without `eigenvalue`, the columns depend linearly on each other, as they do
        where there are fewer rows than columns

    Notes
    -----
    The promise is also that true coefficients, on columns of unit variance, are not small:
    their squares at least 64 epsilon / (25 rho^2), in the square of the target's unit.

    References
    ----------
    Zhang (2008), Theorem 1.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, -1, 1, -1] * 500, [1, 1, -1, -1] * 500
    >>> table = pl.DataFrame({"a": a, "b": b, "y": [3 * i + 4 * j for i, j in zip(a, b)]})
    >>> epsilon = ds.reference.foba_epsilon(table, "y", noise=0.5)
    >>> round(epsilon, 6)  # 64 * 0.25 * ln(240) / 2000, of a variance of 25
    0.001754
    >>> ds.foba(table, "y", epsilon=epsilon).steps["group"].to_list()
    [None, 'b', 'a']
    """
    known, call = asked(problem, "foba_epsilon", EpsilonOptions, options)
    search = gram_search(problem, call)
    own, eigenvalue = search.linear, known["eigenvalue"]
    rho = float(np.linalg.eigvalsh(own.G)[0]) if eigenvalue is None else float(eigenvalue)
    if rho < LEAST_EIGENVALUE * len(own.c):
        raise DataError(
            f"the {len(own.c)} columns depend linearly on each other; give eigenvalue, the "
            "least one of the correlations of as many columns as may be selected"
        )
    variance = float(own.target_spread) ** 2
    bound = 64.0 * float(known["noise"]) ** 2 * math.log(6.0 * len(own.c) / known["failure"])
    return bound / (rho**2 * search.gram.rows * variance)

"""The epsilon of FoBa by which a sparse truth is found, from its theorem."""

import math
import numbers

import numpy as np

from dbselect.errors import ArgumentError, DataError
from dbselect.methods.setup import prepare
from dbselect.methods.types import GroupColumns, Source
from dbselect.record.checks import check_flag, check_share

#: Below this share of the largest one an eigenvalue is 0, by rounding.
LEAST_EIGENVALUE = 1e-10


def foba_epsilon(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    *,
    noise: float,
    failure: float = 0.05,
    eigenvalue: float | None = None,
    intercept: bool = True,
) -> float:
    """Return the least epsilon at which FoBa's theorem finds a sparse truth.

    That is ``64 noise^2 ln(2 d / eta) / (rho^2 n)``, as a share of the target's variance, as
    `foba` takes it. A smaller one may be better on real data: the theorem's is on the safe side.

    Parameters
    ----------
    source : Gram, record or table, as `foba` takes it
    target : column to predict
    groups : name -> columns or globs, of which d columns count; default: as in `foba`
    noise : > 0, standard deviation of the noise, in the target's unit
    failure : in (0, 1), chance that the promise may fail, three eta of the theorem
    eigenvalue : in (0, 1], rho(s): the least eigenvalue of the correlations of any s columns;
        None takes that of all columns, which is at most as large, so that epsilon is at least
        as large
    intercept : False for models through the origin, as in `foba`

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
    >>> epsilon = ds.foba_epsilon(table, "y", noise=0.5)
    >>> round(epsilon, 6)  # 64 * 0.25 * ln(240) / 2000, of a variance of 25
    0.001754
    >>> ds.foba(table, "y", epsilon=epsilon).steps["group"].to_list()
    [None, 'b', 'a']
    """
    if not (isinstance(noise, numbers.Real) and 0 < float(noise) < math.inf):
        raise ArgumentError(f"noise is {noise!r}; it must be a number > 0")
    check_share("failure", failure)
    if eigenvalue is not None and not (
        isinstance(eigenvalue, numbers.Real) and 0 < float(eigenvalue) <= 1
    ):
        raise ArgumentError(f"eigenvalue is {eigenvalue!r}; it must lie in (0, 1], or be None")
    check_flag("intercept", intercept)
    search = prepare(source, target, groups, None, intercept=intercept)
    problem = search.problem
    rho = float(np.linalg.eigvalsh(problem.G)[0]) if eigenvalue is None else float(eigenvalue)
    if rho < LEAST_EIGENVALUE * len(problem.c):
        raise DataError(
            f"the {len(problem.c)} columns depend linearly on each other; give eigenvalue, the "
            "least one of the correlations of as many columns as may be selected"
        )
    variance = float(problem.target_spread) ** 2
    bound = 64.0 * float(noise) ** 2 * math.log(6.0 * len(problem.c) / failure)
    return bound / (rho**2 * search.gram.rows * variance)

"""Bi-level selection by hard thresholding (SGHT): few columns in few groups."""

from typing import Any, Unpack

from dbselect.methods.descents import check_start, descent_of, groups_held, task_of
from dbselect.options.option import shows
from dbselect.results.selected import Convergence, Selected
from dbselect.search.open import asked, open_search
from dbselect.selection.projection import check_limit
from dbselect.spec.options import SghtOptions
from dbselect.spec.spec import Spec


@shows(SghtOptions)
def sght(problem: Spec, **options: Unpack[SghtOptions]) -> Selected[Any]:
    """Select at most `max_columns` columns in at most `max_groups` groups by hard thresholding.

    Finds a local minimum of 1/2 |y - Xw|^2 within both limits, on unit-variance columns; for
    several responses, of the sum over them, each of unit variance, on the same columns; with
    another family, of the deviance, by the same descent.

    Returns
    -------
    Selected, with a Model on the kept columns; for a list of responses a JointModel, with
    another family a GlmModel

    Raises
    ------
    ColumnError : an unknown column
    GroupError : groups overlap or are empty
    ArgumentError : a limit is below 1 or above what exists; another option out of range
    DataError : no usable rows, or a constant target

    Warns
    -----
    ConditionWarning : the kept columns are so nearly dependent that their coefficients
        keep fewer than six digits

    Notes
    -----
    With D columns O(D^3) for the ridge solutions; a step costs O(D s1) and one
    projection for each step length tried. Memory 16 D^2 bytes from zero, 28 D^2 from
    the ridge solutions. The objective never rises for the two ISTA variants. There is neither a
    budget nor `always`: the projection within both limits is exact
    only if all groups cost the same and none is forced.

    References
    ----------
    Xiang, Yang, Ye (2014), Algorithms 1 and 2, Table 1.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> g = ds.gram(pl.DataFrame({"a": a, "b": b, "c": c, "y": y}))
    >>> model = ds.sght(g, "y", groups={"u": ["a", "c"], "v": ["b"]}, max_columns=2, max_groups=1)
    >>> {name: round(value, 6) for name, value in model.coefficients.items()}
    {'a': 3.0, 'c': 1.0}
    """
    checked, call = asked(problem, "sght", SghtOptions, options)
    check_start(checked["start"])
    search: Any = open_search(problem, call, several=True)
    task = task_of(search, checked["refit"])
    limits = (
        check_limit("max_columns", checked["max_columns"], len(task.groups.members)),
        check_limit("max_groups", checked["max_groups"], len(task.groups.names)),
    )
    descent = descent_of(task, limits, checked)
    model = task.model(descent)
    convergence = Convergence(
        descent.history, descent.converged, descent.start, descent.exchanges, descent.projections
    )
    chosen = tuple(groups_held(task.groups, model.columns))
    return Selected(model, chosen, call.method, convergence, call=search.call)

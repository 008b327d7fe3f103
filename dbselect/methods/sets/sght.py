"""Bi-level selection by hard thresholding: few columns in few groups."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from dbselect.errors import ArgumentError, DataError
from dbselect.methods.fits.fit import fit
from dbselect.methods.sets.descents import (
    check_start,
    descent_of,
    groups_held,
    own_start,
    settings_of,
    task_of,
)
from dbselect.objectives.smooth import RowSquares
from dbselect.options.option import shows
from dbselect.options.table import SghtOptions
from dbselect.record.groups import Groups, groups_of
from dbselect.results.call import Call
from dbselect.results.model import Model
from dbselect.results.selected import Convergence, Selected
from dbselect.search.open import asked, open_search
from dbselect.search.table import gram_given, referenced_columns, table_of
from dbselect.selection.penalised.descent import Descent, descend
from dbselect.selection.penalised.layout import Layout
from dbselect.selection.penalised.projection import check_limit
from dbselect.sources.rows import TableRows

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

#: Fields of a problem without which the paper's problem is another one.
_REFUSED = ("ridge", "weight", "null_policy", "terms", "always")
#: Rows of a block that is read.
BLOCK_ROWS = 2**14


@shows(SghtOptions)
def sght(problem: "Problem", **options: Unpack[SghtOptions]) -> Selected[Any]:
    """Return a model on at most `max_columns` columns in at most `max_groups` groups.

    A local minimum of 1/2 |y - Xw|^2 within both limits, on unit-variance columns; of
    several responses, of the sum over them, each of unit variance, on the same columns; of
    another family, of the deviance, by the same descent.

    Returns
    -------
    Selected, with a Model whose coefficients are those of the kept columns; of a list of
    responses a JointModel, of another family a GlmModel

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
    the ridge solutions; `literal` takes O(n D) a step and holds the rows. The objective never
    rises for the two ISTA variants. There is
    neither a budget nor a group to take first: the projection within both limits is exact
    only where every group costs the same and may be left out.

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
    known, call = asked(problem, "sght", SghtOptions, options)
    check_start(known["start"])
    if known["literal"]:
        model, descent, groups = sght_on_rows(problem, known, call)
        return _selected(model, descent, groups, call)
    search: Any = open_search(problem, call, several=True)
    task = task_of(search, known["refit"])
    limits = (
        check_limit("max_columns", known["max_columns"], len(task.groups.members)),
        check_limit("max_groups", known["max_groups"], len(task.groups.names)),
    )
    descent = descent_of(task, limits, known)
    return _selected(task.model(descent), descent, task.groups, call, search.call)


def _selected(
    model: Any, descent: Descent, groups: Groups, call: Call, own: Call | None = None
) -> Selected[Any]:
    how = Convergence(
        descent.history, descent.converged, descent.start, descent.exchanges, descent.projections
    )
    chosen = tuple(groups_held(groups, model.columns))
    return Selected(model, chosen, call.method, how, call=own or call)


def sght_on_rows(
    problem: "Problem", known: SghtOptions, call: Call
) -> tuple[Model, Descent, Groups]:
    """Descend on the rows of a table, as the authors do, O(n D) a step, and return the model."""
    asked = problem.changed()
    if not problem.is_linear or len(problem.targets) > 1 or gram_given(problem) is not None:
        raise ArgumentError(
            "literal is True; it is the descent on the rows of a table for one numeric target"
        )
    for name in _REFUSED:
        if name in asked:
            raise ArgumentError(
                f"literal is True, and {name} is {asked[name]!r}; the paper's problem has none"
            )
    target, columns = problem.targets[0], referenced_columns(problem)
    wanted = None if columns is None else [*columns, target]
    rows = TableRows(table_of(problem, wanted), wanted, None, False)
    rows.tell_left_out()
    features = [name for name in rows.names if name != target]
    groups = groups_of(features, problem.groups, problem.costs, target)
    blocks = [block for _, block, _ in rows.blocks(BLOCK_ROWS)]
    if not blocks:
        raise DataError("the table has no usable rows")
    table = np.concatenate(blocks)
    X = table[:, [rows.names.index(name) for name in groups.members]]
    y = table[:, rows.names.index(target)]
    mean, level = (X.mean(axis=0), float(y.mean())) if problem.intercept else (0.0 * X[0], 0.0)
    limits = (
        check_limit("max_columns", known["max_columns"], X.shape[1]),
        check_limit("max_groups", known["max_groups"], len(groups.names)),
    )
    layout = Layout(None, np.cumsum([0, *map(len, groups.columns.values())]))
    start = known["start"]
    x = np.zeros(X.shape[1]) if isinstance(start, str) else own_start(groups.members, start)
    descent = descend(RowSquares(X - mean, y - level), layout, x, limits, settings_of(known))
    descent = replace(descent, start="given" if not isinstance(start, str) else "zero")
    kept = [name for name, value in zip(groups.members, descent.x, strict=True) if value]
    model = fit(problem.replace(groups=None, costs=None), kept)
    if not isinstance(model, Model):
        raise TypeError(type(model).__name__)
    held = groups_held(groups, kept)
    own: dict[str, Any] = {}
    if not known["refit"]:
        of_all = 2.0 * RowSquares(X - mean, y - level).at(np.zeros(X.shape[1])).value
        left = 1.0 - 2.0 * float(descent.history[-1]) / of_all
        values = [float(value) for value in descent.x if value]
        own = {
            "intercept": level - float(mean @ descent.x), "fit": None, "r2": left,
            "coefficients": dict(zip(kept, values, strict=True)), "explained": left,
        }  # fmt: skip
    elif model.fit is not None:
        own = {"fit": replace(model.fit, chosen=True)}
    spent = float(groups.costs[held].sum())
    own |= {"groups": [groups.names[i] for i in held], "spent": spent, "call": call}
    return replace(model, **own), descent, groups

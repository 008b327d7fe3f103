"""SGHT as its authors have it: on rows, matrix-free, without what dbselect adds to it."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dbselect.errors import ArgumentError, DataError
from dbselect.methods.fits.fit import fit
from dbselect.methods.sets.descents import groups_held, own_start, settings_of
from dbselect.objectives.smooth import RowSquares
from dbselect.options.table import SghtOptions
from dbselect.record.groups import Groups, groups_of
from dbselect.results.call import Call
from dbselect.results.model import Model
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
BLOCK = 2**14


def sght_on_rows(
    problem: "Problem", known: SghtOptions, call: Call
) -> tuple[Model, Descent, Groups]:
    """Descend on the rows of a table; return the model, how it went, and the groups.

    The rows are held as doubles; a step costs O(n D), each L that it tries one projection and O(n
    s1).
    """
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
    blocks = [block for _, block, _ in rows.blocks(BLOCK)]
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

"""The cost-weighted group lasso: path, model at one penalty, and order of groups."""

from typing import Any, Unpack

from dbselect.methods.penalties import penalty_path_of, selected_model
from dbselect.options.option import shows
from dbselect.record.steps import Choice, Record, Step, Stop, fits
from dbselect.results.joint import AnySequence
from dbselect.results.model import Model
from dbselect.results.penalty_path import GroupLassoPath
from dbselect.results.selected import Selected
from dbselect.search.gram import GramSearch, gram_search
from dbselect.search.open import asked
from dbselect.search.protocol import check_first
from dbselect.spec.options import GroupLassoOptions, GroupLassoPathOptions, SparseGroupLassoOptions
from dbselect.spec.spec import Spec


@shows(GroupLassoPathOptions)
def group_lasso_path(problem: Spec, **options: Unpack[GroupLassoPathOptions]) -> GroupLassoPath:
    """Fit the cost-weighted group lasso, or the sparse group lasso, over decreasing penalties.

    Minimise ``1/2 - c'w + 1/2 w'Gw + penalty ((1 - l1_ratio) sum_g f_g cost(g) ||w_g|| +
    l1_ratio sum_j f_j |w_j|)`` on columns and a target of unit variance, that is
    ``RSS / 2n`` plus a penalty. The path starts at the least penalty at which all groups are 0.

    Returns
    -------
    GroupLassoPath

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range; `penalty_factors` that are all 0, or of a column
        if only groups are penalised
    RecordError : a record that no rows can have

    Warns
    -----
    ConvergenceWarning : rounding prevents a point from meeting its optimality conditions

    Notes
    -----
    The optimality conditions hold to 1e-8 at every penalty, on correlations. About six
    factorisations per penalty, O(|S|^3 / 3) each for |S| nonzero columns; 16 D^2
    bytes, with ``scale=False`` 24, with `adaptive` 48. If columns are linearly dependent, the
    coefficients at the minimum may not be unique; r2 and gap are. `lambdas`
    are the penalties in the target's unit, as in `lasso_path`.

    References
    ----------
    Yuan, Lin (2006), JRSS B 68; Simon, Friedman, Hastie, Tibshirani (2013), Journal of
    Computational and Graphical Statistics 22; Wang, Leng (2008), Computational Statistics and
    Data Analysis 52, for adaptive groups; the baseline Sparse of Hu, Grubb, Bagnell, Hebert
    (2016), section 5.2, without their factor 2 in the penalty.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> gram = ds.gram(table)
    >>> path = ds.group_lasso_path(gram, "y", n_lambda=3, lambda_min_ratio=0.1)
    >>> path.penalties.round(3).tolist()
    [0.976, 0.309, 0.098]
    >>> path.scaled_coef[:, 0].round(3).tolist()
    [0.0, 0.667, 0.878]
    """
    checked, call = asked(problem, "group_lasso_path", GroupLassoPathOptions, options)
    return _path(gram_search(problem, call), checked)[0]


@shows(SparseGroupLassoOptions)
def sparse_group_lasso(
    problem: Spec, **options: Unpack[SparseGroupLassoOptions]
) -> Selected[Model]:
    """Return the model of the sparse group lasso at one penalty.

    The point of `group_lasso_path` at `penalty`, or at the penalty with the best criterion. It
    drops groups, and columns within the selected_model groups.

    Returns
    -------
    Selected, with a Model on the nonzero columns, whose coefficients are shrunk; its
    `shrinkage` has the penalty, df, gap and violation

    Raises
    ------
    ColumnError, GroupError, ArgumentError : as `group_lasso_path`
    DataError : as `group_lasso_path`; too few rows for the criterion

    Notes
    -----
    Takes as long as `group_lasso_path`; with a `penalty` about ten factorisations. Works in
    `cross_validate` by its name, with penalties as the grid.

    References
    ----------
    Simon, Friedman, Hastie, Tibshirani (2013), Journal of Computational and Graphical
    Statistics 22, the source of the default l1_ratio of 0.95; Vaiter, Deledalle, Fadili, Peyre,
    Dossal (2017) for degrees of freedom.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": y})
    >>> groups = {"u": ["a", "c"], "v": ["b"]}
    >>> result = ds.reference.sparse_group_lasso(table, "y", groups, penalty=0.4, l1_ratio=0.8)
    >>> result.groups, result.columns
    (['u', 'v'], ['a', 'b'])
    """
    checked, call = asked(problem, "sparse_group_lasso", SparseGroupLassoOptions, options)
    return selected_model(*_path(gram_search(problem, call), checked), checked)


@shows(GroupLassoOptions)
def group_lasso(problem: Spec, **options: Unpack[GroupLassoOptions]) -> AnySequence:
    """Order groups by their entry into the path of the cost-weighted group lasso.

    Each prefix is refitted without the penalty, as in `anytime_sequence`. Groups that
    enter at the same penalty are ordered by ``||b_g|| / cost(g)`` at the previous penalty,
    the largest first, b the gradient; ties go to the group named first.

    Returns
    -------
    Sequence with the groups that enter; ``score`` is the penalty at entry, 0 for a group of
    `always` that never enters

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range; else as `group_lasso_path`

    Warns
    -----
    ConditionWarning : as `anytime_sequence`

    Notes
    -----
    Takes as long as `group_lasso_path`, and O(D^3) for the fits. There is no `family`: every
    penalty of an objective that is not quadratic would take passes over the rows.

    References
    ----------
    The baseline Sparse of Hu, Grubb, Bagnell, Hebert (2016), section 5.2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> gram = ds.gram(table)
    >>> ds.reference.group_lasso(gram, "y").steps["group"].to_list()
    [None, 'a', 'b']
    >>> ds.reference.group_lasso(gram, "y", lambda_min_ratio=0.5)
    Sequence(y ~ a; r2 0.9524, spent 1; 4 rows; no other group enters the path)
    """
    checked, call = asked(problem, "group_lasso", GroupLassoOptions, options)
    search = gram_search(problem, call, adds_only=True)
    check_first(search.groups, search.first, checked["budget"])
    path, _ = penalty_path_of(search, "group_lasso_path", checked)
    entered = dict(zip(path.entered, path.penalties[path.entered_at].tolist(), strict=True))
    state, costs = search.state, search.groups.costs

    def walk(record: Record) -> Stop:
        stop = Stop.PATH
        for group in [*search.first, *(group for group in entered if group not in search.first)]:
            if not fits(costs[[*state.held, group]].sum(), checked["budget"]):
                stop = Stop.BUDGET
                continue
            choice = Choice.FORCED if group in search.first else Choice.FREE
            penalty, gain = entered.get(group, 0.0), state.add(group)
            record(Step("add", group, penalty, gain, state.explained, choice))
        return Stop.EXHAUSTED if len(state.held) == len(costs) else stop

    sequence: AnySequence = search.run("group-lasso", walk, None)
    return sequence


def _path(search: GramSearch, options: Any) -> tuple[GroupLassoPath, int | None]:
    path, preferred = penalty_path_of(search, "group_lasso_path", options)
    return GroupLassoPath(search.call, search.groups, search.gram, search.linear, path), preferred

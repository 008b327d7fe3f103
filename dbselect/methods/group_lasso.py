"""The cost-weighted group lasso: its path, its model at one penalty, and its order of groups."""

from typing import Any, Unpack

from dbselect.methods.penalties import found_path, selected
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
    """Fit the cost-weighted group lasso, or the sparse group lasso, over falling penalties.

    Minimise ``1/2 - c'w + 1/2 w'Gw + penalty ((1 - l1_ratio) sum_g f_g cost(g) ||w_g|| +
    l1_ratio sum_j f_j |w_j|)`` on columns and a target of unit variance, which is
    ``RSS / 2n`` and a penalty, from the least penalty at which every group is 0 downwards.

    Returns
    -------
    GroupLassoPath

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range; `penalty_factors` that are all 0, or of a column
        where only groups are penalised
    RecordError : a record that no rows can have

    Warns
    -----
    ConvergenceWarning : rounding kept a point from its optimality conditions

    Notes
    -----
    The optimality conditions hold to 1e-8 at every penalty, on correlations. Some six
    factorisations a penalty, O(|S|^3 / 3) each for |S| columns that are not 0; 16 D^2
    bytes, with ``scale=False`` 24, with `adaptive` 48. Where columns depend linearly on each
    other, the coefficients may not be the only ones at the minimum; r2 and gap are. `lambdas`
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
    known, call = asked(problem, "group_lasso_path", GroupLassoPathOptions, options)
    return _path(gram_search(problem, call), known)[0]


@shows(SparseGroupLassoOptions)
def sparse_group_lasso(
    problem: Spec, **options: Unpack[SparseGroupLassoOptions]
) -> Selected[Model]:
    """Return the model of the sparse group lasso at one penalty.

    That of `group_lasso_path` at `penalty`, or at the penalty of its grid that a criterion
    prefers. It leaves groups out, and columns of those that it takes.

    Returns
    -------
    Selected, with a Model on the columns that are not 0, as the penalty shrank them; its
    `shrinkage` has the penalty, df, gap and violation

    Raises
    ------
    ColumnError, GroupError, ArgumentError : as `group_lasso_path`
    DataError : as `group_lasso_path`; too few rows for the criterion

    Notes
    -----
    The cost of `group_lasso_path`; with a `penalty` of some ten factorisations. It goes into
    `cross_validate` by its name, with penalties as the grid.

    References
    ----------
    Simon, Friedman, Hastie, Tibshirani (2013), Journal of Computational and Graphical
    Statistics 22, whose 0.95 is the default of l1_ratio; Vaiter, Deledalle, Fadili, Peyre,
    Dossal (2017) for degrees of freedom.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b, c = [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]
    >>> y = [3 * i + 2 * j + k for i, j, k in zip(a, b, c)]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": y})
    >>> groups = {"u": ["a", "c"], "v": ["b"]}
    >>> found = ds.reference.sparse_group_lasso(table, "y", groups, penalty=0.4, l1_ratio=0.8)
    >>> found.groups, found.columns
    (['u', 'v'], ['a', 'b'])
    """
    known, call = asked(problem, "sparse_group_lasso", SparseGroupLassoOptions, options)
    return selected(*_path(gram_search(problem, call), known), known)


@shows(GroupLassoOptions)
def group_lasso(problem: Spec, **options: Unpack[GroupLassoOptions]) -> AnySequence:
    """Order groups as they enter the path of the cost-weighted group lasso.

    Each prefix is fitted anew without the penalty, as in `anytime_sequence`. Groups that
    enter at the same penalty are ordered by ``||b_g|| / cost(g)`` at the penalty before,
    the largest first, b the gradient; ties go to the group named first.

    Returns
    -------
    Sequence with the groups that enter; ``score`` is the penalty at which each did, 0 of one
    of `always` that never does

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range; else as `group_lasso_path`

    Warns
    -----
    ConditionWarning : as `anytime_sequence`

    Notes
    -----
    The cost of `group_lasso_path`, and O(D^3) for the fits. There is no `family`: the path is
    that of a quadratic objective, and every penalty of another would be passes over the rows.

    References
    ----------
    The baseline Sparse of Hu, Grubb, Bagnell, Hebert (2016), section 5.2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> gram = ds.gram(table)
    >>> ds.reference.group_lasso(gram, "y")
    Sequence(y ~ a, b; r2 1.0000, spent 2; 4 rows; every group is in the sequence)
    >>> ds.reference.group_lasso(gram, "y", lambda_min_ratio=0.5)
    Sequence(y ~ a; r2 0.9524, spent 1; 4 rows; no other group enters the path)
    """
    known, call = asked(problem, "group_lasso", GroupLassoOptions, options)
    search = gram_search(problem, call, adds_only=True)
    check_first(search.groups, search.first, known["budget"])
    found, _ = found_path(search, "group_lasso_path", known)
    entered = dict(zip(found.entered, found.penalties[found.entered_at].tolist(), strict=True))
    state, costs = search.state, search.groups.costs

    def walk(record: Record) -> Stop:
        stop = Stop.PATH
        for group in [*search.first, *(one for one in entered if one not in search.first)]:
            if not fits(costs[[*state.held, group]].sum(), known["budget"]):
                stop = Stop.BUDGET
                continue
            choice = Choice.FORCED if group in search.first else Choice.FREE
            penalty, gain = entered.get(group, 0.0), state.add(group)
            record(Step("add", group, penalty, gain, state.explained, choice))
        return Stop.EXHAUSTED if len(state.held) == len(costs) else stop

    sequence: AnySequence = search.run("group-lasso", walk, None)
    return sequence


def _path(search: GramSearch, known: Any) -> tuple[GroupLassoPath, int | None]:
    found, preferred = found_path(search, "group_lasso_path", known)
    return GroupLassoPath(search.call, search.groups, search.gram, search.linear, found), preferred

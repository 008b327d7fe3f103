"""The lasso and the elastic net on a Gram: path over the penalty, and model at one penalty."""

from typing import Any, Unpack

from dbselect.errors import ArgumentError
from dbselect.methods.penalties import penalty_path_of, selected_model
from dbselect.options.option import shows
from dbselect.results.call import Call
from dbselect.results.model import Model
from dbselect.results.penalty_path import LassoPath
from dbselect.results.selected import Selected
from dbselect.search.gram import gram_search
from dbselect.search.open import asked
from dbselect.spec.options import LassoOptions, LassoPathOptions
from dbselect.spec.spec import Spec


@shows(LassoPathOptions)
def lasso_path(problem: Spec, **options: Unpack[LassoPathOptions]) -> LassoPath:
    """Fit the lasso, or the elastic net, over decreasing penalties.

    Minimise ``RSS / 2n + penalty sum_j f_j (l1_ratio |w_j| + (1 - l1_ratio) w_j^2 / 2)`` on
    columns and a target of unit variance, with weighted rows; the intercept is not
    penalised. f_j is the factor of a column; with `adaptive`, ``|w_j|`` is also divided by
    ``|b_j|^adaptive``.

    Returns
    -------
    LassoPath

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : an option out of range, or `penalty_factors` that are all 0
    RecordError : a record that no rows can have

    Warns
    -----
    ConvergenceWarning : rounding prevents a point from meeting its optimality conditions

    Notes
    -----
    `LassoPath.lambdas`, the penalties times the target's standard deviation (over n, not
    n - 1), are glmnet's lambda at every l1_ratio (its alpha), and for the lasso scikit-learn's
    alpha on rows of unit-variance columns; scikit-learn's elastic net is the same if the
    target has unit variance, too. Factors are used as given, while glmnet scales them to mean
    1. With ``scale=False`` the penalties match ``standardize=False`` and unscaled rows.

    The optimality conditions hold to 1e-8 at every penalty, on correlations; `violation` and
    `gap` measure this. Two to six factorisations per penalty, O(|S|^3 / 3) each for |S|
    nonzero columns: 100 penalties of 50, 500 and 2,000 columns take 0.003, 0.08 and
    1.4 s. 16 D^2 bytes, with ``scale=False`` 24, with `adaptive` 48.
    If columns are linearly dependent, the coefficients of the lasso at the minimum may not be
    unique; r2 and gap are. If columns are nearly dependent, compute adaptive weights from a
    ridge instead of least squares, and pass them as `penalty_factors`.

    References
    ----------
    Tibshirani (1996), JRSS B 58; Zou, Hastie (2005), JRSS B 67; Zou (2006), JASA 101;
    Friedman, Hastie, Tibshirani (2010), Journal of Statistical Software 33.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> path = ds.lasso_path(table, "y", penalties=[0.9, 0.5, 0.1])
    >>> path.coef.round(3).tolist()
    [[0.156, 0.0], [0.975, 0.0], [1.795, 0.271]]
    >>> path.model(1).predict([[3.0]]).round(3).tolist()
    [5.988]
    >>> free = ds.lasso_path(table, "y", penalties=[0.5], penalty_factors={"b": 0.0})
    >>> free.points["columns"].to_list()
    [['a', 'b']]
    """
    checked, call = asked(problem, "lasso_path", LassoPathOptions, options)
    return _path(problem, call, checked)[0]


@shows(LassoOptions)
def lasso(problem: Spec, **options: Unpack[LassoOptions]) -> Selected[Model]:
    """Return the model of the lasso, or the elastic net, at one penalty.

    The point of `lasso_path` at `penalty`, or at the penalty with the best criterion.

    Returns
    -------
    Selected, with a Model on the nonzero columns, whose coefficients are shrunk; its
    `shrinkage` has the penalty, df, gap and violation

    Raises
    ------
    ColumnError, GroupError, ArgumentError : as `lasso_path`
    DataError : as `lasso_path`; too few rows for the criterion

    Notes
    -----
    Takes as long as `lasso_path`; with a `penalty` about ten factorisations.
    ``cross_validate(folds, target, "lasso", {"penalty": path.penalties})`` chooses the penalty
    on held-out rows.

    References
    ----------
    As `lasso_path`; Zou, Hastie, Tibshirani (2007), Annals of Statistics 35, for the criteria.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> result = ds.reference.lasso(table, "y", penalty=0.5)
    >>> result
    Selected(lasso: a; explained 0.7024, spent 1; penalty 0.5; 4 rows)
    >>> result.shrinkage.df
    1.0
    """
    checked, call = asked(problem, "lasso", LassoOptions, options)
    return selected_model(*_path(problem, call, checked), checked)


def _path(problem: Spec, call: Call, options: Any) -> tuple[LassoPath, int | None]:
    if not options["l1_ratio"]:
        raise ArgumentError(
            f"l1_ratio is {options['l1_ratio']!r}; it must be a number above 0 and at most 1, as a "
            "ridge alone takes no column out"
        )
    search = gram_search(problem, call)
    path, preferred = penalty_path_of(search, "lasso_path", options)
    return LassoPath(call, search.groups, search.gram, search.linear, path), preferred

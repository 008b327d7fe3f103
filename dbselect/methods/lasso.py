"""The lasso, the elastic net and the group lasso: paths, a model at one penalty, an order."""

from collections.abc import Mapping
from typing import Any, TypeVar, Unpack

from dbselect.errors import ArgumentError, ColumnError, ConvergenceWarning, unknown, warn_caller
from dbselect.linear.condition import CONDITION_LIMIT, warn_of
from dbselect.linear.least_squares import signs_of
from dbselect.options.option import shows
from dbselect.record.columns import match, numbers_among
from dbselect.record.groups import Groups
from dbselect.record.steps import Choice, Record, Step, Stop, fits
from dbselect.results.call import Call
from dbselect.results.joint import AnySequence
from dbselect.results.model import Model
from dbselect.results.penalty_path import GroupLassoPath, LassoPath, Path, PenaltyPath
from dbselect.results.selected import Selected, Shrinkage
from dbselect.search.compiled import compiled_path
from dbselect.search.gram import GramSearch, gram_search
from dbselect.search.open import asked
from dbselect.search.protocol import check_first
from dbselect.sources.progress import progress
from dbselect.spec.options import (
    GroupLassoOptions,
    GroupLassoPathOptions,
    LassoOptions,
    LassoPathOptions,
    SparseGroupLassoOptions,
)
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
    return _path(LassoPath, problem, call, checked)[0]


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
    return selected_model(*_path(LassoPath, problem, call, checked), checked)


P = TypeVar("P", bound=PenaltyPath)


def _path(kind: type[P], problem: Spec, call: Call, options: Any) -> tuple[P, int | None]:
    """Return a path, and the index of the penalty with the best criterion."""
    if kind is LassoPath and not options["l1_ratio"]:
        raise ArgumentError(
            f"l1_ratio is {options['l1_ratio']!r}; it must be a number above 0 and at most 1, as a "
            "ridge alone takes no column out"
        )
    search = gram_search(problem, call)
    method = "lasso_path" if kind is LassoPath else "group_lasso_path"
    path, preferred = penalty_path_of(search, method, options)
    return kind(call, search.groups, search.gram, search.linear, path), preferred


#: Documented tolerance of the optimality conditions, in correlations.
PROMISED = 1e-8
#: Options that are passed to the library unchanged.
_OF_LIBRARY = (
    "penalties", "penalty", "criterion", "n_lambda", "l1_ratio", "lambda_min_ratio", "adaptive",
)  # fmt: skip


def penalty_path_of(search: GramSearch, method: str, options: Any) -> tuple[Path, int | None]:
    """Compute the path of a method; return it and the index of the penalty with best criterion."""
    penalties, groups = options.get("penalties"), search.groups
    of_library = {name: options[name] for name in _OF_LIBRARY if options.get(name) is not None}
    factors = options["penalty_factors"] or {}
    of_library["penalty_factors"] = factors_of(groups, factors, float(options["l1_ratio"]))
    if options.get("signs"):
        signed = signs_of(options["signs"], groups.members)
        of_library["signs"] = {str(groups.members.index(name)): s for name, s in signed.items()}
    count = 1 if options.get("penalty") is not None else int(options["n_lambda"])
    count = count if penalties is None else len(penalties)
    with progress(count, "penalties") as bar:
        values, condition = compiled_path(search, method, of_library, lambda *_: bar.update())
    unit = values["unit"]
    w = values["w"].reshape(-1, len(unit))
    path = Path(
        penalties=values["penalties"],
        coef=w * unit,
        spread=values["spread"],
        intercept=values["intercept"],
        lengths=values["lengths"].reshape(len(w), -1),
        r2=values["r2"],
        gap=values["gap"],
        violation=values["violation"],
        df=values["df"],
        entered=values["entered"].astype(int).tolist(),
        entered_at=values["entered_at"].astype(int).tolist(),
        condition=condition,
    )
    _warn_of(path)
    return path, values["preferred"]


def factors_of(groups: Groups, factors: Mapping[str, float], ratio: float) -> dict[str, float]:
    """Return penalty factors by key: ``"g0"`` for group 0, ``"0"`` for column 0.

    The factor of a column name overrides that of a glob or field, and that of its group.
    """
    position_of = {name: j for j, name in enumerate(groups.members)}
    group_factors: dict[str, float] = {}
    column_factors: dict[str, float] = {}
    for name, factor in factors.items():
        if name in groups.columns:
            if name in position_of and groups.columns[name] != [name]:
                raise ArgumentError(
                    f"penalty_factors names '{name}', which is a group and a column of another"
                )
            group_factors[f"g{groups.number(name, 'penalty_factors')}"] = factor
    other_names = [name for name in factors if name not in groups.columns]
    for name in sorted(other_names, key=position_of.__contains__):  # exact names last, to override
        try:
            columns = match([name], groups.members, "penalty_factors")
        except ColumnError:
            raise ColumnError(
                f"penalty_factors names {unknown('column or group', name, groups.members)}"
            ) from None
        if not ratio:
            raise ArgumentError(
                f"penalty_factors names column '{columns[0]}'; without l1_ratio only groups are "
                "penalised"
            )
        column_factors |= {str(position_of[column]): factors[name] for column in columns}
    return group_factors | column_factors


def _warn_of(path: Path) -> None:
    """Warn of lost digits, and of points that have not converged."""
    warn_of(path.condition)
    if (worst := float(path.violation.max())) > PROMISED:
        reason = (
            "the columns keep too few digits for penalties as small; raise lambda_min_ratio, or "
            "leave columns out"
            if path.condition > CONDITION_LIMIT
            else "it takes too many steps; give fewer penalties, or leave columns out"
        )
        warn_caller(
            f"optimality conditions hold to {worst:.0e} only, in correlations: {reason}",
            ConvergenceWarning,
        )


def selected_model(path: PenaltyPath, preferred: int | None, options: Any) -> Selected[Model]:
    """Return the model at the only penalty of a path, or at the one with the best criterion."""
    point = 0 if options["penalty"] is not None else preferred
    if point is None:
        raise path._no_criterion(options["criterion"])
    model = path.model(point)
    names = path.groups.names
    shrinkage = Shrinkage(
        penalty=float(path.penalties[point]),
        df=float(path.df[point]),
        gap=float(path.gap[point]),
        violation=float(path.violation[point]),
    )
    chosen = tuple(numbers_among(model.groups, names).tolist())
    return Selected(model, chosen, path.call.method, shrinkage, call=path.call)


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
    return _path(GroupLassoPath, problem, call, checked)[0]


@shows(SparseGroupLassoOptions)
def sparse_group_lasso(
    problem: Spec, **options: Unpack[SparseGroupLassoOptions]
) -> Selected[Model]:
    """Return the model of the sparse group lasso at one penalty.

    The point of `group_lasso_path` at `penalty`, or at the penalty with the best criterion. It
    drops groups, and columns within the groups that it keeps.

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
    return selected_model(*_path(GroupLassoPath, problem, call, checked), checked)


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

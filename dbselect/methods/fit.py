"""Fit a model on given columns: least squares and generalised linear models."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, ColumnError, shown
from dbselect.families import parse
from dbselect.glm.links import ESTIMATED, family_of
from dbselect.linear.condition import warn_of_dependence, warn_of_leak
from dbselect.linear.inference import FittedRows, through_origin
from dbselect.linear.least_squares import apart_of, least_squares
from dbselect.linear.problem import check_filled, check_usable
from dbselect.options.kinds import COLUMNS
from dbselect.options.option import checked_options, shows
from dbselect.record import formulas
from dbselect.record.columns import check_roles, match, with_indicators
from dbselect.record.dependences import shares_of
from dbselect.record.formulas import translate
from dbselect.record.gram import Gram
from dbselect.record.groups import Groups, groups_of
from dbselect.record.inputs import inputs_of
from dbselect.record.missing import features_of
from dbselect.results.call import Call
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model, constrained_model
from dbselect.search.open import asked
from dbselect.search.passes import fitted_in_passes
from dbselect.search.table import (
    gram_given,
    gram_with,
    patterns_read,
    policy_but_for,
    table_of,
)
from dbselect.sources.open import brought_here, open_table
from dbselect.sources.passes import Passes
from dbselect.sources.read import gram as read_gram
from dbselect.sources.request import check_numeric
from dbselect.spec.options import FitOptions
from dbselect.spec.spec import Spec, answer_of

if TYPE_CHECKING:
    from dbselect.results.glm.model import GlmModel

#: Name of the weight column of a projected Gram; no table has it.
_WEIGHT = "__dbselect_weight"
#: Step of the linear predictor for the slope of its mean; half of the digits suffice for a weight.
SLOPE_STEP = 1e-5


@shows(FitOptions, first=("columns : names and globs; default: all columns of the groups",))
def fit(
    problem: Spec, columns: Sequence[str] | None = None, **options: Unpack[FitOptions]
) -> Model | GlmModel:
    """Fit a model on all of the given columns: least squares, or another family.

    Minimises ``sum w (y - b0 - x'b)^2 / sum w + ridge |b|^2`` on unit-variance columns; with
    another family the deviance replaces the squares. As nothing is selected, the standard
    errors and p-values of `summary` are valid.

    With `signs` or `uncorrelated` it is the minimum under these constraints, by an active set;
    `constraint` of the model has what they cost. Families take `signs`, whose passes also fit
    the model without them. The prediction of a linear model has no correlation with the columns
    of `uncorrelated` on the rows of the fit: linear parity, no more.

    Returns
    -------
    Model, or a GlmModel whose ``status`` says whether the fit converged

    Raises
    ------
    ColumnError : an unknown column, or none besides the target
    ArgumentError : an option or a field out of range
    SourceError : a family and a Gram, or a stream that can be read only once
    DataError : no usable rows; a target that is constant, that is 0 where it is missing, or that
        the family does not allow; an offset for which some rows have no mean

    Warns
    -----
    ConditionWarning : the columns are so nearly dependent that their coefficients keep
        fewer than six digits
    DependenceWarning : a column is dropped that depends on others except for a small residual,
        which may explain much of the target
    SeparationWarning : with a family, some columns determine the target of some rows, so that
        the coefficients diverge
    SkippedRowsWarning : more than a tenth of the rows of the table is left out

    Notes
    -----
    A Gram holds comoments of 16 digits, of which the coefficients of nearly dependent
    columns keep 16 - log10(condition of their correlations); no solver can recover
    more. The difference of two such columns, as a column of its own, keeps its digits.

    A family takes one pass for means and the null model (two with an offset, one
    more over the target for classes), then one for each Newton step but the last: about six in
    all. Non-canonical links take some more, by Fisher scoring. O(n D^2) per pass, for K
    classes times K (K - 1) / 2; memory O(D^2) per thread, for K classes O(D^2 K^2).
    The maximum-likelihood dispersion of ``"negative_binomial"`` takes about twenty passes first,
    as in MASS's ``glm.nb``; `summary` treats it as known, as MASS does. For a NumPy array
    `columns` names all columns, including the target.

    References
    ----------
    Higham (2002), section 12, for the refinement. McCullagh, Nelder (1989), section 2.5; Lawless
    (1987), Canadian Journal of Statistics 15; Venables, Ripley (2002), section 7.4.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> model = ds.fit(table, "y", ["a"])
    >>> model.summary().select("term", pl.col("estimate", "std_error", "p_value").round(3)).rows()
    [('(intercept)', 0.5, 0.866, 0.622), ('a', 2.0, 0.316, 0.024)]
    >>> counts = pl.DataFrame({"x": [0, 0, 1, 1], "y": [1, 3, 4, 8]})
    >>> model = ds.fit(counts, "y", family="poisson")
    >>> model.predict(counts.select("x")).round(6).tolist()  # the mean of each x
    [2.0, 2.0, 6.0, 6.0]
    """
    columns = columns_read(columns)
    if options.get("models") is not None:
        several: Any = _several(problem, columns, cast("Mapping[str, Any]", options))
        return several  # type: ignore[no-any-return]
    checked, call = asked(problem, "fit", FitOptions, options)
    call = call if columns is None else replace(
        call, options={"columns": columns, **call.options}
    )  # fmt: skip
    if columns is not None and problem.groups is not None:
        # Columns need not be whole groups, and only groups have costs.
        problem = problem.of_columns()
    if not isinstance(problem.source, np.ndarray):  # there `columns` includes the target
        names = ("weight", "offset", "exposure")
        roles = {"target": problem.targets[0], **{name: getattr(problem, name) for name in names}}
        check_roles(columns, roles)
    values = cast("Mapping[str, Any]", checked)
    constraints = {name: values[name] for name in ("signs", "uncorrelated") if values[name]}
    if not problem.is_linear:
        _check_of_family(problem, constraints)
        columns_to_read = _read_columns(problem, columns)
        return fitted_in_passes(
            problem, call, columns_to_read, lambda passes: _groups_in(problem, passes, columns),
            tol=checked["tol"], max_iter=checked["max_iter"], signs=checked["signs"],
        )  # fmt: skip
    for name in ("tol", "max_iter"):
        if (value := values[name]) is not None:
            raise ArgumentError(f"{name} is {value!r}; the linear model needs no iterations")
    return _linear(problem, columns, call, **constraints)


def _check_of_family(problem: Spec, constraints: Mapping[str, Any]) -> None:
    """Refuse constraints that a fit of a family cannot meet."""
    family = parse(problem.family)
    if (apart := constraints.get("uncorrelated")) is not None:
        raise ArgumentError(
            f"uncorrelated is {shown(apart)}; it is a condition on the Gram of a linear model, and "
            f"a fit of family '{problem.family}' has none"
        )
    if (signs := constraints.get("signs")) is not None:
        if family.has_classes:
            raise ArgumentError(
                f"signs is {shown(signs)}; a column of family '{problem.family}' has a coefficient "
                "for each class, which sum to 0"
            )
        if str(family) == ESTIMATED:
            raise ArgumentError(
                f"signs is {shown(signs)}; family '{ESTIMATED}' estimates its dispersion without "
                f"signs: give one, as '{ESTIMATED}(2.5)'"
            )


def _several(
    problem: Spec, columns: list[str] | None, options: Mapping[str, Any]
) -> dict[str, Model | GlmModel]:
    """Fit several models; linear ones on the rows where no column of any is missing."""
    checked = checked_options(FitOptions, "fit", options)
    rest = {name: value for name, value in options.items() if name != "models"}
    models = {name: list(own) for name, own in (checked["models"] or {}).items()}
    if columns is not None:
        raise ArgumentError(f"columns is {shown(columns)}; models has the columns of each")
    if problem.is_linear and not isinstance(problem.source, np.ndarray):
        union = list(dict.fromkeys(name for own in models.values() for name in own))
        problem = problem.on_gram(_gram(problem, union, checked["uncorrelated"]))
    return {name: fit(problem, own, **cast("Any", rest)) for name, own in models.items()}


def columns_read(columns: Any) -> list[str] | None:
    """Return names and globs as a list; refuse anything else."""
    if isinstance(columns, Mapping):
        raise ArgumentError(
            f"columns is {shown(columns)}; it must list column names and globs: groups and costs "
            "are given by name, as fit(source, target, groups={...}, costs={...})"
        )
    is_list = isinstance(columns, Iterable) and not isinstance(columns, str)
    names: list[str] | None = list(columns) if is_list else columns
    COLUMNS.or_none().check("columns", names)
    return names


def _read_columns(problem: Spec, columns: list[str] | None) -> list[str] | None:
    if columns is not None:
        return columns
    if problem.groups is None:
        return None
    return list(dict.fromkeys(name for members in problem.groups.values() for name in members))


def _groups_in(problem: Spec, passes: Passes, columns: list[str] | None) -> Groups:
    if not passes.names:
        raise ColumnError(
            f"there is no column besides the target '{problem.targets[0]}'; one is needed"
        )
    if columns is None or isinstance(problem.source, np.ndarray):
        return _groups(problem, passes.names, passes.terms)
    names = match(columns, passes.names, "columns")
    return _groups(problem, with_indicators(names, passes.names, names), passes.terms)


def _groups(problem: Spec, features: list[str], terms: Any) -> Groups:
    return groups_of(
        features, problem.groups, problem.costs, problem.targets, terms, told=problem.told
    )


def _linear(
    problem: Spec,
    columns: Sequence[str] | None,
    call: Call,
    *,
    signs: Mapping[str, str] | None = None,
    uncorrelated: Sequence[str] = (),
) -> Model:
    target = problem.targets[0]
    gram = _gram(problem, columns, uncorrelated)
    gram.position(target, "target")
    features = [
        name for name in features_of(gram.columns, target, gram.terms) if name != problem.weight
    ]
    if uncorrelated and problem.groups is None:
        apart = apart_of(gram, target, uncorrelated)
        if columns is None or isinstance(problem.source, np.ndarray):
            features = [name for name in features if name not in apart]
    if columns is not None:
        names = match(columns, gram.columns, "columns")
        named_features = [name for name in names if name in features]
        features = with_indicators(named_features, features, names)
    if not features:
        raise ColumnError("columns is empty; at least one column besides the target is needed")
    check_filled(gram, [target])
    groups = _groups(problem, features, gram.terms)
    fitted = gram.select([target, *groups.members])
    moments = fitted if problem.intercept else through_origin(fitted)
    check_usable(moments, [target])
    fields: dict[str, Any] = {
        "ridge": problem.ridge, "scale": problem.scale, "intercept": problem.intercept
    }  # fmt: skip
    if signs or uncorrelated:
        return constrained_model(
            gram, target, groups.members, call, signs=signs, uncorrelated=uncorrelated, **fields,
            groups=groups.names, spent=groups.spent(range(len(groups.names))),
        )  # fmt: skip
    result = least_squares(fitted, target, groups.members, **fields)
    if problem.intercept:
        warn_of_leak(fitted, groups, target)
    warn_of_dependence(result)
    terms = fitted.terms.of(groups.members).with_shares(shares_of(moments))
    kept = set(result.kept)
    return Model(
        target=target,
        intercept=result.intercept,
        coefficients=result.coefficients,
        groups=groups.names,
        spent=groups.spent(range(len(groups.names))),
        explained=result.explained,
        r2=result.r2,
        aliased=tuple(name for name in groups.members if name not in kept),
        rows=gram.rows,
        skipped=gram.skipped,
        fit=FittedRows(gram, problem.ridge, intercept=problem.intercept),
        terms=terms,
        call=call,
    )


def _gram(problem: Spec, columns: Sequence[str] | None, also: Sequence[str] = ()) -> Gram:
    """Return the Gram of the columns to fit; `columns` names the columns of an array."""
    if columns is None:
        return gram_with(problem, also)
    gram = gram_given(problem)
    if gram is not None:
        return gram
    target = problem.targets[0]
    if isinstance(problem.source, np.ndarray):
        return read_gram(open_table(problem.source, columns), columns, problem.weight)
    names = list(dict.fromkeys([target, *columns, *also]))
    table = table_of(problem, names)
    check_numeric(table, [target])
    policy = policy_but_for([target], problem.null_policy)
    return read_gram(table, names, problem.weight, null_policy=policy, terms=problem.terms)


def projected_gram(problem: Spec) -> Gram:
    """Return the weighted Gram of the linear predictor eta on all groups, named as the target.

    The fit on S solves ``sum of x_S (mu(eta) - mu(eta_S)) = 0``: about least squares of eta with
    weights sqrt(mu'(eta)), exactly for normal columns and a log link. Lawless, Singhal (1978),
    Biometrics 34, screen subsets by one step. ArgumentError for several classes or an offset.
    """
    if problem.offset is not None or problem.exposure is not None:
        raise ArgumentError("approximate is True; one step takes neither offset nor exposure")
    full = cast("GlmModel", answer_of(problem, "fit"))
    if full.classes:
        raise ArgumentError(
            f"approximate is True and family is {full.family!r}; one step is of one predictor"
        )
    target = full.target
    inputs = inputs_of(full.columns, full.terms)
    eta = full._predictors[0].formula(inputs, "unavailable")
    above, below = (family_of(full.family).means([eta + h])[0] for h in (SLOPE_STEP, -SLOPE_STEP))
    slope, value = (translate(formula, formulas.polars()) for formula in (above - below, eta))
    w = (slope / (2 * SLOPE_STEP)).abs().sqrt()
    if problem.weight is not None:
        w = w * pl.col(problem.weight)
    table = table_of(problem, patterns_read(problem))
    frame = brought_here(table, table.schema.names)
    fields = dict.fromkeys(str(formula.path[0]) for formula in inputs)
    usable = frame.filter(pl.col(target).is_not_null())
    rows = usable.select(*fields, value.alias(target), w.alias(_WEIGHT))
    return read_gram(rows, weight=_WEIGHT, null_policy=problem.null_policy, terms=problem.terms)

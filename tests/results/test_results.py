"""Every family of results and all that is public there: it works, or says why it cannot."""

import copy
import inspect
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from problems import in_passes
from scipy.special import expit, gammaln, softmax

import dbselect as ds
from dbselect.results.prediction.predict import Predicting
from dbselect.results.prefixes import Prefixes

GROUPS = {"x": ["x"], "demo": ["demo"], "emb": ["emb"], "noise": ["noise"]}
COSTS = {"x": 3.0, "demo": 1.0, "emb": 2.0, "noise": 4.0}
#: The flat columns of the table, and where they lie.
FLAT = {
    "x": pl.col("x"),
    "demo.age": pl.col("demo").struct.field("age"),
    "demo.height": pl.col("demo").struct.field("height"),
    "emb[1]": pl.col("emb").arr.get(0),
    "emb[2]": pl.col("emb").arr.get(1),
    "noise": pl.col("noise"),
}
#: Each family as a search names it: target, and more arguments.
FAMILIES: dict[str, tuple[Any, dict[str, Any]]] = {
    "linear": ("y", {}),
    "joint": (["y", "z"], {}),
    "gaussian": ("y", {"family": "gaussian"}),
    "binomial": ("flag", {"family": "binomial"}),
    "poisson": ("count", {"family": "poisson", "offset": "logs"}),
    "multinomial": ("kind", {"family": "multinomial"}),
}
GLM = [name for name in FAMILIES if name not in ("linear", "joint")]
GLM_TRUTH = {
    "gaussian": sm.families.Gaussian,
    "binomial": sm.families.Binomial,
    "poisson": sm.families.Poisson,
}
#: Standard errors are those of the last pass, which the last step of a fit leaves.
LAST_STEP = 1e-4
families = pytest.mark.parametrize("family", list(FAMILIES))


@cache
def table(rows: int = 400) -> pl.DataFrame:
    """Plain and nested columns, and a target for each family."""
    rng = np.random.default_rng(5)
    Z = rng.normal(size=(rows, 6)) + 0.4 * rng.normal(size=(rows, 1))
    eta = Z[:, :5] @ [0.8, -0.5, 0.2, 0.3, 0.1]
    utility = np.column_stack([eta, -Z[:, 1], 0.5 * Z[:, 4]]) + rng.gumbel(size=(rows, 3))
    units = Z * [1, 10, 0.1, 3, 1, 1] + [0, 50, 2, -7, 4, 0]
    x, age, height, first, second, noise = (pl.Series(column) for column in units.T)
    return pl.DataFrame(
        {
            "x": x,
            "demo": pl.DataFrame({"age": age, "height": height}).to_struct(),
            "emb": pl.Series(np.column_stack([first, second]), dtype=pl.Array(pl.Float64, 2)),
            "noise": noise,
            "logs": pl.Series(0.3 * Z[:, 2]),
            "y": pl.Series(eta + rng.normal(size=rows)),
            "z": pl.Series(Z[:, 3] - 2 * eta + 3 * rng.normal(size=rows)),
            "flag": pl.Series((rng.random(rows) < expit(eta)).astype(int)),
            "count": pl.Series(rng.poisson(np.exp(0.5 * eta + 0.3 * Z[:, 2]))),
            "kind": pl.Series(np.array(["low", "mid", "it's"])[utility.argmax(axis=1)]),
        }
    )


def search(family: str, **more: Any) -> Any:
    target, options = FAMILIES[family]
    call = in_passes if options else ds.anytime_sequence
    return call(table(), target, GROUPS, COSTS, **options, **more)


@cache
def found(family: str) -> Any:
    return search(family)


def columns_of(names: list[str]) -> np.ndarray:
    """Return columns of the table, a constant first."""
    flat = table().select(**FLAT)
    return np.column_stack([np.ones(flat.height), *(flat[name].to_numpy() for name in names)])


# Every public name of every family


def public(kind: type) -> Iterator[str]:
    for name in dir(kind):
        if not name.startswith("_"):
            yield name


def arguments(result: Any, folder: Path) -> dict[str, Any]:
    """Return a value for every parameter that public methods have, by its name."""
    values = {
        "X": table(),
        "step": 1,
        "costs": dict.fromkeys(COSTS, 2.0),
        "shared": {},
        "group": next(iter(COSTS)),
        "path": folder / "one",
        "budget": 3.0,
        "size": 1,
        "signs": None,
        "gamma": 0.5,
        "penalty": 3.0,
        "criterion": "aic",
        "dialect": "duckdb",
        "nested": False,
        "handle_unknown": "mean",
        "booleans": (),
        "missing_columns": "unavailable",
        "rows": table(),
        "columns": None,
        "cost": 2.0,
        "worth": 2.0,
        "per": "explained",
        "budgets": [1.0, 6.0],
        "bound": False,
        "held_out": None,
        "source": table(),
        "segments": None,
        "title": "Which data pay",
        "unit": "€",
        "level": 0.9,
        "a": table()[:60],
        "b": table()[60:],
        "fraction": 0.9,
        "folds": 3,
        "cov_type": "HC1",
        "cluster": None,
        "weight": None,
        "time": None,
        "maxlags": None,
        "metric": None,
        "background": None,
        "reference": None,
        "final": None,
        "grid": None,
        "key": None,
    }
    return values | ({"record": result.to_struct()} if hasattr(result, "to_struct") else {})


def answers(result: Any, name: str, folder: Path) -> list[Any]:
    """Return what a public name gives: with what it needs only, and with all it takes."""
    thing = getattr(result, name)
    if not callable(thing):
        return [thing]
    known = arguments(result, folder)
    named = inspect.signature(thing).parameters.values()
    parameters = [one for one in named if one.kind is not inspect.Parameter.VAR_KEYWORD]
    needed = [one.name for one in parameters if one.default is inspect.Parameter.empty]
    needed += ["folds"] * (name == "cross_validate")
    assert {one.name for one in parameters} <= known.keys(), f"{name} has a new parameter"
    calls = [needed, list(dict.fromkeys([*needed, *(one.name for one in parameters)]))]
    if name.startswith("read_"):
        getattr(result, name.replace("read_", "write_"))(known["path"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.errors.SelectionWarning)
        return [thing(**{one: known[one] for one in call}) for call in calls]


def refusals(result: Any, folder: Path) -> dict[str, str]:
    """Return what is refused of a result, by name; all else works."""
    refused = {}
    for name in public(type(result)):
        try:
            answers(result, name, folder)
        except ds.errors.ArgumentError as error:
            refused[name] = str(error)
    return refused


def test_every_family_of_prefixes_is_among_those_tried():
    # tests/sets/test_score.py tries what a score finds.
    families = set(Prefixes.__subclasses__()) - {ds.results.ScoreSequence}
    assert {type(found(family)) for family in FAMILIES} == families
    models = {type(found(family).at()) for family in FAMILIES}
    assert models == {kind for kind in Predicting.__subclasses__() if kind.__module__ in HOMES}


HOMES = {"dbselect.results.model", "dbselect.results.glm.model"}


@pytest.mark.slow
@families
def test_every_public_name_of_a_sequence_works_or_refuses_in_a_sentence(family, tmp_path):
    refused = refusals(found(family), tmp_path)
    # Bounds are proved for a quadratic objective only, and F compares sums of squares.
    bounds = {"guarantee", "certificate", "break_even", "report"}  # report(worth=)
    # What has changed in the moments of columns explains one linear response.
    of_family = bounds | {"f_tests", "drift", "swaps"}
    others: dict[str, set[str]] = {"joint": {"drift", "swaps"}, "linear": set()}
    assert set(refused) == others.get(family, of_family)
    for name, text in refused.items():
        assert re.fullmatch(r"[a-z][^\n]*[^.\n]", text)
        assert ". " not in text
        assert ("proved for the quadratic objective" in text) == (name in bounds)


@families
@pytest.mark.parametrize("step", [0, 1, -1])
def test_every_public_name_of_a_model_works(family, step, tmp_path):
    seq = found(family)
    refused = refusals(seq.model(range(len(seq.spent))[step]), tmp_path)
    # Without columns nothing is fitted again; classes have a predictor each.
    without = {"refit"} if step == 0 and family != "joint" else set()
    several = {"robust_errors"} if family in ("multinomial", "joint") else set()
    # The mean of an exposure is not known.
    several |= {"contributions"} if family == "poisson" and step else set()
    # A prefix of a family keeps standard errors alone.
    several |= {"constraint"} if family != "joint" else set()
    several |= set() if family in ("linear", "joint") else {"covariance"}
    assert set(refused) == without | several


@families
@pytest.mark.parametrize("step", [-1, 5, 1.5, None])
def test_a_step_that_is_none_is_refused(family, step):
    with pytest.raises(ds.errors.ArgumentError, match=rf"step is {step!r}; .* from 0 to 4"):
        found(family).model(step)


@families
def test_a_stored_sequence_is_the_same(family, tmp_path):
    seq = found(family)
    for form in ("parquet", "json"):
        getattr(seq, f"write_{form}")(tmp_path / form)
        again = getattr(type(seq), f"read_{form}")(tmp_path / form)
        assert again.to_struct() == seq.to_struct()
        assert repr(again) == repr(seq)
        assert again.criteria().equals(seq.criteria())
        np.testing.assert_array_equal(again.predict(table()), seq.predict(table()))


# Costs, sizes and steps


@families
def test_an_order_at_other_costs_has_the_same_models(family):
    seq = found(family)
    costs = {"x": 0.5, "demo": 8.0, "emb": 0.25, "noise": 1.0}
    other = seq.with_costs(costs)
    taken = [costs[name] for name in seq.steps["group"] if name is not None]
    np.testing.assert_allclose(other.spent, np.cumsum([0.0, *taken]))
    assert other.steps["cost"].to_list() == [0.0, *taken]
    assert other.rule == f"{seq.rule}, at other costs"
    for step in range(5):
        assert other.model(step).coefficients == seq.model(step).coefficients
        assert other.at(other.spent[step]).spent == other.spent[step]
    with pytest.raises(ds.errors.GroupError, match="has no cost"):
        seq.with_costs({"x": 1.0})
    shared = seq.with_costs(costs | {"emb": 0.0}, shared={"set": (2.0, ["emb", "noise"])})
    assert shared.spent[-1] == 0.5 + 8.0 + 1.0 + 2.0
    with pytest.raises(ds.errors.GroupError, match="unknown group 'no'"):
        seq.with_costs(costs, shared={"set": (2.0, ["no"])})


@families
def test_a_size_takes_the_best_model_of_so_many_groups(family):
    seq = found(family)
    for size in range(5):
        assert len(seq.at(size=size).groups) == size
    with pytest.raises(ds.errors.ArgumentError, match="size is 3; there are models with"):
        seq.at(seq.spent[1], size=3)


# Prediction


def predicted(family: str, model: Any) -> np.ndarray:
    """Return what a model predicts of the table, by its coefficients and numpy."""
    several = family in ("joint", "multinomial")
    intercepts = list(model.intercept.values()) if several else [model.intercept]
    rows = list(model.coefficients.values()) if several else [model.coefficients]
    X = columns_of(list(rows[0]))
    W = np.array([[one, *own.values()] for one, own in zip(intercepts, rows, strict=True)])
    eta = X @ W.T
    if family == "poisson":
        eta = eta + table()["logs"].to_numpy()[:, None]
    links: dict[str, Callable[..., Any]] = {
        "binomial": expit,
        "poisson": np.exp,
        "multinomial": lambda eta: softmax(eta, axis=1),
    }
    means = links.get(family, np.asarray)(eta)
    return means if several else means[:, 0]


def plain(series: pl.Series) -> np.ndarray:
    wide = series.struct.unnest() if isinstance(series.dtype, pl.Struct) else series
    return wide.to_numpy()


@pytest.mark.slow
@families
def test_every_form_predicts_the_same_of_nested_columns(family):
    seq, frame = found(family), table()
    flat = frame.select(**FLAT, logs=pl.col("logs"))
    offset = ["logs"] if family == "poisson" else []
    with duckdb.connect() as con:
        # A table named as its struct, with a column named as the struct's child.
        con.register("rows", frame.with_columns(age=pl.lit(1e6)).to_arrow())
        con.execute("CREATE TABLE demo AS FROM rows")
        for step in range(5):
            model = seq.model(step)
            names = [*model.columns, *offset]
            in_sql = con.sql(f"SELECT {model.sql()} AS p FROM demo").to_arrow_table()
            forms = {
                "Polars": plain(frame.select(p=model.expr())["p"]),
                "plain Polars": plain(flat.with_columns(p=model.expr(nested=False))["p"]),
                "DuckDB": plain(pl.DataFrame(in_sql)["p"]),
                "frame": model.predict(frame),
                "flat frame": model.predict(flat),
                "pyarrow": model.predict(frame.to_arrow()),
                "array": model.predict(
                    flat.to_numpy()[:, [flat.columns.index(name) for name in names]]
                ),
                "sequence": seq.predict(frame, budget=float(seq.spent[step])),
                "array of all": seq.predict(
                    flat.select(*seq.columns, *offset).to_numpy(), budget=float(seq.spent[step])
                ),
            }
            expected = predicted(family, model)
            for name, values in forms.items():
                whole = np.broadcast_to(values, expected.shape)  # step 0 in Polars: one row
                np.testing.assert_allclose(whole, expected, 1e-10, 1e-11, err_msg=name)


@families
def test_what_is_missing_is_marked_in_all_families(family):
    rng = np.random.default_rng(3)
    target, options = FAMILIES[family]
    holes = rng.random(table().height) < 0.2
    raw = table().with_columns(x=pl.Series(np.where(holes, np.nan, table()["x"])).fill_nan(None))
    filled = raw.with_columns(
        pl.col("x").fill_null(0.0), pl.col("x").is_null().cast(float).alias("x.missing")
    )
    groups = {"x": ["x", "x.missing"], "noise": ["noise"]}
    model = ds.anytime_sequence(filled, target, groups, **options).at()
    expected = model.predict(filled)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(plain(filled.select(p=model.expr(nested=False))["p"]), expected)
    names = [*model.columns, *(["logs"] if family == "poisson" else [])]
    without = [name for name in names if name != "x.missing"]
    for holey in (raw, raw.with_columns(pl.col("x").fill_null(float("nan")))):
        np.testing.assert_allclose(model.predict(holey), expected)
        np.testing.assert_allclose(plain(holey.select(p=model.expr(nested=True))["p"]), expected)
        in_sql = duckdb.from_arrow(holey.to_arrow()).select(f"{model.sql(nested=True)} AS p")
        np.testing.assert_allclose(plain(pl.DataFrame(in_sql.to_arrow_table())["p"]), expected)
        array = holey.select(without).to_numpy()
        np.testing.assert_allclose(model.predict(array, without), expected)


@families
def test_a_frame_without_a_column_or_with_text_is_refused(family):
    seq = found(family)
    with pytest.raises(ds.errors.ColumnError, match=r"the rows lack column 'demo\.age', which"):
        seq.predict(table().with_columns(pl.struct(height=FLAT["demo.height"]).alias("demo")))
    with pytest.raises(ds.errors.ColumnError, match=r"the rows lack column 'emb\[2\]', which"):
        seq.predict(table().with_columns(emb=pl.col("emb").arr.head(1).list.to_array(1)))
    with pytest.raises(
        ds.errors.ArgumentError, match="else than numbers: column 'x' has type String"
    ):
        seq.predict(table().with_columns(x=pl.lit("1")))


# Criteria


def truth_of(family: str, names: list[str]) -> Any:
    """Return the fit of statsmodels."""
    target, _ = FAMILIES[family]
    y, X = table()[target].to_numpy(), columns_of(names)
    X[:, 1:] -= X[:, 1:].mean(axis=0)
    if family == "multinomial":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # at 1e-12 it has no digits left to converge by
            return sm.MNLogit(y, X).fit(disp=0, method="newton", tol=1e-12, maxiter=50)
    offset = table()["logs"].to_numpy() if family == "poisson" else None
    return sm.GLM(y, X, family=GLM_TRUTH[family](), offset=offset).fit(tol=1e-14, maxiter=100)


@pytest.mark.parametrize("family", GLM)
def test_criteria_by_deviance_are_those_of_statsmodels(family):
    seq = found(family)
    criteria = seq.criteria(gamma=0.5, penalty=3.0)
    n, y = table().height, table()["count"].to_numpy()
    # What a perfect fit has, which the deviance does not count.
    perfect = np.where(y > 0, y * np.log(np.maximum(y, 1)), 0) - y - gammaln(y + 1)
    constant = -2 * perfect.sum() if family == "poisson" else 0.0
    for step in range(5):
        fit = truth_of(family, seq.model(step).columns)
        row = criteria.row(step, named=True)
        assert row["df"] == np.size(fit.params)
        bic = fit.bic if family == "multinomial" else fit.bic_llf
        assert row["aic"] + constant == pytest.approx(fit.aic, abs=1e-6)
        assert row["bic"] + constant == pytest.approx(bic, abs=1e-6)
        choices = gammaln(5) - gammaln(step + 1) - gammaln(5 - step)
        assert row["ebic"] == pytest.approx(row["bic"] + choices)
        assert row["gic"] == pytest.approx(row["aic"] + row["df"])
        assert row["cp"] is None
        assert (row["adjusted_r2"] is None) == (family != "gaussian")
    assert criteria.columns == found("linear").criteria().columns
    best = seq.best("bic")
    assert best.groups == seq.model(criteria["bic"].arg_min()).groups
    assert "noise" not in best.groups
    assert n == seq.rows


def test_a_ridge_counts_the_effective_parameters_of_the_information():
    seq = search("binomial", ridge=0.3)
    df = seq.criteria()["df"]
    for step in range(5):
        model = seq.model(step)
        X = columns_of(model.columns)[:, 1:]
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        p = model.predict(table())
        w = p * (1 - p) / len(p)
        X = X - w @ X / w.sum()
        H = X.T @ (X * w[:, None])
        expected = 1 + np.trace(np.linalg.solve(H + 0.3 * np.eye(len(H)), H))
        assert df[step] == pytest.approx(expected, rel=LAST_STEP)
    again = ds.results.GlmSequence.from_struct(seq.to_struct())
    with pytest.raises(ds.errors.ArgumentError, match=r"ridge 0\.3 and was read from a file"):
        again.criteria()


def test_criteria_of_several_responses_are_sums_of_least_squares():
    seq = found("joint")
    criteria = seq.criteria(gamma=0.5, penalty=3.0)
    all_names = list(FLAT)
    ys = {name: table()[name].to_numpy() for name in seq.responses}
    whole = [sm.OLS(y, columns_of(all_names)).fit() for y in ys.values()]
    for step in range(5):
        X = columns_of(seq.model(step).columns)
        fits = [sm.OLS(y, X).fit() for y in ys.values()]
        row = criteria.row(step, named=True)
        assert row["df"] == 2 * X.shape[1]
        assert row["aic"] == pytest.approx(sum(fit.aic for fit in fits))
        assert row["bic"] == pytest.approx(sum(fit.bic for fit in fits))
        assert row["gic"] == pytest.approx(row["aic"] + row["df"])
        choices = gammaln(5) - gammaln(step + 1) - gammaln(5 - step)
        assert row["ebic"] == pytest.approx(row["bic"] + choices)
        cp = [
            fit.ssr / full.mse_resid - len(X) + 2 * X.shape[1]
            for fit, full in zip(fits, whole, strict=True)
        ]
        assert row["cp"] == pytest.approx(sum(cp), abs=1e-8)
        assert row["adjusted_r2"] == pytest.approx(np.mean([fit.rsquared_adj for fit in fits]))
    assert "noise" not in seq.best().groups


# Wald's tests


def assert_summary(summary: pl.DataFrame, estimate: Any, errors: Any, p_values: Any) -> None:
    np.testing.assert_allclose(summary["estimate"], estimate, rtol=LAST_STEP, atol=1e-9)
    np.testing.assert_allclose(summary["std_error"], errors, rtol=LAST_STEP)
    statistic = (summary["estimate"] / summary["std_error"]).to_numpy()
    np.testing.assert_allclose(summary["statistic"], statistic)
    np.testing.assert_allclose(summary["p_value"], p_values, rtol=1e-2, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", list(GLM_TRUTH))
def test_wald_tests_are_those_of_statsmodels(family, weighted):
    target, options = FAMILIES[family]
    frame = table().select(**FLAT, logs=pl.col("logs"), target=pl.col(target))
    names = list(FLAT)
    weight = np.random.default_rng(8).uniform(0.5, 2, frame.height) if weighted else None
    frame = frame.with_columns(w=pl.Series(np.ones(frame.height) if weight is None else weight))
    offset = options.get("offset")
    model = ds.fit(frame, "target", names, family=family, weight="w", offset=offset)
    fit = sm.GLM(
        frame["target"].to_numpy(),
        columns_of(names),
        family=GLM_TRUTH[family](),
        offset=None if offset is None else frame[offset].to_numpy(),
        var_weights=weight,
    ).fit(tol=1e-14, maxiter=100, use_t=family == "gaussian")  # least squares, whose tests are t
    summary = model.summary()
    assert summary["term"].to_list() == ["(intercept)", *names]
    assert_summary(summary, fit.params, fit.bse, fit.pvalues)


def test_wald_tests_of_classes_are_those_of_statsmodels_without_a_class_of_reference():
    names = list(FLAT)
    frame = table().select(**FLAT, kind=pl.col("kind"))
    summary = ds.fit(frame, "kind", names, family="multinomial").summary()
    fit = truth_of("multinomial", names)
    means = columns_of(names)[:, 1:].mean(axis=0)
    # From centred columns and a first class of 0 to raw ones and classes that sum to 0.
    raw = np.eye(7)
    raw[0, 1:] = -means
    classes = (np.eye(3) - 1 / 3) @ np.vstack([np.zeros((1, 2)), np.eye(2)])
    across = np.kron(classes, raw)
    estimate = across @ np.asarray(fit.params).T.ravel()
    errors = np.sqrt(np.diag(across @ np.asarray(fit.cov_params()) @ across.T))
    assert summary["class"].unique(maintain_order=True).to_list() == ["it's", "low", "mid"]
    assert summary["term"].to_list() == 3 * ["(intercept)", *names]
    np.testing.assert_allclose(summary["estimate"], estimate, rtol=LAST_STEP, atol=1e-6)
    np.testing.assert_allclose(summary["std_error"], errors, rtol=LAST_STEP)


def test_rows_that_chose_the_columns_warn():
    seq = found("binomial")
    with pytest.warns(ds.errors.SelectionWarning, match="p-values are too small"):
        seq.at(size=1).summary()
    seq.at().summary()  # all columns: nothing was chosen
    forced = search("binomial", always=["noise"], max_groups=1)
    assert forced.at().summary().height == 2
    objective = ds.Problem(table(), "flag", GROUPS, family="binomial").objective()
    objective.add(0)
    with pytest.warns(ds.errors.SelectionWarning, match="p-values are too small"):
        objective.model().summary()


def test_where_standard_errors_mean_nothing_they_are_refused():
    seq = found("binomial")
    with pytest.raises(ds.errors.ArgumentError, match="which files do not hold"):
        ds.results.GlmSequence.from_struct(seq.to_struct()).at().summary()
    with pytest.raises(ds.errors.ArgumentError, match=r"ridge is 0\.1; .* at ridge 0"):
        search("binomial", ridge=0.1).at().summary()
    objective = ds.Problem(table(), "flag", GROUPS, family="binomial").objective()
    descent = ds.sght(objective, max_columns=1, max_groups=1, refit=False)
    model = getattr(descent, "model", descent)
    with pytest.raises(ds.errors.ArgumentError, match="a descent does not give"):
        model.summary()
    apart = pl.DataFrame({"x": [0.0, 1.0, 2.0, 3.0], "y": [0, 0, 1, 1]})
    with pytest.warns(ds.errors.SeparationWarning):
        model = ds.fit(apart, "y", family="binomial")
    with pytest.raises(ds.errors.DataError, match="the fit ended as SEPARATED"):
        model.summary()


def test_aliased_columns_have_no_tests():
    frame = table().select("x", "flag", twice=2 * pl.col("x"), same=pl.lit(3.0))
    model = ds.fit(frame, "flag", ["x", "twice", "same"], family="binomial")
    alone = ds.fit(frame, "flag", ["x"], family="binomial")
    assert set(model.aliased) == {"twice", "same"}
    summary = model.summary()
    for name in ("std_error", "statistic", "p_value"):
        assert summary[name].to_list()[2:] == [None, None]
        np.testing.assert_allclose(summary[name][:2], alone.summary()[name])


@pytest.mark.parametrize("family", [{}, {"family": "poisson"}])
def test_aliased_columns_are_in_the_order_of_columns(family):
    rng = np.random.default_rng(0)
    near, middle, far = rng.normal(size=(3, 200))
    columns = {"c": near, "b": middle, "a": far, "c2": near, "b2": middle, "a2": far}
    target = rng.poisson(np.exp(0.6 * far + 0.4 * middle + 0.2 * near)).astype(float)
    groups = {"C": ["c", "c2"], "B": ["b", "b2"], "A": ["a", "a2"]}
    problem = ds.Problem(pl.DataFrame({**columns, "y": target}), "y", groups=groups, **family)
    sequence = problem.anytime_sequence()
    assert sequence.steps["group"].to_list()[1:] == ["A", "B", "C"]
    models = [sequence, problem.fit(), problem.dash(k=3)]
    assert [model.aliased for model in models] == [("c2", "b2", "a2")] * len(models)


def test_what_a_result_lacks_is_no_attribute_of_it():
    frame = table().select("x", "noise", "y")
    found = ds.sght(frame, "y", max_columns=1, max_groups=1)
    without = ds.greedy(ds.objectives.coverage(frame, "y"), k=1)
    ridged = ds.fit(frame, "y", ridge=1.0)
    for result, name in ((found, "diagnostics"), (without, "coefficients"), (ridged, "sigma")):
        assert not hasattr(result, name)
        with pytest.raises(ds.errors.ArgumentError) as raised:
            getattr(result, name)
        assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
        assert type(copy.copy(result)) is type(result)

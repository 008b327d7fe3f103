"""Fits of generalised linear models against statsmodels and scikit-learn, and how they end."""

import re
import warnings
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from conftest import Stream
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import dbselect as ds
from dbselect import errors

COLUMNS = ["a", "b", "c", "d", "e"]
FAMILIES = {
    "gaussian": sm.families.Gaussian,
    "binomial": sm.families.Binomial,
    "poisson": sm.families.Poisson,
}
#: With an offset family gaussian is fitted in passes, as the others are.
OFFSETS = {"gaussian": "logs", "poisson": "logs"}


def table(seed: int = 1, rows: int = 1500, **more: Any) -> pl.DataFrame:
    """Columns of unequal units, a target for each family, weights and an offset."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(rows, 5)) + 0.5 * rng.normal(size=(rows, 1))
    eta = Z @ [0.8, -0.5, 0.0, 0.3, 0.1] - 0.4
    utility = np.column_stack([eta, -Z[:, 1], 0.5 * Z[:, 4] - 0.2]) + rng.gumbel(size=(rows, 3))
    frame = pl.DataFrame(Z * [1, 10, 0.01, 3, 1] + [0, 5, 2, -100, 1e3], schema=COLUMNS)
    return frame.with_columns(
        gaussian=pl.Series(eta + rng.normal(size=rows)),
        binomial=pl.Series((rng.random(rows) < 1 / (1 + np.exp(-eta))).astype(int)),
        poisson=pl.Series(rng.poisson(np.exp(eta + 0.3 * Z[:, 2]))),
        multinomial=pl.Series(np.array(["low", "mid", "it's"])[utility.argmax(axis=1)]),
        w=pl.Series(rng.integers(0, 4, rows) * 0.5),
        logs=pl.Series(0.3 * Z[:, 2]),
        **{name: pl.Series(values) for name, values in more.items()},
    )


def design(frame: pl.DataFrame, columns: list[str] = COLUMNS) -> np.ndarray:
    """Columns with a constant first."""
    return np.column_stack([np.ones(frame.height), frame.select(columns).to_numpy()])


def parameters(model: ds.results.GlmModel) -> np.ndarray:
    return np.array([model.intercept, *model.coefficients.values()])


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_fit_is_that_of_statsmodels(family, weighted):
    frame = table()
    weight = frame["w"].to_numpy() if weighted else np.ones(frame.height)
    offset = OFFSETS.get(family)
    truth = sm.GLM(
        frame[family].to_numpy(),
        design(frame),
        family=FAMILIES[family](),
        freq_weights=weight,
        offset=None if offset is None else frame["logs"].to_numpy(),
    ).fit(tol=1e-14, maxiter=100)
    model = ds.fit(
        frame, family, COLUMNS, family=family, weight="w" if weighted else None, offset=offset
    )
    assert model.status.name == "CONVERGED"
    deviation = np.append(1.0, frame.select(COLUMNS).to_numpy().std(axis=0))
    scaled = (parameters(model) - truth.params) * deviation
    # The intercept lies a thousand deviations away from the rows.
    assert np.abs(scaled[1:]).max() < 1e-6
    assert abs(scaled[0]) < 1e3 * 1e-6
    np.testing.assert_allclose(model.deviance, truth.deviance, rtol=1e-9)
    np.testing.assert_allclose(model.null_deviance, truth.null_deviance, rtol=1e-9)
    np.testing.assert_allclose(model.explained, 1 - truth.deviance / truth.null_deviance, rtol=1e-9)
    np.testing.assert_allclose(model.predict(frame), truth.fittedvalues, rtol=1e-6)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_a_fit_of_classes_is_that_of_statsmodels(weighted):
    frame = table()
    # MNLogit has no weights: rows are repeated.
    repeats = (2 * frame["w"].to_numpy()).astype(int) if weighted else np.ones(frame.height, int)
    classes = sorted(set(frame["multinomial"]))
    codes = np.array([classes.index(name) for name in frame["multinomial"]])
    centre = design(frame).mean(axis=0) * [0, 1, 1, 1, 1, 1]
    A = np.repeat(design(frame) - centre, repeats, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its test of convergence at so small a tolerance
        truth = sm.MNLogit(np.repeat(codes, repeats), A).fit(method="newton", tol=1e-14, disp=0)
    frame = frame.with_columns(w=pl.Series(repeats))
    model = ds.fit(frame, "multinomial", COLUMNS, family="multinomial", weight="w")
    assert model.classes == tuple(classes)
    own = np.array([list(model.coefficients[name].values()) for name in classes])
    np.testing.assert_allclose(own.sum(axis=0), 0, atol=1e-12 * np.abs(own).max())
    np.testing.assert_allclose((own[1:] - own[0]).T, truth.params[1:], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(model.deviance, -2 * truth.llf, rtol=1e-9)
    np.testing.assert_allclose(model.null_deviance, -2 * truth.llnull, rtol=1e-8)
    A = design(frame) - centre
    np.testing.assert_allclose(model.predict(frame), truth.predict(A), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [1e-3, 0.1, 3.0])
def test_a_ridge_is_that_of_scikit_learn_on_unit_variance_columns(ridge):
    frame = table()
    X = frame.select(COLUMNS).to_numpy()
    w = frame["w"].to_numpy()
    share = w / w.sum()
    spread = np.sqrt(share @ (X - share @ X) ** 2)
    Z = (X - share @ X) / spread
    C = 1 / (ridge * w.sum())
    exact: dict[str, Any] = {"tol": 1e-12, "max_iter": 1000, "solver": "newton-cholesky"}

    logistic = LogisticRegression(C=C, **exact).fit(Z, frame["binomial"], w)
    model = ds.fit(frame, "binomial", COLUMNS, ridge=ridge, weight="w", family="binomial")
    np.testing.assert_allclose(parameters(model)[1:] * spread, logistic.coef_[0], atol=1e-7)

    counts = PoissonRegressor(alpha=ridge, **exact).fit(Z, frame["poisson"], w)
    model = ds.fit(frame, "poisson", COLUMNS, family="poisson", ridge=ridge, weight="w")
    np.testing.assert_allclose(parameters(model)[1:] * spread, counts.coef_, atol=1e-7)

    exact["solver"] = "newton-cg"
    softmax = LogisticRegression(C=C, **exact).fit(Z, frame["multinomial"], w)
    model = ds.fit(frame, "multinomial", COLUMNS, family="multinomial", ridge=ridge, weight="w")
    own = np.array([list(model.coefficients[name].values()) for name in model.classes])
    np.testing.assert_allclose(own * spread, softmax.coef_, atol=1e-6)
    np.testing.assert_allclose(model.predict(frame), softmax.predict_proba(Z), atol=1e-6)
    penalty = ridge * w.sum() * np.sum((own * spread) ** 2)
    np.testing.assert_allclose(
        model.explained, 1 - (model.deviance + penalty) / model.null_deviance, rtol=1e-12
    )


def test_two_classes_are_a_binomial_target():
    frame = table().with_columns(sides=pl.col("binomial").replace_strict({0: "no", 1: "yes"}))
    one = ds.fit(frame, "binomial", COLUMNS, family="binomial")
    two = ds.fit(frame, "sides", COLUMNS, family="multinomial")
    np.testing.assert_allclose(two.deviance, one.deviance, rtol=1e-12)
    for name in COLUMNS:
        difference = two.coefficients["yes"][name] - two.coefficients["no"][name]
        np.testing.assert_allclose(difference, one.coefficients[name], rtol=1e-8)


def test_columns_far_from_zero_cost_no_digits():
    frame = table()
    far = frame.with_columns(pl.col(COLUMNS) * 1.0 + 1e8)
    near = far.with_columns(pl.col(COLUMNS) - 1e8)
    one, other = (ds.fit(f, "binomial", COLUMNS, family="binomial") for f in (near, far))
    np.testing.assert_allclose(other.deviance, one.deviance, rtol=1e-12)
    np.testing.assert_allclose(parameters(other)[1:], parameters(one)[1:], rtol=1e-7, atol=1e-9)


def test_columns_that_depend_on_others_get_no_coefficient():
    frame = table().with_columns(sum=pl.col("a") * 2 + pl.col("b"), one=pl.lit(1.0))
    columns = ["a", "one", "b", "sum", "c"]
    model = ds.fit(frame, "binomial", columns, family="binomial")
    without = ds.fit(frame, "binomial", ["a", "b", "c"], family="binomial")
    assert model.aliased == ("one", "sum")
    assert model.coefficients["one"] == model.coefficients["sum"] == 0.0
    np.testing.assert_allclose(model.deviance, without.deviance, rtol=1e-12)
    classes = ds.fit(frame, "multinomial", columns, family="multinomial")
    assert classes.aliased == ("one", "sum")


def test_columns_may_have_the_names_that_a_pass_gives_its_own():
    x = {"__residual": [1.0, 2.0, 4.0, 0.0], "residual": [1.0, 0.0, 2.0, 1.0]}
    frame = pl.DataFrame({**x, "y": [0, 1, 0, 1]})
    model = ds.fit(frame, "y", ridge=1.0, family="binomial")
    renamed = ds.fit(
        frame.rename({"__residual": "r", "residual": "s"}), "y", ridge=1.0, family="binomial"
    )
    np.testing.assert_allclose(parameters(model), parameters(renamed), rtol=1e-12)
    with pytest.raises(
        errors.ColumnError, match="'__dbselect_kept0' has a name that dbselect uses"
    ):
        ds.fit(frame.rename({"residual": "__dbselect_kept0"}), "y", family="binomial")


def test_sure_rows_keep_their_gradient():
    """Rows whose probability rounds to 1 still say so where they are wrong."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=400)
    y = (x > 0).astype(int)
    y[:3] = 1 - (x[:3] > 0)
    scale = 60.0  # of the predictor at the optimum: most rows are beyond doubt
    frame = pl.DataFrame({"x": x * scale, "y": y})
    truth = sm.GLM(y, np.column_stack([np.ones(400), x * scale]), family=sm.families.Binomial())
    found = truth.fit(tol=1e-14, maxiter=200)
    model = ds.fit(frame, "y", family="binomial")
    np.testing.assert_allclose(model.deviance, found.deviance, rtol=1e-9)
    np.testing.assert_allclose(parameters(model), found.params, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["complete", "quasi", "rare", "counts", "classes"])
def test_separated_rows_end_the_fit_with_a_name_and_finite_coefficients(kind):
    frame = table()
    x = frame["a"].to_numpy()
    flag = np.zeros(len(x))
    flag[: 4 if kind == "rare" else 300] = 1.0
    y: Any = frame["binomial"].to_numpy().copy()
    family = "binomial"
    if kind == "complete":
        y, flag = (x > 0).astype(int), x
    elif kind == "counts":
        y, family = np.where(flag > 0, 0, frame["poisson"].to_numpy()), "poisson"
    elif kind == "classes":
        y, family = np.where(flag > 0, "low", frame["multinomial"].to_numpy()), "multinomial"
    else:
        y[flag > 0] = 1
    frame = frame.with_columns(y=pl.Series(y), flag=pl.Series(flag))
    with pytest.warns(errors.SeparationWarning):
        model = ds.fit(frame, "y", ["b", "flag"], family=family)
    assert model.status.name == "SEPARATED"
    coefficients = np.array([list(own.values()) for own in model.coefficients.values()]) if (
        kind == "classes"
    ) else parameters(model)  # fmt: skip
    assert np.isfinite(coefficients).all()
    assert 0 <= model.deviance <= model.null_deviance
    # As good as it gets, up to the share below which steps do not count.
    rest = frame.filter(pl.col("flag") == 0) if kind != "complete" else frame.head(0)
    best = 0.0 if rest.is_empty() else ds.fit(rest, "y", ["b"], family=family).deviance
    assert best <= model.deviance <= best + 1e-4 * model.null_deviance
    ridged = ds.fit(frame, "y", ["b", "flag"], family=family, ridge=1e-4)
    assert ridged.status.name == "CONVERGED"


def test_a_fit_that_may_not_go_on_says_so():
    frame = table()
    full = ds.fit(frame, "binomial", COLUMNS, family="binomial")
    cut = ds.fit(frame, "binomial", COLUMNS, max_iter=1, family="binomial")
    assert (cut.status.name, cut.passes) == ("LIMIT", 2)
    assert full.deviance < cut.deviance < full.null_deviance
    assert "max_iter was reached" in repr(cut)


@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")  # hardly any noise
def test_steps_that_go_too_far_are_halved():
    """From the mean count, Newton's first step on an exponential overshoots by far."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=1000)
    y = rng.poisson(np.exp(3 * x))
    frame = pl.DataFrame({"x": x, "y": y})
    model = ds.fit(frame, "y", family="poisson")
    A = np.column_stack([np.ones(1000), x])
    truth = sm.GLM(y, A, family=sm.families.Poisson()).fit(tol=1e-14, maxiter=200)
    assert model.status.name == "CONVERGED"
    np.testing.assert_allclose(parameters(model), truth.params, rtol=1e-6)
    np.testing.assert_allclose(model.deviance, truth.deviance, rtol=1e-9)


class Counted:
    """A table that can be read again and counts how often it is."""

    def __init__(self, frame: pl.DataFrame, fail_at: int | None = None) -> None:
        self._table = frame.to_arrow()
        self._fail_at = fail_at
        self.reads = 0

    def __len__(self) -> int:
        return len(self._table)

    def __arrow_c_stream__(self, requested: Any = None) -> Any:
        self.reads += 1
        if self.reads == self._fail_at:
            raise KeyboardInterrupt
        return self._table.__arrow_c_stream__()


@pytest.mark.parametrize("family", [*FAMILIES, "multinomial"])
def test_passes_are_counted_as_the_table_sees_them(family):
    source = Counted(table(rows=300))
    model = ds.fit(source, family, COLUMNS, family=family, offset=OFFSETS.get(family))
    assert model.passes == source.reads
    assert model.rows_read == 300 * source.reads
    if family == "gaussian":
        assert model.passes == 2
    else:
        assert 4 <= model.passes <= 8


def test_a_table_that_changes_under_the_fit_is_an_error():
    class Growing(Counted):
        def __arrow_c_stream__(self, requested: Any = None) -> Any:
            self._table = self._table if self.reads < 1 else self._table.slice(1)
            return super().__arrow_c_stream__()

    with pytest.raises(errors.SourceError, match="must not change while a model is fitted"):
        ds.fit(Growing(table(rows=300)), "binomial", COLUMNS, family="binomial")


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson", "multinomial"])
def test_polars_and_sql_predict_what_the_model_predicts(family):
    frame = table(rows=200).with_columns(nested=pl.struct("c", x="d"))
    offset = "logs" if family == "poisson" else None
    model = ds.fit(frame, family, ["a", "b", "nested"], family=family, offset=offset)
    expected = model.predict(frame)
    frame = frame.with_columns(a=pl.when(pl.col("a") > 1).then(None).otherwise("a"))
    missing = frame["a"].is_null().to_numpy()
    with duckdb.connect() as con:
        in_sql = pl.DataFrame(
            con.from_arrow(frame.to_arrow()).select(f"{model.sql()} AS p").to_arrow_table()
        )
    for found in (frame.select(p=model.expr()), in_sql):
        if family == "multinomial":
            values = found["p"].struct.unnest()
            assert values.columns == list(model.classes)
            values = values.to_numpy()
        else:
            values = found["p"].to_numpy()
        np.testing.assert_allclose(values[~missing], expected[~missing], rtol=1e-12)
        assert np.isnan(values[missing]).all()


def test_a_row_far_from_all_others_is_not_told_for_certain():
    x, y = np.tile([0.0, 1.0, 2.0, 3.0, 1.0], 20), np.tile([0, 1, 0, 1, 1], 20)
    x[-1] = 1e4
    truth = sm.GLM(y, sm.add_constant(x), family=sm.families.Binomial()).fit(tol=1e-14)
    model = ds.fit(pl.DataFrame({"x": x, "y": y}), "y", family="binomial")
    assert model.status.name == "CONVERGED"
    np.testing.assert_allclose(parameters(model), truth.params, rtol=1e-6)
    np.testing.assert_allclose(model.deviance, truth.deviance, rtol=1e-9)


REFUSED = [
    ({"target": "poisson"}, errors.DataError, "'poisson' has a value that is not 0/1 or boolean"),
    ({"target": "multinomial"}, errors.DataError, "has more than two levels; a binomial target"),
    ({"target": "negative", "family": "poisson"}, errors.DataError, "a value that is not >= 0"),
    ({"target": "zero"}, errors.DataError, "target 'zero' is 0 in all usable rows"),
    ({"target": "one"}, errors.DataError, "target 'one' is 1 in all usable rows"),
    ({"target": "zero", "family": "poisson"}, errors.DataError, "target 'zero' is 0 in all"),
    ({"target": "one", "family": "gaussian"}, errors.DataError, "target 'one' is constant"),
    (
        {"target": "one", "family": "gaussian", "offset": "zero"},
        errors.DataError, "target 'one' is predicted exactly by the model without columns",
    ),
    ({"target": "one", "family": "multinomial"}, errors.DataError, "has 1 different values"),
    (
        {"target": "gaussian", "family": "multinomial"},
        errors.DataError, "has more than 40 different",
    ),
    ({"target": "day", "family": "multinomial"}, errors.ColumnError, "must be text, numeric or"),
    ({"weight": "zero"}, errors.DataError, "no usable rows: 100 rows were skipped"),
    ({"weight": "negative"}, errors.DataError, "weight 'negative' is negative"),
    ({"weight": "z"}, errors.ColumnError, "weight names unknown column 'z'"),
    ({"target": "z"}, errors.ColumnError, "target names unknown column 'z'"),
    ({"columns": ["z"]}, errors.ColumnError, "unknown column 'z'"),
    ({"columns": ["binomial"]}, errors.ColumnError, "names 'binomial', which is the target"),
    (
        {"columns": ["x*", "one"], "offset": "one"},
        errors.ColumnError, "which is the offset; leave one",
    ),
    ({"columns": ["w"], "weight": "w"}, errors.ColumnError, "names 'w', which is the weight"),
    ({"family": "probit"}, errors.ArgumentError, "family is 'probit'; it must be one of"),
    (
        {"family": "multinomial", "target": "multinomial", "offset": "logs"},
        errors.ArgumentError, "added to the predictors of all classes it changes nothing",
    ),
    (
        {"family": "tweedie(1)"},
        errors.ArgumentError, "power is 1.0; of 'tweedie' it must be a number > 1",
    ),
    ({"family": "gamma"}, errors.DataError, "has a value that is not > 0"),
    (
        {"family": "poisson", "target": "poisson", "offset": "multinomial"},
        errors.ColumnError, "offset",
    ),
    (
        {"family": "poisson", "target": "poisson", "offset": "far"},
        errors.DataError, "offset 'far' has a value beyond 100",
    ),
    ({"target": "far"}, errors.DataError, "column 'far' has an infinite value"),
    (
        {"target": "far", "family": "poisson"},
        errors.DataError, "column 'far' has an infinite value",
    ),
    ({"target": "far", "family": "multinomial"}, errors.DataError, "'far' has an infinite value"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_what_cannot_be_fitted_is_refused(options, error, words):
    frame = table(rows=100).with_columns(
        zero=pl.lit(0),
        one=pl.lit(1),
        far=pl.when(pl.col("binomial") > 0).then(np.inf).otherwise(0.0),
        day=pl.date(2020, 1, 1),
        negative=pl.int_range(pl.len()) - 1,
    )
    with pytest.raises(error, match=re.escape(words)):
        ds.fit(frame, **{"target": "binomial", "columns": COLUMNS, "family": "binomial", **options})


def test_nearly_dependent_columns_are_warned_of():
    frame = table().with_columns(copy=pl.col("a") + 1e-6 * pl.col("gaussian"))
    with pytest.warns(errors.ConditionWarning, match="the selected columns have condition number"):
        ds.fit(frame, "binomial", ["a", "copy"], family="binomial")
    with pytest.warns(errors.ConditionWarning):
        ds.anytime_sequence(
            frame, "binomial", {"a": ["a"], "copy": ["copy"]}, family="binomial", rule="score"
        )


@pytest.mark.parametrize("family", [*FAMILIES, "multinomial"])
def test_rows_without_a_target_are_left_out_of_every_pass(family):
    frame = table(rows=300).with_columns(
        pl.when(pl.int_range(pl.len()) % 7 > 0).then(pl.col(family))
    )
    rest = frame.filter(pl.col(family).is_not_null())
    for source in (frame, duckdb.connect().from_arrow(frame.to_arrow())):
        offset = OFFSETS.get(family)
        model = ds.fit(source, family, ["a", "b"], family=family, offset=offset)
        assert (model.rows, model.skipped) == (rest.height, frame.height - rest.height)
        again = ds.fit(rest, family, ["a", "b"], family=family, offset=offset)
        np.testing.assert_allclose(model.deviance, again.deviance, rtol=1e-12)


def test_a_class_without_usable_rows_is_no_class():
    frame = table(rows=300).with_columns(
        a=pl.when(pl.col("multinomial") == "mid").then(None).otherwise("a")
    )
    model = ds.fit(frame, "multinomial", ["a", "b"], family="multinomial")
    assert model.classes == ("it's", "low")
    rest = frame.filter(pl.col("multinomial") != "mid")
    again = ds.fit(rest, "multinomial", ["a", "b"], family="multinomial")
    np.testing.assert_allclose(model.deviance, again.deviance, rtol=1e-12)


def test_a_stream_that_can_be_read_once_is_refused():
    with pytest.raises(errors.SourceError, match="can be read only once"):
        ds.fit(Stream(table(rows=10).to_arrow()), "binomial", COLUMNS, family="binomial")

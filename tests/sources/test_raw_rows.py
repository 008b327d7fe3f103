"""Predictions of the raw table: text, dates, curves and what is missing, through every door."""

import datetime as dt
import json
from functools import cache

import duckdb
import numpy as np
import polars as pl
import polars.testing
import pytest
from predicting import (
    CLOSE,
    SAME,
    assert_all_doors,
    assert_predicts,
    in_duckdb,
    in_polars,
    in_sql,
    plain,
)
from problems import in_passes
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
)

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.errors import ArgumentError, ColumnError, DataError, UnknownLevelWarning
from dbselect.record.steps import SEQUENCE_DTYPE

LEVELS = ["a", "it's", 'q"', "b\nc", "x.y", "", "a level of more than twelve bytes", "é\\", "%s{}"]
POLICIES = ["skip", "mean", "indicator"]


def table(rng: np.random.Generator, rows: int = 400) -> pl.DataFrame:
    """Return a column of each kind, with gaps, and a target that all of them explain."""
    k = rng.integers(0, len(LEVELS), rows)
    flag, whole = rng.random(rows) < 0.4, rng.integers(-2, 2, rows)
    age, size = rng.normal(40, 10, rows), rng.normal(size=rows)
    day = rng.integers(18_000, 19_000, rows)
    seconds = rng.integers(0, 10**6, rows)
    y = rng.normal(size=len(LEVELS))[k] + flag - 0.5 * whole + np.sin(age / 5) + size**3
    y += day / 500 + seconds / 1e6 + 0.1 * rng.normal(size=rows)
    frame = pl.DataFrame(
        {
            "k": pl.Series(LEVELS).gather(k),
            "flag": flag,
            "whole": pl.Series(whole, dtype=pl.Int16),
            "age": age,
            "size": size,
            "day": pl.Series(day, dtype=pl.Int32).cast(pl.Date),
            "at": (pl.Series(seconds) * 1_000_000 + 123_456).cast(pl.Datetime("us")),
            "x": rng.normal(size=rows),
            "y": y,
        }
    )
    gaps = {
        name: pl.when(pl.Series(rng.random(rows) > 0.1)).then(name)
        for name in ("k", "flag", "age", "size", "day", "x")
    }
    return frame.with_columns(**gaps)


CATEGORIES, BASIS = ["k", "flag", "whole"], {"age": ("poly", 3), "size": ("spline", 5)}


@cache
def found(policy: str) -> ds.results.Sequence:
    frame = table(np.random.default_rng(1))
    policies = {"*": policy, "y": "skip"}
    gram = ds.gram(frame, categories=CATEGORIES, basis=BASIS, null_policy=policies)
    return ds.anytime_sequence(gram, "y", costs=dict.fromkeys(frame.columns[:-1], 1.0))


def strange(rng: np.random.Generator, rows: int = 300) -> pl.DataFrame:
    """Return rows of another table, some with levels that no fit has seen."""
    frame = table(rng, rows)
    odd = pl.Series(rng.random(rows) < 0.1)
    return frame.with_columns(
        k=pl.when(odd).then(pl.lit("never seen")).otherwise("k"),
        whole=pl.when(pl.Series(rng.random(rows) < 0.1)).then(77).otherwise("whole"),
        x=pl.when(pl.Series(rng.random(rows) < 0.1)).then(float("nan")).otherwise("x"),
        size=3 * pl.col("size"),  # beyond the outer knots as well
    )


def share_of(column: str, level, policy: str) -> float:
    """Return the mean of a column of 0 and 1 over the rows of the fit; level None: of NULL."""
    fitted = table(np.random.default_rng(1))
    if policy == "skip":
        fitted = fitted.drop_nulls()
    values = fitted[column]
    if policy == "mean":
        values = values.drop_nulls()  # the others are filled with this mean
    is_it = values.is_null() if level is None else (values == level).fill_null(False)
    return is_it.mean()


def by_hand(model: ds.results.Model, frame: pl.DataFrame, policy: str, unknown: str) -> np.ndarray:
    """Return ``intercept + sum of columns times coefficients``, the columns one by one."""
    terms, total = model.terms, np.full(frame.height, model.intercept)
    sources = {name: column for column, names in terms.columns.items() for name in names}
    sources |= {each.missing: each.column for each in terms.categories}
    for name, coef in model.coefficients.items():
        base = name.removesuffix(".missing")
        column = sources.get(name, sources.get(base, base))
        values = frame[column]
        if values.dtype == pl.Date:
            values = values.cast(pl.Int32)
        elif values.dtype == pl.Datetime:
            values = values.cast(pl.Int64) / 1e6
        category = next((one for one in terms.categories if one.column == column), None)
        basis = next((one for one in terms.bases if one.column == column), None)
        if category is not None:
            missing = values.is_null().to_numpy()
            level = dict(zip(category.names, category.levels, strict=True)).get(name)
            other = pl.Series([False] * frame.height)
            made = other if level is None else (values == level).fill_null(False)
            made = made.cast(float).to_numpy().copy()
            unseen = ~values.is_in(category.levels).fill_null(True).to_numpy()
        else:
            unseen = np.zeros(frame.height, dtype=bool)
            made = values.cast(float).fill_null(np.nan).to_numpy().copy()
            missing = np.isnan(made)
            if basis is not None and name in basis.names:
                made = basis.values(made)[:, basis.names.index(name)]
        if name.endswith(".missing"):
            made = missing.astype(float)
        elif policy == "mean":
            made = np.where(missing, terms.means[name], made)
        elif policy == "indicator" and not name.endswith(".missing"):
            marked = {"k", "flag", "age", "size", "day", "x"}
            made = np.where(missing, 0.0 if column in marked else np.nan, made)
        else:
            made = np.where(missing, np.nan, made)
        if unseen.any():
            made[unseen] = np.nan if unknown == "unavailable" else share_of(column, level, policy)
        total = total + coef * made
    return total


# Truth


@pytest.mark.parametrize("unknown", ["unavailable", "mean"])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_door_predicts_what_the_columns_say(policy, unknown):
    model = found(policy).at()
    for frame in (table(np.random.default_rng(1)), strange(np.random.default_rng(2))):
        expected = by_hand(model, frame, policy, unknown)
        assert np.isfinite(expected).sum() > 0
        assert_predicts(model, frame, expected, handle_unknown=unknown)
        in_arrow = model.predict(frame.to_arrow(), handle_unknown=unknown)
        np.testing.assert_allclose(in_arrow, expected, **SAME)


@pytest.mark.sample(3)
@pytest.mark.parametrize("unknown", ["unavailable", "mean"])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_door_uses_the_longest_prefix_that_a_row_has(connection, tmp_path, policy, unknown):
    seq = found(policy)
    frame = strange(np.random.default_rng(3))
    each = np.array([by_hand(seq.model(k), frame, policy, unknown) for k in range(len(seq.spent))])
    step = len(each) - 1 - np.isfinite(each[::-1]).argmax(axis=0)
    groups = [*seq.steps["group"][1:], None]
    rows = np.arange(frame.height)
    found_ = assert_all_doors(connection, seq, frame, handle_unknown=unknown)
    in_pandas = seq.anytime_predict(frame.to_pandas(), handle_unknown=unknown)
    files = [str(tmp_path / name) for name in ("s.parquet", "t.parquet", "p.parquet")]
    seq.write_parquet(files[0])
    frame.write_parquet(files[1])
    told = ["--handle-unknown", unknown, "--keep", "y", "--out", files[2]]
    assert main(["predict", *files[:2], *told]) == 0
    by_command = pl.read_parquet(files[2])["prediction"]
    np.testing.assert_allclose(by_command, each[step, rows], **SAME)
    np.testing.assert_allclose(seq.predict(frame, handle_unknown=unknown), each[step, rows], **SAME)
    assert len(set(step.tolist())) > (3 if policy == "skip" else 0)
    for answers in (found_, in_pandas):
        np.testing.assert_allclose(answers["prediction"], each[step, rows], **SAME)
        assert answers["step"].to_list() == step.tolist()
        assert answers["next_group"].to_list() == [groups[k] for k in step]


def test_a_model_is_that_of_a_pipeline_of_scikit_learn():
    frame = table(np.random.default_rng(4)).drop_nulls()
    new = strange(np.random.default_rng(5)).drop_nulls().filter(pl.col("x").is_not_nan())
    columns = ["k", "flag", "whole", "age", "size"]
    gram = ds.gram(frame, [*columns, "y"], categories=CATEGORIES, basis=BASIS)
    model = ds.anytime_sequence(gram, "y").at()
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    # With quantiles for knots and an intercept, the space of the splines is the same.
    pipeline = make_pipeline(
        ColumnTransformer(
            [
                ("levels", encoder, ["k", "flag", "whole"]),
                ("poly", PolynomialFeatures(3, include_bias=False), ["age"]),
                ("spline", SplineTransformer(4, knots="quantile"), ["size"]),
            ]
        ),
        StandardScaler(),
        LinearRegression(),
    )
    known = new.filter(pl.col("k") != "never seen", pl.col("whole") != 77)
    pipeline.fit(frame.to_pandas()[columns], frame["y"])
    for rows in (frame, known):
        expected = pipeline.predict(rows.to_pandas()[columns])
        np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-6, atol=1e-6)
    assert 0 < known.height < new.height
    gone = np.isnan(model.predict(new))
    odd = new.select((pl.col("k") == "never seen") | (pl.col("whole") == 77)).to_series()
    assert gone.tolist() == odd.to_list()


def test_a_level_not_seen_may_be_an_error():
    model = found("indicator").at()
    frame = table(np.random.default_rng(1)).head(3)
    assert np.isfinite(model.predict(frame, handle_unknown="error")).all()
    odd = frame.with_columns(k=pl.Series(["a", None, "odd 'one'"]))
    words = r"column 'k' has the level .*odd 'one'.*, which the fit has not seen"
    with pytest.raises(DataError, match=words):
        model.predict(odd, handle_unknown="error")
    with pytest.raises(DataError, match=words):
        odd.select(model.expr(handle_unknown="error"))
    with pytest.raises(duckdb.Error, match=words):
        in_duckdb(model.sql(handle_unknown="error"), odd)
    with pytest.raises(ArgumentError, match="only dialect 'duckdb' supports"):
        model.sql("postgres", handle_unknown="error")
    for call in (model.expr, model.sql, lambda **more: model.predict(frame, **more)):
        with pytest.raises(ArgumentError, match="handle_unknown is 'no'; it must be one of"):
            call(handle_unknown="no")


def test_a_rest_takes_every_level():
    frame = table(np.random.default_rng(6)).drop_nulls()
    gram = ds.gram(frame, ["k", "y"], categories=["k"], max_levels=3)
    model = ds.anytime_sequence(gram, "y").at()
    odd = frame.head(2).with_columns(k=pl.lit("odd"))
    expected = model.intercept + model.coefficients["k.other"]
    for unknown in ("unavailable", "mean", "error"):
        np.testing.assert_allclose(model.predict(odd, handle_unknown=unknown), expected, **SAME)
        np.testing.assert_allclose(in_duckdb(model.sql(handle_unknown=unknown), odd), expected)


# Forms of a column


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum([*LEVELS, "never seen"]), pl.String])
def test_every_type_of_text_is_read(connection, dtype):
    seq = found("mean")
    frame = strange(np.random.default_rng(7), 50)
    typed = frame.with_columns(pl.col("k").cast(dtype))
    assert_predicts(seq.at(), typed, seq.at().predict(frame))
    answers = assert_all_doors(connection, seq, typed)
    polars.testing.assert_frame_equal(answers, assert_all_doors(connection, seq, frame))


def test_columns_that_are_made_already_are_taken_as_they_are(connection):
    gram = ds.gram(
        table(np.random.default_rng(8)).drop_nulls(),
        ["k", "age", "size", "y"],
        categories=["k"],
        basis=BASIS,
    )
    seq = ds.anytime_sequence(gram, "y")
    model = seq.at()
    raw = table(np.random.default_rng(9)).drop_nulls().select("k", "age", "size")
    expected = model.predict(raw)
    made = model.terms.transform(raw).drop("k", "age", "size")
    assert set(made.columns) == set(model.columns)
    X = made.select(model.columns).to_numpy()
    assert_predicts(model, made, expected, nested={"nested": False})
    for names in (model.columns, model.columns[::-1]):
        by_name = model.predict(made.select(names).to_numpy(), names)
        np.testing.assert_allclose(by_name, expected, **SAME)
    np.testing.assert_allclose(model.predict(X), expected, **SAME)
    answers = assert_all_doors(connection, seq, made)
    np.testing.assert_allclose(answers["prediction"], expected, **SAME)
    ages = model.predict(
        np.column_stack([raw["age"], raw["size"], made.drop("^age.*$", "^size.*$").to_numpy()]),
        ["age", "size", *made.drop("^age.*$", "^size.*$").columns],
    )
    np.testing.assert_allclose(ages, expected, **SAME)


def test_another_type_than_the_fits_is_an_error(connection):
    seq = found("skip")
    frame = table(np.random.default_rng(1)).head(5)
    for column, values, kind in (
        ("k", pl.lit(5), "levels of its category are text"),
        ("whole", pl.lit("5"), "levels of its category are integer"),
        ("flag", pl.lit(1), "levels of its category are boolean"),
        ("age", pl.lit("old"), "number"),
        ("x", pl.lit("wide"), "number"),
        ("x", pl.date(2020, 1, 1), "number"),
    ):
        wrong = frame.with_columns(values.alias(column))
        with pytest.raises(ds.DbselectError, match=f"'{column}' has type"):
            seq.at().predict(wrong)
        with pytest.raises(duckdb.Error, match=f"'{column}' has type .*{kind}"):
            in_sql(connection, seq, wrong)
        with pytest.raises(pl.exceptions.ComputeError, match=f"'{column}' has type .*{kind}"):
            in_polars(None, seq, wrong)
    with pytest.raises(ColumnError, match="the rows lack column 'k', which the prediction"):
        seq.at().predict(frame.drop("k"))
    np.testing.assert_array_equal(seq.at().predict(frame.lazy()), seq.at().predict(frame))


def test_a_date_is_read_in_the_unit_of_the_fit(connection):
    days = pl.Series([dt.date(1969, 12, 30) + dt.timedelta(n) for n in range(9)])
    frame = pl.DataFrame({"d": days, "y": np.arange(9.0) - 2.0})
    seq = ds.anytime_sequence(frame, "y")
    model = seq.at()
    for one in (frame, frame.with_columns(pl.col("d").cast(pl.Datetime("ms")))):
        assert_predicts(model, one, frame["y"], {"atol": 1e-12})
        answers = assert_all_doors(connection, seq, one)
        np.testing.assert_allclose(answers["prediction"], frame["y"], atol=1e-12)
    np.testing.assert_allclose(model.predict([[-2.0], [6.0]]), [-2.0, 6.0], atol=1e-12)


def test_a_flat_name_with_a_dot_is_a_column_and_a_child_is_a_path():
    rng = np.random.default_rng(10)
    frame = pl.DataFrame({"Sepal.Length": rng.normal(size=30), "e[1]": rng.normal(size=30)})
    frame = frame.with_columns(
        pl.struct(age="Sepal.Length").alias("demo"), y=pl.col("Sepal.Length") + pl.col("e[1]")
    )
    frame = frame.with_columns(**{"My.Kind": pl.Series(rng.choice(["u", "v"], 30))})
    for names in (["Sepal.Length", "e[1]", "My.Kind"], ["demo", "e[1]"]):
        model = ds.anytime_sequence(ds.gram(frame, [*names, "y"]), "y").at()
        assert_predicts(model, frame, frame["y"], CLOSE)
    assert '("demo")."age"' in model.sql()


# All that is stored


@pytest.mark.parametrize("family", [None, "binomial"])
def test_stored_sequences_keep_their_terms(tmp_path, family):
    frame = table(np.random.default_rng(11)).drop_nulls().select("k", "day", "x", "y")
    frame = frame.with_columns(y=(pl.col("y") > 38).cast(float))
    seq = in_passes(frame, "y", family=family) if family else ds.anytime_sequence(frame, "y")
    assert seq.terms.categories[0].levels == tuple(sorted(LEVELS))
    assert seq.terms.dates == {"day": "days"}
    expected = seq.predict(frame)
    seq.write_parquet(tmp_path / "s.parquet")
    seq.write_json(tmp_path / "s.json")
    through = json.loads(json.dumps(seq.to_struct()))
    for again in (
        type(seq).read_parquet(tmp_path / "s.parquet"),
        type(seq).read_json(tmp_path / "s.json"),
        type(seq).from_struct(through),
    ):
        assert again.terms == seq.terms
        np.testing.assert_array_equal(again.predict(frame), expected)
    path = tmp_path / "a.duckdb"
    call = "glm_predict(s.s, f)" if family else "anytime_predict(s.sequence, f)"
    source = "s" if family else "*"
    with ds.connect(path) as con:
        con.execute(f"CREATE TABLE s AS SELECT {source} FROM '{tmp_path / 's.parquet'}' AS s")
    with ds.connect(path, read_only=True) as con:
        con.register("f", frame.to_arrow())
        rows = con.execute(f"SELECT {call}.prediction FROM f, s").fetchall()
    np.testing.assert_allclose(plain(value for (value,) in rows), expected, **SAME)
    if not family:
        stored = pl.read_parquet(tmp_path / "s.parquet")["sequence"].cast(SEQUENCE_DTYPE)
        predict = pl.lit(stored).first().dbselect.predict(pl.struct(frame.columns))
        answers = frame.select(predict.struct.field("prediction")).to_series()
        np.testing.assert_allclose(answers, expected, **SAME)


# Judging, and models of a family


@pytest.mark.filterwarnings("ignore:.* rows are left out")
def test_a_table_is_judged_with_the_terms_of_the_sequence():
    frame = table(np.random.default_rng(1))
    new = strange(np.random.default_rng(13)).with_columns(whole=pl.lit(1, pl.Int16))
    for policy in POLICIES:
        seq = found(policy)
        predicted = seq.at().predict(new, handle_unknown="mean")
        there = np.isfinite(predicted)
        y = new["y"].to_numpy()
        with pytest.warns(UnknownLevelWarning, match="level of 'k' that the fit has not seen"):
            judged = ds.evaluate(seq, new)
        mse = ((y - predicted)[there] ** 2).mean()
        np.testing.assert_allclose(judged["mse"][-1], mse, rtol=1e-9)
        own = ds.evaluate(seq, frame)
        np.testing.assert_allclose(own["r2"], seq.r2, atol=1e-9)


def test_models_of_a_family_read_text_as_categories(connection):
    frame = table(np.random.default_rng(15)).drop_nulls().select("k", "day", "x", "y")
    frame = frame.with_columns(flag=(pl.col("y") > pl.col("y").median()).cast(pl.Int8)).drop("y")
    made = (
        ds.terms(frame, ["k"]).transform(frame).drop("k").with_columns(pl.col("day").cast(pl.Int32))
    )
    model = ds.fit(frame, "flag", ridge=0.01, family="binomial")
    hand = ds.fit(made, "flag", ridge=0.01, family="binomial")
    assert model.terms.columns == {"k": [f"k.{level}" for level in sorted(LEVELS)]}
    for name, value in hand.coefficients.items():
        np.testing.assert_allclose(model.coefficients[name], value, rtol=1e-6, atol=1e-9)
    expected = hand.predict(made)
    doors = {
        "predict": model.predict(frame),
        "expr": plain(frame.select(model.expr()).to_series()),
        "sql": in_duckdb(model.sql(), frame),
        "relation": ds.fit(
            connection.from_arrow(frame.to_arrow()), "flag", ridge=0.01, family="binomial"
        ).predict(frame),
        "stream again": ds.fit(frame.to_arrow(), "flag", ridge=0.01, family="binomial").predict(
            frame
        ),
    }
    for name, predictions in doors.items():
        np.testing.assert_allclose(predictions, expected, rtol=1e-6, err_msg=name)
    judged = ds.evaluate(model, frame)
    np.testing.assert_allclose(judged["deviance"], ds.evaluate(hand, made)["deviance"], rtol=1e-6)


METHODS = {
    "foba": lambda *of, **more: ds.foba(*of, **more).at(),
    "backward": lambda *of, **more: ds.backward(*of, ridge=0.1, **more).at(),
    "dash": lambda *of, **more: ds.dash(*of, k=2, **more),
    "greedy": lambda *of, **more: ds.greedy(*of, k=2, **more),
    "sght": lambda *of, **more: ds.sght(
        *of, groups={"k": ["k"], "x": ["x"]}, max_columns=5, max_groups=2, **more
    ),
    "group lasso": lambda *of, **more: ds.reference.group_lasso(*of).at(),
    "best_within": lambda *of, **more: ds.best_within(*of, 2.0),
    "fit": lambda *of, **more: ds.fit(*of),
    "joint": lambda table, y, **more: ds.anytime_sequence(table, [y, "x"]).at(),
}


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_predicts_the_raw_table(method, family):
    if family == "binomial" and method in ("group lasso", "best_within", "fit", "joint"):
        pytest.skip("it has no families")
    frame = table(np.random.default_rng(17)).drop_nulls().select("k", "day", "x", "y")
    frame = frame.with_columns(y=(pl.col("y") > pl.col("y").median()).cast(pl.Float64))
    model = METHODS[method](frame, "y", family=family)
    assert any(name.startswith("k.") for name in model.columns)
    made = ds.terms(frame, ["k"]).transform(frame).with_columns(pl.col("day").cast(pl.Int32))
    expected = model.predict(made.drop("k"))
    if expected.ndim > 1:
        predicted = frame.select(model.expr()).unnest("y").to_numpy()
    else:
        predicted = plain(frame.select(model.expr()).to_series())
    np.testing.assert_allclose(predicted, expected, **SAME)
    np.testing.assert_allclose(model.predict(frame), expected, **SAME)


# The same row through every door


def test_expr_reads_dates_and_numbers_as_predict_does():
    """Which of them a table has, an expression does not know before it runs."""
    stamps = [dt.datetime(2020, 1, 1 + n, 5 * n) for n in range(4)]
    numbers = {
        "t": [(one - dt.datetime(1970, 1, 1)).total_seconds() for one in stamps],
        "d": [(one - dt.datetime(1970, 1, 1)).days for one in stamps],
    }
    y = [3.0, 1.0, 4.0, 1.5]
    dates = pl.DataFrame({"t": stamps, "d": [one.date() for one in stamps], "y": y})
    plain = pl.DataFrame({**numbers, "y": y})
    model = ds.fit(dates, "y")
    expected = model.predict(dates)
    for rows in (dates, plain, dates.with_columns(plain["t"]), plain.with_columns(dates["t"])):
        np.testing.assert_allclose(rows.select(model.expr()).to_series(), expected, rtol=1e-9)
        np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-9)
    assert dates.lazy().select(model.expr()).collect_schema().dtypes() == [pl.Float64]
    with pytest.raises(DataError, match="number of days since 1970"):
        pl.DataFrame({"d": ["text"]}).select(ds.fit(dates, "y", ["d"]).expr())
    for name in ("t", "d"):
        number = ds.fit(plain, "y", [name])
        with pytest.raises(pl.exceptions.InvalidOperationError, match="not allowed"):
            dates.select(number.expr())


@pytest.fixture
def own_marks():
    """Return a table whose columns have the names of a column and its indicator, and a solution."""
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=(80, 2)), rng.random(80) < 0.3])
    frame = pl.DataFrame(X, schema=["foo", "foo.missing", "z"]).with_columns(
        y=pl.Series(X @ [1.0, -2.0, 0.5] + rng.normal(size=80)),
        # Half of the values in the one are missing in the other, and conversely.
        hole=pl.Series(rng.random(80) < 0.1),
    )
    design = np.column_stack([np.ones(80), X])
    solved, *_ = np.linalg.lstsq(design, frame["y"].to_numpy())
    return frame, design @ solved


def test_a_column_that_ends_in_missing_is_itself(own_marks, connection):
    """It is the user's own, beside another: no indicator of it."""
    frame, truth = own_marks
    table = frame.drop("hole")
    model, sequence = ds.fit(table, "y"), ds.anytime_sequence(table, "y")
    in_polars = table.select(
        p=pl.lit(pl.Series([table.select(s=pl.struct(pl.all()).dbselect.gram())["s"][0]])).first()
        .dbselect.anytime_sequence("y").dbselect.predict(pl.struct(pl.all()))
    )["p"].struct["prediction"]  # fmt: skip
    connection.register("t", table.to_arrow())
    in_sql = connection.sql(
        "SELECT anytime_predict(s, t).prediction AS p FROM t, "
        "(SELECT anytime_sequence(gram(t), 'y') AS s FROM t)"
    ).fetchnumpy()["p"]
    for result in (model, sequence):
        assert_predicts(result, table, truth, CLOSE)
    for values in (in_polars, in_sql):
        np.testing.assert_allclose(values, truth, rtol=1e-9, atol=1e-9)


def test_what_is_missing_beside_a_column_that_ends_so_is_missing(own_marks):
    frame, truth = own_marks
    table = frame.drop("hole")
    holey = table.with_columns(foo=pl.when(frame["hole"]).then(None).otherwise(pl.col("foo")))
    model = ds.fit(table, "y")
    expected = np.where(frame["hole"], np.nan, truth)
    assert_predicts(model, holey, expected, CLOSE)


def test_a_mark_of_ones_own_marks_a_raw_table_on_request(own_marks):
    frame, _ = own_marks
    marked = pl.col("hole").cast(float).alias("foo.missing")
    made = frame.with_columns(marked, foo=pl.when("hole").then(0.0).otherwise("foo")).drop("hole")
    raw = made.drop("foo.missing").with_columns(
        foo=pl.when(frame["hole"]).then(None).otherwise(pl.col("foo"))
    )
    model = ds.fit(made, "y")
    expected = model.predict(made)
    assert_predicts(model, raw, expected, CLOSE, nested={"nested": True})
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match=r"foo\.missing"):
        raw.select(model.expr())


def test_whole_numbers_beyond_doubles_are_levels_of_their_own(connection):
    first = 2**53
    frame = pl.DataFrame({"k": [first, first + 1, first + 2] * 4, "y": [1.0, 5.0, 3.0] * 4})
    gram = ds.gram(frame, categories=["k"])
    seq = ds.anytime_sequence(gram, "y")
    for rows in (frame, frame.cast({"k": pl.UInt64}), frame.cast({"k": pl.Int128})):
        answers = in_polars(None, seq, rows.select("k"))
        np.testing.assert_allclose(answers["prediction"], frame["y"], rtol=1e-6)
    answers = in_sql(connection, seq, frame.select("k"))
    np.testing.assert_allclose(answers["prediction"], frame["y"], rtol=1e-6)
    wider = "SELECT anytime_predict(sequence_, {'k': k::HUGEINT}).prediction FROM rows_, sequences"
    found = [value for (value,) in connection.execute(f"{wider} ORDER BY row_").fetchall()]
    np.testing.assert_allclose(found, frame["y"], rtol=1e-6)

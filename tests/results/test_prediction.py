"""Which prefix predicts a row, and what: absent columns, levels never seen, missing values.

The truth is least squares on dummies made by hand, of each pattern of columns that rows have.
"""

import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predicting import CLOSE, SAME, assert_all_doors, in_sql, plain
from scipy.special import expit, softmax

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.record.steps import SEQUENCE_DTYPE, STEP_TYPE
from dbselect.results.store import write_sequences

# The wrong answers that were found


def late() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    delay, carrier = rng.normal(10, 30, 400), rng.choice(["AA", "UA", "DL"], 400)
    late = delay + 5 * (carrier == "UA") + rng.normal(size=400)
    return pl.DataFrame({"arr_delay": late, "dep_delay": delay, "carrier": carrier})


@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")
def test_a_record_that_renames_a_column_does_not_predict_the_table(connection, tmp_path, capsys):
    """The record of the README calls ``dep_delay`` ``departure``; its rows got the mean."""
    connection.register("flights", late().to_arrow())
    record = "gram({'late': arr_delay, 'departure': dep_delay, 'carrier': carrier})"
    costs = "{'departure': 1.0, 'carrier': 0.2}"
    connection.execute(
        f"CREATE TABLE s AS SELECT anytime_sequence({record}, 'late', costs := {costs}) AS s, "
        f"{record} AS g FROM flights"
    )
    words = "the rows lack column 'departure', which the prediction reads; missing_columns"
    for call in ("anytime_predict(s, f)", "dbselect.anytime_predict(s, f)"):
        with pytest.raises(duckdb.Error, match=words):
            connection.sql(f"SELECT {call} FROM s, flights f").fetchall()
    rows = connection.sql("SELECT s FROM s").to_arrow_table()
    frame = late().with_columns(s=pl.lit(pl.DataFrame(rows)["s"].cast(SEQUENCE_DTYPE)).first())
    with pytest.raises(pl.exceptions.ComputeError, match=words):
        frame.select(pl.col("s").dbselect.predict(pl.struct("dep_delay", "carrier")))
    gram = ds.Gram.from_struct(connection.sql("SELECT g FROM s").to_arrow_table()["g"][0])
    seq = ds.anytime_sequence(gram, "late", costs={"departure": 1.0, "carrier": 0.2})
    for call in (seq.predict, seq.anytime_predict, seq.at().predict):
        with pytest.raises(ds.errors.ColumnError, match=words):
            call(late())
    numbers = late().select("dep_delay").to_numpy()
    for call in (
        lambda: seq.predict(numbers, columns=["dep_delay"]),
        lambda: seq.at().predict(numbers, ["dep_delay"]),
    ):
        with pytest.raises(ds.errors.ColumnError, match="the rows lack columns"):
            call()
    seq.write_parquet(tmp_path / "s.parquet")
    late().write_parquet(tmp_path / "t.parquet")
    assert main(["predict", str(tmp_path / "s.parquet"), str(tmp_path / "t.parquet")]) == 2
    assert words in capsys.readouterr().err
    right = late().rename({"dep_delay": "departure"})
    assert set(assert_all_doors(connection, seq, right)["step"]) == {2}


@pytest.mark.parametrize("levels", ["abc", "bca", "cab", "cba"])
def test_the_mean_effect_does_not_depend_on_the_level_that_was_dropped(connection, levels):
    """With level means 3, 103 and 203 an unseen level was predicted as 203, or as 3."""
    frame = pl.DataFrame({"k": list(levels) * 4, "y": [3.0, 103.0, 203.0] * 4})
    seq = ds.anytime_sequence(frame, "y")
    odd = pl.DataFrame({"k": ["new", *levels, None]})
    found = assert_all_doors(connection, seq, odd, handle_unknown="mean")
    np.testing.assert_allclose(found["prediction"], [103, 3, 103, 203, 103], rtol=1e-12)
    assert found["step"].to_list() == [1, 1, 1, 1, 0]
    model = seq.at()
    expected = [103, 3, 103, 203, np.nan]
    by_sql = duckdb.sql(f"SELECT {model.sql(handle_unknown='mean')} FROM odd").fetchall()
    doors = (
        model.predict(odd, handle_unknown="mean"),
        plain(odd.select(model.expr(handle_unknown="mean")).to_series()),
        plain(value for (value,) in by_sql),
    )
    for values in doors:
        np.testing.assert_allclose(values, expected, rtol=1e-12)
    with pytest.raises(
        ds.errors.ArgumentError, match=r"handle_unknown is 'zero'; it must be one of \["
    ):
        seq.predict(odd, handle_unknown="zero")
    with pytest.raises(duckdb.Error, match=r"handle_unknown is 'zero'; it must be one of \["):
        in_sql(connection, seq, odd, handle_unknown="zero")


@pytest.mark.parametrize("rows", [1, 2, 300])
def test_none_is_missing_in_frames_of_pandas(rows):
    """``pd.DataFrame([{"Age": None}])`` was said to hold text."""
    pd = pytest.importorskip("pandas", reason="pandas has columns of objects")
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"Age": rng.normal(40, 9, 60), "Fare": rng.normal(size=60)})
    frame = frame.with_columns(
        k=pl.Series(rng.choice(["a", "b"], 60)), y=pl.col("Age") / 9 + 0.1 * pl.col("Fare")
    )
    seq = ds.anytime_sequence(ds.gram(frame, null_policy={"Fare": "mean"}), "y")
    assert seq.steps["group"].to_list()[1] == "Age"
    nothing = [None] * (rows - 1)
    fares = {
        "None": [*nothing, None], "numbers": [*nothing, 1.5], "NA": [*nothing, pd.NA],
        "whole": [*nothing, 3], "both": [2, 2.5, *nothing][:rows], "NaN": [*nothing, np.nan],
    }  # fmt: skip
    for name, fare in fares.items():
        data = {"Fare": pd.Series(fare, dtype=object), "k": ["a"] * rows, "Age": [None] * rows}
        given = pd.DataFrame(data)
        assert given["Age"].dtype == object
        np.testing.assert_allclose(seq.predict(given), seq.gram.mean[-1], err_msg=name)
        assert np.isnan(seq.at().predict(given)).all(), name
        aged = given.assign(Age=pd.Series([None] * (rows - 1) + [41], dtype=object))
        own = [None if pd.isna(one) else float(one) for one in fare]
        expected = pl.DataFrame(
            {"Age": [*nothing, 41.0], "Fare": own, "k": ["a"] * rows},
            schema_overrides={"Age": pl.Float64, "Fare": pl.Float64},
        )
        for predict in (seq.predict, seq.at().predict):
            np.testing.assert_array_equal(predict(aged), predict(expected), err_msg=name)
    texts = pd.DataFrame({"Age": ["old"] * rows, "Fare": [1.0] * rows, "k": ["a"] * rows})
    with pytest.raises(ds.errors.ArgumentError, match="column 'Age' has type String"):
        seq.predict(texts)
    mixed = texts.assign(Age=pd.Series([1, "old", *nothing][:rows], dtype=object))
    if rows > 1:
        with pytest.raises(ds.errors.ArgumentError, match=r"objects of the types \['int', 'str'\]"):
            seq.predict(mixed)


# The mean effect of the levels


def categories(rows: int = 300) -> pl.DataFrame:
    rng = np.random.default_rng(2)
    k = rng.choice(["a", "b", "c", "d"], rows, p=[0.5, 0.3, 0.15, 0.05])
    x = rng.normal(3, 2, rows) + (k == "c")
    y = 2 * x + np.array([1.0, -4.0, 7.0, 0.5])[np.searchsorted(["a", "b", "c", "d"], k)]
    return pl.DataFrame(
        {"k": k, "x": x, "w": rng.uniform(0, 2, rows), "y": y + rng.normal(size=rows)}
    ).with_columns(
        g=pl.Series(np.where(rng.random(rows) < 0.1, None, rng.choice(["u", "v"], rows))),
        flag=pl.Series(rng.random(rows) < expit(x - 3)).cast(pl.Int8),
        kind=pl.Series(rng.choice(["low", "mid", "top"], rows)),
    )


def mean_effect(frame: pl.DataFrame, column: str, coefficients: dict, weight: str | None) -> float:
    """Return ``sum of share(level) * coefficient(level)``, NULL being one more level."""
    names = pl.format(f"{column}.{{}}", pl.col(column).cast(pl.String)).fill_null(
        f"{column}.missing"
    )
    effects = frame.select(
        names.replace_strict(dict(coefficients), default=0.0, return_dtype=pl.Float64)
    ).to_series()
    weights = None if weight is None else frame[weight]
    return float(np.average(effects, weights=weights))


def models() -> dict[str, Callable[[], tuple[Any, str | None]]]:
    """Return models of k, x and g by every way that makes one, and their weights."""
    frame = categories()
    groups = {"k": ["k"], "x": ["x"], "g": ["g"]}
    gram = ds.gram(frame, ["k", "x", "g", "y"], null_policy={"g": "indicator"})
    weighted = ds.gram(frame, ["k", "x", "g", "y"], "w", null_policy={"g": "indicator"})
    used = frame.drop_nulls()
    return {
        "sequence": lambda: (ds.anytime_sequence(gram, "y", groups).at(), None),
        "ridge": lambda: (ds.anytime_sequence(weighted, "y", groups, ridge=0.1).at(), "w"),
        "foba": lambda: (ds.foba(gram, "y", groups).at(), None),
        "backward": lambda: (ds.backward(gram, "y", groups, ridge=0.1).model(3), None),
        "best_within": lambda: (ds.best_within(weighted, "y", 3.0, groups).model, "w"),
        "greedy": lambda: (ds.greedy(gram, "y", groups, k=3).model, None),
        "sght": lambda: (
            ds.sght(weighted, "y", groups, max_columns=7, max_groups=3).model, "w"
        ),
        "group_lasso": lambda: (ds.reference.group_lasso(gram, "y", groups).model(3), None),
        "lasso": lambda: (ds.lasso_path(weighted, "y").model(30), "w"),
        "fit": lambda: (ds.fit(weighted, "y", ["k", "x", "g", "g.missing"]), "w"),
        "joint": lambda: (
            ds.anytime_sequence(gram, ["y", "x"], {"k": ["k"], "g": ["g"]})
            .at().responses["y"], None,
        ),
        "origin": lambda: (
            ds.anytime_sequence(weighted, "y", groups, intercept=False, ridge=0.01).at(), "w"
        ),
        "fit through the origin": lambda: (
            ds.fit(gram, "y", ["k", "x", "g", "g.missing"], intercept=False), None
        ),
        "wide": lambda: (
            ds.anytime_sequence(used, "y", groups, weight="w", gram="lazy", max_groups=3).at(), "w"
        ),
        "binomial": lambda: (
            ds.fit(used, "flag", ["k", "x"], weight="w", ridge=0.01, family="binomial"), "w"
        ),
        "binomial through the origin": lambda: (
            ds.fit(used, "flag", ["k", "x"], intercept=False, ridge=0.01, family="binomial"), None
        ),
        "poisson": lambda: (
            ds.anytime_sequence(used.with_columns(pl.col("flag") + 1), "flag",
                                {"k": ["k"], "x": ["x"]}, family="poisson").at(), None,
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", list(models()))
def test_models_of_every_method_have_the_shares_of_their_levels(name):
    model, weight = models()[name]()
    frame = categories()
    if name.split()[0] in ("wide", "binomial", "poisson"):
        frame = frame.drop_nulls()
    coefficients = model.coefficients
    total = model.intercept + 4.0 * coefficients.get("x", 0.0)
    odd = {"k": ["new"], "x": [4.0], "g": ["new"]}
    for column in ("k", "g"):
        total += mean_effect(frame, column, coefficients, weight)
    expected = {"binomial": expit, "poisson": np.exp}.get(name.split()[0], float)(total)
    found = model.predict(pl.DataFrame(odd), handle_unknown="mean")
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert any(one.shares is not None for one in model.terms.categories)


def test_shares_are_of_models_and_not_of_records(connection):
    frame = categories().drop("g", "flag", "kind")
    gram = ds.gram(frame, ["k", "x", "y"])
    seq = ds.anytime_sequence(gram, "y")
    (category,) = seq.terms.categories
    counts = frame["k"].value_counts(normalize=True)
    shares = dict(counts.rows())
    np.testing.assert_allclose(category.shares, [*(shares[k] for k in "abcd"), 0.0], rtol=1e-12)
    assert seq.gram.terms == gram.terms == seq.terms
    again = ds.Terms.from_struct(json.loads(json.dumps(seq.terms.to_struct())))
    assert again.categories[0].shares == category.shares
    assert ds.Terms.from_json(seq.terms.to_json()).categories[0].shares == category.shares
    for one in (gram, seq.gram, ds.gram(frame, ["k", "x", "y"], terms=seq.terms)):
        assert "shares" not in one.to_struct()["terms"]
    merged = ds.gram(frame, ["k", "x", "y"], terms=seq.at().terms) + gram
    assert (merged.rows, merged.terms) == (600, gram.terms)
    # What SQL and Polars search by themselves has the same.
    connection.register("t", frame.to_arrow())
    query = "SELECT (anytime_sequence(gram({'k': k, 'x': x, 'y': y}), 'y')[1]).terms FROM t"
    (text,) = connection.execute(query).fetchone()
    record = frame.select(g=pl.struct("k", "x", "y").dbselect.gram())
    steps = record.select(s=pl.col("g").dbselect.anytime_sequence("y"))["s"][0]
    for found in (text, steps[0]["terms"], write_sequences([seq])[0].as_py()[0]["terms"]):
        np.testing.assert_allclose(
            ds.Terms.from_json(found).categories[0].shares, category.shares, rtol=1e-12
        )
    for wrong in ([0.5], [0.1] * 6, [0.2, 0.2, 0.2, 0.2, "x"]):
        record = json.loads(seq.terms.to_json())
        record["categories"][0]["shares"] = wrong
        with pytest.raises(ds.errors.RecordError):
            ds.Terms.from_struct(record)


def test_a_sequence_that_was_stored_without_shares_says_so(connection):
    frame = categories().select("k", "x", "flag", "y")
    seq = ds.anytime_sequence(frame.drop("flag"), "y")
    odd = pl.DataFrame({"k": ["new", "a"], "x": [1.0, 2.0]})
    words = "needs the share of each level of 'k' in the rows of the fit"
    bare = ds.results.Model(**{**vars(seq.at()), "terms": seq.at().terms.without_shares()})
    for call in (bare.expr, bare.sql, lambda **more: bare.predict(odd, **more)):
        with pytest.raises(ds.errors.ArgumentError, match=words):
            call(handle_unknown="mean")
    steps = write_sequences([seq]).to_pylist(maps_as_pydicts="strict")[0]
    steps[0]["terms"] = seq.gram.terms.to_json()
    pairs = [
        {**step, "coefficients": [{"key": k, "value": v} for k, v in step["coefficients"].items()]}
        for step in steps
    ]
    kind = pa.list_(STEP_TYPE)
    lists = [{**step, "coefficients": list(step["coefficients"].items())} for step in steps]
    connection.register("bare", pa.table({"s": pa.array([lists], kind)}))
    connection.register("odd", odd.to_arrow())
    call = "anytime_predict(s, odd, handle_unknown := 'mean')"
    with pytest.raises(duckdb.Error, match=words):
        connection.execute(f"SELECT {call} FROM odd, bare").fetchall()
    literal = pl.lit(pl.Series("s", [pairs], SEQUENCE_DTYPE)).first()
    with pytest.raises(pl.exceptions.ComputeError, match=words):
        odd.select(literal.dbselect.predict(pl.struct("k", "x"), handle_unknown="mean"))
    assert odd.select(p=literal.dbselect.predict(pl.struct("k", "x")))["p"][1]["step"] == 2
    glm = ds.anytime_sequence(frame.drop("y"), "flag", family="binomial")
    record = glm.to_struct()
    for predictor in record["predictors"]:
        predictor["sequence"][0]["terms"] = glm.terms.without_shares().to_json()
    with pytest.raises(ds.errors.ArgumentError, match=words):
        ds.results.GlmSequence.from_struct(record).predict(odd, handle_unknown="mean")
    # Rows that need no mean effect are judged; others are refused.
    assert ds.evaluate(bare, frame)["mse"].item() == pytest.approx(
        ds.evaluate(seq, frame)["mse"][-1], rel=1e-9
    )
    unseen = frame.with_columns(k=pl.lit("new"))
    for metric in (None, "mae"):
        with pytest.raises(ds.errors.DataError, match="stored without the share of each level"):
            ds.evaluate(bare, unseen, metric=metric)


@pytest.mark.filterwarnings("ignore::dbselect.errors.UnknownLevelWarning")
@pytest.mark.parametrize("family", ["gaussian", "binomial", "multinomial", "partly"])
def test_rows_of_other_levels_are_judged_with_the_mean_effect(family):
    frame = categories().drop("g")
    target = {"binomial": "flag", "multinomial": "kind"}.get(family, "y")
    options = {} if family in ("gaussian", "partly") else {"family": family}
    groups = (
        {"k": ["k"], "x": ["x"]} if family != "partly" else {"some": ["k.a", "k.b"], "x": ["x"]}
    )
    source = ds.gram(frame.select("k", "x", "y")) if family == "partly" else frame
    seq = ds.anytime_sequence(source, target, groups, **options)
    other = frame.with_columns(
        k=pl.when(pl.int_range(300) % 3 == 0).then(pl.lit("new")).otherwise("k")
    )
    judged, y = ds.evaluate(seq, other), other[target].to_numpy()
    for step in range(3):
        guess = seq.model(step).predict(other, handle_unknown="mean")
        if family == "multinomial":
            chance = guess[np.arange(300), np.searchsorted(seq.classes, y)]
            assert judged["deviance"][step] == pytest.approx(-2 * np.log(chance).mean(), rel=1e-9)
        elif family == "binomial":
            chance = np.where(y == 1, guess, 1 - guess)
            assert judged["deviance"][step] == pytest.approx(-2 * np.log(chance).mean(), rel=1e-9)
        else:
            assert judged["mse"][step] == pytest.approx(((y - guess) ** 2).mean(), rel=1e-9)
            errors = ds.evaluate(seq, other, metric="mae").table["mae"]
            assert errors[step] == pytest.approx(np.abs(y - guess).mean(), rel=1e-9)
            gram = ds.gram(other, ["k", "x", "y"])
            assert ds.evaluate(seq, gram)["mse"][step] == pytest.approx(judged["mse"][step])


# The longest prefix that a row can have


def numbers(rng: np.random.Generator, rows: int = 200) -> pl.DataFrame:
    X = rng.normal(size=(rows, 5))
    X[:, 3] += 0.8 * X[:, 0] + 0.5 * X[:, 1]
    y = X @ [3.0, 2.0, 1.0, 0.5, 0.3] + rng.normal(size=rows)
    return pl.DataFrame(X, schema=list("abcde")).with_columns(y=pl.Series(y))


COSTS = {"a": 1.0, "b": 2.0, "c": 0.5, "d": 1.5, "e": 4.0}


@cache
def searched(method: str) -> Any:
    gram = ds.gram(numbers(np.random.default_rng(3)))
    calls: dict[str, Callable[..., Any]] = {
        "anytime": ds.anytime_sequence,
        "foba": lambda *of, **more: ds.foba(*of, nu=0.9, **more),
        "backward": ds.backward,
    }
    return calls[method](gram, "y", costs=COSTS)


def by_hand(seq: Any, rows: pl.DataFrame, limits: Sequence[float]) -> list[tuple[float, int]]:
    """Return prediction and step of each row: least squares on the columns of its prefix."""
    fitted = numbers(np.random.default_rng(3))
    spent = seq.spent
    steps = list(range(len(spent)))[::-1]
    if len(spent) > 1 and spent[-1] == 0:
        steps = list(range(int(np.argmax(spent)), len(spent)))
    found = []
    for row, limit in zip(rows.to_dicts(), limits, strict=True):
        for step in steps:
            names = [seq.columns[j] for j in seq.columns_held(step)]
            values = [row.get(name) for name in names]
            if spent[step] > limit * (1 + 1e-12) or any(
                value is None or not np.isfinite(value) for value in values
            ):
                continue
            design = np.column_stack([np.ones(fitted.height), *(fitted[name] for name in names)])
            w, *_ = np.linalg.lstsq(design, fitted["y"].to_numpy())
            found.append((float(w @ np.r_[1.0, np.array(values, dtype=float)]), step))
            break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("method", ["anytime", "foba", "backward"])
@settings(max_examples=25)
@given(st.data())
def test_each_row_has_the_model_of_its_own_columns_and_budget(database, method, data):
    seq = searched(method)
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    rows = numbers(rng, 12).drop("y")
    holes = rng.random((12, 5)) < rng.choice([0.0, 0.1, 0.5])
    odd = rng.choice([np.nan, np.inf, -np.inf, 0.0], (12, 5))
    rows = rows.with_columns(
        **{
            name: pl.Series(
                [None if odd[i, j] == 0 else odd[i, j] if holes[i, j] else rows[name][i]
                 for i in range(12)] if holes[:, j].any() else rows[name], dtype=pl.Float64)
            for j, name in enumerate("abcde")
        }
    )  # fmt: skip
    budgets: list[float | None] = rng.choice([0.0, 0.5, 1.5, 3.0, 5.0, 9.0, np.inf], 12).tolist()
    budgets = [None if np.isinf(one) else one for one in budgets]
    limits = [np.inf if one is None else one for one in budgets]
    found = assert_all_doors(database, seq, rows, budget=budgets)
    expected = by_hand(seq, rows, limits)
    assert found["step"].to_list() == [step for _, step in expected]
    np.testing.assert_allclose(found["prediction"], [value for value, _ in expected], **CLOSE)
    np.testing.assert_array_equal(found["spent"], seq.spent[found["step"].to_numpy()])
    dropped = data.draw(st.lists(st.sampled_from("abcde"), min_size=1, unique=True))
    less = rows.drop(dropped).with_columns(key=pl.lit("text"))
    needed = {
        seq.columns[j]
        for step in range(len(seq.spent)) if seq.spent[step] <= max(limits) * (1 + 1e-12)
        for j in seq.columns_held(step)
    }  # fmt: skip
    if method != "backward" and needed & {*dropped}:
        with pytest.raises(ds.DbselectError, match="the rows lack column"):
            assert_all_doors(
                database, seq, less, budget=max(limits) if np.isfinite(max(limits)) else None
            )
    found = assert_all_doors(database, seq, less, budget=budgets, missing_columns="unavailable")
    expected = by_hand(seq, less, limits)
    assert found["step"].to_list() == [step for _, step in expected]
    np.testing.assert_allclose(found["prediction"], [value for value, _ in expected], **CLOSE)


def test_only_columns_that_the_budget_can_buy_are_needed(connection):
    seq = searched("anytime")
    order = seq.steps["group"].to_list()[1:]
    rows = numbers(np.random.default_rng(4), 5)
    for step in range(6):
        budget = float(seq.spent[step])
        bought = rows.select(*order[:step], "y")
        found = assert_all_doors(connection, seq, bought, budget=budget)
        assert set(found["step"]) == {step}
        np.testing.assert_allclose(found["prediction"], seq.model(step).predict(rows), **SAME)
        if step:
            words = f"the rows lack column '{order[step - 1]}', which the prediction reads"
            with pytest.raises(ds.DbselectError, match=words):
                assert_all_doors(connection, seq, bought.drop(order[step - 1]), budget=budget)
    # One row whose budget can buy a column that is not there is enough.
    budgets = [0.0, 0.0, float(seq.spent[1]), 0.0, 0.0]
    with pytest.raises(ds.DbselectError, match=f"the rows lack column '{order[0]}'"):
        assert_all_doors(connection, seq, rows.drop(order[0]), budget=budgets)
    named = rows.rename({order[0]: order[0].upper() + "x"})
    with pytest.raises(ds.errors.ColumnError, match="the rows lack column"):
        seq.predict(named)
    several = rows.select("y").with_columns(alpha=1.0)
    listed = ", ".join(f"'{name}'" for name in order)
    with pytest.raises(ds.DbselectError, match=f"the rows lack columns {listed}, which"):
        assert_all_doors(connection, seq, several)


def test_a_budget_for_each_row_may_be_missing():
    pd = pytest.importorskip("pandas", reason="a Series of pandas is a budget")
    seq, rows = searched("anytime"), numbers(np.random.default_rng(5), 3)
    cheap, whole = seq.predict(rows, budget=1.0), seq.predict(rows)
    expected = [cheap[0], whole[1], cheap[2]]
    for budget in (
        [1.0, None, 1.0], np.array([1.0, np.nan, 1.0]), pl.Series([1.0, None, 1.0]),
        pd.Series([1.0, None, 1.0]), pd.Series([1, None, 1], dtype="Int64"), [1, np.inf, 1],
    ):  # fmt: skip
        np.testing.assert_allclose(seq.predict(rows, budget), expected, rtol=1e-12)
    np.testing.assert_array_equal(seq.predict(rows, np.array(1.0)), cheap)
    assert seq.predict(rows[:0], budget=[]).shape == (0,)
    for budget, words in (
        ([1.0, 2.0], "budget has 2 values; there are 3 rows"),
        ([1.0, -2.0, 1.0], r"budget is -2\.0 in a row; it must be a number >= 0"),
        (pl.Series([1.0, float("nan"), 1.0]), "budget is nan in a row"),
        (float("nan"), "budget is nan; it must be a number >= 0"),
        (-1, "budget is -1; it must be a number >= 0"),
        ("3", "budget is '3'"),
        (["a", "b", "c"], "budget is a list; it must be a number, or one for each row"),
        ([[1.0], [1.0], [1.0]], r"budget has shape \(3, 1\)"),
    ):
        with pytest.raises(ds.errors.ArgumentError, match=words):
            seq.predict(rows, budget)


def test_a_level_not_seen_is_an_error_where_a_prefix_is_tried_that_reads_it(connection):
    frame = categories().select("k", "x", "y")
    seq = ds.anytime_sequence(frame, "y", costs={"k": 2.0, "x": 1.0})
    assert seq.steps["group"].to_list() == [None, "x", "k"]
    odd = frame.head(4).with_columns(k=pl.Series(["new", "a", "b", None]))
    told = {"handle_unknown": "error"}
    beyond = assert_all_doors(connection, seq, odd, budget=2, **told)
    assert beyond["step"].to_list() == [1, 1, 1, 1]
    words = "column 'k' has the level 'new', which the fit has not seen"
    for rows in (odd, odd.with_columns(x=pl.lit(None, pl.Float64))):
        for budget in (None, [3.0, 0.0, 0.0, 0.0]):
            with pytest.raises(ds.DbselectError, match=words):
                assert_all_doors(connection, seq, rows, budget=budget, **told)
        found = assert_all_doors(connection, seq, rows, budget=[2.0, 3.0, 3.0, 3.0], **told)
        assert found["step"].to_list() == ([1, 2, 2, 1] if rows is odd else [0, 0, 0, 0])
    # A prefix that is not tried, as a column of it is absent, reads nothing.
    found = assert_all_doors(connection, seq, odd.drop("x"), missing_columns="unavailable", **told)
    assert found["step"].to_list() == [0, 0, 0, 0]


def test_what_lies_in_a_field_of_nothing_is_missing_and_not_absent(connection):
    rng = np.random.default_rng(7)
    frame = pl.DataFrame({"age": rng.normal(size=50), "z": rng.normal(size=50)})
    frame = frame.select(pl.struct("age").alias("demo"), "z", y=pl.col("age") * 3 + pl.col("z"))
    seq = ds.anytime_sequence(frame, "y")
    rows = pl.DataFrame({"demo": [None, None], "z": [1.0, 2.0]})
    found = assert_all_doors(connection, seq, rows)
    assert set(found["step"]) == {0}
    assert np.isnan(seq.at().predict(rows)).all()
    for wrong in (rows.drop("demo"), rows.with_columns(demo=pl.struct(height=1.0))):
        with pytest.raises(ds.DbselectError, match=r"the rows lack column 'demo\.age'"):
            assert_all_doors(connection, seq, wrong)


# Families


@pytest.mark.parametrize("family", ["binomial", "multinomial"])
def test_sql_and_python_predict_the_same_of_a_family(connection, tmp_path, family):
    frame = categories()
    target = "flag" if family == "binomial" else "kind"
    seq = ds.anytime_sequence(
        frame.drop("g", "y", "w", "kind" if family == "binomial" else "flag"), target, family=family
    )
    rng = np.random.default_rng(8)
    rows = categories(80).with_columns(
        x=pl.when(pl.Series(rng.random(80) > 0.2)).then("x"),
        k=pl.when(pl.Series(rng.random(80) > 0.2)).then("k").otherwise(pl.lit("new")),
    )
    connection.register("rows_", rows.with_row_index("row_").to_arrow())
    seq.write_parquet(tmp_path / "s.parquet")
    connection.execute(f"CREATE TABLE s AS SELECT s FROM '{tmp_path / 's.parquet'}' AS s")
    order = seq.steps["group"].to_list()
    for unknown, columns in (("unavailable", "k, x"), ("mean", "k, x"), ("unavailable", order[1])):
        options = {"handle_unknown": unknown, "missing_columns": "unavailable"}
        given = ", ".join(f"{name} := '{value}'" for name, value in options.items())
        query = (
            f"SELECT unnest(glm_predict(s, r, {given})) FROM s, "
            f"(SELECT row_, {{{', '.join(f'{n!r}: {n}' for n in columns.split(', '))}}} AS r "
            "FROM rows_) ORDER BY row_"
        )
        by_sql = pl.DataFrame(connection.sql(query).to_arrow_table())
        own = rows.select(columns.split(", "))
        found = seq.anytime_predict(own, **options)
        assert (
            found.select("step", "spent", "next_group").rows()
            == by_sql.select("step", "spent", "next_group").rows()
        )
        assert len(set(found["step"])) > 1
        values = seq.predict(own, **options)
        assert np.isfinite(values).all()
        for i, step in enumerate(found["step"]):
            np.testing.assert_allclose(
                values[i], _by_hand(seq, step, own.row(i, named=True)), **SAME
            )
        if family == "binomial":
            np.testing.assert_allclose(by_sql["prediction"], values, **SAME)
            np.testing.assert_allclose(found["prediction"], values, rtol=0)
        else:
            each = [[dict(row)[k] for k in seq.classes] for row in by_sql["probabilities"]]
            np.testing.assert_allclose(each, values, **SAME)
            assert found["prediction"].struct.fields == list(seq.classes)
            np.testing.assert_array_equal(found["prediction"].struct.unnest().to_numpy(), values)
    with pytest.raises(duckdb.Error, match="the rows lack column 'k'"):
        connection.sql("SELECT glm_predict(s, {'x': 1.0}) FROM s").fetchall()
    found = connection.sql("SELECT (glm_predict(s, {'x': NULL, 'k': 'a'})).step FROM s").fetchall()
    assert len(found) == 1  # the connection goes on


def _by_hand(seq: ds.results.GlmSequence, step: int, row: dict[str, Any]) -> Any:
    """Return the mean of the target, the levels of a row looked up one by one."""
    train = categories()
    model = seq.model(step)
    several = bool(seq.classes)
    eta = []
    for name in seq.classes or [None]:
        own = model.coefficients[name] if several else model.coefficients
        total = model.intercept[name] if several else model.intercept
        if "x" in own:
            total += own["x"] * row["x"]
        if any(column.startswith("k.") for column in own):
            key = f"k.{row['k']}"
            total += own[key] if key in own else mean_effect(train, "k", own, None)
        eta.append(total)
    return softmax(eta) if several else expit(eta[0])


def test_an_offset_is_needed_by_every_prefix():
    frame = categories().with_columns(o=pl.col("w").log().clip(-2)).select("x", "k", "o", "flag")
    seq = ds.anytime_sequence(frame, "flag", family="poisson", offset="o")
    rows = pl.DataFrame({"x": [1.0, None, 1.0], "k": ["a", "new", "b"], "o": [0.0, 0.5, None]})
    found = seq.anytime_predict(rows)
    assert found["step"].to_list() == [2, 0, None]
    np.testing.assert_allclose(found["prediction"][1], np.exp(seq.intercept[0, 0] + 0.5))
    assert found.row(2) == (None, None, None, None)
    assert np.isnan(seq.predict(rows)).tolist() == [False, False, True]
    with pytest.raises(ds.errors.ColumnError, match="the rows lack column 'o'"):
        seq.predict(rows.drop("o"), budget=0)
    assert np.isnan(seq.predict(rows.drop("o"), missing_columns="unavailable")).all()


def test_several_responses_fall_back_together():
    frame = numbers(np.random.default_rng(9)).with_columns(z=pl.col("a") - pl.col("c"))
    seq = ds.anytime_sequence(frame, ["y", "z"])
    rows = frame.head(6).with_columns(
        **{name: pl.when(pl.int_range(6) != at).then(name) for at, name in enumerate("abcde")}
    )
    found = seq.anytime_predict(rows)
    for name, own in seq.responses.items():
        alone = own.anytime_predict(rows)
        np.testing.assert_allclose(found["prediction"].struct[name], alone["prediction"], **SAME)
        assert found.drop("prediction").equals(alone.drop("prediction"))
    assert len(set(found["step"])) == 6


@pytest.mark.parametrize("null_policy", ["skip", "indicator"])
def test_a_row_of_numbers_is_predicted_as_a_frame_of_it(null_policy):
    rng = np.random.default_rng(5)
    rows = pl.DataFrame(rng.normal(size=(200, 3)), schema=["a", "b", "y"])
    rows = rows.with_columns(pl.when(pl.col("a") < 1.5).then("a"))
    model = ds.fit(rows, "y", null_policy=null_policy)
    for row in ({"b": 2, "other": 1.5, "a": -0.5}, {"a": float("nan"), "b": 1.0}):
        np.testing.assert_array_equal(model.predict(row), model.predict(pl.DataFrame([row])))
    with pytest.raises(ds.errors.ColumnError, match="lack"):
        model.predict({"a": 1.0})
    with pytest.raises(ds.errors.ArgumentError, match="X holds something else than numbers"):
        model.predict({"a": 10**400, "b": 1.0})


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_value_predicts_nothing_in_every_door(value):
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(rng.normal(size=(40, 3)), schema=["a", "b", "y"])
    model = ds.fit(frame, "y")
    rows = frame.head(2).with_columns(a=pl.Series([0.5, value]))
    found = model.predict(rows)
    assert np.isfinite(found).tolist() == [True, False]
    assert np.isnan(model.predict({"a": value, "b": 1.0})).all()
    with ds.connect() as con:
        con.register("t", frame.to_arrow())
        con.register("rows", rows.to_arrow())
        query = "SELECT predict((SELECT fit(gram(t), 'y') FROM t), r) FROM rows r"
        told = [row[0] for row in con.execute(query).fetchall()]
    assert told[0]["prediction"] == pytest.approx(found[0])
    assert told[1] is None

"""Prediction from whatever groups have arrived: each pattern is the refit on its columns."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import dbselect as ds
from dbselect.record.gram import RECORD_DTYPE

GROUPS = {"sky": ["x0", "x1"], "route": ["z"], "firm": ["k"], "age": ["u"]}
COSTS = {"sky": 25.0, "route": 0.5, "firm": 0.2, "age": 8.0}
ROWS = 200


def schema(seed: int) -> tuple[pl.DataFrame, ds.Terms]:
    """Return a random table of numbers, a text and a curve, and its terms."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, 3)) @ rng.normal(size=(3, 3))
    k = rng.choice(["AA", "UA", "B6"], ROWS)
    u = rng.uniform(0, 10, ROWS)
    y = x @ [1.0, -0.5, 0.3] + np.sin(u) + (k == "AA") * 1.5 + rng.normal(size=ROWS)
    w = rng.integers(1, 4, ROWS).astype(float)
    frame = pl.DataFrame({"x0": x[:, 0], "x1": x[:, 1], "z": x[:, 2], "k": k, "u": u})
    frame = frame.with_columns(y=y, w=w)
    return frame, ds.terms(frame, categories=["k"], basis={"u": ("spline", 4)})


class Refit:
    """Least squares on some columns by numpy, weighted, with a ridge on unit variances."""

    def __init__(self, X: np.ndarray, y: np.ndarray, w: np.ndarray, ridge: float) -> None:
        share = w / w.sum()
        self.mean, self.level = share @ X, share @ y
        centred, left = X - self.mean, y - self.level
        spread = np.sqrt(share @ centred**2)
        root = np.sqrt(share)
        rows = np.vstack([root[:, None] * centred, np.sqrt(ridge) * np.diag(spread)])
        target = np.concatenate([root * left, np.zeros(X.shape[1])])
        self.coef, *_ = np.linalg.lstsq(rows, target, rcond=1e-10)
        total, rss = share @ left**2, share @ (left - centred @ self.coef) ** 2
        self.r2 = 1 - rss / total
        self.explained = self.r2 - ridge * (spread * self.coef) @ (spread * self.coef) / total
        kept = np.flatnonzero(share @ centred**2)
        hat = rows[:, kept] @ np.linalg.pinv(rows[:, kept], rcond=1e-10) if X.size else rows[:0, :0]
        degrees = np.trace(hat[: len(y), : len(y)])
        self.sigma = np.sqrt(rss * w.sum() / (len(y) - degrees - 1))

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.level + (X - self.mean) @ self.coef


def patterns() -> list[list[str]]:
    return [list(one) for n in range(len(GROUPS) + 1) for one in combinations(GROUPS, n)]


@pytest.mark.parametrize(("seed", "ridge"), [(0, 0.0), (1, 0.0), (2, 0.1), (3, 0.5)])
def test_every_pattern_is_the_refit_on_its_columns(seed, ridge):
    frame, terms = schema(seed)
    weight = "w" if seed % 2 else None
    problem = ds.Problem(frame, "y", GROUPS, COSTS, weight=weight, ridge=ridge, terms=terms)
    predictor = problem.predictor()
    made = terms.transform(frame)
    w = frame["w"].to_numpy() if weight else np.ones(ROWS)

    def refit(groups: list[str]) -> tuple[Refit, np.ndarray]:
        columns = [name for one in groups for name in predictor.groups.columns[one]]
        X = made.select(columns).to_numpy() if columns else np.empty((ROWS, 0))
        return Refit(X, frame["y"].to_numpy(), w, ridge), X

    for groups in patterns():
        own, X = refit(groups)
        gone = [name for one in GROUPS if one not in groups for name in GROUPS[one]]
        lost = frame.with_columns(pl.lit(None, frame.schema[name]).alias(name) for name in gone)
        found = predictor.predict(lost)
        assert found["groups"][0].to_list() == groups
        assert np.allclose(found["prediction"], own.predict(X), atol=1e-9)
        assert found["r2"][0] == pytest.approx(own.r2, abs=1e-10)
        assert found["sigma"][0] == pytest.approx(own.sigma, rel=1e-9)
        assert found["spent"][0] == pytest.approx(sum(COSTS[one] for one in groups))
        gains = {
            one: refit([name for name in GROUPS if name in groups or name == one])[0].explained
            - own.explained
            for one in GROUPS
            if one not in groups
        }
        (pattern,) = predictor.patterns([groups])
        told = dict(zip(GROUPS, pattern["gains"], strict=True))
        assert told == pytest.approx(gains | dict.fromkeys(groups, 0.0), abs=1e-10)
        best = max(gains, key=lambda one: gains[one] / COSTS[one], default=None)
        assert found["next_group"][0] == best
        if best is not None:
            assert found["next_gain"][0] == pytest.approx(gains[best], abs=1e-10)
            assert found["next_cost"][0] == COSTS[best]
        one = predictor.predict(lost.drop("y", "w").row(5, named=True))
        told = found.row(5, named=True)
        assert one.pop("groups") == told.pop("groups")
        assert one == pytest.approx(told, abs=1e-9)


@pytest.fixture(scope="module")
def mixed() -> pl.DataFrame:
    """Rows of one table, each with some groups."""
    frame, _ = schema(5)
    rng = np.random.default_rng(9)
    for name, columns in GROUPS.items():
        gone = pl.Series(rng.random(ROWS) < (0.3 if name != "sky" else 0.1))
        frame = frame.with_columns(pl.when(~gone).then(pl.col(columns)) for columns in columns)
    return frame.drop("w")


@pytest.fixture(scope="module")
def problem() -> ds.Problem:
    frame, _ = schema(5)
    return ds.Problem(ds.gram(frame.drop("w")), "y", GROUPS, COSTS)


def test_rows_of_all_patterns_come_back_in_their_order(mixed, problem):
    predictor = problem.predictor()
    found = predictor.predict(mixed, level=0.9)
    assert found["groups"].n_unique() > 10
    rows = mixed.drop("y").iter_rows(named=True)
    each = [predictor.predict(row, level=0.9) for row in rows]
    assert [one["groups"] for one in each] == found["groups"].to_list()
    for name in found.columns[2:]:
        values = [one[name] for one in each]
        assert values == (values if name == "next_group" else pytest.approx(found[name].to_list()))
    assert found["next_group"].to_list() == [one["next_group"] for one in each]
    shuffled = mixed.sample(fraction=1.0, shuffle=True, seed=3).with_row_index()
    again = predictor.predict(shuffled)
    assert (
        again["prediction"].to_list()
        == (mixed.with_columns(found["prediction"]).sample(fraction=1.0, shuffle=True, seed=3))[
            "prediction"
        ].to_list()
    )


@pytest.fixture(scope="module")
def gappy() -> tuple[pl.DataFrame, ds.Problem, np.ndarray]:
    """Return rows of 30 patterns of 20 groups, what is missing in them, and the problem."""
    rng = np.random.default_rng(11)
    names = [f"x{number}" for number in range(20)]
    X = rng.normal(size=(10_000, 20)) @ rng.normal(size=(20, 20))
    whole = pl.DataFrame(X, schema=names).with_columns(y=X @ rng.normal(size=20))
    problem = ds.Problem(ds.gram(whole.head(300)), "y", {name: [name] for name in names})
    gone = (rng.random((30, 20)) < 0.2)[rng.integers(0, 30, len(X))]
    kinds = pl.DataFrame({"kind": rng.integers(0, 3, len(X))})["kind"]
    empty = [None, np.nan, np.inf]
    lost = whole.with_columns(
        pl.when(pl.Series(gone[:, at])).then(kinds.replace_strict([0, 1, 2], empty)).otherwise(name)
        .alias(name)
        for at, name in enumerate(names)
    )  # fmt: skip
    return lost.drop("y"), problem, gone


def test_many_rows_of_more_groups_than_a_byte_has_bits(gappy):
    lost, problem, gone = gappy
    gram, predictor = problem.source, problem.predictor()
    X = np.where(gone, 0.0, lost.to_numpy())
    found = predictor.predict(lost)
    assert found["groups"].n_unique() == len(np.unique(gone, axis=0)) > 20
    for pattern in np.unique(gone, axis=0):
        has, rows = np.flatnonzero(~pattern), (gone == pattern).all(axis=1)
        moments = gram.comoment[np.ix_([*has, 20], [*has, 20])]
        coef = np.linalg.lstsq(moments[:-1, :-1], moments[:-1, -1], rcond=None)[0]
        told = gram.mean[20] + (X[rows][:, has] - gram.mean[has]) @ coef
        assert np.allclose(found["prediction"].to_numpy()[rows], told, atol=1e-6)
        names = [f"x{at}" for at in has]
        assert found.filter(pl.Series(rows))["groups"].to_list() == [names] * rows.sum()
    # A record a row, in two pieces, and a budget a row, one of which is no limit.
    records = pl.Series("gram", [gram.to_struct(), None], dtype=RECORD_DTYPE)
    frame = lost.with_columns(
        gram=records.gather(pl.Series(np.arange(len(lost)) % 7 == 3).cast(int))
    )
    call = pl.col("gram").dbselect.predict_available("y", pl.struct(lost.columns))
    each = pl.concat([frame[:5_000], frame[5_000:]], rechunk=False).select(call).unnest("gram")
    nobody = np.arange(len(lost)) % 7 == 3
    assert each["prediction"].is_null().to_list() == nobody.tolist()
    found_only = each.filter(~nobody).select(found.columns)
    assert found_only.equals(found.filter(~nobody))


def test_a_budget_limits_what_may_still_be_bought(mixed, problem):
    predictor = problem.predictor()
    limits = np.resize([np.nan, 0.3, 1.0, 10.0, 0.0], ROWS)
    found = predictor.predict(mixed, budget=limits)
    free = predictor.predict(mixed)
    assert found["prediction"].equals(free["prediction"])
    for row, limit in zip(found.iter_rows(named=True), limits.tolist(), strict=True):
        (pattern,) = predictor.patterns([row["groups"]])
        gains = dict(zip(GROUPS, pattern["gains"], strict=True))
        can = [one for one in gains if gains[one] > 0 and not COSTS[one] > limit]
        best = max(can, key=lambda one: gains[one] / COSTS[one], default=None)
        assert row["next_group"] == best
    one = {"k": "AA"}
    assert predictor.predict(one, budget=0.1)["next_group"] is None
    assert predictor.predict(one, budget=0.5)["next_group"] == "route"


def asked_of(connection: Any, query: str) -> pl.DataFrame:
    return pl.DataFrame(connection.sql(query).to_arrow_table())


def test_every_door_answers_the_same(mixed, problem, connection):
    expected = problem.predictor().predict(mixed, budget=9.0, level=0.9)
    record = problem.source.to_struct()
    asked = pl.DataFrame({"g": [record]}).join(mixed, how="cross")
    by_expression = asked.select(
        pl.col("g").dbselect.predict_available(
            "y", pl.struct(mixed.columns), GROUPS, COSTS, budget=9.0, level=0.9
        ).alias("found")
    ).unnest("found")  # fmt: skip
    assert by_expression.select(expected.columns).equals(expected)
    connection.register("mixed", mixed.to_arrow())
    connection.register("records", pl.DataFrame({"g": [record]}).to_arrow())
    call = (
        "predict_available(g, 'y', t, groups := {'sky': ['x0', 'x1'], 'route': ['z'], "
        "'firm': ['k'], 'age': ['u']}, costs := {'sky': 25, 'route': 0.5, 'firm': 0.2, 'age': 8}, "
        "budget := 9, level := 0.9)"
    )
    for name in (call, f"dbselect.{call}"):
        by_sql = asked_of(connection, f"SELECT unnest({name}) FROM (FROM mixed) AS t, records")
        assert by_sql.select(expected.columns).equals(expected)
    plain = asked_of(
        connection,
        "SELECT system.main.predict_available(g, 'y', t, {'groups': {'f': 'k'}}).groups AS g "
        "FROM mixed AS t, records LIMIT 3",
    )
    assert plain["g"].list.len().max() <= 1


def test_a_stored_predictor_answers_the_same(tmp_path, mixed, problem, connection):
    predictor = problem.predictor()
    expected = predictor.predict(mixed)
    predictor.write_parquet(tmp_path / "p.parquet")
    predictor.write_json(tmp_path / "p.json")
    for name in ("p.parquet", "p.json"):
        again = ds.read(tmp_path / name)
        assert isinstance(again, ds.AnytimePredictor)
        assert again.predict(mixed).equals(expected)
        assert again.problem == predictor.problem
    assert pickle.loads(pickle.dumps(predictor)).predict(mixed).equals(expected)
    connection.register("mixed", mixed.to_arrow())
    found = asked_of(
        connection,
        "SELECT predict_available(gram, 'y', t, missing_columns := 'error').prediction AS p "
        f"FROM mixed AS t, '{tmp_path}/p.parquet'",
    )
    alone = ds.AnytimePredictor(predictor.gram, "y").predict(mixed)
    assert found["p"].to_list() == pytest.approx(alone["prediction"].to_list())


def test_threads_share_a_predictor(mixed, problem):
    predictor = problem.predictor()
    rows = list(mixed.drop("y").iter_rows(named=True))
    expected = [problem.predictor().predict(row) for row in rows[:40]]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(predictor.predict, rows[:40])) == expected


def test_what_a_row_may_not_hold_is_refused_in_a_sentence(mixed, problem):
    predictor = problem.predictor()
    wrong = [
        ({"x0": "12"}, "the row has '12' in column 'x0'"),
        ({"k": 3}, "the row has 3 in column 'k'; the levels of its category are text"),
        ({"x0": date(2024, 1, 1)}, "the row has a date in column 'x0'; the fit has read a number"),
        ({"x0": np.array([1.0, np.nan])}, r"the row has \[1.0,null\] in column 'x0'"),
        ({"x0": 10**400}, "the row cannot be read: number out of range"),
        ([{"x0": 1.0}, None], "row 1 is None; it must be a mapping, as the first is"),
        (mixed.with_columns(k=pl.lit(3)), "column 'k' has type"),
    ]
    for rows, message in wrong:
        with pytest.raises(ds.DbselectError, match=message):
            predictor.predict(rows)
    for rows in ({"k": "AA"}, mixed.drop("z")):
        with pytest.raises(ds.errors.ColumnError, match=r"lack.*'z'"):
            predictor.predict(rows, missing_columns="error")
    new = {"k": "new", "z": 1.0}
    assert predictor.predict(new)["groups"] == ["route"]
    assert predictor.predict(new, handle_unknown="mean")["groups"] == ["route", "firm"]
    for rows in (new, pl.DataFrame([new])):
        with pytest.raises(ds.DbselectError, match="has the level"):
            predictor.predict(rows, handle_unknown="error", missing_columns="unavailable")
    for options in ({"budget": -1}, {"level": 1.0}, {"handle_unknown": "no"}):
        with pytest.raises(ds.errors.ArgumentError, match=next(iter(options))):
            predictor.predict(mixed, **options)
        with pytest.raises(ds.errors.ArgumentError, match=next(iter(options))):
            predictor.predict({"k": "AA"}, **options)


def test_a_name_that_is_nearly_a_field_is_a_mistake():
    table = pl.DataFrame({"weather": [1.0, 2.0, 4.0], "y": [1.0, 2.0, 3.0]})
    predictor = ds.AnytimePredictor(table, "y")
    with pytest.raises(ds.errors.ColumnError, match="unknown column 'weater'; there is 'weather'"):
        predictor.predict({"weater": 1.0})
    with pytest.raises(ds.errors.ColumnError, match="unknown column 'weater'; there is 'weather'"):
        predictor.predict([{"weather": 1.0}, {"weater": 1.0}])
    with pytest.raises(ds.errors.ColumnError, match="unknown column 'weater'; there is 'weather'"):
        predictor.predict(pl.DataFrame({"weater": [1.0]}))
    assert predictor.predict({"id": 7})["groups"] == []
    predictor = ds.AnytimePredictor(table, "y", {"sky": ["weather"]})
    with pytest.raises(ds.errors.ColumnError, match="'sky', which is a group; give its columns"):
        predictor.predict({"sky": 1.0})


def test_a_list_of_mappings_is_read_as_each_of_them(problem):
    predictor = problem.predictor()
    rows = [*[{"k": "AA"}] * 150, {"k": None, "z": 1.5}, {"x0": 1.0, "x1": 2.0, "u": 3.0}]
    budgets = [1.0, 30.0] * 76
    found = predictor.predict(rows, budgets)
    for told, row, budget in zip(found.to_dicts(), rows, budgets, strict=True):
        one = predictor.predict(row, budget)
        assert (told.pop("groups"), told.pop("next_group")) == (
            one.pop("groups"), one.pop("next_group"),
        )  # fmt: skip
        assert told == pytest.approx(one)
    with pytest.raises(ds.errors.ColumnError, match="missing_columns='unavailable' allows"):
        predictor.predict(rows[:1], missing_columns="error")


def test_what_no_pattern_can_have_is_refused(problem):
    frame, _ = schema(5)
    late = frame.with_columns(y=(pl.col("y") > 0).cast(int))
    with pytest.raises(ds.errors.ArgumentError, match=r"family is 'binomial'; every set of groups"):
        ds.AnytimePredictor(late, "y", family="binomial")
    with pytest.raises(ds.errors.ArgumentError, match=r"target is .*; it must be one column"):
        ds.AnytimePredictor(frame, ["y", "z"])
    with pytest.raises(ds.errors.ArgumentError, match=r"costs is .*problem.replace\(costs="):
        ds.AnytimePredictor(problem, costs={"sky": 1.0})
    with pytest.raises(ds.errors.DataError, match="constant"):
        ds.AnytimePredictor(frame.with_columns(y=pl.lit(1.0)), "y")
    with pytest.raises(ds.errors.GroupError, match="unknown group 'skY'"):
        problem.predictor().patterns([["skY"]])


def test_fields_that_the_fit_filled_are_always_there():
    frame, _ = schema(6)
    holes = frame.with_columns(z=pl.when(pl.int_range(pl.len()) % 5 > 0).then("z")).drop("k", "w")
    predictor = ds.AnytimePredictor(holes, "y", null_policy={"z": "indicator"})
    rows = holes.with_columns(x0=pl.lit(None, pl.Float64)).head(6)
    found = predictor.predict(rows)
    assert found["groups"].to_list() == [["x1", "z", "u"]] * 6
    filled = holes.with_columns(pl.col("z").fill_null(0.0), m=pl.col("z").is_null().cast(float))
    X = filled.select("x1", "z", "m", "u").to_numpy()
    own = Refit(X, holes["y"].to_numpy(), np.ones(ROWS), 0.0).predict(X)
    assert found["prediction"].to_list() == pytest.approx(own[:6].tolist())
    one = predictor.predict(rows.row(0, named=True))
    assert one["prediction"] == pytest.approx(own[0])


def test_through_the_origin():
    frame, _ = schema(7)
    predictor = ds.AnytimePredictor(frame.select("x0", "x1", "z", "y"), "y", intercept=False)
    X = frame.select("x0", "z").to_numpy()
    coef, *_ = np.linalg.lstsq(X, frame["y"].to_numpy(), rcond=None)
    found = predictor.predict(frame.with_columns(x1=pl.lit(None, pl.Float64)))
    assert np.allclose(found["prediction"], X @ coef)


@pytest.mark.parametrize("family", ["binomial", "poisson", "gamma(log)"])
def test_a_projection_of_a_family_is_near_its_refits(tmp_path, family):
    rng = np.random.default_rng(12)
    a, b, c = rng.normal(size=(3, 3000))
    eta = 0.6 * a - 0.4 * b + 0.3 * c
    draws = {
        "binomial": rng.random(3000) < 1 / (1 + np.exp(-eta)),
        "poisson": rng.poisson(np.exp(eta)),
        "gamma(log)": rng.gamma(2.0, np.exp(eta) / 2.0),
    }
    frame = pl.DataFrame({"a": a, "b": b, "c": c, "y": draws[family].astype(float)})
    problem = ds.Problem(frame, "y", family=family)
    predictor = problem.predictor(approximate=True)
    full = problem.fit()
    assert np.allclose(predictor.predict(frame)["prediction"], full.predict(frame), atol=1e-6)
    for groups in (["a"], ["a", "c"], ["b"]):
        lost = frame.with_columns(
            pl.lit(None, pl.Float64).alias(name) for name in "abc" if name not in groups
        )
        found = predictor.predict(lost)["prediction"].to_numpy()
        refit = ds.fit(frame, "y", groups, family=family).predict(frame)
        # Of the spread of the predictions.
        error = np.sqrt(np.mean((found - refit) ** 2)) / refit.std()
        assert error < {"binomial": 0.01, "poisson": 0.01, "gamma(log)": 0.05}[family]
        one = predictor.predict(lost.drop("y").row(7, named=True))
        assert one["prediction"] == pytest.approx(found[7])
    predictor.write_parquet(tmp_path / "p.parquet")
    again = ds.read(tmp_path / "p.parquet").predict(lost)
    assert again["prediction"].to_list() == pytest.approx(found.tolist())
    with pytest.raises(ds.errors.ArgumentError, match=r"level is 0\.9; of a family"):
        predictor.predict(frame, level=0.9)


def test_a_mapping_may_hold_what_python_has_for_numbers_and_dates():
    rng = np.random.default_rng(13)
    day = pl.date(2024, 1, 1) + pl.duration(days=pl.Series(rng.integers(0, 300, 90)))
    frame = pl.select(day.alias("day")).with_columns(
        x=pl.Series(rng.normal(size=90)), n=pl.Series(rng.integers(0, 9, 90))
    )
    frame = frame.with_columns(at=pl.col("day").cast(pl.Datetime) + pl.duration(hours=7))
    y = frame["day"].dt.ordinal_day() * 0.1 + frame["x"] + pl.Series(rng.normal(size=90))
    predictor = ds.AnytimePredictor(frame.with_columns(y=y), "y")
    found = predictor.predict(frame)["prediction"]
    for at in range(5):
        row = frame.row(at, named=True)
        assert predictor.predict(row)["prediction"] == pytest.approx(found[at])
        other = {**row, "x": np.float32(row["x"]), "n": Decimal(row["n"])}
        assert predictor.predict(other)["prediction"] == pytest.approx(found[at], rel=1e-5)
    for missing in (None, float("nan"), np.float32("nan"), float("inf")):
        assert "x" not in predictor.predict({"x": missing, "n": 1})["groups"]
    nested = pl.DataFrame({"demo": [{"age": float(k)} for k in range(9)], "y": range(9)})
    predictor = ds.AnytimePredictor(nested, "y", {"d": ["demo"]})
    assert predictor.predict({"demo": {"age": 3.5}})["prediction"] == pytest.approx(3.5)
    assert predictor.predict({"demo": None})["groups"] == []


@pytest.mark.parametrize("ridge", [1e-12, 0.05, 0.4, 4.0])
@pytest.mark.parametrize("rows", [3, 5, 12])
def test_an_interval_has_the_effective_degrees_of_freedom(rows, ridge):
    rng = np.random.default_rng(rows)
    frame = pl.DataFrame(rng.normal(size=(rows, 3)), ["a", "b", "y"])
    X = stats.zscore(frame.select("a", "b").to_numpy())
    C = X.T @ X / rows
    free = rows - 1 - np.trace(np.linalg.solve(C + ridge * np.eye(2), C))
    predictor = ds.AnytimePredictor(frame, "y", ridge=ridge)
    row = {"a": 0.5, "b": -1.0}
    one = predictor.predict(row, level=0.9)
    if free < 1e-9:
        return
    reach = stats.t.ppf(0.95, free) * one["sigma"]
    assert one["upper"] - one["prediction"] == pytest.approx(reach, rel=1e-6)
    several = predictor.predict(pl.DataFrame([row]), level=0.9)
    assert several["lower"][0] == pytest.approx(one["prediction"] - reach, rel=1e-6)


@pytest.mark.parametrize(
    ("near", "warning"),
    [(3e-6, ds.errors.ConditionWarning), (3e-7, ds.errors.DependenceWarning)],
)
def test_nearly_dependent_columns_are_warned_of_as_in_fit(near, warning):
    x, z, noise = np.random.default_rng(2).normal(size=(3, 200))
    frame = pl.DataFrame({"x": x, "other": x + near * z, "y": z + 0.1 * noise})
    for call in (ds.AnytimePredictor, ds.fit):
        with pytest.warns(warning) as found:
            call(frame, "y")
        assert [one.filename for one in found] == [__file__]
    ds.AnytimePredictor(frame, "y", ridge=0.1)

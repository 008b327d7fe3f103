"""Prediction from whatever has arrived: simulation, command line, scikit-learn, a web service."""

import json
import runpy
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.doors.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"

COSTS = {"a": 1.0, "b": 2.0, "c": 4.0}
ROWS = 400


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(11)
    a, b, c = rng.normal(size=(3, ROWS))
    y = 2 * a + 1.5 * b + c + rng.normal(size=ROWS)
    return pl.DataFrame({"a": a, "b": b + 0.5 * a, "c": c, "y": y})


@pytest.fixture(scope="module")
def problem(frame) -> ds.Problem:
    return ds.Problem(ds.gram(frame), "y", costs=COSTS)


def test_where_nothing_fails_all_buyers_are_the_prefixes(frame, problem):
    seq = problem.anytime_sequence()
    found = problem.simulate(frame)
    expected = ds.evaluate(seq, frame)
    for rule in ("prefix", "pattern"):
        curve = found.table.filter(rule=rule)
        assert curve["spent"].to_list() == pytest.approx(seq.spent.tolist())
        assert curve["mse"].to_list() == pytest.approx(expected["mse"].to_list())
        assert curve["r2"].to_list() == pytest.approx(expected["r2"].to_list())
    last = found.table.group_by("rule").last()
    assert last["mse"].to_list() == pytest.approx([expected["mse"][-1]] * 3)


def test_a_source_that_is_down_costs_the_prefix_rule_all_that_follows(frame, problem):
    found = problem.simulate(frame, unavailable={"a": 1.0})
    best = {row["rule"]: row["r2"] for row in found.table.group_by("rule").last().to_dicts()}
    assert best["prefix"] == pytest.approx(0.0, abs=0.01)
    assert best["pattern"] > 0.3
    assert "a 100%" in json.dumps(found.plot().to_dict())
    assert found.plot().data.height == found.table.height


def test_predictors_are_judged_and_compared_on_rows_with_gaps(frame, problem):
    holes = frame.with_columns(b=pl.when(pl.int_range(ROWS) % 3 > 0).then("b"))
    predictor, seq = problem.predictor(), problem.anytime_sequence()
    found = ds.evaluate(predictor, holes)
    assert found.equals(problem.simulate(holes).table)
    curves = {"prefix": found.filter(rule="prefix"), "any": predictor}
    told = ds.compare(curves, fraction=1.0, data=holes).table
    assert told["explained"][1] >= told["explained"][0]
    with pytest.raises(ds.errors.ArgumentError, match="give data, a table"):
        ds.compare({"any": predictor, "seq": seq})
    with pytest.raises(ds.errors.ArgumentError, match="metric is 'auc'; a predictor"):
        ds.evaluate(predictor, frame, metric="auc")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": -1}, "budget is -1"),
        ({"unavailable": {"a": 2.0}}, "unavailable of 'a' is 2.0; it must be a number from 0 to 1"),
        ({"unavailable": {"A": 0.1}}, "unavailable names unknown group 'A'"),
        ({"unavailable": "a"}, "unavailable is 'a'; it must map groups to the probability"),
        ({"budget": "12"}, "budget is '12'; it must be a number"),
        ({"seed": -1}, "seed is -1; it must be a whole number"),
    ],
)
def test_what_cannot_be_simulated_is_refused(frame, problem, options, words):
    with pytest.raises(ds.DbselectError, match=words):
        problem.simulate(frame, **options)
    with pytest.raises(ds.errors.ArgumentError, match="a table with the target 'y'"):
        problem.simulate(frame.drop("y"))
    family = ds.Problem(frame.with_columns(y=pl.col("y") > 0), "y", family="binomial")
    with pytest.raises(ds.errors.ArgumentError, match="family is 'binomial'; simulate compares"):
        family.simulate(frame)


def test_the_command_line_predicts_what_python_predicts(
    tmp_path, monkeypatch, capsys, frame, problem
):
    monkeypatch.chdir(tmp_path)
    holes = frame.with_columns(a=pl.when(pl.int_range(ROWS) % 4 > 0).then("a"))
    holes.write_parquet("rows.parquet")
    problem.anytime_sequence().write_parquet("s.parquet")
    predictor = problem.predictor()
    predictor.write_json("p.json")
    expected = predictor.predict(holes, level=0.9, budget=2.0)
    for stored in ("s.parquet", "p.json"):
        asked = ["predict", stored, "rows.parquet", "--available", "--level", "0.9"]
        assert main([*asked, "--budget", "2", "--out", "found.parquet"]) == 0
        told = capsys.readouterr().out
        assert "400 rows, 100 by some groups, 0 without a prediction" in told
        assert pl.read_parquet("found.parquet").select(expected.columns).equals(expected)
    assert main(["predict", "p.json", "rows.parquet", "--available", "--out", "f.csv"]) == 0
    assert pl.read_csv("f.csv")["groups"][:2].to_list() == ["b, c", "a, b, c"]
    capsys.readouterr()
    assert main(["predict", "s.parquet", "rows.parquet", "--level", "0.9", "--out", "f.csv"]) == 2
    assert "--level is for --available" in capsys.readouterr().err
    assert main(["predict", "p.json", "rows.parquet", "--out", "f.csv"]) == 2
    assert "'p.json' is a predictor from any groups; predict with --available" in (
        capsys.readouterr().err
    )


def test_a_regressor_predicts_from_the_groups_that_a_row_has(frame):
    pytest.importorskip("sklearn")
    from dbselect.sklearn import AnytimeRegressor

    X, y = frame.select("a", "b", "c").to_pandas(), frame["y"].to_numpy()
    found = AnytimeRegressor(budget=3.0, costs=COSTS).fit(X, y)
    assert found.groups_ == ["a", "b"]
    lost = X.assign(a=np.where(np.arange(ROWS) % 2, X["a"], np.nan))
    coef, *_ = np.linalg.lstsq(np.column_stack([np.ones(ROWS), X["b"]]), y, rcond=None)
    expected = np.where(
        np.arange(ROWS) % 2, found.predict(X), coef[0] + coef[1] * X["b"].to_numpy()
    )
    np.testing.assert_allclose(found.predict(lost, available=True), expected)
    np.testing.assert_allclose(
        found.predict(lost.drop(columns="a"), available=True), coef[0] + coef[1] * X["b"]
    )
    with pytest.raises(ValueError, match="available is True and budget is 1"):
        found.predict(lost, 1.0, available=True)


def test_a_service_answers_requests_with_missing_and_unknown_fields(problem):
    pytest.importorskip("httpx")
    client = pytest.importorskip("starlette.testclient")
    service = runpy.run_path(str(EXAMPLES / "service.py"))["service"]
    predictor = problem.predictor()
    http = client.TestClient(service(predictor))
    assert http.get("/").json()["costs"] == COSTS
    for row in ({}, {"a": 1.5}, {"a": 1.5, "b": None}, {"a": 1, "b": 2.0, "c": 0.5}):
        answer = http.post("/predict", json={**row, "budget": 3})
        assert answer.status_code == 200
        assert answer.json() == predictor.predict(row, 3, level=0.9)
    wrong = [
        ({"d": 1.0}, "unknown field 'd'"),
        ({"a": "x"}, "a is 'x'; it must be a number or null"),
        ({"a": 1.0, "budget": -1}, "budget is -1"),
        ([1.0], "an object of fields"),
    ]
    for row, words in wrong:
        answer = http.post("/predict", json=row)
        assert (answer.status_code, words in answer.json()["error"]) == (422, True)
    assert http.post("/predict", content="{").status_code == 422

"""Groups that share columns, where none is given back: brute force with refits.

A column that is held already explains its part, so that a group gains by the others only; what the
group costs stays the same.
"""

import json

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.problem.calls import of_name
from dbselect.record.gram import RECORD_DTYPE

RNG = np.random.default_rng(8)
ROWS, NAMES = 60, [f"x{j}" for j in range(7)]
X = RNG.normal(size=(ROWS, 7)) @ RNG.normal(size=(7, 7)) + RNG.normal(size=7)
Y = X @ [1.0, -0.5, 0, 0.5, 0, 0.3, 0] + RNG.normal(size=ROWS)
TABLE = pl.DataFrame(X, NAMES).with_columns(y=Y)
GRAM = ds.gram(TABLE)
GROUPS = {
    "a": ["x0", "x1"], "b": ["x1", "x2", "x3"], "c": ["x3"], "d": ["x5", "x0"],
    "e": ["x4", "x6", "x5", "x2"], "f": ["x1", "x0"],
}  # fmt: skip
COSTS = {"a": 2.0, "b": 1.5, "c": 0.5, "d": 1.0, "e": 3.0, "f": 0.25}
OFF = {"rel": 1e-9, "abs": 1e-11}


def fitted(groups, ridge=0.0, scale=True):
    """Return coefficients and the penalised share of a refit on the union of the columns."""
    at = [NAMES.index(name) for name in dict.fromkeys(c for g in groups for c in GROUPS[g])]
    Z, y = X[:, at] - X[:, at].mean(axis=0), Y - Y.mean()
    unit = Z.std(axis=0) if scale else np.ones(len(at))
    rows = np.vstack([Z, np.diag(np.sqrt(ROWS * ridge) * unit)])
    if not scale and ridge:  # of columns as they are
        rows = np.vstack([Z, np.sqrt(ROWS * ridge) * np.eye(len(at))])
    coef = np.linalg.lstsq(rows, np.append(y, np.zeros(len(at))), rcond=None)[0]
    left = ((y - Z @ coef) ** 2).sum() + ROWS * ridge * ((unit * coef) ** 2).sum()
    return {NAMES[j]: b for j, b in zip(at, coef, strict=True)}, 1 - left / (y @ y)


@pytest.mark.parametrize(
    "given",
    [{}, {"ridge": 0.3}, {"ridge": 0.3, "scale": False}, {"always": ["d"]}, {"budget": 4.0},
     {"max_groups": 3}],
    ids=str,
)  # fmt: skip
def test_greedy_search_is_that_of_refits_on_unions(given):
    seq = ds.anytime_sequence(GRAM, "y", GROUPS, COSTS, **given)
    asked = given.get("ridge", 0.0), given.get("scale", True)
    held, always = [], list(given.get("always", ()))
    for step, group in enumerate(seq.steps["group"][1:], start=1):
        spent = sum(COSTS[one] for one in held)
        scores = {
            one: (fitted([*held, one], *asked)[1] - fitted(held, *asked)[1]) / COSTS[one]
            for one in GROUPS
            if one not in held and spent + COSTS[one] <= given.get("budget", np.inf)
        }
        top = max(scores.values())
        best = next(one for one, score in scores.items() if score > top - 1e-12)
        assert group == (always.pop(0) if always else best)
        held.append(group)
        coef, explained = fitted(held, *asked)
        assert seq.model(step).coefficients == pytest.approx(coef, **OFF)
        assert list(seq.model(step).coefficients) == list(coef)
        assert seq.explained[step] == pytest.approx(explained, **OFF)
        assert seq.spent[step] == pytest.approx(sum(COSTS[one] for one in held))
    assert seq.aliased == ()


@pytest.mark.parametrize("rule", ["omp", "omp-single", "omp-unwhitened", "doubling"])
@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_every_rule_sees_no_gradient_of_what_is_held(rule, ridge):
    seq = ds.anytime_sequence(GRAM, "y", GROUPS, COSTS, rule=rule, ridge=ridge)
    deviation, n = X.std(axis=0), ROWS
    held = []
    for step, group in enumerate(seq.steps["group"][1:]):
        coef, _ = fitted(held, ridge) if held else ({}, 0)
        if rule != "doubling":
            left = Y - Y.mean() - sum((X[:, NAMES.index(c)] - X[:, NAMES.index(c)].mean()) * b
                                      for c, b in coef.items())  # fmt: skip
            Z = (X - X.mean(axis=0)) / deviation
            b = Z.T @ left / n / Y.std()
            b[[NAMES.index(name) for name in coef]] = 0.0
            score = {}
            for one in set(GROUPS) - set(held):
                at = [NAMES.index(name) for name in GROUPS[one]]
                white = np.linalg.solve(Z[:, at].T @ Z[:, at] / n, b[at])
                worth = {"omp": b[at] @ white, "omp-single": (b[at] ** 2).max()}
                score[one] = worth.get(rule, b[at] @ b[at]) / COSTS[one]
            assert score[group] >= max(score.values()) - 1e-12
            assert seq.records[step].score == pytest.approx(score[group], rel=1e-7, abs=1e-12)
        held.append(group)
        assert seq.explained[step + 1] == pytest.approx(fitted(held, ridge)[1], **OFF)


def test_a_column_is_listed_once_everywhere(connection, tmp_path):
    seq = ds.anytime_sequence(GRAM, "y", GROUPS, COSTS)
    assert sorted(seq.columns) == NAMES
    assert seq.coef.shape == (7, 7)
    with pytest.warns(ds.errors.SelectionWarning):
        terms = seq.model(3).summary()["term"].to_list()
    assert terms == ["(intercept)", *seq.model(3).columns]
    assert len(set(terms)) == len(terms)
    assert seq.criteria()["df"].to_list()[-1] == 8
    for again in (ds.results.Sequence.from_struct(seq.to_struct()), _written(seq, tmp_path)):
        assert again.steps.equals(seq.steps)
        np.testing.assert_array_equal(again.coef, seq.coef)
    model, rows = seq.at(budget=2.0), TABLE.head(5)
    predicted = model.predict(rows)
    np.testing.assert_allclose(rows.select(p=model.expr())["p"], predicted)
    connection.register("rows", rows.to_arrow())
    np.testing.assert_allclose(
        connection.sql(f"SELECT {model.sql()} AS p FROM rows").fetchnumpy()["p"], predicted
    )
    judged = ds.evaluate(seq, TABLE)
    np.testing.assert_allclose(judged["r2"], seq.r2, atol=1e-12)
    seq.report(tmp_path / "r.html", source=TABLE)
    assert json.loads(json.dumps(seq.to_struct()))["groups"][1]["columns"] == GROUPS["b"]


def _written(seq, folder):
    seq.write_parquet(folder / "seq.parquet")
    return ds.results.Sequence.read_parquet(folder / "seq.parquet")


def test_bounds_hold_and_promise_no_more_than_they_may():
    seq = ds.anytime_sequence(GRAM, "y", GROUPS, COSTS, ridge=0.2)
    found = seq.certificate([1.0, 3.0])
    assert found["bound"].to_list() == pytest.approx([seq.explained[-1]] * 2)
    assert seq.guarantee().gamma == 0.0


def test_choices_of_k_groups_take_them():
    found = ds.greedy(GRAM, "y", GROUPS, COSTS, k=3)
    coef, r2 = fitted(found.groups)
    assert found.coefficients == pytest.approx(coef, **OFF)
    assert found.r2 == pytest.approx(r2, **OFF)
    alone = sorted(GROUPS, key=lambda one: -fitted([one])[1])
    assert set(ds.reference.top_k(GRAM, "y", GROUPS, k=2).groups) <= {*alone[:2], "a", "f"}
    some = ds.reference.random_k(GRAM, "y", GROUPS, k=3, seed=2)
    assert some.r2 == pytest.approx(fitted(some.groups)[1], **OFF)
    joint = ds.anytime_sequence(TABLE.with_columns(z=pl.col("x2") * 2), ["y", "z"], GROUPS)
    names = joint.steps["group"].to_list()[1:]
    for k in (2, 4, 6):
        r2 = joint.responses["y"].r2[k]
        assert r2 == pytest.approx(fitted(names[:k])[1], **OFF)


def test_every_door_takes_them(connection):
    frame = pl.DataFrame({"gram": [GRAM.to_struct()]}, schema={"gram": RECORD_DTYPE})
    connection.register("records", frame.to_arrow())
    seq = ds.anytime_sequence(GRAM, "y", GROUPS, COSTS, ridge=0.1)
    given = f"groups := {GROUPS}, costs := {COSTS}, ridge := 0.1".replace('"', "'")
    (steps,) = connection.execute(
        f"SELECT anytime_sequence(gram, 'y', {given}) FROM records"
    ).fetchone()
    door = pl.col("gram").dbselect.anytime_sequence("y", groups=GROUPS, costs=COSTS, ridge=0.1)
    for found in (steps, frame.select(s=door)["s"][0].to_list()):
        assert [step["group"] for step in found] == seq.steps["group"].to_list()
        assert [step["explained"] for step in found] == pytest.approx(list(seq.explained))
    for step, found in enumerate(steps):
        assert found["coefficients"] == pytest.approx(seq.model(step).coefficients)
    many = ds.anytime_sequence_by(frame, "y", GROUPS, COSTS, ridge=0.1)
    assert many["sequence"][0].struct.field("r2").to_list() == pytest.approx(list(seq.r2))
    sklearn = pytest.importorskip("dbselect.sklearn")
    found = sklearn.AnytimeRegressor(groups=GROUPS, costs=COSTS).fit(TABLE.drop("y").to_pandas(), Y)
    truth = np.linalg.lstsq(np.column_stack([np.ones(ROWS), X]), Y, rcond=None)[0]
    np.testing.assert_allclose(found.coef_, truth[1:], rtol=1e-8)


@pytest.mark.parametrize(
    ("method", "given"),
    [
        ("foba", {}), ("backward", {}), ("exchange", {"k": 2}), ("dash", {"k": 2}),
        ("best_within", {"budget": 2.0}), ("group_lasso", {}),
        ("sght", {"max_columns": 2, "max_groups": 1}), ("foba", {"gram": "lazy"}),
        ("anytime_sequence", {"family": "poisson"}),
    ],
)  # fmt: skip
def test_a_search_that_gives_back_says_who_takes_them(method, given):
    words = "lies in group 'a' and in group 'b'; only anytime_sequence, greedy, top_k and random_k"
    with pytest.raises(ds.errors.GroupError, match=words):
        of_name(method)(TABLE.with_columns(pl.col("y").abs()), "y", groups=GROUPS, **given)


def test_dependent_columns_and_whole_copies_are_told_once():
    table = TABLE.with_columns(s=pl.col("x0") + pl.col("x1"))
    groups = {"a": ["x0", "x1", "s"], "b": ["s", "x2"], "c": ["x1", "x0"], "d": ["s"]}
    seq = ds.anytime_sequence(table, "y", groups, always=list(groups))
    assert seq.aliased == ("s",)
    assert seq.useful.tolist() == [True, True, True, False, False]
    assert list(seq.at().coefficients) == ["x0", "x1", "s", "x2"]
    assert seq.at().coefficients["s"] == 0.0

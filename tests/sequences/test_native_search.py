"""The searches of the compiled library: step by step those of the walks in Python.

Both are held against brute force in `test_greedy`, `test_foba` and `test_segments`.
"""

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from problems import EPS

import dbselect as ds
from dbselect import _native
from dbselect.linear.state import LinearState
from dbselect.search.gram import GramSearch
from dbselect.selection.criteria import RULES as ALL_RULES

RULES = [name for name, rule in ALL_RULES.items() if rule.compiled]
#: Numbers agree to so much, where columns are far from dependent; else to what rounding
#: makes of a problem of their condition, in sums of hundreds of terms.
EXACT = 1e-12
SUMS = 100 * EPS


@dataclass(frozen=True)
class Asked:
    """A search: the Gram, the method, and what it is given by name."""

    gram: ds.Gram
    method: str
    given: dict[str, Any]

    def by_python(self) -> ds.results.Sequence | str:
        """Return the sequence, or why there is none."""
        with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
            warnings.simplefilter("ignore", ds.errors.ConditionWarning)
            patch.setattr(GramSearch, "compiled", lambda *_: None)
            try:
                return getattr(ds, self.method)(self.gram, "y", **self.given)
            except ds.errors.DataError as error:
                return str(error)

    def by_library(self) -> dict[str, Any]:
        found = _native.search(self.gram.to_arrow(), self.method, "y", self.given)
        (row,) = found.to_pylist(maps_as_pydicts="strict")
        return row


def columns_and_target(rng: np.random.Generator, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of columns that may be equal, dependent, nearly so, or constant."""
    few = rng.random() < 0.2
    rows = int(rng.integers(2, width + 6) if few else rng.integers(width + 5, 3 * width + 30))
    if rng.random() < 0.3:  # exact ties
        X = rng.integers(-2, 3, (rows, width)).astype(float)
    else:
        shared = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, width))
        X = shared + rng.normal(size=(rows, width))
        X *= 10.0 ** rng.uniform(-2, 2, width) if rng.random() < 0.5 else 1.0
        X += rng.normal(size=width) * 10.0 ** rng.uniform(-1, 4)
    slope = rng.normal(size=width) * rng.integers(0, 2, width) / (np.abs(X).max(axis=0) + 1)
    y = X @ slope + rng.choice([0.1, 1.0]) * rng.normal(size=rows)
    for _ in range(rng.integers(0, 1 + width // 3) if rng.random() < 0.6 else 0):
        a, b, c = rng.integers(0, width, 3)
        near = 10.0 ** rng.uniform(-5, -2) * X[:, b].std() * rng.normal(size=rows)
        faults = (X[:, b], -3 * X[:, b], X[:, b] + X[:, c], np.full(rows, 0.1), X[:, b] + near)
        X[:, a] = faults[rng.integers(len(faults))]
    if rng.random() < 0.05:
        y = X[:, rng.integers(width)].copy()
    return X, y


def gram_of(rng: np.random.Generator, X: np.ndarray, y: np.ndarray) -> ds.Gram:
    table = np.column_stack([X, y])
    weight = rng.uniform(0.5, 3, len(y)) if rng.random() < 0.3 else np.ones(len(y))
    mean = weight @ table / weight.sum()
    centred = table - mean
    comoment = centred.T @ (weight[:, None] * centred)
    names = [*(f"x{j}" for j in range(X.shape[1])), "y"]
    return ds.Gram(names, len(y), 0, weight.sum(), mean, (comoment + comoment.T) / 2)


def groups_and_costs(rng: np.random.Generator, width: int) -> dict[str, Any]:
    """Return groups of 1 to 10 columns in any order, some columns in none, and costs."""
    most, columns, groups = rng.choice([1, 3, 10]), rng.permutation(width).tolist(), {}
    while columns:
        size = rng.integers(1, most + 1)
        groups[f"g{len(groups)}"] = [f"x{j}" for j in columns[:size]]
        columns = columns[size:]
    if len(groups) > 1 and rng.random() < 0.2:
        groups.popitem()
    costs = {name: float(rng.integers(1, 9)) / 2 for name in groups}
    return {"groups": groups, "costs": costs if rng.random() < 0.5 else dict.fromkeys(groups, 1.0)}


def sharing(rng: np.random.Generator, groups: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the groups, each with some columns of one of them as well."""
    names, found = list(groups), {}
    for name, columns in groups.items():
        others = [column for column in groups[str(rng.choice(names))] if column not in columns]
        found[name] = [*columns, *others[: rng.integers(0, 3)]]
    return found


def random_search(rng: np.random.Generator, widest: int) -> Asked:
    """Return a search of any method with any options."""
    width = min(widest, int(np.exp(rng.uniform(0, np.log(widest + 1)))))
    gram = gram_of(rng, *columns_and_target(rng, width))
    given = groups_and_costs(rng, width)
    names, costs = list(given["groups"]), given["costs"]
    always = rng.permutation(names)[: rng.integers(0, 3)].tolist() if rng.random() < 0.3 else []
    given |= {"always": always, "ridge": float(rng.choice([0, 0, 0, 1e-6, 0.1, 5]))}
    if rng.random() < 0.2:
        given["intercept"] = False
    if rng.random() < 0.3:
        given["budget"] = sum(costs[name] for name in always) + rng.uniform(0, sum(costs.values()))
    method = str(rng.choice(["anytime_sequence"] * 3 + ["foba", "backward", "floating", "step"]))
    if method == "anytime_sequence":
        given |= {"rule": str(rng.choice(RULES)), "scale": bool(rng.random() < 0.8)}
        if rng.random() < 0.2:
            given["max_groups"] = int(rng.integers(max(1, len(always)), len(names) + 1))
        if given["rule"] == "doubling" and rng.random() < 0.3:
            given["c_min"] = rng.uniform(0.4, 4)
        if rng.random() < 0.2:
            given["groups"] = sharing(rng, given["groups"])
        return Asked(gram, method, given)
    if rng.random() < 0.2:
        given["max_steps"] = int(rng.integers(1, 2 * len(names) + 2))
    if method in ("foba", "floating"):
        given["rule"] = str(rng.choice([name for name in RULES if name != "doubling"]))
    if method in ("foba", "backward"):
        given["backward"] = str(rng.choice(["loss", "loss", "coefficient"]))
    if method == "foba":
        given["epsilon"] = float(rng.choice([0, 0, 1e-4, 1e-2]))
        given["nu"] = float(rng.choice([0.5, 0.5, 0.1, 0.9]))
    if method == "floating" and rng.random() < 0.3:
        given["max_groups"] = int(rng.integers(max(1, len(always)), len(names) + 1))
    return Asked(gram, method, given | (moves(rng, names) if method == "step" else {}))


def moves(rng: np.random.Generator, names: list[str]) -> dict[str, Any]:
    """Return options of `step`, which takes no ridge."""
    given: dict[str, Any] = {"criterion": str(rng.choice(["aic", "bic"])), "ridge": 0.0}
    if rng.random() < 0.2:
        given["penalty"] = float(rng.choice([0.0, 0.5, 10.0]))
    if rng.random() < 0.3:
        given["start"] = rng.permutation(names)[: rng.integers(0, 4)].tolist()
    direction = str(rng.choice(["both", "both", "forward", "backward"]))
    if direction == "backward" or "start" in given:
        # All groups, or these, may be over the budget.
        return {**given, "direction": direction, "budget": None}
    return {**given, "direction": direction}


def tolerance(asked: Asked, sequence: ds.results.Sequence) -> float:
    """Return how far numbers may be apart: `EXACT`, or what the worst condition makes of it."""
    problem = sequence.linear
    state = LinearState(problem, sequence.positions)
    condition = 1.0
    for step in sequence.records:
        (state.add if step.action == "add" else state.remove)(step.group)
        condition = max(condition, state.condition())
    # Whitening takes the groups without the ridge.
    if asked.given.get("rule") in ("omp", "omp-information"):
        for columns in sequence.positions:
            values = np.linalg.eigvalsh(problem.G[np.ix_(columns, columns)])
            kept = values[values > 1e-12 * values[-1]]
            condition = max([condition, *kept[-1:] / kept[:1]])
    return EXACT + SUMS * condition


def largest_score(asked: Asked, sequence: ds.results.Sequence) -> float:
    """Return what the rounding of a score is a share of: of a logarithm that of what is left."""
    if asked.method == "step":
        return asked.gram.rows / max(1.0 - sequence.explained.max(), 1e-14)
    return max((abs(record.score) for record in sequence.records), default=0.0)


def first_difference(steps: list[dict[str, Any]], sequence: ds.results.Sequence) -> int:
    """Return the first step whose group is another, or the number of all steps."""
    names = sequence.groups.names
    expected = [("start", None), *((one.action, names[one.group]) for one in sequence.records)]
    found = [(step["action"], step["group"]) for step in steps]
    if found == expected:
        return len(found)
    pairs = zip(found, expected, strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(found), len(expected)))


def assert_aliased(found: Iterable[str], sequence: ds.results.Sequence) -> None:
    """Compare aliased columns: in their order, but for that in which removals bring some back."""
    removes = any(record.action == "remove" for record in sequence.records)
    order = sorted if removes else list
    assert order(found) == order(sequence.aliased)


def assert_same(asked: Asked) -> str:
    """Compare everything that is known of a search; tell what became of it."""
    found, sequence = asked.by_library(), asked.by_python()
    if isinstance(sequence, str):
        assert (found["status"], found["sequence"]) == (sequence, [])
        return "none"
    steps, records = found["sequence"], sequence.records
    allowed = tolerance(asked, sequence)
    end = first_difference(steps, sequence)
    top = largest_score(asked, sequence)
    if end < max(len(steps), len(records) + 1):
        # Only where rounding decides may another group be taken.
        score = steps[end]["score"] if end < len(steps) else 0.0
        other = records[end - 1].score if end <= len(records) else 0.0
        assert abs(score - other) <= allowed * top
    else:
        assert found["stop"] == sequence.stop.name
        assert found["choices"] == [record.choice.name for record in records]
        assert_aliased(found["aliased"], sequence)
        flags = zip(steps[1:], sequence.useful[1:], records, strict=True)
        for step, useful, record in flags:
            is_rounding = max(abs(step["gain"]), abs(record.gain)) <= allowed - EXACT
            assert step["useful"] == useful or is_rounding
    problem = sequence.linear
    per_spread = problem.spread / problem.target_spread
    for k, step in enumerate(steps[:end]):
        if k:
            # `step` without a row to spare has no criterion, and no fall of it.
            score = pytest.approx(records[k - 1].score, rel=0, abs=allowed * top, nan_ok=True)
            assert step["score"] == score
            assert step["gain"] == pytest.approx(records[k - 1].gain, rel=0, abs=allowed)
            assert step["cost"] == sequence.groups.costs[records[k - 1].group]
        assert step["spent"] == pytest.approx(sequence.spent[k], rel=1e-14)
        assert step["explained"] == pytest.approx(sequence.explained[k], rel=0, abs=allowed)
        assert step["r2"] == pytest.approx(sequence.r2[k], rel=0, abs=allowed)
        held = sequence.columns_held(k)
        assert list(step["coefficients"]) == [sequence.columns[j] for j in held]
        coef, own = sequence.coef[k, held], np.array(list(step["coefficients"].values()))
        largest = 1.0 + np.abs(coef * per_spread[held]).max(initial=0.0)
        np.testing.assert_allclose(
            own * per_spread[held], coef * per_spread[held], rtol=0, atol=allowed * largest
        )
        terms = np.abs(problem.mean[held] / problem.spread[held]).sum() * problem.target_spread
        size = problem.target_spread + abs(problem.target_mean) + largest * terms
        assert step["intercept"] == pytest.approx(sequence.intercept[k], rel=0, abs=allowed * size)
    return "same" if end == len(steps) == len(records) + 1 else "rounding"


@pytest.mark.parametrize("seed", range(4))
def test_searches_are_those_of_python(seed):
    became = Counter(
        assert_same(random_search(np.random.default_rng([seed, i]), 10)) for i in range(60)
    )
    assert became["same"] >= 48
    assert became["rounding"] <= 3


def small_gram() -> ds.Gram:
    rng = np.random.default_rng(3)
    a, c, d, e = rng.normal(size=(20, 4)).T + 5
    nested = pl.DataFrame({"c": c, "d": d}).to_struct()
    return ds.gram(pl.DataFrame({"a": a, "b": nested, "e": e, "y": a - c}))


def test_options_of_another_method_are_refused():
    records = small_gram().to_arrow()
    with pytest.raises(ds.errors.ArgumentError, match="anytime_sequence has unknown option 'nu'"):
        _native.search(records, "anytime_sequence", "y", {"nu": 0.5})
    with pytest.raises(ds.errors.ArgumentError, match="backward has unknown option 'colour'"):
        _native.search(records, "backward", "y", {"colour": True})
    with pytest.raises(
        ds.errors.GroupError, match=r"group 'g' is \['a', None\]; it must list columns"
    ):
        _native.search(records, "foba", "y", {"groups": {"g": ["a", None]}})
    with pytest.raises(ds.errors.RecordError, match="must be a mapping, not Float64"):
        _native.search(pa.array([1.0]), "foba", "y", {})


def test_a_check_needs_no_column_but_the_target():
    gram = small_gram().select(["y"])
    assert _native.check(gram.to_arrow(), "y").to_pylist() == [None]
    with pytest.raises(
        ds.errors.ColumnError, match="target names unknown column 'z'; there is 'y'"
    ):
        _native.check(gram.to_arrow(), "z")
    assert _native.check(pa.nulls(2, gram.to_arrow().type), "z").to_pylist() == ["no rows"] * 2


def test_what_rounding_took_from_a_mean_counts():
    gram = small_gram()
    # Of numbers near 1e18 the last bit is 128.
    mean = gram.mean + 1e18
    record = gram.to_struct() | {"mean": mean.tolist(), "mean_low": [50.0, 0.0, 0.0, 0.0, 100.0]}
    found = _native.search(pa.array([record]), "anytime_sequence", "y", {}).to_pylist()[0]
    start, *_, last = found["sequence"]
    assert start["intercept"] == mean[4] + 100.0 != mean[4]
    expected = mean + record["mean_low"]
    own = sum(w * expected[gram.columns.index(name)] for name, w in last["coefficients"])
    assert last["intercept"] == pytest.approx(expected[4] - own, abs=1e4)


def test_the_terms_of_a_record_make_its_groups_and_stand_in_its_first_step():
    rng = np.random.default_rng(4)
    frame = pl.DataFrame(rng.normal(size=(40, 4)), schema=["y", "s.len", "s.wid", "age"])
    frame = frame.with_columns(
        k=pl.Series(rng.choice(["u.v", "w", "x"], 40)),
        age=pl.when(pl.col("age") < 1).then("age"),
        size=pl.col("y").abs() + rng.random(40),
    )
    policy = {"age": "indicator"}
    made = ds.gram(frame, null_policy=policy, basis={"size": ("poly", 2)})
    plain = ds.gram(frame.select("y", "s.len"))
    array = pa.array([one.to_struct() for one in (made, plain, small_gram())], made.to_arrow().type)
    rows = _native.search(array, "anytime_sequence", "y", {}).field("sequence").to_pylist()
    for gram, steps in zip((made, plain, small_gram()), rows, strict=True):
        expected = ds.anytime_sequence(gram, "y")
        assert [step["group"] for step in steps] == expected.steps["group"].to_list()
        assert [step["terms"] for step in steps[1:]] == [None] * len(expected.records)
        found = ds.Terms.from_json(steps[0]["terms"])
        assert found.without_shares().to_json() == gram.terms.to_json()
        for own, category in zip(found.categories, gram.terms.categories, strict=True):
            counts = frame[category.column].value_counts(normalize=True)
            shares = dict(counts.rows())
            expected_ = [*(shares[level] for level in category.levels), 0.0]
            np.testing.assert_allclose(own.shares, expected_, rtol=1e-12)
    assert {step["group"] for step in rows[0][1:]} == {"s.len", "s.wid", "age", "k", "size"}


def test_no_record_has_no_answer():
    array = small_gram().to_arrow()[:0]
    assert len(_native.search(array, "backward", "y", {})) == 0

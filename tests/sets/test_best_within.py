"""The best set for a budget: what every subset says, what is proven, and the same at every door."""

import itertools
import json
import math
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pytest
from problems import Problem, random_problem
from reference import Table, subsets

import dbselect as ds

#: What sets may differ by and still be ties, and what the reference rounds by.
TIE = 2e-10
BUDGET_SHARES = (0.0, 0.1, 0.25, 0.5, 0.8, 1.0)


def best_by_trying_all(problem: Problem, budget: float, always: tuple[str, ...] = ()):
    """Return the most that a set within a budget explains, and the cheapest cost of it."""
    every = subsets(problem.table, problem.groups, problem.costs)
    names = list(problem.groups)
    allowed = every.cost <= budget * (1 + 1e-12)
    for name in always:
        allowed &= every.held[:, names.index(name)]
    most = every.explained[allowed].max()
    tied = allowed & (every.explained >= most - TIE)
    return most, every.cost[tied].min(), every.error


def check(problem: Problem, budget: float, always: tuple[str, ...] = ()) -> ds.results.Selected:
    most, cheapest, error = best_by_trying_all(problem, budget, always)
    found = ds.best_within(
        problem.gram, "y", budget, problem.names, problem.costs, always=always,
        ridge=problem.table.ridge, scale=problem.table.scale, time_limit=60,
    )  # fmt: skip
    assert found.how.proven
    assert found.explained == pytest.approx(most, abs=TIE + error)
    assert found.spent <= budget * (1 + 1e-12)
    assert found.spent == pytest.approx(cheapest)
    assert found.how.gap == 0
    assert found.how.bound == found.how.explained == found.explained
    assert found.groups[: len(always)] == list(always)
    assert list(found.chosen) == [list(problem.groups).index(name) for name in found.groups]
    return found


def budgets(problem: Problem) -> list[float]:
    return [share * sum(problem.costs.values()) for share in BUDGET_SHARES]


def dependent(problem: Problem) -> Problem:
    """Return columns of which one is twice there, one a sum of others, and one constant."""
    X = problem.table.X.copy()
    X[:, -1] = X[:, 0]
    X[:, -2] = X[:, 1] - 2 * X[:, 2]
    X[:, -3] = 4.0
    return problem.with_table(X=X)


# The best of all subsets


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "asked",
    [{}, {"ridge": 0.1}, {"ridge": 0.5, "scale": False}, {"weighted": True}],
    ids=["plain", "ridge", "unscaled", "weighted"],
)
def test_no_subset_within_the_budget_explains_more(seed, asked):
    problem = random_problem(np.random.default_rng(seed), sizes=(1, 3, 2, 1, 2, 1, 1, 2), **asked)
    for budget in budgets(problem):
        check(problem, budget)


@pytest.mark.sample(5)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_columns_that_depend_on_others_change_nothing(seed, ridge):
    rng = np.random.default_rng(seed)
    problem = dependent(random_problem(rng, sizes=(1, 3, 2, 1, 2, 1, 1, 1), ridge=ridge))
    for budget in budgets(problem):
        check(problem, budget)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("always", [("g4",), ("g5", "g0")])
def test_groups_of_always_are_in_every_set_and_count(seed, always):
    problem = random_problem(np.random.default_rng(seed))
    first = sum(problem.costs[name] for name in always)
    for extra in (0.0, 1.0, 3.0, 9.0):
        check(problem, first + extra, always)


def test_a_target_that_columns_explain_in_many_ways_is_bought_cheaply():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 3))
    X = np.column_stack([X, X[:, 0], X[:, 0] + X[:, 1], X[:, 1], X @ [1, 1, 1]])
    costs = {"g0": 2.0, "g1": 2.0, "g2": 2.0, "g3": 2.0, "g4": 1.0, "g5": 2.0, "g6": 9.0}
    groups = {f"g{j}": [j] for j in range(7)}
    problem = Problem(Table(X, X @ [1.0, 1, 0, 0, 0, 0, 0]), groups, costs)
    assert check(problem, 20.0).groups == ["g4"]
    problem = problem.with_table(y=X @ [1.0, 3, 0, 0, 0, 0, 0])
    assert check(problem, 20.0).groups == ["g0", "g4"]  # as g3, g5 or g1 would, named first


@pytest.mark.parametrize("names", [["a", "b", "c"], ["c", "b", "a"]])
def test_of_equal_groups_the_cheapest_is_taken_and_then_the_first(names):
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    frame = pl.DataFrame(dict.fromkeys(names, x)).with_columns(y=x + rng.normal(size=30))
    gram = ds.gram(frame)
    assert ds.best_within(gram, "y", 9.0).groups == names[:1]
    costs = dict.fromkeys(names, 2.0)
    assert ds.best_within(gram, "y", 9.0, None, costs | {names[2]: 1.5}).groups == names[2:]
    assert ds.best_within(gram, "y", 2.0, None, costs).groups == names[:1]
    assert ds.best_within(gram, "y", 9.0, None, costs, always=names[1:2]).groups == names[1:2]


def test_a_budget_met_to_the_last_digit_is_met():
    problem = random_problem(np.random.default_rng(0))
    costs = dict.fromkeys(problem.names, 0.1)
    assert len(ds.best_within(problem.gram, "y", 0.3, problem.names, costs).groups) == 3


def test_nothing_fits_and_everything_fits():
    problem = random_problem(np.random.default_rng(0))
    nothing = ds.best_within(problem.gram, "y", 0, problem.names, problem.costs)
    assert (nothing.groups, nothing.spent, nothing.r2, nothing.how.proven) == ([], 0.0, 0.0, True)
    assert nothing.intercept == pytest.approx(problem.table.y.mean())
    everything = ds.best_within(problem.gram, "y", math.inf, problem.names, problem.costs)
    assert everything.groups == list(problem.names)
    assert everything.how.proven


def test_the_model_is_that_of_a_fit_on_its_columns():
    problem = random_problem(np.random.default_rng(2), weighted=True)
    found = ds.best_within(problem.gram, "y", 8.0, problem.names, problem.costs)
    model = ds.fit(problem.gram, "y", found.columns)
    assert found.coefficients == pytest.approx(model.coefficients)
    assert found.r2 == pytest.approx(model.r2)
    with pytest.warns(ds.errors.SelectionWarning, match="the rows that chose the columns"):
        assert found.summary()["term"].to_list() == ["(intercept)", *found.columns]
    frame = problem.table.frame
    same = ds.best_within(frame, "y", 8.0, problem.names, problem.costs, weight="w")
    assert same.coefficients == pytest.approx(found.coefficients)


# Published

#: RSS of the best model with 1, 2, ..., 15 columns, and in which of them each column is, as
#: lmSubsets 0.5-4 prints them for its data set AirPollution (Hofmann, Gatu, Kontoghiorghes,
#: Colubi, Zeileis 2020, Journal of Statistical Software 93). The data, in
#: ``data/air_pollution.csv``, are those of McDonald, Schwing (1973), Technometrics 15.
PUBLISHED_RSS = [
    133694.5, 99841.07, 82388.53, 69154.11, 64633.79, 60538.76, 58385.72, 57379.21, 55358.05,
    54221.58, 53921.82, 53712.66, 53696.00, 53683.31, 53680.02,
]  # fmt: skip
PUBLISHED_SIZES = {
    "precipitation": {*range(4, 16)},
    "temperature1": {*range(3, 16)},
    "temperature7": {*range(6, 16)},
    "age": {*range(8, 16)},
    "household": {*range(7, 16)},
    "education": {2, 3, *range(5, 16)},
    "housing": {*range(12, 16)},
    "population": {*range(10, 16)},
    "noncauc": {*range(1, 16)},
    "whitecollar": {*range(13, 16)},
    "income": {15},
    "hydrocarbon": {*range(9, 16)},
    "nox": {*range(9, 16)},
    "so2": {*range(4, 9), *range(11, 16)},
    "humidity": {14, 15},
}


@pytest.mark.parametrize("size", range(1, 16))
def test_at_equal_costs_the_models_are_those_of_lmsubsets(size):
    frame = pl.read_csv(Path(__file__).parents[1] / "data" / "air_pollution.csv")
    found = ds.best_within(frame, "mortality", size)
    total = ((frame["mortality"] - frame["mortality"].mean()) ** 2).sum()
    assert total * (1 - found.r2) == pytest.approx(PUBLISHED_RSS[size - 1], abs=0.05)
    assert set(found.groups) == {name for name, sizes in PUBLISHED_SIZES.items() if size in sizes}
    assert found.how.proven


# Time


@pytest.mark.parametrize("seed", range(6))
def test_when_time_is_up_bound_and_gap_hold(seed):
    problem = random_problem(np.random.default_rng(seed), sizes=(1,) * 10, rows=12)
    for budget in budgets(problem)[1:5]:
        most, _, error = best_by_trying_all(problem, budget)
        found = ds.best_within(
            problem.gram, "y", budget, problem.names, problem.costs, time_limit=1e-9
        )
        how = found.how
        assert found.spent <= budget
        assert how.explained == found.explained <= most + error
        assert how.bound >= most - TIE - error
        assert how.gap == how.bound - how.explained >= 0
        assert how.proven == (how.gap == 0)


def test_a_search_that_is_stopped_says_so():
    problem = random_problem(np.random.default_rng(0), sizes=(1,) * 40, rows=25)
    budget = 0.3 * sum(problem.costs.values())
    found = ds.best_within(problem.gram, "y", budget, problem.names, problem.costs, time_limit=0.01)
    assert not found.how.proven
    assert found.how.gap > 0
    assert f"; gap {found.how.gap:.4f}, not proven" in repr(found)
    assert found.proof is found.how
    assert found.how.nodes >= 1


# Refusals


def test_mistakes_are_named():
    frame = pl.DataFrame(np.random.default_rng(3).normal(size=(30, 4)), schema=list("abey"))
    costs = {"a": 2.0, "b": 1.0, "e": 4.0}
    with pytest.raises(
        ds.errors.ArgumentError, match="always costs 4 in all; that is over the budget"
    ):
        ds.best_within(frame, "y", 3.0, costs=costs, always=["e"])
    with pytest.raises(ds.errors.GroupError, match="always names unknown group 'z'"):
        ds.best_within(frame, "y", 3.0, always=["z"])
    with pytest.raises(ds.errors.ArgumentError, match="it must be one column here"):
        ds.best_within(frame, ["y", "a"], 3.0)
    with pytest.raises(ds.errors.ArgumentError, match="time_limit is None"):
        ds.best_within(frame, "y", 3.0, time_limit=None)
    found = ds.best_within(frame, "y", 3.0, costs=costs)
    with pytest.raises(
        ds.errors.ArgumentError, match="best_within has no diagnostics; it has proof"
    ):
        found.diagnostics  # noqa: B018
    with pytest.raises(
        ds.errors.ArgumentError, match=r"best_within has no history, .*; it has proof"
    ):
        found.history  # noqa: B018
    with pytest.raises(ds.errors.ArgumentError, match="greedy has no proof; it has diagnostics"):
        ds.greedy(frame, "y", k=1).proof  # noqa: B018


def test_nearly_dependent_columns_are_warned_of():
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    frame = pl.DataFrame({"a": x, "b": x + 3e-6 * rng.normal(size=200)})
    frame = frame.with_columns(y=1e6 * (pl.col("a") - pl.col("b")) + pl.col("a"))
    digits = pytest.warns(ds.errors.ConditionWarning, match="condition number")
    with digits, pytest.warns(ds.errors.ConditionWarning, match="no set is proven"):
        found = ds.best_within(frame, "y", 2.0)
    assert found.groups == ["a", "b"]
    assert not found.how.proven
    assert found.how.gap > 0


def trace_of(n: int = 400) -> pl.DataFrame:
    """Return two columns that differ by 5e-7 of what explains nearly all, and one of no use."""
    rng = np.random.default_rng(0)
    x, z, noise, other = rng.normal(size=(4, n))
    table = {"a": x, "b": x + 5e-7 * z, "c": other, "y": z + 0.3 * noise}
    return pl.DataFrame(table).with_columns(o=pl.lit(0.0))


CALLS = {
    "anytime_sequence": {},
    "backward": {},
    "exchange": {"k": 2},
    "greedy": {"k": 2},
    "dash": {"k": 2},
    "sght": {"max_columns": 2, "max_groups": 2},
    "fit": {},
    "fit of a family": {"offset": "o"},
    "exchange of a family": {"k": 2, "offset": "o"},
}


@pytest.mark.parametrize("name", CALLS)
def test_all_methods_warn_of_a_column_whose_trace_explains_much(name):
    method, frame = getattr(ds, name.split()[0]), trace_of()
    asked = CALLS[name]
    frame = frame if "offset" in asked else frame.drop("o")
    with pytest.warns(ds.errors.DependenceWarning, match=r"'[ab]' .*may explain 0\.9"):
        method(frame, "y", **asked)


def test_what_a_trace_may_explain_is_not_proven_to_be_out_of_reach():
    frame = trace_of().drop("o")
    traces = pytest.warns(ds.errors.DependenceWarning, match=r"may explain 0\.9")
    with traces, pytest.warns(ds.errors.ConditionWarning, match="no set is proven"):
        found = ds.best_within(frame, "y", 2.0)
    best = ds.fit(frame.with_columns(b=pl.col("b") - pl.col("a")), "y", ["a", "b"]).r2
    assert best > 0.9
    assert not found.how.proven
    assert found.how.bound >= best


@pytest.mark.parametrize("name", ["backward", "exchange"])
def test_all_methods_warn_of_selected_columns_that_lose_digits(name):
    rng = np.random.default_rng(1)
    x, z, noise = rng.normal(size=(3, 400))
    frame = pl.DataFrame({"a": x, "b": x + 1.2e-5 * z, "y": z + 0.3 * noise})
    asked = {"k": 2} if name == "exchange" else {}
    with pytest.warns(ds.errors.ConditionWarning, match="condition number 2"):
        getattr(ds, name)(frame, "y", **asked)


def test_dependent_columns_leave_a_proof_where_their_trace_is_rounding():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 4))
    frame = pl.DataFrame(X, list("abcd")).with_columns(
        e=pl.col("a") + pl.col("b") - 3 * pl.col("c"), y=X @ [1.0, 2.0, 0.5, 0.1]
    )
    assert ds.best_within(frame, "y", 3.0).how.proven


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_thirty_columns_that_all_depend_a_little_on_each_other_are_proven(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 30)) @ (np.eye(30) + 0.3 * rng.normal(size=(30, 30)))
    names = [f"x{j}" for j in range(30)]
    table = pl.DataFrame(X, names).with_columns(
        y=X @ rng.normal(size=30) + 5 * rng.normal(size=500)
    )
    found = ds.best_within(table, "y", 10.0, time_limit=900)
    assert found.how.proven
    assert found.how.nodes < 100_000
    # No exchange of one or two columns is better, by refits.
    gram = ds.gram(table)
    C, c = gram.comoment[:30, :30], gram.comoment[:30, 30]
    held = [names.index(name) for name in found.groups]

    def explained(columns):
        return c[columns] @ np.linalg.solve(C[np.ix_(columns, columns)], c[columns])

    best = explained(held)
    others = [j for j in range(30) if j not in held]
    for out in itertools.combinations(held, 2):
        rest = [j for j in held if j not in out]
        for pair in itertools.combinations(others, 2):
            assert explained([*rest, *pair]) <= best * (1 + 1e-9)


BREAKING_EVEN = [
    {}, {"one_of": [["a", "b"]]}, {"needs": {"a": ["c"]}}, {"shared": {"n": (1.5, ["a", "b"])}},
    {"limits": {"ms": ({"a": 3, "b": 3, "c": 1}, 5, "sum")}},
]  # fmt: skip


@pytest.mark.parametrize("told", BREAKING_EVEN)
@pytest.mark.parametrize("seed", range(2))
def test_break_even_prices_are_those_of_all_sets(seed, told):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 4)) + rng.normal(size=(80, 1))
    names = list("abcd")
    y = X @ rng.normal(size=4) + rng.normal(size=80)
    gram = ds.gram(pl.DataFrame({**dict(zip(names, X.T, strict=True)), "y": y}))
    costs = dict(zip(names, rng.integers(1, 6, size=4) / 2.0, strict=True))
    sets = [kept for k in range(5) for kept in itertools.combinations(names, k)]
    apart = [{"one_of": {"a", "b"}, "limits": {"a", "b"}}.get(name) for name in told]
    sets = [kept for kept in sets if not any(pair and pair <= {*kept} for pair in apart)]
    sets = [kept for kept in sets if "needs" not in told or "a" not in kept or "c" in kept]
    explained = {kept: ds.fit(gram, "y", list(kept)).explained if kept else 0.0 for kept in sets}
    set_up = {kept: 1.5 * ("shared" in told and bool({"a", "b"} & {*kept})) for kept in sets}
    records = pl.DataFrame({"g": [gram.to_struct()]})
    for budget in (0.75, 2.5, 6.0):
        found = ds.break_even(gram, "y", budget, costs=costs, **told)
        asked = pl.col("g").dbselect.break_even("y", budget, costs=costs, **told)
        (in_polars,) = records.select(asked).to_series()
        rows = in_polars.struct.unnest()
        assert rows["proven"].all()
        assert rows.drop("proven").equals(found)
        for name, price in found.rows():
            cost = {
                kept: sum(costs[one] for one in kept if one != name) + set_up[kept] for kept in sets
            }
            within = [kept for kept in sets if cost[kept] <= budget]
            rival = max(explained[kept] for kept in within if name not in kept)
            bought = [budget - cost[kept] for kept in within
                      if name in kept and explained[kept] > rival + 1e-10]  # fmt: skip
            assert price == pytest.approx(max(bought, default=0.0), abs=1e-9)
            # The price is paid, and a little more is not.
            for more, is_bought in ((-1e-6, True), (1e-6, False)):
                if price > 1e-3 and 0 < price + more <= budget:
                    changed = {**costs, name: price + more}
                    one = ds.best_within(gram, "y", budget, costs=changed, **told)
                    assert (name in one.groups) == is_bought


@pytest.mark.parametrize("told", [*BREAKING_EVEN, {"always": ["d"]}])
def test_break_even_at_a_worth_is_what_the_best_prefix_pays(told):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4)) + rng.normal(size=(60, 1))
    names = list("abcd")
    y = X @ [1.0, 0.6, 0.3, 0.0] + rng.normal(size=60)
    frame = pl.DataFrame({**dict(zip(names, X.T, strict=True)), "y": y})
    costs = {"a": 1, "b": 2, "c": 3, "d": 4}
    gram = ds.gram(frame)
    sequence = ds.anytime_sequence(gram, "y", costs=costs, **told)
    order = sequence.steps["group"].to_list()[1:]

    @cache
    def share(kept):
        A = np.column_stack([np.ones(60), X[:, [names.index(name) for name in kept]]])
        return 1 - np.var(y - A @ np.linalg.lstsq(A, y, rcond=None)[0]) / np.var(y)

    def is_allowed(kept):
        is_apart = {"one_of", "limits"} & {*told} and {"a", "b"} <= {*kept}
        return not is_apart and ("needs" not in told or "a" not in kept or "c" in kept)

    def is_bought(name, price, value, always):
        """Whether a prefix with the group is no worse than the best one without it."""
        gone = {name, *("a" for _ in told.get("needs", ()) if name == "c")}
        others = [one for one in order if one not in gone]
        prefixes = [others[:k] for k in range(len(others) + 1) if {*always} - gone <= {*others[:k]}]
        nets = {True: [], False: []}
        for kept in [*prefixes, *([*kept, name] for kept in prefixes)]:
            set_up = 1.5 * ("shared" in told and bool({"a", "b"} & {*kept}))
            spent = sum(price if one == name else costs[one] for one in kept) + set_up
            if is_allowed(kept):
                nets[name in kept].append(value(share(tuple(kept))) - spent)
        return max(nets[True], default=-math.inf) >= max(nets[False])

    def bisected(name, value, always):
        low, high = 0.0, 200.0
        while high - low > 1e-9:
            middle = (low + high) / 2
            low, high = (middle, high) if is_bought(name, middle, value, always) else (low, middle)
        return low

    records = pl.DataFrame({"g": [gram.to_struct()]})
    values = {"explained": lambda share: 30 * share,
              "rmse": lambda share: 30 * y.std() * (1 - (1 - share) ** 0.5)}  # fmt: skip
    for per, value in values.items():
        of_sequence = sequence.break_even(30, per=per)
        for name, price in of_sequence.rows():
            assert price == pytest.approx(bisected(name, value, []), abs=1e-6)
        asked = {"costs": costs, "worth": 30, "per": per, **told}
        found = ds.break_even(gram, "y", **asked)
        for name, price in found.rows():
            assert price == pytest.approx(bisected(name, value, told.get("always", [])), abs=1e-6)
        same = pytest.approx(of_sequence["price"].to_list(), abs=1e-9)
        assert "always" in told or found["price"].to_list() == same
        (expressed,) = records.select(pl.col("g").dbselect.break_even("y", **asked)).to_series()
        assert expressed.struct.unnest().drop("proven").equals(found)
        assert expressed.struct.field("proven").null_count() == 4
        assert ds.Problem(frame, "y", costs=costs, **told).break_even(
            worth=30, per=per
        )["price"].to_list() == pytest.approx(found["price"].to_list())  # fmt: skip


def test_the_order_of_an_elimination_begins_with_what_is_left_last():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(80, 4))
    frame = pl.DataFrame(X, list("abcd")).with_columns(y=X @ [0.1, 0.5, 0.3, 1.0])
    found = ds.backward(frame, "y").break_even(10)
    order = ds.Problem(frame, "y", always=list("dbca")).anytime_sequence()
    assert found["price"].to_list() == pytest.approx(order.break_even(10)["price"].to_list())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give a budget, the limit on the summed cost, or a worth"),
        ({"budget": 3, "worth": 1}, "budget is 3, beside worth 1; give one or the other"),
        ({"worth": 0}, "worth is 0(.0)?; it must be a number > 0"),
        ({"worth": -1.5}, "worth is -1.5; it must be a number > 0"),
        ({"worth": "much"}, "worth is 'much'; it must be a number > 0"),
        ({"worth": 1, "per": "mae"}, r"per is 'mae'; it must be one of \['explained', 'rmse'\]"),
        ({"budget": 1, "per": "rmse"}, "per is 'rmse'; it goes with worth"),
        ({"worth": 1, "time_limit": 2.0}, "time_limit is 2(.0)?; it goes with budget"),
        ({"budget": math.inf}, "budget is inf; break_even takes a finite one"),
        ({"worths": 1}, "unknown option 'worths'.*'worth'"),
    ],
)
def test_break_even_takes_a_budget_or_a_worth(options, words):
    frame = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    with pytest.raises(ds.DbselectError, match=words):
        ds.break_even(frame, "y", **options)
    records = pl.DataFrame({"g": [ds.gram(frame).to_struct()]})
    with pytest.raises((ds.DbselectError, pl.exceptions.ComputeError), match=words):
        records.select(pl.col("g").dbselect.break_even("y", **options))
    of_sql = json.dumps(options).replace('"', "'").replace("Infinity", "'inf'::DOUBLE")
    with pytest.raises(duckdb.Error, match=words):
        ds.connect().sql(
            f"SELECT dbselect.break_even(dbselect.gram(f), 'y', NULL, {of_sql or 'NULL'}) "
            "FROM frame f"
        ).fetchall()
    if {*options} <= {"worth", "per"} and options:
        with pytest.raises(ds.errors.ArgumentError, match=words):
            ds.anytime_sequence(frame, "y").break_even(**options)

"""FoBa and backward elimination against refits by brute force, and the paper's simulation."""

import numpy as np
import polars as pl
import pytest
import reference
from predicting import in_polars, in_python
from problems import Problem, random_problem
from reference import Table

import dbselect as ds
from dbselect.record.steps import Stop
from dbselect.reference import foba_epsilon


def brute_foba(problem, *, epsilon, nu, rule, backward, always=()):
    """Follow the algorithm with refits only; returns signed group names."""
    table, groups, costs = problem.table, problem.groups, problem.costs
    criterion = {"fr": reference.gain, "omp": reference.omp}[rule]
    held, gained, trace, forced = [], [], [], list(always)

    def columns(names):
        return [column for name in names for column in groups[name]]

    def loss(name):
        rest = columns(other for other in held if other != name)
        return reference.explained(table, columns(held)) - reference.explained(table, rest)

    def length(name):
        coef = dict(zip(columns(held), reference.fit(table, columns(held)), strict=True))
        return np.linalg.norm([coef[column] for column in groups[name]])

    worth = {"loss": loss, "coefficient": length}[backward]
    while True:
        gains = {
            name: reference.gain(table, columns(held), groups[name])
            for name in groups
            if name not in held
        }
        open_ = [name for name, gain in gains.items() if gain >= max(epsilon, reference.TIE)]
        if not forced and not open_:
            return trace
        best = (
            forced.pop(0)
            if forced
            else max(
                open_,
                key=lambda name: criterion(table, columns(held), groups[name]) / costs[name],
            )
        )
        held.append(best)
        gained.append(gains[best])
        trace.append(best)
        while len(held) > len(always):
            least = min(
                (name for name in held if name not in always),
                key=lambda name: worth(name) / costs[name],
            )
            if loss(least) > nu * gained[-1]:
                break
            held.remove(least)
            gained.pop()
            trace.append(f"-{least}")


def trace_of(sequence):
    steps = sequence.steps.filter(pl.col("step") > 0)
    return [
        ("-" if action == "remove" else "") + group
        for action, group in steps.select("action", "group").iter_rows()
    ]


def suppressed(rng, rows=60):
    """Return a problem in which a group that is best alone becomes dispensable.

    f2 is near y = f0 + f1, so that it comes first; with f0 and f1 it adds nothing.
    """
    X = rng.normal(size=(rows, 5))
    y = X[:, 0] + X[:, 1]
    X[:, 2] = y + 0.4 * rng.normal(size=rows)
    groups = {f"f{j}": [j] for j in range(5)}
    return Problem(Table(X, y + 0.01 * rng.normal(size=rows)), groups, dict.fromkeys(groups, 1.0))


@pytest.mark.sample(4)
@pytest.mark.parametrize("backward", ["loss", "coefficient"])
@pytest.mark.parametrize("rule", ["fr", "omp"])
@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_every_step_is_that_of_brute_force(rule, backward, ridge):
    removals = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        problem = suppressed(rng) if seed % 2 else random_problem(rng, weighted=True)
        problem = problem.with_table(ridge=ridge)
        expected = brute_foba(problem, epsilon=1e-3, nu=0.6, rule=rule, backward=backward)
        found = ds.foba(
            problem.gram, "y", groups=problem.names, costs=problem.costs, epsilon=1e-3, nu=0.6,
            rule=rule, backward=backward, ridge=ridge,
        )  # fmt: skip
        assert trace_of(found) == expected
        removals += sum(name.startswith("-") for name in expected)
    assert removals > 0


@pytest.mark.parametrize("share", [0.99, 1.01])
def test_a_step_gains_epsilon_at_least(share):
    Q = np.linalg.qr(np.column_stack([np.ones(9), np.random.default_rng(0).normal(size=(9, 3))]))[0]
    rows = pl.DataFrame(Q[:, 1:], schema=["a", "b", "c"])
    rows = rows.with_columns(y=3 * pl.col("a") + 2 * pl.col("b") + pl.col("c"))
    held = ds.foba(rows, "y", epsilon=share * 4 / 14).at().groups
    assert held == (["a", "b"] if share < 1 else ["a"])


def test_a_budget_gives_the_last_model_within_it():
    problem = suppressed(np.random.default_rng(5))
    sequence = ds.foba(problem.gram, "y", groups=problem.names, epsilon=1e-3)
    assert trace_of(sequence)[-1] == "-f2"
    assert sorted(sequence.at().groups) == ["f0", "f1"]
    assert sequence.at(budget=1).groups == ["f2"]


def test_a_budget_gives_the_largest_model_of_a_whole_elimination():
    problem = random_problem(np.random.default_rng(5))
    sequence = ds.backward(problem.gram, "y", groups=problem.names, costs=problem.costs)
    assert len(sequence.at().groups) == len(problem.groups)
    order = [name[1:] for name in trace_of(sequence)[len(problem.groups) :]]
    for held in range(len(order)):
        cost = sum(problem.costs[name] for name in order[held:])
        assert set(sequence.at(budget=cost).groups) == set(order[held:])


def test_what_an_elimination_gave_back_last_is_bought_next():
    problem = random_problem(np.random.default_rng(5))
    sequence = ds.backward(problem.gram, "y", groups=problem.names, costs=problem.costs)
    whole = len(problem.groups)
    removed = [name[1:] for name in trace_of(sequence)[whole:]]
    rows = problem.table.frame.head(len(removed))
    for door in (in_python, in_polars):
        found = door(None, sequence, rows, budget=sequence.spent[whole + 1 :].tolist())
        assert found["next_group"].to_list() == removed


@pytest.mark.parametrize("seed", range(6))
def test_backward_removes_the_smallest_loss_per_cost(seed):
    problem = random_problem(np.random.default_rng(seed))
    sequence = ds.backward(
        problem.gram, "y", groups=problem.names, costs=problem.costs, always=["g2"]
    )
    held = list(problem.groups)
    expected = []
    while held != ["g2"]:
        columns = {name: problem.groups[name] for name in held}
        everything = [column for group in columns.values() for column in group]
        whole = reference.explained(problem.table, everything)

        def loss(name, everything=everything, columns=columns, whole=whole):
            rest = [column for column in everything if column not in columns[name]]
            return (whole - reference.explained(problem.table, rest)) / problem.costs[name]

        least = min((name for name in held if name != "g2"), key=loss)
        held.remove(least)
        expected.append(f"-{least}")
    assert trace_of(sequence)[len(problem.groups) :] == expected
    assert sequence.stop is Stop.EMPTY


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_of_dependent_groups_the_dearest_goes_first_and_loses_nothing(family):
    rng = np.random.default_rng(0)
    a, b, d = rng.normal(size=(3, 60))
    y = (a + b + d + rng.normal(size=60) > 0) * 1.0
    table = pl.DataFrame({"a": a, "b": b, "c": a + b, "d": d, "y": y})
    costs = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 9.0}
    found = ds.backward(table, "y", costs=costs, family=family)
    removed = found.steps.filter(action="remove")
    assert removed["group"][0] == "b"
    assert removed["gain"][0] == pytest.approx(0.0, abs=1e-9)
    rest = ds.backward(table.drop("b"), "y", costs={n: costs[n] for n in "acd"}, family=family)
    assert removed["group"][1:].to_list() == rest.steps.filter(action="remove")["group"].to_list()


def test_coefficients_of_dependent_columns_are_refused_without_a_ridge():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 30))
    table = pl.DataFrame({"a": a, "b": b, "c": a + b, "y": a})
    turns = []
    with pytest.raises(ds.errors.DataError, match=r"columns \['c'\] depend linearly on others"):
        ds.backward(table, "y", backward="coefficient", callback=turns.append)
    assert len(turns) == 3  # each step once
    found = ds.backward(table, "y", backward="coefficient", ridge=0.1)
    assert found.at(size=1).groups == ["a"]


def test_elimination_of_dependent_columns_takes_the_smallest_loss_of_refits():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng)
        X = problem.table.X.copy()
        names = list(problem.groups)
        into, *of = (problem.groups[name][0] for name in rng.choice(names, 3, replace=False))
        X[:, into] = X[:, of[0]] - 2 * X[:, of[1]]
        problem = problem.with_table(X=X)
        found = ds.backward(problem.gram, "y", groups=problem.names, costs=problem.costs)
        held = list(names)
        for step in found.steps.filter(action="remove").iter_rows(named=True):
            rest = {
                name: reference.explained(
                    problem.table,
                    [j for other in held if other != name for j in problem.groups[other]],
                )
                for name in held
            }
            whole = reference.explained(
                problem.table, [j for name in held for j in problem.groups[name]]
            )
            worth = {name: (whole - rest[name]) / problem.costs[name] for name in held}
            assert worth[step["group"]] <= min(worth.values()) + 1e-12
            held.remove(step["group"])
            assert step["explained"] == pytest.approx(rest[step["group"]], abs=1e-12)
        assert held == []


def test_limits_on_steps_are_kept():
    problem = suppressed(np.random.default_rng(5))
    whole = trace_of(ds.foba(problem.gram, "y", groups=problem.names))
    for steps in range(1, len(whole) + 1):
        cut = ds.foba(problem.gram, "y", groups=problem.names, max_steps=steps)
        assert trace_of(cut) == whole[:steps]
    cut = ds.backward(problem.gram, "y", groups=problem.names, max_steps=2)
    assert (cut.steps["action"] == "remove").sum() == 2


# Budget, groups to keep, families


@pytest.mark.parametrize("seed", range(3))
def test_a_budget_lets_only_groups_that_fit_in(seed):
    problem = random_problem(np.random.default_rng(seed))
    whole = ds.foba(problem.gram, "y", problem.names, problem.costs)
    total = float(sum(problem.costs.values()))
    for budget in (min(problem.costs.values()) / 2, 0.4 * total, 0.7 * total):
        found = ds.foba(problem.gram, "y", problem.names, problem.costs, budget=budget)
        assert found.spent.max() <= budget * (1 + 1e-12)
        if found.stop.name == "BUDGET":
            left = set(problem.names) - set(found.at().groups)
            assert all(found.spent[-1] + problem.costs[name] > budget for name in left)
    free = ds.foba(problem.gram, "y", problem.names, problem.costs, budget=total)
    assert trace_of(free) == trace_of(whole)


def test_backward_ends_as_soon_as_what_is_held_fits():
    problem = random_problem(np.random.default_rng(1))
    whole = ds.backward(problem.gram, "y", problem.names, problem.costs)
    total = whole.spent.max()
    for budget in (0.0, 0.3 * total, 0.6 * total, total):
        cut = ds.backward(problem.gram, "y", problem.names, problem.costs, budget=budget)
        assert trace_of(cut) == trace_of(whole)[: len(cut.records)]
        assert cut.stop.name == ("BUDGET" if cut.spent[-1] else cut.stop.name)
        assert cut.spent[-1] <= budget * (1 + 1e-12)
        removals = cut.spent[len(problem.names) : -1]
        assert (removals > budget).all()
        if cut.spent[-1] > 0:
            assert cut.at(budget).groups == cut.at().groups


@pytest.mark.parametrize("search", [ds.foba, ds.backward])
def test_what_must_stay_has_to_fit_the_budget(search):
    problem = random_problem(np.random.default_rng(1))
    first = next(iter(problem.names))
    price = problem.costs[first]
    given = (problem.gram, "y", problem.names, problem.costs)
    assert first in search(*given, always=[first], budget=price).at().groups
    with pytest.raises(ds.errors.ArgumentError, match=r"always costs .* over the budget"):
        search(*given, always=[first], budget=price / 2)


@pytest.mark.parametrize("search", [ds.foba, ds.backward])
def test_a_family_searches_its_objective(search):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 3))
    y = rng.random(300) < 1 / (1 + np.exp(-X @ [1.0, -2.0, 0.0]))
    frame = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(y=pl.Series(y))
    costs = {"a": 1.0, "b": 3.0, "c": 2.0}
    found = search(frame, "y", costs=costs, family="binomial", ridge=0.01, budget=4.0)
    objective = ds.Problem(frame, "y", None, costs, ridge=0.01, family="binomial").objective()
    expected = search(objective, budget=4.0)
    assert isinstance(found, ds.results.GlmSequence)
    assert found.steps.drop("passes").equals(expected.steps.drop("passes"))
    assert found.spent[-1] <= 4.0
    with pytest.raises(ds.errors.SourceError, match="source is a Gram, which holds no rows"):
        search(ds.gram(frame), "y", family="binomial")


def table(seed: int, n: int = 20_000, d: int = 6, noise: float = 0.5) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.3 * rng.standard_normal((n, 1))
    y = 4 * X[:, 1] - 3 * X[:, 4] + noise * rng.standard_normal(n)
    return pl.DataFrame(X, schema=[f"x{j}" for j in range(d)]).with_columns(y=pl.Series(y))


def test_it_is_the_bound_of_the_theorem():
    rows = table(0)
    X, y = rows.drop("y").to_numpy(), rows["y"].to_numpy()
    rho = np.linalg.eigvalsh(np.corrcoef(X.T))[0]
    eta = 0.06 / 3
    bound = 64 * rho**-2 * 0.5**2 * np.log(2 * X.shape[1] / eta) / len(y)
    found = foba_epsilon(ds.Problem(rows, "y"), noise=0.5, failure=0.06)
    assert np.isclose(found, bound / y.var(), rtol=1e-9)
    known = foba_epsilon(ds.Problem(rows, "y"), noise=0.5, failure=0.06, eigenvalue=1.0)
    assert np.isclose(known, found * rho**2, rtol=1e-9)
    fewer = foba_epsilon(ds.Problem(rows, "y", {"a": ["x1", "x4"]}), noise=0.5, eigenvalue=1.0)
    assert fewer < foba_epsilon(ds.Problem(rows, "y"), noise=0.5, eigenvalue=1.0)


def test_by_it_foba_ends_with_the_true_columns():
    for seed in range(5):
        rows = table(seed)
        found = ds.foba(rows, "y", epsilon=foba_epsilon(ds.Problem(rows, "y"), noise=0.5))
        assert set(found.at().groups) == {"x1", "x4"}


def test_what_has_no_bound_says_so():
    rows = table(0, n=50)
    for options, said in (
        ({"noise": 0}, "noise is 0"),
        ({"noise": "1"}, "noise is '1'"),
        ({"noise": 1, "failure": 1}, "failure is 1"),
        ({"noise": 1, "eigenvalue": 2}, "eigenvalue is 2"),
    ):
        with pytest.raises(ds.errors.ArgumentError, match=said):
            foba_epsilon(ds.Problem(rows, "y"), **options)
    twice = rows.with_columns(x9=2 * pl.col("x1"))
    with pytest.raises(ds.errors.DataError, match="depend linearly"):
        foba_epsilon(ds.Problem(twice, "y"), noise=1)
    assert foba_epsilon(ds.Problem(twice, "y"), noise=1, eigenvalue=0.5) > 0
    with pytest.raises(ds.errors.ArgumentError, match="least squares on one response"):
        foba_epsilon(ds.Problem(rows, ["y", "x1"]), noise=1)

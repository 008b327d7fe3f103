"""DASH: its estimates by full enumeration, its bars on the paper's design, its ends."""

from concurrent.futures import Executor, Future
from itertools import combinations

import numpy as np
import pytest
import reference
from problems import Problem, random_problem
from reference import Table

import dbselect as ds
from dbselect.linear.problem import linear
from dbselect.linear.state import LinearState
from dbselect.objectives import answers
from dbselect.record.groups import groups_of
from dbselect.selection import dash as sampling
from dbselect.selection.criteria import forward_regression
from dbselect.selection.foba import Share, backward_search, foba_search
from dbselect.selection.greedy import greedy_search
from dbselect.selection.moves import by_loss


def state_of(problem):
    return LinearState(
        linear(problem.gram, "y", problem.table.names, problem.table.ridge),
        [np.array(columns) for columns in problem.groups.values()],
    )


def under(objective, k, *, opt, alpha, **options):
    """Run DASH under one guess."""
    return sampling.best_guess(objective, sampling.DashSettings(k, opt=opt, alpha=alpha, **options))


def published(seed, rows=1000, width=500, true=100):
    """Design D1 of the paper: pairwise covariance .4, coefficients U(-2, 2)."""
    rng = np.random.default_rng(seed)
    X = np.sqrt(0.4) * rng.normal(size=(rows, 1)) + np.sqrt(0.6) * rng.normal(size=(rows, width))
    coef = np.zeros(width)
    coef[rng.choice(width, true, replace=False)] = rng.uniform(-2, 2, true)
    y = X @ coef + rng.normal(size=rows)
    return ds.gram(np.column_stack([X, y]), columns=[*(f"x{j}" for j in range(width)), "y"])


class Dense:
    """An objective given as a function of a set, with nothing clever about it."""

    def __init__(self, function, size, held=()):
        self.function, self.size, self.held = function, size, list(held)

    @property
    def value(self):
        return self.function(frozenset(self.held))

    def gains(self):
        return np.array(
            [
                0.0 if a in self.held else self.function(frozenset([*self.held, a])) - self.value
                for a in range(self.size)
            ]
        )

    def losses(self):
        return np.array(
            [
                self.value - self.function(frozenset(self.held) - {a}) if a in self.held else 0.0
                for a in range(self.size)
            ]
        )

    def add(self, candidate):
        return self.add_all([candidate])

    def add_all(self, candidates):
        before = self.value
        self.held.extend(candidates)
        return self.value - before

    def remove(self, candidate):
        before = self.value
        self.held.remove(candidate)
        return before - self.value

    def copy(self):
        return Dense(self.function, self.size, self.held)


class Spy(Dense):
    """Records every set that is asked about in one go."""

    def __init__(self, function, size, held=(), asked=None):
        super().__init__(function, size, held)
        self.asked = [] if asked is None else asked

    def add_all(self, candidates):
        gain = super().add_all(candidates)
        self.asked.append((tuple(self.held), gain))
        return gain

    def copy(self):
        return Spy(self.function, self.size, self.held, self.asked)


def explained_by(problem):
    groups = list(problem.groups.values())
    cache = {}

    def value(held):
        if held not in cache:
            columns = [column for group in sorted(held) for column in groups[group]]
            cache[held] = reference.explained(problem.table, columns)
        return cache[held]

    return value


@pytest.mark.parametrize("seed", range(4))
def test_greedy_foba_and_backward_run_on_whatever_meets_the_contract(seed):
    problem = random_problem(np.random.default_rng(seed))
    value, groups = explained_by(problem), groups_of(problem.table.names, problem.names)
    gain, always = forward_regression(None), [2]

    def traces(start):
        first, _ = greedy_search(start(), groups, gain, always=always)
        second, third = [], []
        state = start()
        foba_search(
            state,
            groups,
            gain,
            by_loss,
            second.append,
            epsilon=1e-3,
            allowance=Share(0.9),
            always=always,
        )
        state = start()
        state.add_all(list(range(state.size)))
        backward_search(state, groups, by_loss, third.append, always=always)
        return [[(step.action, step.group) for step in steps] for steps in (first, second, third)]

    on_a_function = traces(lambda: Dense(value, len(problem.groups)))
    assert on_a_function == traces(lambda: state_of(problem))
    assert all(on_a_function)


class Promising(Dense):
    """Says that every candidate gains a little, which adding it does not bear out."""

    def gains(self):
        return super().gains() + 1e-12


def test_foba_ends_where_gains_turn_out_to_be_rounding():
    groups, steps = groups_of(["a", "b", "c"]), []
    start = Promising(lambda held: float(0 in held), 3)
    foba_search(start, groups, forward_regression(None), by_loss, steps.append, epsilon=0.0,
        allowance=Share(0.5), max_steps=50)  # fmt: skip
    assert [(step.action, step.group) for step in steps] == [("add", 0), ("add", 1), ("add", 2)]


def test_sampled_means_agree_with_full_enumeration():
    problem = random_problem(np.random.default_rng(1), sizes=(1,) * 9, rows=60)
    value, size, samples = explained_by(problem), 3, 4000
    sets = [frozenset(R) for R in combinations(range(9), size)]
    exact = np.array([value(R) for R in sets])
    spy = Spy(value, 9)
    # A threshold of 0 takes the first turn of sets as it comes.
    under(spy, 3, rounds=1, opt=1e-9, alpha=1.0, samples=samples)
    sampled = np.array([gain for _, gain in spy.asked[:samples]])
    assert abs(sampled.mean() - exact.mean()) < 4 * exact.std() / np.sqrt(samples)
    # Every subset is equally likely.
    counts = np.unique([sorted(R) for R, _ in spy.asked[:samples]], axis=0, return_counts=True)[1]
    expected = samples / len(sets)
    assert len(counts) == len(sets)
    assert ((counts - expected) ** 2 / expected).sum() < 84 + 5 * np.sqrt(2 * 83)


def test_the_filter_removes_exactly_what_the_definition_says():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(300, 14))
    y = X @ np.linspace(1.0, 0.4, 14) + rng.normal(size=300)
    value = explained_by(Problem(Table(X, y), {f"g{j}": [j] for j in range(14)}, {}))
    k, rounds, samples, epsilon, alpha = 8, 2, 20, 0.1, 0.9
    sizes = set()
    for opt in np.linspace(0.6, 1.6, 25):
        spy = Spy(value, 14)
        under(spy, k, rounds=rounds, epsilon=epsilon, opt=opt, alpha=alpha, samples=samples, seed=5)
        first = [set(R) for R, _ in spy.asked[:samples]]
        t = (1 - epsilon) * opt
        if np.mean([value(frozenset(R)) for R in first]) >= alpha**2 * t / rounds:
            continue
        marginal = [
            np.mean([value(frozenset(R | {a})) - value(frozenset(R - {a})) for R in first])
            for a in range(14)
        ]
        passed = {a for a in range(14) if marginal[a] >= alpha * (1 + epsilon / 2) * t / k}
        if k / rounds <= len(passed) < 14:
            second = [set(R) for R, _ in spy.asked[samples : 2 * samples]]
            assert set.union(*second) == passed
            sizes.add(len(passed))
    assert len(sizes) >= 2


@pytest.mark.parametrize("k", [1, 2, 5, 20, 60])
def test_dash_never_takes_more_adaptive_rounds_than_greedy(k):
    gram = published(3, rows=400, width=60, true=20)
    for seed in range(3):
        model = ds.dash(gram, "y", k=k, seed=seed)
        assert len(set(model.groups)) == k
        assert model.diagnostics.rounds <= k
        assert model.explained <= model.diagnostics.bound + 1e-12


def test_queries_and_rounds_are_those_that_the_objective_is_asked():
    """Every set whose value is needed is asked for once a question, counted by a spy."""
    problem = random_problem(np.random.default_rng(2), sizes=(1,) * 9, rows=60)
    asked = []
    value = explained_by(problem)

    def counted(held):
        asked.append(held)
        return value(held)

    found = sampling.best_guess(Dense(counted, 9), sampling.DashSettings(4, seed=1))
    # The value of the empty set is known to be 0.
    assert len({*asked} - {frozenset()}) == found.queries
    assert len(found.history) <= 4


class Batches(Executor):
    """Evaluates what was submitted once it is waited for, and counts how often that was."""

    def __init__(self, monkeypatch):
        self.sizes, self.open = [], []
        monkeypatch.setattr(answers, "as_completed", self.as_completed)

    def submit(self, call, /, *given):
        self.open.append((Future(), call, given))
        return self.open[-1][0]

    def as_completed(self, futures, timeout):
        assert set(futures) == {future for future, _, _ in self.open}
        self.sizes.append(len(self.open))
        for future, call, given in self.open:
            future.set_result(call(*given))
            yield future
        self.open = []


@pytest.mark.parametrize("k", [2, 3, 8, 13])
@pytest.mark.parametrize(
    "options",
    [{}, {"literal": True}, {"rounds": 1}, {"rounds": 1, "literal": True, "alpha": 1.0},
     {"opt": 0.9, "alpha": 1.0}, {"always": ["g2"], "alpha": 1.0}, {"diversity": True}],
    ids=repr,
)  # fmt: skip
def test_a_round_is_one_batch_of_an_executor(k, options, monkeypatch):
    problem = random_problem(np.random.default_rng(5), sizes=(1,) * 14, rows=60)
    value, executor = explained_by(problem), Batches(monkeypatch)
    score = ds.objectives.Score(
        lambda names: value(frozenset(int(name) for name in names)),
        {f"g{j}": [str(j)] for j in range(14)}, executor=executor, empty=0.0, check=False,
    )  # fmt: skip
    if "diversity" in options:
        options = {"diversity": ds.objectives.Coverage(np.eye(14, dtype=bool), 0.1)}
    for method in ("dash", "greedy"):
        own = options if method == "dash" else {}
        found = getattr(ds, method)(score, k=k, **own)
        rounds = found.diagnostics.rounds
        assert len(executor.sizes) == rounds
        assert rounds <= k or "rounds" in own or "literal" in own
        assert found.diagnostics.history[-1] == found.diagnostics.value
        executor.sizes.clear()
        score.answers.known.clear()


@pytest.mark.parametrize("literal", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_library_runs_as_the_search_of_any_objective(seed, literal):
    """`Dense` answers by refits; draws, guesses, rounds and queries are the same."""
    problem = random_problem(np.random.default_rng(seed), sizes=(1,) * 9, rows=60)
    options = {"k": 5 - seed % 2, "seed": seed, "epsilon": 0.3, "literal": literal}
    compiled = ds.dash(problem.gram, "y", groups=problem.names, **options)
    found = ds.dash(Dense(explained_by(problem), 9), **options)
    assert [f"g{a}" for a in found.chosen] == compiled.groups
    assert found.diagnostics.queries == compiled.diagnostics.queries
    np.testing.assert_allclose(found.diagnostics.history, compiled.diagnostics.history, rtol=1e-9)


def test_a_literal_run_guesses_by_the_printed_grid(monkeypatch):
    """Appendix G: OPT is (1 + eps)^i max f(a), i to ln(n) / eps; no guess is left out."""
    problem = random_problem(np.random.default_rng(3), sizes=(1,) * 9, rows=60)
    value, guesses, ends, search = explained_by(problem), [], [], sampling.dash_search

    def spied(objective, settings, opt, alpha, alone):
        guesses.append((opt, alpha))
        ends.append((yield from search(objective, settings, opt, alpha, alone)))
        return ends[-1]

    monkeypatch.setattr(sampling, "dash_search", spied)
    found = ds.dash(Dense(value, 9), k=4, literal=True, epsilon=0.4)
    powers = 1.4 ** np.arange(int(np.log(9) / 0.4) + 1)
    largest = max(value(frozenset([a])) for a in range(9))
    assert sorted({opt for opt, _ in guesses}) == pytest.approx(largest * powers)
    assert sorted({alpha for _, alpha in guesses}) == pytest.approx(sorted(1 / powers))
    assert len(guesses) == len(ends) == len(powers) ** 2
    assert found.diagnostics.value == max(run.objective.value for run in ends)


def test_literally_a_run_may_end_with_fewer():
    """Of values 1/2, 1/4, ... two pass the filter, (1 + eps/2) t / k = 0.24; k is four."""
    k = 4

    def value(held):
        return float(sum(0.5 ** (a + 1) for a in held))

    options = {"k": k, "rounds": 1, "opt": 1.0, "alpha": 1.0}
    found = ds.dash(Dense(value, 12), literal=True, **options)
    assert sorted(found.chosen) == [0, 1]
    assert found.diagnostics.completed == found.diagnostics.stalled == 0
    assert sorted(ds.dash(Dense(value, 12), **options).chosen) == [0, 1, 2, 3]
    with pytest.raises(ds.errors.ArgumentError, match="literal is 1; it must be True or False"):
        ds.dash(Dense(value, 12), literal=1, **options)


def test_a_random_choice_is_that_of_its_seed():
    problem = random_problem(np.random.default_rng(4))
    first, again = (
        ds.reference.random_k(problem.gram, "y", problem.names, k=3, seed=7) for _ in range(2)
    )
    assert first.groups == again.groups
    assert len(set(first.groups)) == 3


def test_the_same_seed_gives_the_same_model_and_coefficients_are_refitted():
    problem = random_problem(np.random.default_rng(4))
    first, again = (ds.dash(problem.gram, "y", k=3, groups=problem.names, seed=2) for _ in "ab")
    assert first == again
    columns = [column for group in first.groups for column in problem.groups[group]]
    intercept, coef = reference.model(problem.table, columns)
    np.testing.assert_allclose(list(first.coefficients.values()), coef, rtol=1e-8)
    np.testing.assert_allclose(first.intercept, intercept, rtol=1e-8)
    np.testing.assert_allclose(first.r2, reference.r2(problem.table, columns), rtol=1e-10)
    history = first.diagnostics.history
    value = first.diagnostics.value
    assert (history[-1], first.explained) == pytest.approx((value, value), rel=1e-12)
    assert len(history) == first.diagnostics.rounds
    assert (np.diff(history) >= 0).all()


def test_dash_ends_where_plain_adaptive_sampling_never_does():
    """Appendix A.2: no pair that passes the filter reaches the threshold of alpha = 1."""
    half = np.sqrt(0.5)
    X = np.array(
        [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [half, half, 0, 0], [half, 0, half, 0],
         [half, 0, 0, half]]
    ).T  # fmt: skip
    target = np.array([1.0, 0, 0, 0])

    def r2(held):
        if not held:
            return 0.0
        A = X[:, sorted(held)]
        rest = target - A @ np.linalg.lstsq(A, target)[0]
        return 1.0 - rest @ rest

    start = Dense(r2, 6)
    plain = under(start, 2, rounds=1, epsilon=1e-9, opt=1.0, alpha=1.0, samples=200)
    assert len(plain.objective.held) == 2
    assert plain.stalled + plain.completed > 0
    found = ds.dash(start, k=2)
    assert len(found.chosen) == 2
    assert start.held == []
    assert found.diagnostics.value == pytest.approx(r2(set(found.chosen)))
    # The factor alpha^2 lets a pair pass.
    eased = under(start, 2, rounds=1, epsilon=1e-9, opt=1.0, alpha=0.8, samples=50)
    assert eased.stalled == 0


def test_dash_says_what_it_did_where_plain_adaptive_sampling_reaches_next_to_nothing():
    """Appendix A.1: min(2 u(S) + 1, 2 v(S)); u looks useless until there is a v."""
    k = 8

    def value(held):
        u, v = sum(a < k for a in held), sum(a >= k for a in held)
        return float(min(2 * u + 1, 2 * v))

    start = Dense(value, 2 * k)
    plain = under(start, k, rounds=1, epsilon=1e-9, opt=float(k), alpha=1.0, samples=200)
    # The filter leaves no set that reaches the optimum, k.
    assert len(plain.objective.held) == plain.completed == k
    assert plain.objective.value <= 1
    found = ds.dash(start, k=k)
    assert len(set(found.chosen)) == k
    assert 1 < found.diagnostics.value == value(frozenset(found.chosen)) <= k


def test_coverage_rewards_new_clusters_and_adds_to_the_objective():
    rng = np.random.default_rng(0)
    base = rng.normal(size=(400, 3))
    X = np.repeat(base, [4, 2, 1], axis=1) + 0.1 * rng.normal(size=(400, 7))
    y = X[:, 0] + 0.05 * X[:, 4] + 0.04 * X[:, 6] + 0.5 * rng.normal(size=400)
    gram = ds.gram(np.column_stack([X, y]), columns=[*(f"x{j}" for j in range(7)), "y"])
    cover = ds.objectives.coverage(gram, "y", reward=0.9)

    def covered(held):
        return 0.3 * len({(0, 0, 0, 0, 1, 1, 2)[a] for a in held})

    check = Dense(covered, 7)
    for state in (cover.copy(), check):
        state.add_all([1, 4, 2])
    clusters = cover.copy()
    clusters.add_all([1, 4, 2])
    np.testing.assert_allclose(clusters.gains(), check.gains())
    np.testing.assert_allclose(clusters.losses(), check.losses(), atol=1e-15)
    assert clusters.remove(4) == pytest.approx(0.3)
    plain = ds.greedy(gram, "y", k=3)
    diverse = ds.greedy(gram, "y", k=3, diversity=cover)
    assert covered({int(g[1]) for g in diverse.groups}) == pytest.approx(0.9)
    assert diverse.explained <= plain.explained
    assert diverse.diagnostics.value == pytest.approx(diverse.explained + 0.9)
    sampled = ds.dash(gram, "y", k=3, diversity=cover)
    assert sampled.diagnostics.value == pytest.approx(diverse.diagnostics.value, rel=0.1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 7}, "k is 7; it must be a whole number from 1 to 6"),
        ({"rounds": 5}, "rounds is 5; there are only k = 2 to choose"),
        ({"diversity": Dense(len, 4)}, "diversity is over 4 candidates; there are 6"),
        ({"diversity": Dense(len, 6, [1])}, "diversity has 1 candidates selected; it must have"),
        ({"diversity": 3}, "diversity is 3; it must be an objective"),
    ],
)
def test_wrong_options_are_refused(options, message):
    problem = random_problem(np.random.default_rng(0))
    given = {"target": "y", "k": 2, "groups": problem.names} | options
    with pytest.raises(ds.DbselectError, match=message):
        ds.dash(problem.gram, **given)

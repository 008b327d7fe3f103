"""Any function of columns, or any estimator, in the place of a Gram."""

import inspect
import itertools
import re
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from types import ModuleType

import numpy as np
import pandas as pd
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from test_dash import Dense

import dbselect as ds
from dbselect.errors import ArgumentError, ScoreError, ScoreWarning
from dbselect.objectives.fingerprint import fingerprint
from dbselect.record.steps import Stop
from dbselect.search.open import lead_search
from dbselect.search.score import lead_of

COSTS = {"u": 3.0, "v": 1.0, "w": 2.0, "x": 1.0, "z": 4.0}
GROUPS = {"u": ["a", "b"], "v": ["c"], "w": ["d", "e"], "x": ["f"], "z": ["g", "h"]}


def table(rows: int = 60) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(rows, 8))
    X[:, 5] += X[:, 0]
    y = X @ np.array([1.0, 0.2, 0.7, 0.5, 0.0, 0.3, 0.1, 0.05]) + 0.5 * rng.normal(size=rows)
    return pd.DataFrame(X, columns=list("abcdefgh")), y


class R2:
    """The r2 of least squares on all rows, and what was asked."""

    def __init__(self) -> None:
        self.X, self.y = table()
        self.calls: list[frozenset[str]] = []

    def __call__(self, columns: list[str]) -> float:
        self.calls.append(frozenset(columns))
        A = np.column_stack([np.ones(len(self.y)), self.X[columns]])
        left = self.y - A @ np.linalg.lstsq(A, self.y, rcond=None)[0]
        return 1.0 - float(left @ left) / float(((self.y - self.y.mean()) ** 2).sum())


def score_of(function, **options) -> ds.objectives.Score:
    return ds.objectives.Score(function, GROUPS, COSTS, **{"check": False, **options})


def linear() -> ds.Problem:
    X, y = table()
    return ds.Problem(X.assign(y=y), "y", GROUPS, COSTS)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("anytime_sequence", {}),
        ("anytime_sequence", {"budget": 6.0}),
        ("anytime_sequence", {"rule": "doubling"}),
        ("foba", {}),
        ("foba", {"epsilon": 0.01, "nu": 0.9}),
        ("backward", {}),
        ("backward", {"budget": 4.0}),
        ("backward", {"max_steps": 2}),
        ("foba", {"budget": 7.0}),
        ("floating", {"max_groups": 3}),
    ],
)
@pytest.mark.parametrize("always", [(), ("x", "w")])
def test_a_linear_score_gives_the_order_of_the_gram(method, options, always):
    ours = getattr(ds.Problem(score_of(R2()), always=always), method)(**options)
    gram = getattr(linear().replace(always=always), method)(**options)
    assert ours.steps["group"].to_list() == gram.steps["group"].to_list()
    assert ours.steps["action"].to_list() == gram.steps["action"].to_list()
    for name in ("cost", "spent", "explained", "gain", "score"):
        np.testing.assert_allclose(
            ours.steps[name].cast(float).to_numpy(), gram.steps[name].to_numpy(), atol=1e-9
        )
    assert ours.stop is gram.stop


@pytest.mark.parametrize("method", ["greedy", "exchange", "dash"])
@pytest.mark.parametrize("always", [(), ("z",)])
def test_a_linear_score_gives_the_sets_of_the_gram(method, always):
    ours = getattr(ds.Problem(score_of(R2()), always=always), method)(k=3)
    gram = getattr(linear().replace(always=always), method)(k=3)
    assert set(ours.chosen) == set(gram.chosen)
    assert ours.groups == [list(GROUPS)[one] for one in ours.chosen]
    assert ours.explained == pytest.approx(gram.explained, abs=1e-9)


@pytest.mark.parametrize("budget", [0.5, 3.0, 5.0, 7.0, 11.0])
def test_the_best_within_a_budget_is_that_of_all_subsets(budget):
    function = R2()
    found = ds.Problem(score_of(function)).best_within(budget)
    sets = [one for n in range(6) for one in itertools.combinations(GROUPS, n)]
    fits = [one for one in sets if sum(COSTS[name] for name in one) <= budget]
    best = max(function([c for name in one for c in GROUPS[name]]) for one in fits)
    assert found.explained == pytest.approx(best, abs=1e-12)
    assert found.proof.bound is None
    assert found.proof.gap is None
    assert not found.proof.proven
    assert "no bound" in repr(found)


def test_groups_that_do_harm_come_last_and_go_first():
    worth = {"u": 0.3, "v": -0.2, "w": 0.1, "x": -0.1, "z": -0.1}

    def value(columns):
        return sum(worth[name] for name, own in GROUPS.items() if set(own) <= set(columns))

    order = ds.anytime_sequence(score_of(value)).steps["group"].to_list()
    assert order == [None, "u", "w", "x", "v", "z"]  # -0.1 x 1, -0.2 x 1, -0.1 x 4
    gone = ds.backward(score_of(value)).steps.filter(action="remove")["group"].to_list()
    assert gone == ["z", "v", "x", "w", "u"]
    assert set(ds.foba(score_of(value)).steps["group"].to_list()) == {None, "u", "w"}
    assert set(ds.Problem(score_of(value)).best_within(100.0).groups) == {"u", "w"}


def test_a_set_is_asked_once_whichever_method_asks():
    function = R2()
    score = score_of(function)
    seq = ds.anytime_sequence(score)
    assert seq.queries[-1] == len(function.calls) == 1 + 5 + 4 + 3 + 2 + 1
    for method in ("foba", "floating"):
        getattr(ds, method)(score)
    ds.greedy(score, k=2)
    ds.backward(score)
    assert set(Counter(function.calls).values()) == {1}
    assert score.queries == len(function.calls)


def test_one_set_is_asked_twice_to_see_whether_the_score_repeats():
    count = itertools.count()

    def drifts(columns):
        return len(columns) + 1e-3 * next(count)

    with pytest.warns(ScoreWarning, match=r"\['a', 'b'\] is 2.001, and 2.006 when") as told:
        seq = ds.anytime_sequence(score_of(drifts, check=True))
    assert len(told) == 1
    assert len(seq.records) == 5
    function = R2()
    ds.anytime_sequence(score_of(function, check=True))
    assert sorted(Counter(function.calls).values())[-2:] == [1, 2]


@pytest.mark.parametrize("bad", ["raises", "nan", "text"])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_query_that_fails_leaves_the_sequence_so_far_and_resume_goes_on(bad, workers):
    whole, function, broken = ds.anytime_sequence(score_of(R2())), R2(), [True]

    def sometimes(columns):
        if len(columns) > 3 and broken[0]:
            if bad == "raises":
                raise MemoryError("no room")
            return {"nan": float("nan"), "text": "much"}[bad]
        return function(columns)

    score = score_of(sometimes)
    with ThreadPoolExecutor(2) as pool, pytest.warns(ScoreWarning, match="no room|finite|float"):
        seq = ds.anytime_sequence(score, executor=pool if workers else None)
    assert seq.stop is Stop.FAILED
    steps = len(seq.records)
    assert 0 < steps < 5
    assert seq.steps["group"].to_list() == whole.steps["group"].to_list()[: steps + 1]
    broken[0] = False
    again = ds.anytime_sequence(score_of(sometimes), resume=seq)
    assert again.steps["group"].to_list() == whole.steps["group"].to_list()
    assert set(Counter(function.calls).values()) == {1}


@pytest.mark.parametrize("of_none", [0.0, None])
def test_a_score_that_always_fails_is_an_error(of_none):
    def fails(columns):
        if columns or of_none is None:
            raise KeyError("no such table")
        return of_none

    with pytest.raises(ScoreError, match="no such table"):
        ds.anytime_sequence(score_of(fails))


def test_a_score_without_a_value_of_nothing_begins_at_the_least_group():
    function = R2()

    def needs_columns(columns):
        if not columns:
            raise ValueError("at least one column")
        return function(columns)

    with pytest.warns(ScoreWarning, match="give empty="):
        seq = ds.anytime_sequence(score_of(needs_columns))
    assert seq.steps["group"].to_list() == linear().anytime_sequence().steps["group"].to_list()
    assert seq.value[0] == min(function(columns) for columns in GROUPS.values())
    with pytest.raises(ScoreError, match=r"max_queries was reached.*give empty="):
        ds.anytime_sequence(score_of(needs_columns), max_queries=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ds.anytime_sequence(score_of(needs_columns, empty=0.0)).value[0] == 0.0


@pytest.mark.parametrize("most", [1, 2, 6, 7, 12])
def test_max_queries_is_never_exceeded_and_a_longer_one_goes_on(most):
    function = R2()
    score = score_of(function)
    seq = ds.anytime_sequence(score, max_queries=most)
    assert seq.stop is Stop.QUERIES
    assert len(function.calls) == most
    whole = ds.anytime_sequence(score)
    order = whole.steps["group"].to_list()
    assert seq.steps["group"].to_list() == order[: len(seq.spent)]
    assert set(Counter(function.calls).values()) == {1}


def test_limits_give_sets_the_best_so_far():
    score = score_of(R2())
    found = ds.dash(score, k=3, max_queries=7)
    assert found.diagnostics.stop is Stop.QUERIES
    assert found.diagnostics.queries == 7
    assert 0 < len(found.chosen) <= 3
    assert "max_queries" in repr(found)
    assert found.explained == max(
        score.value_of([one for one in range(5) if set(GROUPS[score.groups[one]]) <= columns])
        for columns in score.answers.known
        if len({name for name in GROUPS if set(GROUPS[name]) <= columns}) <= 3
    )


def test_a_time_limit_ends_with_the_steps_so_far():
    function = R2()

    def slow(columns):
        time.sleep(0.01)
        return function(columns)

    with ThreadPoolExecutor(2) as pool:
        for executor in (None, pool):
            seq = ds.anytime_sequence(score_of(slow), time_limit=0.05, executor=executor)
            assert seq.stop is Stop.TIME
            assert len(seq.records) < 5


def test_an_interrupt_leaves_the_sequence_so_far():
    function = R2()

    def interrupted(columns):
        if len(columns) > 3:
            raise KeyboardInterrupt
        return function(columns)

    seq = ds.anytime_sequence(score_of(interrupted))
    assert seq.stop is Stop.INTERRUPTED
    assert 0 < len(seq.records) < 5
    assert ds.greedy(score_of(interrupted), k=4).diagnostics.stop is Stop.INTERRUPTED


@pytest.mark.parametrize("method", ["anytime_sequence", "foba", "backward", "floating"])
def test_batches_go_out_together(method):
    def waiting():
        """Return a score that answers its first three questions of columns once all have come."""
        function, asked, together = R2(), itertools.count(), threading.Barrier(3, timeout=900)

        def waits(columns):
            if columns and next(asked) < 3:
                together.wait()
            return function(columns)

        return waits

    with ThreadPoolExecutor(3) as pool:
        seq = getattr(ds, method)(score_of(waiting()), executor=pool)
        own = getattr(ds, method)(score_of(waiting(), executor=pool))
    alone = getattr(ds, method)(score_of(R2()))
    assert seq.steps["group"].to_list() == own.steps["group"].to_list()
    assert seq.steps["group"].to_list() == alone.steps["group"].to_list()


class Remembering(ThreadPoolExecutor):
    """An executor that answers equal calls once, as Dask's, and fails as it likes when closed."""

    def __init__(self) -> None:
        super().__init__(2)
        self.answers: dict[str, Future[float]] = {}

    def submit(self, ask, /, *given):
        key = repr(given)
        if key not in self.answers:
            self.answers[key] = super().submit(ask, *given)
        return self.answers[key]

    def close(self) -> None:
        def submit(*_):
            raise OSError("the client is closed")

        self.submit = submit


def test_an_executor_may_answer_equal_calls_once_and_be_closed():
    numbers = itertools.count()
    with Remembering() as pool:
        with pytest.warns(ScoreWarning, match="when asked again"):
            ds.greedy(score_of(lambda _: next(numbers), executor=pool, check=True), k=1)
        pool.close()
        with pytest.raises(ScoreError, match="OSError: the client is closed"):
            ds.greedy(score_of(len, executor=pool), k=1)


def test_answers_are_kept_from_run_to_run(tmp_path):
    cache = tmp_path / "scores.parquet"
    function = R2()
    first = ds.anytime_sequence(score_of(function, cache=cache))
    asked = len(function.calls)
    again = ds.anytime_sequence(score_of(function, cache=cache))
    assert again.steps["group"].to_list() == first.steps["group"].to_list()
    assert len(function.calls) == asked
    # Another score in the same file, and a score that changed since.
    other = score_of(len, cache=cache, name="size")
    assert ds.greedy(other, k=1).groups[0] in ("u", "w", "z")
    X, y = table()
    for depth in (2, 2, 3):
        model = DecisionTreeClassifier(max_depth=depth, random_state=0)
        ds.greedy(ds.objectives.Score.of(model, X, y > 0, cv=2, cache=tmp_path / "of"), k=1)
    assert pl.read_parquet(tmp_path / "of")["score"].n_unique() == 2
    rows = pl.read_parquet(cache)
    assert set(rows["score"]) == {"", "size"}
    assert rows.filter(score="").height == asked
    with pytest.warns(ScoreWarning, match="when asked again"):
        ds.backward(score_of(lambda columns: 2 * function(columns), cache=cache, check=True))


def made(sign: float):
    """Return a metric by a name that others have, too."""

    def metric(y, predicted):
        return sign * float(np.abs(y - predicted).mean())

    return make_scorer(metric)


def test_metrics_of_one_name_do_not_share_answers(tmp_path):
    cache, (X, y) = tmp_path / "of", table()
    values = []
    for sign in (1.0, -1.0, -1.0):
        score = ds.objectives.Score.of(
            LinearRegression(), X, y, cv=2, scoring=made(sign), cache=cache
        )
        values.append(float(score.folds([0]).mean()))
    assert values[0] == -values[1]
    assert values[1] == values[2]
    assert score.queries == 0
    weights = np.ones((2, 1_500))
    weights[1, -1] = 2.0  # what a repr of the array would leave out
    names = [fingerprint(Weighted(each)) for each in (*weights, weights[0].copy())]
    assert names[0] == names[2] != names[1]


#: What changes the answers of a value, one way each: a module before and after.
CHANGED = {
    "a function of a module": "import helper\ndef value(): return helper.f()",
    "an attribute of a class": "class A:\n    scale = {n}\nvalue = A()",
    "a static method": "class A:\n    @staticmethod\n    def f(): return {n}\nvalue = A()",
    "a property": "class A:\n    @property\n    def f(self): return {n}\nvalue = A()",
    "a cached property": (
        "import functools\nclass A:\n    @functools.cached_property\n"
        "    def f(self): return {n}\nvalue = A()"
    ),
    "a base class": "class B:\n    scale = {n}\nclass A(B): pass\nvalue = A()",
    "a metaclass": "class M(type):\n    scale = {n}\nclass A(metaclass=M): pass\nvalue = A()",
    "what an installed package closes over": (
        "from sklearn.utils.metaestimators import available_if\nvalue = available_if(lambda: {n})"
    ),
    "a slot beside attributes": (
        "class S:\n    __slots__ = ('a',)\nclass A(S): pass\nvalue = A()\nvalue.a, value.b = {n}, 1"
    ),
    "an attribute of a list": "class A(list): pass\nvalue = A([1])\nvalue.scale = {n}",
    "an item of a mapping": "class A(dict): pass\nvalue = A(a={n})\nvalue.scale = 1",
    "an attribute of a mapping": "class A(dict): pass\nvalue = A(a=1)\nvalue.scale = {n}",
    "an attribute of a function": "def value(): return value.scale\nvalue.scale = {n}",
    "a function behind a cache": "import functools\n@functools.cache\ndef value(): return {n}",
    "a handler of errors": (
        "def value(x):\n    try:\n        return 1 / x\n    except {error}:\n        return 0"
    ),
    "a function that calls itself": "def value(x): return value(x - {n}) if x else 0",
    "two that call each other": "def g(x): return value(x) + {n}\ndef value(x): return g(x)",
    "what a list holds": "held = [{n}]\ndef value(): return held[0]",
    "the dtype of an array": "import numpy as np\nvalue = np.zeros(2, 'i{n}')",
}


@pytest.mark.parametrize("source", CHANGED.values(), ids=CHANGED)
def test_what_changes_the_answers_changes_the_name(source, monkeypatch):
    names = []
    for n in (1, 1, 2):
        for name, content in (("helper", "def f(): return {n}"), ("mine", source)):
            module = ModuleType(name)
            monkeypatch.setitem(sys.modules, name, module)
            exec(content.format(n=n, error=("OSError", "ValueError")[n - 1]), vars(module))
        names.append(fingerprint(module.value))
    assert names[0] == names[1] != names[2]
    assert None not in names


def test_a_value_that_cannot_be_read_has_no_name():
    class Broken:
        def __reduce_ex__(self, protocol):
            raise ValueError("not now")

    def early():
        return later

    before = fingerprint(early)  # what it closes over is not there yet
    later = 1
    assert (fingerprint(Broken()), before) == (None, None)
    assert fingerprint(early) is not None


class Weighted(LinearRegression):
    def __init__(self, weights=None):
        super().__init__()
        self.weights = weights


@pytest.mark.system
def test_a_function_within_an_estimator_has_one_name_in_every_process():
    code = (
        "from sklearn.preprocessing import FunctionTransformer\n"
        "from dbselect.objectives.fingerprint import fingerprint\n"
        "scale = {0}\n"
        "def f(X): return scale * X\n"
        "print(fingerprint(FunctionTransformer(f)))"
    )
    names = [
        subprocess.run([sys.executable, "-c", code.format(n)], capture_output=True, check=True)
        for n in (2, 2, 3)
    ]
    first, again, other = (one.stdout.strip() for one in names)
    assert first == again != other
    assert len(first) == 16


def test_without_content_to_compare_a_score_has_no_cache(tmp_path):
    X, y = table()
    model = Weighted(threading.Lock())
    with pytest.warns(ScoreWarning, match="cache is not used: .* give name="):
        score = ds.objectives.Score.of(model, X, y, cv=2, scoring="r2", cache=tmp_path / "of")
    assert score.answers.cache is None
    named = ds.objectives.Score.of(model, X, y, cv=2, cache=tmp_path / "of", name="mine")
    assert named.answers.name == "mine"
    assert named.answers.cache is not None


def test_a_group_that_does_harm_is_not_useful():
    values = {frozenset(): 0.5, frozenset("c"): 0.2}
    score = ds.objectives.Score(
        lambda columns: values[frozenset(columns)] + np.array([0.0, 0.01, 0.02]), {"v": ["c"]}
    )
    steps = ds.anytime_sequence(score, max_groups=1).steps
    assert steps["gain"].to_list()[1] == pytest.approx(-0.3)
    assert steps["useful"].to_list() == [True, False]


def test_a_crash_of_the_process_loses_no_answer(tmp_path):
    cache = tmp_path / "scores.parquet"
    function = R2()

    def exits(columns):
        if len(function.calls) == 9:
            raise SystemExit
        return function(columns)

    with pytest.raises(SystemExit):
        ds.anytime_sequence(score_of(exits, cache=cache))
    assert pl.read_parquet(cache).height == 9


@pytest.mark.parametrize("kind", ["pandas", "polars", "numpy"])
def test_frames_and_pipelines(kind):
    X, y = table()
    label = y > 0
    model = make_pipeline(StandardScaler(), LogisticRegression())
    given = {"pandas": X, "polars": pl.DataFrame(X), "numpy": X.to_numpy()}[kind]
    groups = GROUPS
    if kind == "numpy":
        groups = {g: [f"x{'abcdefgh'.index(name)}" for name in own] for g, own in GROUPS.items()}
    score = ds.objectives.Score.of(
        model, given, label, cv=3, scoring="roc_auc", groups=groups, costs=COSTS
    )
    seq = ds.anytime_sequence(score, max_groups=2)
    first = seq.steps["group"][1]
    expected = cross_val_score(model, X[GROUPS[first]], label, cv=3, scoring="roc_auc")
    assert seq.value[0] == 0.5
    assert seq.value[1] == pytest.approx(expected.mean(), abs=1e-12)
    paired = expected - 0.5
    assert seq.std_error[1] == pytest.approx(paired.std(ddof=1) / 3**0.5, abs=1e-12)
    fitted = seq.at(size=2).estimator
    assert fitted.score(score.answers.score.rows(seq.at(size=2).columns), label) > 0.8
    assert (seq.predict(given) == seq.at().predict(given)).all()


def test_gains_within_their_standard_error_are_none_and_end_the_search():
    rng = np.random.default_rng(0)
    X = pl.DataFrame(rng.normal(size=(200, 4)), schema=["a", "b", "n", "m"])
    y = (3 * X["a"] + X["b"]).to_numpy() + 0.1 * rng.normal(size=200)
    folds = KFold(5)
    score = ds.objectives.Score.of(LinearRegression(), X, y, cv=folds, scoring="r2", noise=2.0)
    seq = ds.anytime_sequence(score)
    assert seq.steps["group"].to_list() == [None, "a", "b"]
    assert seq.stop is Stop.NOISE
    for method in (ds.foba, ds.floating):
        assert method(score).stop is Stop.NOISE
        assert method(score).at().groups == ["a", "b"]
    every = ds.anytime_sequence(score, max_groups=4)
    assert every.useful.tolist() == [True, True, True, False, False]
    assert every.stop is Stop.EXHAUSTED


def test_a_shortlist_asks_fewer_and_finds_the_same():
    X, y = table(200)
    score = ds.objectives.Score.of(LinearRegression(), X, y, groups=GROUPS, costs=COSTS, noise=0)
    whole = ds.anytime_sequence(score, max_groups=3)
    again = ds.objectives.Score.of(LinearRegression(), X, y, groups=GROUPS, costs=COSTS, noise=0)
    short = ds.anytime_sequence(again, max_groups=3, shortlist=0.5)
    assert short.steps["group"].to_list() == whole.steps["group"].to_list()
    assert short.queries[-1] < whole.queries[-1]
    function = R2()
    guided = score_of(function, guide=linear())
    assert (
        ds.anytime_sequence(guided, shortlist=1.0).steps["group"].to_list()
        == linear().anytime_sequence().steps["group"].to_list()
    )
    assert len(function.calls) == 6
    with pytest.raises(ArgumentError, match="guide=Problem"):
        ds.anytime_sequence(score_of(R2()), shortlist=0.5)


def test_sequences_of_scores_are_priced_compared_drawn_and_reported(tmp_path):
    seq = ds.anytime_sequence(score_of(R2()))
    gram = linear().anytime_sequence()
    both = ds.compare({"score": seq, "gram": gram}).table
    np.testing.assert_allclose(both["timeliness"][0], both["timeliness"][1], atol=1e-9)
    np.testing.assert_allclose(seq.timeliness(), gram.timeliness(), atol=1e-9)
    cheap = seq.with_costs(dict.fromkeys(GROUPS, 1.0))
    assert cheap.spent[-1] == 5
    assert seq.plot().data["value"].max() == pytest.approx(gram.r2[-1], abs=1e-9)
    seq.report(tmp_path / "page.html", held_out={"the Gram": gram})
    text = (tmp_path / "page.html").read_text()
    assert "R2" in text
    assert "the Gram" in text
    assert "What a budget buys" in text
    with pytest.raises(ArgumentError, match="criteria"):
        seq.criteria()
    with pytest.raises(ArgumentError, match="certificate"):
        seq.certificate()
    assert seq._repr_html_().count("<tr>") > 5


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: ds.objectives.Score(3, GROUPS), "score is 3"),
        (lambda: ds.objectives.Score(len, GROUPS, executor=4), "executor is 4"),
        (lambda: ds.objectives.Score(len, GROUPS, {"u": 1.0}), "has no cost"),
        (lambda: ds.objectives.Score(len, GROUPS, noise=-1), "noise is -1"),
        (lambda: ds.objectives.Score(len, GROUPS, cache="no/folder/x"), "cache is"),
        (lambda: ds.foba(score_of(len), rule="omp"), "rule is 'omp'"),
        (lambda: ds.backward(score_of(len), backward="coefficient"), "backward is"),
        (lambda: ds.step(score_of(len)), "step reads rows"),
        (lambda: ds.sght(score_of(len), max_columns=1, max_groups=1), "sght reads rows"),
        (lambda: ds.Problem(score_of(len)).stability(), "stability reads rows"),
        (lambda: ds.Problem(score_of(len)).knockoffs(), "knockoffs reads rows"),
        (lambda: ds.Problem(score_of(len)).cross_validate(folds=3), "cross_validate reads rows"),
        (lambda: ds.Problem(score_of(len)).stopped_sequence(folds=3), "stopped_sequence reads"),
        (lambda: ds.Problem(score_of(len)).predictor(), "predictor reads rows"),
        (lambda: ds.Problem(score_of(len)).drift(table()[0]), "drift reads rows"),
        (lambda: ds.anytime_sequence(score_of(len), "y"), "target is 'y'"),
        (lambda: ds.greedy(score_of(len), k=9), "k is 9"),
        (lambda: linear().foba(max_queries=3), "max_queries is 3; it is for objectives"),
        (lambda: linear().anytime_sequence(time_limit=3), "time_limit is 3; it is for"),
        (lambda: ds.anytime_sequence(score_of(len), resume=3), "resume is 3"),
        (
            lambda: ds.anytime_sequence(
                score_of(len, name="other"), resume=ds.anytime_sequence(score_of(len))
            ),
            "the same score",
        ),
        (lambda: ds.anytime_sequence(score_of(len)).sql(), "sql cannot be had"),
        (lambda: ds.anytime_sequence(score_of(len)).refit(table()[0]), "refit, cross"),
        (lambda: ds.greedy(score_of(len), k=1).r2, "has no r2"),
        (lambda: ds.dash(score_of(len), k=1, shortlist=0.5), "no option|unknown option"),
        (lambda: ds.objectives.Score.of(LinearRegression, [[1]], [1]), "estimator is"),
        (lambda: ds.objectives.Score.of(LinearRegression(), [[1]], [1]), "X is"),
        (
            lambda: ds.objectives.Score.of(LinearRegression(), *table(), scoring="r22"),
            "scoring names unknown score 'r22'; there is 'r2'",
        ),
        (lambda: ds.objectives.Score.of(LinearRegression(), *table(), cv=1), "cv is 1; .* >= 2"),
        (lambda: ds.objectives.Score.of(LinearRegression(), *table(), cv="x"), "cv is 'x'"),
        (lambda: ds.objectives.Score.of(LinearRegression(), table()[0], [1]), "y has shape"),
        (lambda: ds.objectives.Score.of(LinearRegression(), table()[0], "a"), r"X\['a'\]"),
    ],
)
def test_mistakes_are_told_in_a_sentence(ask, words):
    with pytest.raises(ArgumentError if "cost" not in words else ds.DbselectError, match=words):
        ask()


def test_every_public_name_works_or_refuses_in_a_sentence(tmp_path):
    X, y = table()
    score = ds.objectives.Score.of(LinearRegression(), X, y, groups=GROUPS, costs=COSTS)
    seq = ds.anytime_sequence(score, max_groups=5)
    given = {
        "step": 1, "costs": dict.fromkeys(GROUPS, 2.0), "path": tmp_path / "one.html", "rows": X,
        "budget": 3.0, "source": X, "fraction": 0.9, "a": X, "b": X, "group": "u",
        "worth": 1.0, "groups": seq.groups, "held": [0], "folds": seq.folds[1], "call": seq.call,
    }  # fmt: skip
    refused = {}
    for result in (seq, seq.at()):
        for name in (one for one in dir(type(result)) if not one.startswith(("_", "read_"))):
            try:
                thing = getattr(result, name)
                if callable(thing):
                    parameters = inspect.signature(thing).parameters.values()
                    needed = [
                        one.name
                        for one in parameters
                        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
                    ]
                    record = {"record": result.to_struct()}
                    thing(*((given | record)[one] for one in needed))
            except ArgumentError as error:
                refused[name] = str(error)
    criteria = {"criteria", "best", "f_tests", "lr_tests", "certificate", "guarantee", "swaps"}
    criteria |= {"break_even"}
    other_rows = {"anytime_predict", "refit", "cross_validate", "drift"}
    of_model = {"coefficients", "expr", "intercept", "sql", "summary"}
    assert set(refused) == criteria | other_rows | of_model
    assert all(re.fullmatch(r"[a-zA-Z][^\n]*[^.\n]", text) for text in refused.values())


@pytest.mark.parametrize("end", ["parquet", "json"])
def test_a_sequence_of_a_score_is_stored_without_its_function(end, tmp_path):
    X, y = table()
    score = ds.objectives.Score.of(LinearRegression(), X, y, groups=GROUPS, costs=COSTS)
    for made in (score, score_of(len)):
        seq = ds.anytime_sequence(made)
        for result in (seq, seq.at(2.0)):
            path = tmp_path / f"one.{end}"
            getattr(result, f"write_{end}")(path)
            again = ds.read(path)
            assert repr(again) == repr(result)
            assert again.explained == pytest.approx(result.explained)
        assert again.groups == seq.at(2.0).groups
        seq.write_json(tmp_path / "seq.json")
        again = ds.read(tmp_path / "seq.json")
        assert_frame_equal(again.steps, seq.steps)
        assert again.at(2.0).groups == seq.at(2.0).groups
        with pytest.raises(ScoreError, match="was read from a file, which has no function"):
            ds.anytime_sequence(again.score)


@pytest.mark.parametrize("method", [ds.dash, ds.greedy, ds.exchange, ds.reference.top_k])
def test_any_objective_is_asked_side_by_side(method):
    left = 1.0 - np.linspace(0.01, 0.2, 9)
    objective = Dense(lambda held: 1.0 - float(np.prod(left[list(held)])), 9)
    alone = method(objective, k=3)
    with ThreadPoolExecutor(3) as pool:
        found = method(objective, k=3, executor=pool)
    assert set(found.chosen) == set(alone.chosen) == {6, 7, 8}
    assert found.diagnostics.value == pytest.approx(alone.diagnostics.value, abs=1e-12)
    assert objective.held == []
    few = method(objective, k=3, max_queries=5)
    assert few.diagnostics.stop is Stop.QUERIES
    assert few.diagnostics.queries <= 5


def test_refits_of_a_family_are_asked_side_by_side():
    X, y = table()
    problem = ds.Problem(X.assign(y=y > 0), "y", GROUPS, COSTS, family="binomial", ridge=0.1)
    alone = ds.greedy(problem.objective(), k=2)
    with ThreadPoolExecutor(2) as pool:
        found = ds.greedy(problem.objective(), k=2, executor=pool)
    assert set(found.groups) == set(alone.groups)
    assert found.explained == pytest.approx(alone.explained, abs=1e-9)


@pytest.mark.slow
@pytest.mark.system
def test_processes_ask_side_by_side():
    X, y = table()
    with ProcessPoolExecutor(2) as pool:
        score = ds.objectives.Score.of(LinearRegression(), X, y, groups=GROUPS, executor=pool)
        ours = ds.anytime_sequence(score, max_groups=3)
    alone = ds.anytime_sequence(
        ds.objectives.Score.of(LinearRegression(), X, y, groups=GROUPS), max_groups=3
    )
    assert ours.steps["group"].to_list() == alone.steps["group"].to_list()


def test_a_cache_that_cannot_be_written_costs_no_answer(tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    score = score_of(R2(), cache=folder / "scores.parquet")
    folder.rmdir()
    with pytest.warns(ScoreWarning, match="is not written") as told:
        seq = ds.anytime_sequence(score)
    assert len(told) == 1
    assert len(seq.records) == 5


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_shortlist_reads_texts_missing_values_and_classes(kind):
    X, y = table(120)
    frame = X[["a", "d", "h"]].assign(k=np.where(y > 0, "high", "low"))
    frame.loc[::9, "h"] = np.nan
    target = y if kind == "numbers" else np.where(y > 0, np.where(X["b"] > 0, "p", "q"), "r")

    scored = ds.objectives.Score.of(
        DecisionTreeClassifier() if kind == "classes" else LinearRegression(), frame, target
    )
    gains = lead_of(scored, 0.5, lead_search).state.gains()
    assert scored.groups[gains.argmax()] == "k"
    assert gains.argmin() == scored.groups.index("h")
    assert lead_of(scored, 1.0, lead_search)(scored, [0, 1, 2, 3]) == [scored.groups.index("k")]


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("seed", range(4))
def test_lazy_questions_are_exact_where_gains_fall(seed, workers):
    """Coverage is submodular: the steps are greedy's, by gain and by gain per cost."""
    rng = np.random.default_rng(seed)
    covers = rng.random((14, 40)) < 0.15
    columns = {f"g{j}": [str(j)] for j in range(14)}
    costs = dict(zip(columns, rng.uniform(1, 3, 14), strict=True))

    def covered(names):
        return float(covers[[int(name) for name in names]].any(axis=0).sum())

    def score():
        return ds.objectives.Score(covered, columns, costs, empty=0.0, check=False)

    with ThreadPoolExecutor(3) as pool:
        executor = pool if workers else None
        for search in (partial(ds.greedy, k=8), partial(ds.anytime_sequence, max_groups=8)):
            every, lazily = score(), score()
            found, same = search(every), search(lazily, lazy=True, executor=executor)
            if isinstance(found, ds.results.Selected):
                assert same.groups == found.groups
                assert found.diagnostics.rounds == 8
                # All alone at first, then one after the other, or as many as there are workers.
                rest = lazily.queries - 14
                waits = same.diagnostics.rounds - 1
                assert waits == rest if not workers else rest / 3 <= waits < rest
            else:
                assert same.steps["group"].to_list() == found.steps["group"].to_list()
            assert lazily.queries < 0.8 * every.queries


def test_lazy_questions_stop_where_all_do_and_a_sample_is_drawn_by_its_seed():
    noisy = {"lazy": True}
    function = R2()
    whole = ds.anytime_sequence(score_of(function))
    assert ds.anytime_sequence(score_of(R2()), **noisy).stop is whole.stop
    score = score_of(R2())
    first = ds.greedy(score, k=3, sample=2, seed=5)
    assert score.queries <= 1 + 3 * 2
    again = [ds.greedy(score_of(R2()), k=3, sample=2, seed=seed).groups for seed in (5, 6, 7, 8)]
    assert again[0] == first.groups
    assert len(set(map(tuple, again))) > 1
    every = ds.greedy(score_of(R2()), k=3)
    assert ds.greedy(score_of(R2()), k=3, sample=5, lazy=True).explained <= every.explained + 1e-12
    for options, message in (
        ({"lazy": True, "shortlist": 0.5}, "lazy is True; it does not go with shortlist"),
        ({"lazy": True, "rule": "doubling"}, "lazy is True; it needs rule='fr', not 'doubling'"),
        ({"lazy": 1}, "lazy is 1; it must be True or False"),
        ({"sample": 2}, "no option|unknown option"),
    ):
        with pytest.raises(ds.DbselectError, match=message):
            ds.anytime_sequence(score_of(R2()), **options)
    with pytest.raises(ds.DbselectError, match="lazy is True; it is for objectives whose answers"):
        linear().greedy(k=2, lazy=True)

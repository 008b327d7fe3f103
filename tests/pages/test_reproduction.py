"""What `make reproduce` repeats is what the papers define, and its page holds all of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference

import dbselect as ds

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproduction.md"
#: An objective at its minimum has gradients within the penalty, up to the solver's tolerance.
KKT = 1e-3


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """Let the studies be imported as their script imports them."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    monkeypatch.syspath_prepend(str(ROOT / "bench"))


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Return the page of a quick run of all parts, and how to run parts again."""
    page = tmp_path_factory.mktemp("reproduction") / "page.md"
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(ROOT / "bench" / "reproduction.py"), *arguments]
        command += ["--quick", "--out", str(page)]
        return subprocess.run(command, check=False, capture_output=True, text=True, env=environment)

    return page, run


def parts(page: Path) -> dict[str, str]:
    return dict(re.findall(r"<!-- part (\w+) -->\n(.*?)<!-- end -->", page.read_text(), re.DOTALL))


@pytest.mark.slow
def test_a_quick_run_writes_every_part_with_its_pictures(quick):
    page, run = quick
    done = run()
    assert done.returncode == 0, done.stderr
    assert list(parts(page)) == list(parts(PAGE))
    for text in parts(page).values():
        assert text.startswith("## ")
        assert "| claim | here | by |" in text
    pictures = re.findall(r"\]\((page/\w+\.svg)\)", page.read_text())
    assert len(pictures) >= 6
    assert all((page.parent / picture).read_text().startswith("<svg") for picture in pictures)
    # A part that is run again leaves the others as they are.
    before = parts(page)
    assert run("sequencing_doubling").returncode == 0
    assert parts(page) == before
    assert "there is no part ['other']" in run("other").stderr


def test_the_page_begins_with_all_that_is_not_seen():
    text = PAGE.read_text()
    head = text.split("<!-- part")[0]
    not_seen = re.findall(r"^\| (.*?) \| \*\*not seen\*\* \|", text, re.MULTILINE)
    assert not_seen == re.findall(r"^- .*?\): (.*)$", head, re.MULTILINE)
    (count, seen) = map(int, re.search(r"Of (\d+) claims (\d+) are seen", head).groups())
    assert seen == len(re.findall(r"\| seen \|", text))
    assert count == seen + len(not_seen)


def test_the_page_has_its_pictures():
    pictures = re.findall(r"\]\((reproduction/\w+\.svg)\)", PAGE.read_text())
    kept = {f"reproduction/{path.name}" for path in (PAGE.parent / "reproduction").iterdir()}
    assert set(pictures) == kept


def trace(sequence: ds.results.Sequence, first: int) -> list[int]:
    """Return steps as `reference.foba` does; names end in the number, counted from `first`."""
    steps = sequence.steps.slice(1)
    sign = {"add": 1, "remove": -1}
    return [
        sign[action] * (int(group.strip("x")) + 1 - first)
        for action, group in zip(steps["action"], steps["group"], strict=True)
    ]


def test_foba_takes_the_steps_of_the_slides():
    from reproduce import foba
    from reproduce.origin import through_origin

    for seed in range(2):
        truth = foba.sparse_truth(seed)
        gram = through_origin(truth.X, truth.y, [f"x{j}" for j in range(foba.WIDTH)])
        steps = trace(ds.foba(gram, "y", max_steps=8), 0)
        assert steps == reference.foba(truth.X, truth.y, most=8)
    X, y, names = foba.boston_rows()
    for seed in range(4):
        rows = np.random.default_rng(seed).permutation(len(y))[: foba.BOSTON_ROWS]
        steps = trace(ds.foba(through_origin(X[rows], y[rows], names), "y", max_steps=12), 1)
        assert steps == reference.foba(X[rows], y[rows], most=12)


def test_the_errors_of_the_simulation_are_those_of_a_refit():
    from reproduce import foba

    truth = foba.sparse_truth(0)
    models = foba.of_five(truth)
    for method in ("FoBa", "forward", "L1"):
        kept = np.flatnonzero(models[method])
        own = np.linalg.lstsq(truth.X[:, kept], truth.y, rcond=None)[0]
        np.testing.assert_allclose(models[method][kept], own, rtol=1e-9)
    training, parameter, missed = foba.errors(truth, truth.weights)
    assert (parameter, missed) == (0.0, 0)
    assert abs(training - foba.NOISE_VARIANCE) < 0.05
    assert foba.errors(truth, np.zeros(foba.WIDTH))[2] == foba.TRUE


def test_refits_on_rows_give_the_order_of_the_reference():
    from reproduce import sequencing

    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8)) + rng.standard_normal((60, 1))
    y = X @ rng.standard_normal(8) + rng.standard_normal(60)
    groups = {"a": [0, 1, 2], "b": [3], "c": [4, 5], "d": [6, 7]}
    costs = {"a": 2.0, "b": 1.0, "c": 3.0, "d": 1.5}
    table = reference.Table(X, y)
    for rule, worth in (("omp", sequencing.omp_worth), ("fr", sequencing.fr_worth)):
        order = sequencing.naive_order(
            X - X.mean(axis=0), y - y.mean(), [np.array(own) for own in groups.values()],
            np.array(list(costs.values())), worth,
        )  # fmt: skip
        steps = reference.greedy(table, groups, costs, rule)
        assert [list(groups)[group] for group in order] == [step.group for step in steps]


def test_the_factor_in_cost_is_that_of_all_budgets():
    from reproduce import sequencing

    for order in ([1, 2, 4, 8], [1, 3, 9], [1, 2, 3, 6, 12], [4, 1, 2]):
        last = sum(order[: order.index(max(order)) + 1])
        worst = 0.0
        for budget in np.arange(order[0], last, 0.01):
            spent = np.cumsum(order)
            held = [item for item, own in zip(order, spent, strict=True) if own <= budget]
            worst = max(worst, budget / max(held))
        assert abs(max(worst, order[0]) - sequencing.cost_factor(order)) < 0.02


@pytest.mark.slow
def test_the_sparse_group_lasso_is_at_its_minimum():
    from reproduce.sparse_group_lasso import path

    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 12))
    y = X[:, 0] * 3 + X[:, 1] + rng.standard_normal(60)
    X, y = X - X.mean(axis=0), y - y.mean()
    sizes, penalties = [3, 3, 3, 3], np.array([0.5, 0.1])
    for penalty, w in zip(penalties, path(X, y, sizes, penalties), strict=True):
        gradient = X.T @ (y - X @ w) / len(y)
        for group in range(4):
            own, g = w[3 * group : 3 * group + 3], gradient[3 * group : 3 * group + 3]
            soft = np.sign(g) * np.maximum(np.abs(g) - penalty, 0)
            length = np.linalg.norm(own)
            if length == 0:
                assert np.linalg.norm(soft) <= penalty * np.sqrt(3) + KKT
                continue
            on = own != 0
            pull = penalty * (np.sqrt(3) * own / length + np.sign(own))
            np.testing.assert_allclose(g[on], pull[on], atol=KKT)
            assert (np.abs(g[~on]) <= penalty + KKT).all()


@pytest.mark.slow
def test_published_designs_are_what_they_say():
    from reproduce import bilevel, dash, sequencing

    assert (len(sequencing.SIZES), sum(sequencing.SIZES)) == (57, 328)
    assert round(float(sequencing.COSTS.sum()), 3) == 0.111
    rows, groups, costs = sequencing.fields(0, 2000)
    assert rows.shape == (2000, 329)
    assert set(groups) == set(costs)
    assert round(float(rows[:, 0].var()) / 2, 2) == 0.09
    X, _ = dash.regression(0, dash.D1)
    assert abs(np.corrcoef(X.T)[np.triu_indices(500, 1)].mean() - 0.4) < 0.05
    for published in bilevel.PUBLISHED.values():
        true = {round(own[0] - own[1] + own[2], 1) for own in published.values()}
        assert true <= {6.0, 5.9, 6.1}

"""What `make reproduce` repeats is what the papers define, and its page holds all of it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import reference
from scipy import stats

import dbselect as ds

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproduction.md"


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
    assert set(parts(PAGE)) <= set(parts(page))
    for text in parts(page).values():
        assert text.startswith("## ")
        assert re.search(r"data sets:\sof \d+ claims", " ".join(text.split()))
    pictures = re.findall(r"\]\((page/\w+\.svg)\)", page.read_text())
    assert len(pictures) >= 6
    assert all((page.parent / picture).read_text().startswith("<svg") for picture in pictures)
    # A part that is run again leaves the others as they are.
    before = parts(page)
    assert run("sequencing_table_1").returncode == 0
    assert parts(page) == before
    assert "there is no part ['other']" in run("other").stderr


def test_the_page_begins_with_the_counts_of_the_claims_that_it_keeps():
    claims = pl.read_csv(PAGE.parent / "reproduction" / "claims.csv")
    page = PAGE.read_text()
    rows = re.findall(r"^\| (.+?) \| .+? \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|",
                      page.split("<!-- part")[0], re.MULTILINE)  # fmt: skip
    shown = {paper: list(map(int, counts)) for paper, *counts in rows}
    kept = {}
    for (paper,), own in claims.group_by("paper"):
        verdicts = own["verdict"].to_list()
        counts = [verdicts.count(one) for one in ("seen", "undecided", "contradicted")]
        kept[paper] = [len(verdicts), *counts]
    assert shown == kept
    assert len(page.split()) <= 6000
    text = " ".join(page.split())
    for claim in claims.filter(verdict="contradicted")["claim"].to_list():
        assert claim in text


def test_every_order_that_a_table_prints_is_a_claim():
    from reproduce import published
    from reproduce.claims import orders

    # Of eight figures that differ 28; CS-G-FR and its oracle are equal with groups of 15 and 20.
    assert len(list(orders(published.HU_1))) == 28
    assert len(list(orders(published.HU_2))) == 4 * 28 - 2
    assert ("groups of 15", "Sparse", "G-OMP") in set(orders(published.HU_2))
    assert len(list(orders(published.ZHANG_1))) == 9


def test_verdicts_are_three():
    from reproduce.claims import said

    rng = np.random.default_rng(0)
    noise = rng.normal(size=40)
    noise -= noise.mean()
    for shift, verdict in ((1.0, "seen"), (0.0, "undecided"), (-1.0, "contradicted")):
        found = said("paper", "table", "a > b", noise + shift)
        assert found.verdict == verdict
        low, high = stats.t.interval(0.95, 39, shift, stats.sem(noise))
        assert (found.low, found.high) == pytest.approx((low, high))
    # Of too few data sets nothing is decided.
    assert said("paper", "table", "a > b", np.ones(19) + noise[:19] / 100).verdict == "undecided"


def test_one_violation_contradicts_a_theorem():
    from reproduce.claims import bound

    ratios = np.full(40, 1.5)
    assert bound("paper", "theorems", "a", ratios).verdict == "seen"
    ratios[7] = 0.999
    assert bound("paper", "theorems", "a", ratios).verdict == "contradicted"


@pytest.mark.parametrize("work", ["sequencing", "foba", "thresholding", "sampling"])
def test_theorems_hold_nearly_and_a_broken_product_violates_them(work):
    from reproduce import theorems

    problem = getattr(theorems, work)
    kept = theorems.ratios(problem, range(4))
    broken = theorems.ratios(problem, range(4), is_broken=True)
    for name, ratios in kept.items():
        assert 1 <= min(ratios) < (2.6 if "4.3" in name else 2.04)
        assert min(broken[name]) < 1


def test_the_page_has_its_pictures():
    pictures = re.findall(r"\]\((reproduction/\w+\.svg)\)", PAGE.read_text())
    kept = {f"reproduction/{path.name}" for path in (PAGE.parent / "reproduction").glob("*.svg")}
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


@pytest.mark.slow
def test_published_designs_are_what_they_say():
    from reproduce import dash, published, sequencing

    assert (len(sequencing.SIZES), sum(sequencing.SIZES)) == (57, 328)
    assert round(float(sequencing.COSTS.sum()), 3) == 0.111
    rows, groups, costs = sequencing.fields(0, 2000)
    assert rows.shape == (2000, 329)
    assert set(groups) == set(costs)
    assert round(float(rows[:, 0].var()) / 2, 2) == 0.09
    X, _ = dash.regression(0, dash.D1)
    assert abs(np.corrcoef(X.T)[np.triu_indices(500, 1)].mean() - 0.4) < 0.05
    for printed in published.XIANG_3.values():
        for kind, all_of_them in (("groups", 6.0), ("columns", None)):
            names = (kind, f"false {kind}", f"missed {kind}")
            held, false, missed = (printed.figures[name] for name in names)
            true = {round(held[one] - false[one] + missed[one], 1) for one in held}
            assert max(true) - min(true) <= 2.6
            assert all_of_them is None or all_of_them in true

"""Results at a glance: short in a terminal, tables in a notebook, at any number of groups."""

import io
import re
import sys
import xml.etree.ElementTree as ET
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_results import COSTS, FAMILIES, GROUPS, found, table

import dbselect as ds
from dbselect.search.gram import GramSearch
from dbselect.sources import progress

#: Characters of a line that is read at once.
SHORT = 420


@cache
def wide(groups: int = 200) -> pl.DataFrame:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(groups + 50, groups))
    y = X @ rng.normal(size=groups) + rng.normal(size=len(X))
    frame = pl.DataFrame(X, schema=[f"a_feature_with_a_name_{j}" for j in range(groups)])
    return frame.with_columns(y=y, z=pl.Series(y**2), flag=pl.Series(y > 0).cast(int))


@cache
def results() -> dict[str, Any]:
    """Return a result of each kind, most of them of 200 groups."""
    frame = wide()
    plain, joint = frame.drop("z", "flag"), frame.drop("flag")
    names = plain.columns[:-1]
    gram, sequence = ds.gram(plain), ds.anytime_sequence(plain, "y")
    folds = ds.gram_by(plain, fold=3)
    return {
        "gram": gram,
        "sequence": sequence,
        "model": sequence.at(),
        "joint": ds.anytime_sequence(joint, ["y", "z"]),
        "joint model": ds.anytime_sequence(joint, ["y", "z"]).at(),
        "logistic": found("binomial"),
        "logistic model": ds.fit(frame, "flag", names[:60], family="binomial", ridge=1.0),
        "classes": found("multinomial").at(),
        "foba": ds.foba(plain, "y", max_steps=20),
        "greedy": ds.greedy(plain, "y", k=200),
        "coverage": ds.greedy(ds.objectives.coverage(gram, "y"), k=200),
        "path": ds.group_lasso_path(plain, "y", n_lambda=3),
        "path of columns": ds.lasso_path(plain, "y", n_lambda=3),
        "cv": ds.cross_validate(folds, "y", ds.anytime_sequence, {"max_groups": [2, 3]}),
        "comparison": ds.compare(dict.fromkeys(names[:30], sequence)),
        "design": ds.a_optimal(plain, names[:5], 30),
    }


KINDS = [
    "gram", "sequence", "model", "joint", "joint model", "logistic", "logistic model", "classes",
    "foba", "greedy", "coverage", "path", "cv", "comparison", "design",
]  # fmt: skip
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@pytest.mark.slow
def test_a_line_is_short_and_shows_what_is_spent(kind):
    line = repr(results()[kind])
    assert len(line) < SHORT
    assert "\n" not in line
    if kind not in ("gram", "design", "coverage", "comparison", "logistic model"):
        assert re.search(r"spent \d", line)


@pytest.mark.slow
def test_of_200_groups_the_first_are_named_and_the_others_counted():
    seq = results()["sequence"]
    first = seq.steps["group"][1:9].to_list()
    assert f"y ~ {', '.join(first)}, ... and 192 more; " in repr(seq)
    assert f"{', '.join(first)}, ... and 192 more; " in repr(seq.at())


@kinds
@pytest.mark.slow
def test_a_notebook_shows_a_short_table_that_is_well_formed(kind):
    result = results()[kind]
    html = result._repr_html_()
    tree = ET.fromstring(html)
    rows = list(tree.iter("tr"))
    assert 2 <= len(rows) <= 18
    widths = {
        sum(int(cell.get("colspan", 1)) for cell in row if cell.tag in ("td", "th")) for row in rows
    }
    assert len(widths) == 1
    assert len(html) < 12_000
    assert not re.search(r"background|#fff|white|<script|http", html)
    for curve in tree.iter("svg"):
        assert curve.get("aria-label")


def cells(result: Any) -> list[list[str]]:
    tree = ET.fromstring(result._repr_html_())
    return [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]


@pytest.mark.parametrize("family", list(FAMILIES))
def test_a_sequence_shows_its_steps_and_a_model_its_coefficients(family):
    seq = found(family)
    rows = cells(seq)
    assert rows[0] == ["step", "group", "cost", "spent", "gain", "r2"]
    assert [row[1] for row in rows[2:]] == seq.steps["group"][1:].to_list()
    assert [row[3] for row in rows[1:]] == [f"{one:.4g}" for one in seq.spent]
    model = seq.at()
    shown = {row[0]: row[1:] for row in cells(model)[1:]}
    offset = ["logs"] if family == "poisson" else []
    assert list(shown) == ["(intercept)", *offset, *model.columns]
    values = model.coefficients
    each = list(values.values()) if isinstance(next(iter(values.values())), dict) else [values]
    for name in model.columns:
        assert shown[name] == [f"{own[name]:.4g}" for own in each]


def test_a_gram_shows_what_is_missing_and_how_columns_vary():
    frame = pl.DataFrame({"a": [1.0, 2.0, None, 4.0], "b": [3.0, 5.0, 7.0, 9.0]})
    assert cells(ds.gram(frame))[1:] == [["a", "2.333", "1.247", "1"], ["b", "5.667", "2.494", "0"]]


def test_names_are_text_and_no_html():
    frame = pl.DataFrame({"<b>a": [1, 2, 3, 5], "y&z": [1, 3, 2, 4]})
    seq = ds.anytime_sequence(frame, "y&z")
    for result in (seq, seq.at(), ds.gram(frame)):
        html = result._repr_html_()
        assert "&lt;b&gt;a" in html
        assert "<b>" not in html
        ET.fromstring(html)


def test_a_group_that_was_given_back_is_marked():
    seq = ds.backward(table().select("x", "noise", "y"), "y")
    removed = [row[1] for row in cells(seq) if row[1].startswith("-")]
    assert len(removed) == len(seq.steps.filter(action="remove")) > 0


def test_what_is_spent_is_shown_of_every_prefix():
    seq = ds.anytime_sequence(table(), "y", GROUPS, COSTS)
    for step, spent in enumerate(seq.spent):
        assert f"spent {spent:g}; 400 rows" in repr(seq.model(step))


class _Screen(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.isatty = lambda: terminal


#: Searches, and what their bars count.
SEARCHES = {
    "groups": lambda frame: ds.anytime_sequence(frame, "y"),
    "steps": lambda frame: ds.foba(frame, "y"),
    "penalties": lambda frame: ds.group_lasso_path(frame, "y"),
    "questions": lambda frame: ds.best_within(frame, "y", 3.0),
    "points of the grid": lambda frame: ds.cross_validate(
        ds.gram_by(frame, fold=2), "y", ds.anytime_sequence, {"ridge": [0.1, 1.0]}
    ),
}


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("unit", list(SEARCHES))
def test_a_search_shows_its_progress_on_a_terminal_only(monkeypatch, unit, terminal):
    screen = _Screen(terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress, "PROGRESS_DELAY", 0)
    # What the compiled library searches is over before there would be a bar.
    monkeypatch.setattr(GramSearch, "compiled", lambda *_: None)
    SEARCHES[unit](table().select("x", "noise", "logs", "z", "y"))
    assert (f" {unit}" in screen.getvalue()) == terminal


def test_a_search_that_is_short_shows_nothing(monkeypatch):
    screen = _Screen(terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    ds.anytime_sequence(table(), "y", GROUPS)
    assert screen.getvalue().strip() == ""


@pytest.mark.parametrize("groups", [3, 13, 200])
def test_a_sequence_prints_its_steps_within_80_columns(groups):
    seq = ds.anytime_sequence(wide(groups).drop("z", "flag"), "y", costs={
        name: 1e-9 * 10**at for at, name in enumerate(wide(groups).columns[:-3])
    } if groups < 20 else None)  # fmt: skip
    head, table = str(seq).split("\nstep ")
    assert " ".join(head.split()) == repr(seq)
    lines = table.split("\n")[1:]
    assert max(map(len, str(seq).split("\n"))) <= 80
    assert len(lines) == (groups + 1 if groups < 30 else 26)
    assert [line.split()[0] for line in lines[:3]] == ["0", "1", "2"]
    assert len(seq) == len(list(seq)) == groups + 1
    bars = [line.count("█") for line in lines]
    assert bars[0] == 0
    assert bars[-1] == max(bars)

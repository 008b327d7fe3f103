"""Searches that end by rows held out: scores, end and choice against refits fold by fold."""

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dbselect as ds
from dbselect.options.names import PROBLEM_FIELDS

FOLDS = 5


def table(seed=0, width=12, rows=120, noise=2.0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width))
    y = x[:, 0] + 0.8 * x[:, 1] - 0.6 * x[:, 2] + noise * rng.normal(size=rows)
    fold = np.arange(rows) % FOLDS
    return pl.DataFrame({f"x{j}": x[:, j] for j in range(width)} | {"y": y, "fold": fold})


def folds_of(frame):
    return ds.gram_by(frame, by=["fold"], columns=["x*", "y"])


def forward(x, y, most):
    """Return the columns in the order in which refits gain most."""

    def left(columns):
        design = np.column_stack([np.ones(len(y)), x[:, columns]])
        coef, *_ = np.linalg.lstsq(design, y)
        return float(((y - design @ coef) ** 2).sum())

    held = []
    for _ in range(most):
        rest = [j for j in range(x.shape[1]) if j not in held]
        held.append(min(rest, key=lambda j: left([*held, j])))
    return held


def held_out(frame, most):
    """Return the mse on each fold of the search of the others, shape (folds, most + 1)."""
    x, y = frame.select("^x.*$").to_numpy(), frame["y"].to_numpy()
    errors = np.empty((FOLDS, most + 1))
    for fold in range(FOLDS):
        test = frame["fold"].to_numpy() == fold
        order = forward(x[~test], y[~test], most)
        for step in range(most + 1):
            ones = np.ones(len(y))
            design = np.column_stack([ones, x[:, order[:step]]])
            coef, *_ = np.linalg.lstsq(design[~test], y[~test])
            errors[fold, step] = np.mean((y[test] - design[test] @ coef) ** 2)
    return errors


@pytest.mark.parametrize("patience", [1, 3])
@pytest.mark.parametrize("seed", range(4))
def test_scores_end_and_choice_are_those_of_refits(seed, patience):
    frame = table(seed)
    errors = held_out(frame, 12)
    mse = errors.mean(axis=0)
    end = next(
        (s for s in range(13) if s - np.argmin(mse[: s + 1]) == patience),
        12,
    )
    best = int(np.argmin(mse[: end + 1]))
    error = errors.std(axis=0, ddof=1)[best] / np.sqrt(FOLDS)
    simplest = int(np.flatnonzero(mse[: end + 1] <= mse[best] + error)[0])
    found = ds.Problem(folds_of(frame), "y").stopped_sequence(patience=patience)
    assert len(found.sequence.spent) - 1 == max(end, 1)
    np.testing.assert_allclose(found.steps["held_out_mse"], mse[: max(end, 1) + 1], rtol=1e-9)
    assert found.step == simplest
    assert found.steps.filter("chosen")["step"].item() == simplest
    at_best = ds.Problem(folds_of(frame), "y").stopped_sequence(patience=patience, choice="best")
    assert at_best.step == best


def test_the_model_is_that_of_all_rows():
    frame = table(1)
    found = ds.Problem(folds_of(frame), "y").stopped_sequence(choice="best")
    seq = ds.anytime_sequence(frame.drop("fold"), "y")
    names = seq.at(size=found.step).groups
    assert found.model().groups == names
    truth = ds.fit(frame, "y", names)
    assert found.model().r2 == pytest.approx(truth.r2, abs=1e-12)
    predicted = found.model().predict(frame)
    assert len(predicted) == frame.height


def test_long_searches_go_on_and_limits_end_them():
    frame = table(0, width=30, rows=400, noise=0.0)
    rng = np.random.default_rng(0)
    y = frame.select("^x.*$").to_numpy() @ np.linspace(1.0, 2.0, 30) + rng.normal(size=400)
    frame = frame.with_columns(y=pl.Series(y))
    assert ds.Problem(folds_of(frame), "y").stopped_sequence().step == 30
    assert (
        len(ds.Problem(folds_of(frame), "y").stopped_sequence(max_groups=11).sequence.spent) == 12
    )
    cheap = ds.Problem(folds_of(frame), "y", always=["x3"]).stopped_sequence(budget=5.0)
    assert cheap.sequence.spent[-1] <= 5.0
    assert cheap.model().groups[0] == "x3"


def test_a_table_is_cut_as_gram_by_cuts_it():
    frame = table(2).drop("fold")
    cut = ds.gram_by(frame, fold=4, seed=3)
    expected = ds.Problem(cut, "y").stopped_sequence().steps
    assert_frame_equal(ds.Problem(frame, "y", seed=3).stopped_sequence(folds=4).steps, expected)
    weighted = ds.Problem(frame.with_columns(w=2.0), "y", weight="w").stopped_sequence(folds=4)
    assert weighted.validation.table.height > 1


def test_it_shows_what_it_found():
    found = ds.Problem(folds_of(table()), "y").stopped_sequence()
    assert "held-out r2" in repr(found)
    assert "<table" in found._repr_html_()
    pytest.importorskip("altair")
    assert found.plot().data.height == found.validation.table.height


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"family": "binomial"}, "cross_validate"),
        ({"weight": "x0"}, "with weight 'x0' the source is a table"),
    ],
)
def test_bad_arguments_are_refused(given, error):
    fields = {name: value for name, value in given.items() if name in PROBLEM_FIELDS}
    own = {name: value for name, value in given.items() if name not in PROBLEM_FIELDS}
    with pytest.raises(ds.DbselectError, match=error):
        ds.Problem(folds_of(table()), "y", **fields).stopped_sequence(**own)


def test_sources_without_folds_are_refused():
    frame = table()
    with pytest.raises(ds.DbselectError, match="fold"):
        ds.Problem(frame.drop("fold"), "y").stopped_sequence()
    with pytest.raises(ds.errors.DataError, match="folds have usable rows"):
        ds.Problem([ds.gram(frame)], "y").stopped_sequence()
    segments = ds.gram_by(frame.with_columns(k=pl.col("x0") > 0), ["k"], ["x1", "y"], fold=3)
    with pytest.raises(ds.errors.ArgumentError, match="segments"):
        ds.Problem(segments, "y").stopped_sequence()

"""Curves, timeliness, oracles and evaluation against slow, direct definitions."""

import datetime as dt
import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from problems import EPS, Problem, random_problem, rounding
from reference import Table
from sklearn.metrics import mean_squared_error, r2_score

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, DataError, RecordError, SourceError
from dbselect.selection.criteria import RULES

#: Cells of the grid on which areas are integrated.
CELLS = 100_000


def curve(rng: np.random.Generator, steps: int, *, falls: bool = False) -> pl.DataFrame:
    """Return a curve with gains of unequal size, of which some are losses if it `falls`."""
    gain = 1e-3 + rng.exponential(size=steps) ** 3
    gain = np.where(falls & (rng.random(steps) < 0.3), -0.2 * gain, gain)
    gain = gain[np.argsort(-gain)] if rng.random() < 0.7 else gain
    return pl.DataFrame(
        {
            "spent": np.concatenate([[0.0], np.cumsum(rng.integers(1, 9, steps) / 2)]),
            "explained": np.concatenate([[0.0], 0.9 * np.cumsum(gain) / gain.sum()]),
        }
    )


def points(found: pl.DataFrame | ds.results.Sequence) -> list[tuple[float, float]]:
    table = found.steps if isinstance(found, ds.results.Sequence) else found
    return table.select("spent", "explained").rows()


def step_curve(found: Any, cost: float) -> float:
    """Height of the last point at or before a cost."""
    return [explained for spent, explained in points(found) if spent <= cost][-1]


def first_cost(found: Any, fraction: float) -> float:
    """Cost of the first point that has a fraction of the final height."""
    final = points(found)[-1][1]
    return next(spent for spent, explained in points(found) if explained >= fraction * final)


def area(found: Any, cut: float) -> float:
    """Integrate the step curve up to `cut` by midpoints; the unfinished last step rises.

    A curve that has ended stays as high as it is.
    """
    cost = (np.arange(CELLS) + 0.5) * (cut / CELLS)
    spent, height = np.array(points(found)).T
    heights = height[np.searchsorted(spent, cost, side="right") - 1]
    begun = spent[spent <= cut].max()
    rising = np.interp(cost, spent, height)
    return float(np.where(cost < begun, heights, rising).sum() * cut / CELLS)


def integration_error(found: Any) -> float:
    """Bound on the error of `area` over a rectangle of height 1: each jump lies in one cell."""
    return sum(abs(gain) for gain in np.diff(np.array(points(found))[:, 1])) / CELLS


def problem_of(seed: int, **asked: Any) -> Problem:
    return random_problem(np.random.default_rng(seed), (1, 3, 2, 1, 2, 4, 1), **asked)


# Curves


@pytest.mark.parametrize("seed", range(5))
def test_explained_at_is_the_height_of_the_step_curve(seed):
    rng = np.random.default_rng(seed)
    seq = problem_of(seed).sequence()
    for found in (curve(rng, 8), curve(rng, 8, falls=True), seq):
        end = points(found)[-1][0]
        for budget in [*rng.uniform(0, 1.1 * end, 50), *(spent for spent, _ in points(found))]:
            assert ds.reference.explained_at(found, float(budget)) == step_curve(found, budget)
    for budget in rng.uniform(0, 20, 20):
        assert ds.reference.explained_at(seq, float(budget)) == seq.at(float(budget)).explained


def test_explained_at_takes_a_sum_of_costs_as_in_decimal_arithmetic():
    spent = np.cumsum([0.0, 0.1, 0.1, 0.1])
    assert spent[-1] > 0.3
    table = pl.DataFrame({"spent": spent, "explained": [0.0, 0.1, 0.2, 0.3]})
    assert ds.reference.explained_at(table, 0.3) == 0.3


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_stopping_cost_is_the_first_cost_at_the_height(seed, falls):
    rng = np.random.default_rng(seed)
    found = curve(rng, 10, falls=falls)
    for fraction in [0.0, 1.0, *rng.uniform(0, 1, 50)]:
        assert ds.reference.stopping_cost(found, float(fraction)) == first_cost(found, fraction)


def test_stopping_cost_meets_a_height_up_to_rounding():
    table = pl.DataFrame(
        {"spent": [0.0, 2.0, 5.0, 7.0], "explained": [0.0, 0.27, 0.3 - 1e-16, 0.3]}
    )
    assert ds.reference.stopping_cost(table, 1.0) == 5.0
    assert ds.reference.stopping_cost(table, 0.9) == 2.0


def test_plateau_by_hand():
    spent = [0.0, 10.0, 11.0, 12.0, 34.0, 100.0]
    explained = [0.0, 0.950, 0.965, 0.975, 0.985, 1.0]
    table = pl.DataFrame({"spent": spent, "explained": explained})
    # From 97 % to 98 % costs 22 of 100, from 96 % to 97 % it costs 1.
    assert ds.reference.plateau(table) == 0.97
    assert ds.reference.plateau(table.with_columns(pl.col("explained") * 0.3)) == 0.97
    # Useless groups make the same costs a small share of the total.
    useless = pl.DataFrame({"spent": [1000.0], "explained": [1.0]})
    assert ds.reference.plateau(pl.concat([table, useless])) == 1.0


# Timeliness


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_timeliness_is_the_integral_over_its_rectangle(seed, falls):
    rng = np.random.default_rng(seed)
    found, other = curve(rng, 9, falls=falls), curve(rng, 6)
    final = points(found)[-1][1]
    for fraction in [1.0, *rng.uniform(0.01, 1, 6)]:
        for reference in (None, other):
            cut = first_cost(found if reference is None else reference, fraction)
            for height in (None, 0.7):
                expected = area(found, cut) / (cut * (final if height is None else height))
                assert ds.reference.timeliness(
                    found, float(fraction), reference=reference, final=height
                ) == pytest.approx(expected, abs=2 * integration_error(found) / final + EPS)


def test_timeliness_interpolates_the_unfinished_last_step():
    table = pl.DataFrame({"spent": [0.0, 2.0, 6.0], "explained": [0.0, 0.4, 0.8]})
    reference = pl.DataFrame({"spent": [0.0, 3.0], "explained": [0.0, 0.5]})
    # 0 for two units, then from 0.4 to 0.5 for one.
    assert ds.reference.timeliness(table, reference=reference) == pytest.approx(0.45 / (3 * 0.8))
    # A curve that has ended stays as high as it is.
    assert ds.reference.timeliness(reference, reference=table) == pytest.approx(3 * 0.5 / (6 * 0.5))


def test_timeliness_of_what_explains_nothing_is_zero():
    flat = pl.DataFrame({"spent": [0.0, 1.0, 2.0], "explained": [0.0, 0.0, 0.0]})
    worse = pl.DataFrame({"spent": [0.0, 1.0, 2.0], "explained": [0.0, -0.1, -0.2]})
    other = pl.DataFrame({"spent": [0.0, 2.0], "explained": [0.0, 1.0]})
    assert ds.reference.timeliness(flat) == 0
    assert ds.reference.timeliness(flat, reference=other) == 0
    assert ds.reference.timeliness(worse, reference=other) == 0


# Oracle


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_oracle_is_the_best_of_all_orders_of_the_gains(seed, falls):
    rng = np.random.default_rng(seed)
    found = curve(rng, 6, falls=falls)
    cost, gain = np.diff(np.array(points(found)), axis=0).T
    orders = np.array(list(itertools.permutations(range(6))))
    before = np.cumsum(gain[orders], axis=1) - gain[orders]
    best = (cost[orders] * before).sum(axis=1).max()
    best_found = ds.reference.oracle(found)
    area_found = np.diff(best_found["spent"]) @ best_found["explained"].to_numpy()[:-1]
    assert area_found == pytest.approx(best, rel=100 * EPS)
    assert best_found["spent"][-1] == pytest.approx(found["spent"][-1])
    assert best_found["explained"][-1] == pytest.approx(found["explained"][-1])


def test_a_budget_buys_the_longest_prefix_where_groups_are_given_back():
    # Three groups of cost 1, the first of them given back: 2 buys the last prefix, not the second.
    curve = pl.DataFrame({"spent": [0, 1, 2, 3, 2], "explained": [0.0, 0.5, 0.6, 0.9, 0.8]})
    height = [ds.reference.explained_at(curve, budget) for budget in range(4)]
    assert height == [0.0, 0.5, 0.8, 0.8]
    assert ds.reference.stopping_cost(curve, 1.0) == 2.0
    assert ds.reference.timeliness(curve) == pytest.approx(0.5 / (2 * 0.8))


def test_elimination_down_to_nothing_ends_at_the_height_of_all_groups():
    curve = pl.DataFrame({"spent": [0, 1, 3, 2, 0], "explained": [0.0, 0.1, 0.9, 0.6, 0.0]})
    assert ds.reference.stopping_cost(curve, 1.0) == 3.0
    assert ds.reference.timeliness(curve) == pytest.approx(0.6 / (3 * 0.9))


def test_oracle_refuses_a_curve_that_gives_groups_back():
    table = pl.DataFrame({"spent": [0.0, 2.0, 3.0, 1.0], "explained": [0.0, 0.4, 0.8, 0.7]})
    with pytest.raises(ArgumentError, match="gives groups back"):
        ds.reference.oracle(table)


# Other data


def split(problem: Problem, rows: int) -> tuple[Problem, Table]:
    """Return the problem on the first rows, and the table of the others."""
    table = problem.table
    parts = [
        replace(
            table,
            X=table.X[at],
            y=table.y[at],
            row_weight=None if table.row_weight is None else table.row_weight[at],
        )
        for at in (slice(rows), slice(rows, None))
    ]
    return replace(problem, table=parts[0]), parts[1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "asked", [{}, {"ridge": 0.3}, {"ridge": 0.3, "scale": False}], ids=["none", "scaled", "raw"]
)
@pytest.mark.parametrize("seed", range(3))
def test_evaluate_equals_scikit_learn_on_rows_not_seen(seed, asked, weighted):
    problem = random_problem(np.random.default_rng(seed), rows=90, weighted=weighted, **asked)
    train, test = split(problem, 60)
    seq = train.sequence()
    found = ds.evaluate(seq, ds.gram(test.frame, weight="w"))
    assert found.columns == ["step", "action", "group", "spent", "explained", "r2", "mse"]
    assert_frame_equal(found[:, :4], seq.steps.select(found.columns[:4]))
    variance = np.average(
        (test.y - np.average(test.y, weights=test.weight)) ** 2, weights=test.weight
    )
    deviation = train.table.deviation if train.table.scale else 1.0
    tolerance = rounding(train.table) + rounding(test)
    for step, spent in enumerate(seq.spent):
        guess = seq.predict(test.X, float(spent), columns=test.names)
        mse = mean_squared_error(test.y, guess, sample_weight=test.weight)
        r2 = r2_score(test.y, guess, sample_weight=test.weight)
        assert found["mse"][step] == pytest.approx(mse, rel=tolerance, abs=tolerance * variance)
        assert found["r2"][step] == pytest.approx(r2, abs=tolerance)
        first = np.full(len(test.y), seq.intercept[0])
        coef = seq.at(float(spent)).coefficients
        own = deviation * np.array([coef.get(name, 0.0) for name in test.names])
        drop = mean_squared_error(test.y, first, sample_weight=test.weight) - mse
        expected = (drop - train.table.ridge * own @ own) / variance
        assert found["explained"][step] == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("asked", [{}, {"ridge": 0.3}, {"ridge": 0.3, "scale": False}], ids=str)
@pytest.mark.parametrize("rule", list(RULES))
def test_evaluate_on_the_rows_of_the_search_gives_its_own_steps(rule, asked, weighted):
    problem = problem_of(3, weighted=weighted, **asked)
    seq = problem.sequence(rule=rule)
    found = ds.evaluate(seq, problem.gram)
    for name in ("explained", "r2"):
        np.testing.assert_allclose(
            found[name], seq.steps[name], rtol=0, atol=rounding(problem.table)
        )


def test_rows_without_anything_missing_judge_a_model_with_indicators():
    rng = np.random.default_rng(8)
    frame = pl.DataFrame(rng.normal(size=(90, 3)), ["y", "a", "b"])
    frame = frame.with_columns(y=pl.col("y") + pl.col("a") - pl.col("b"))
    holed = frame.with_columns(
        pl.when(pl.int_range(90) % 9 > 1).then("a"), pl.when(pl.int_range(90) % 7 > 1).then("b")
    )
    sequence = ds.anytime_sequence(holed, "y", null_policy="indicator")
    assert {"a.missing", "b.missing"} < set(sequence.columns)
    for rows in (frame, holed.drop_nulls("a")):
        other = ds.gram(rows, null_policy="indicator")
        predicted = sequence.predict(rows)
        assert ds.evaluate(sequence, other)["r2"][-1] == pytest.approx(
            r2_score(rows["y"], predicted), rel=1e-12
        )
    with pytest.raises(ColumnError, match="unknown column 'a'"):
        ds.evaluate(sequence, other.select(["y", "b", "b.missing"]))


def test_evaluate_refuses_what_it_cannot_judge():
    problem = problem_of(5)
    seq, gram = problem.sequence(), problem.gram
    with pytest.raises(ColumnError, match="unknown column 'x3'"):
        ds.evaluate(seq, gram.select([name for name in gram.columns if name != "x3"]))
    with pytest.raises(ColumnError, match="unknown column 'y'"):
        ds.evaluate(seq, gram.select(problem.table.names))
    with pytest.raises(DataError, match="no usable rows"):
        ds.evaluate(seq, gram - gram)
    constant = problem.table.frame.with_columns(y=pl.lit(2.0))
    with pytest.raises(DataError, match="target 'y' is constant"):
        ds.evaluate(seq, ds.gram(constant))
    with pytest.raises(SourceError, match="source is an int"):
        ds.evaluate(seq, 3)


# Several sequences


GOOD = pl.DataFrame({"spent": [0.0, 1.0], "explained": [0.0, 0.5]})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ds.reference.explained_at(GOOD, -1.0),
            r"budget is -1.0; it must be a number >= 0",
        ),
        (
            lambda: ds.reference.explained_at(GOOD, None),
            r"budget is None; it must be a number >= 0",
        ),
        (lambda: ds.reference.explained_at(GOOD, float("nan")), r"budget is nan"),
        (
            lambda: ds.reference.stopping_cost(GOOD, 1.1),
            r"fraction is 1.1; it must be a number from 0 to 1",
        ),
        (lambda: ds.reference.stopping_cost(GOOD, float("nan")), r"fraction is nan"),
        (lambda: ds.reference.timeliness(GOOD, -0.1), r"fraction is -0.1"),
        (lambda: ds.reference.timeliness(GOOD, "1"), r"fraction is '1'"),
        (lambda: ds.reference.plateau(GOOD.drop("spent")), r"lacks \['spent'\]"),
        (lambda: ds.reference.oracle(GOOD[:0]), r"the curve has 0 rows"),
        (
            lambda: ds.reference.timeliness(GOOD.with_columns(spent=pl.lit(float("inf")))),
            r"not finite",
        ),
        (lambda: ds.reference.plateau(None), r"the curve is a NoneType; it must be a Sequence"),
        (lambda: ds.compare({}), r"sequences is empty"),
        (lambda: ds.compare([GOOD]), r"sequences is a list; it must map names to sequences"),
        (lambda: ds.evaluate(GOOD, None), r"sequence is a DataFrame; it must be a Sequence or"),
        (lambda: ds.compare({"a": GOOD}, "b"), r"reference is 'b'; it must be one of \['a'\]"),
        (lambda: ds.compare({"a": GOOD}, GOOD), r"reference is .*; it must be one of \['a'\]"),
    ],
)
def test_what_is_no_curve_and_no_fraction_is_refused(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()


SECONDS = [dt.datetime(2020, 1, 1, hour) for hour in range(12)]


def test_a_date_for_a_timestamp_is_not_judged():
    """A date's days would be taken for seconds."""
    train = pl.DataFrame({"t": SECONDS, "y": range(12)})
    model = ds.fit(train, "y")
    other = train.with_columns(t=pl.col("t").dt.date() + pl.duration(days=pl.col("y")))
    with pytest.raises(ColumnError, match=r"'t' has type date32.*days; the terms.*seconds"):
        ds.evaluate(model, other)
    with pytest.raises(RecordError, match=r"unit of 't' .*: 'days', and 'seconds' in the fit"):
        ds.evaluate(model, ds.gram(other))
    epoch = train.with_columns(t=pl.col("t").dt.timestamp("us") / 1e6)
    for data in (epoch, ds.gram(epoch)):
        assert ds.evaluate(model, data)["r2"].item() == pytest.approx(1.0)
    with pytest.raises(RecordError, match="unit of 't'"):
        ds.evaluate(ds.fit(epoch, "y"), ds.gram(train))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"basis": {"x": ("spline", 4)}}, "basis of 'x'"),
        ({"basis": {"x": ("poly", 2)}}, "basis of 'x'"),
        ({"null_policy": "mean"}, "mean of 'x'"),
        ({"categories": ["k"], "max_levels": 1}, "levels of 'k'"),
    ],
)
def test_a_gram_of_other_terms_is_not_judged(options, message):
    """Columns of equal names mean something else; the terms of the fit make them the same."""
    rng = np.random.default_rng(0)
    frames = [
        pl.DataFrame(
            {
                "x": np.where(np.arange(60) % 10 == 3, np.nan, rng.standard_normal(60) + shift),
                "k": [often] * 40 + [rare] * 20,
                "y": rng.standard_normal(60),
            }
        )
        for shift, often, rare in ((0.0, "a", "b"), (9.0, "b", "a"))
    ]
    train, test = frames
    known = ds.gram(train, **options)
    model = ds.fit(known, "y")
    with pytest.raises(RecordError, match=rf"another {message}.*terms= of the fit"):
        ds.evaluate(model, ds.gram(test, **options))
    assert ds.evaluate(model, ds.gram(test, terms=known.terms)).height == 1


def test_timeliness_is_a_share_of_the_height_that_is_asked_for():
    curve = pl.DataFrame({"spent": [0.0, 1.0, 4.0], "explained": [0.0, 0.3, 0.4]})
    own, all_of_it = (
        ds.compare({"a": curve}, fraction=1.0, final=final).table["timeliness"][0]
        for final in (None, 1.0)
    )
    # 3 units at 0.3, of 4 units at 0.4, or at the target's variance.
    assert (own, all_of_it) == pytest.approx((0.9 / 1.6, 0.9 / 4))
    for final in (0, -1, "a", float("nan")):
        with pytest.raises(ArgumentError, match=r"final is .*; it must be a number > 0"):
            ds.compare({"a": curve}, final=final)


def test_curves_of_which_the_reference_explains_all_at_once_are_cut_at_the_end():
    at_once = pl.DataFrame({"spent": [0.0, 2.0, 3.0], "explained": [0.0, 0.2, 0.1]})
    later = pl.DataFrame({"spent": [0.0, 2.0, 5.0, 8.0], "explained": [0.0, 0.1, 0.4, 0.5]})
    found = ds.compare({"prefix": at_once, "pattern": later})
    assert found.cut == 8.0
    # 0.2 for 1 and 0.1 for 5; 0.1 for 3 and 0.4 for 3; of 8 times 0.5.
    assert found.table["timeliness"].to_list() == pytest.approx([0.7 / 4.0, 1.5 / 4.0])
    nothing = pl.DataFrame({"spent": [0.0, 2.0], "explained": [0.0, 0.0]})
    found = ds.compare({"prefix": nothing, "pattern": later})
    assert found.table["timeliness"].to_list() == pytest.approx([0.0, 1.5 / 4.0])

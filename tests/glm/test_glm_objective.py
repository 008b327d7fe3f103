"""Objectives of generalised linear models: every answer against refits, on rows in memory."""

import warnings
from functools import cache

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from conftest import Stream
from test_glm import COLUMNS, FAMILIES, OFFSETS, Counted, design, table

import dbselect as ds
from dbselect.glm import refits
from dbselect.glm.held_rows import HeldRows
from dbselect.search import rows as rows_of_search
from dbselect.sources.open import open_table
from dbselect.sources.sampling.drawn import sample

GROUPS = {"ab": ["a", "b"], "c": ["c"], "d": ["d"], "e": ["e"]}


def objective_of(frame, family, groups=GROUPS, **options):
    offset = OFFSETS.get(family)
    return ds.Problem(frame, family, groups, family=family, offset=offset, **options).objective()


def explained_by(frame, family, groups=GROUPS, weight=None):
    """Return the function that refits any set of groups by statsmodels."""
    members = list(groups.values())
    weights = np.ones(frame.height) if weight is None else frame[weight].to_numpy()

    def matrix(held):
        columns = [column for group in sorted(held) for column in members[group]]
        A = design(frame, columns) if columns else np.ones((frame.height, 1))
        A[:, 1:] -= A[:, 1:].mean(axis=0)
        A[:, 1:] /= A[:, 1:].std(axis=0)
        return A

    @cache
    def value(held):
        if family == "multinomial":
            codes = np.unique(frame[family].to_numpy(), return_inverse=True)[1]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of convergence at so small a tolerance
                fit = sm.MNLogit(codes, matrix(held)).fit(method="newton", tol=1e-14, disp=0)
            # Its own model without columns is found to eight digits only.
            null = np.sum(np.log(np.bincount(codes) / len(codes))[codes])
            return 1 - fit.llf / null if held else 0.0
        offset = frame["logs"].to_numpy() if family in OFFSETS else None
        kind = FAMILIES[family]()
        fit = sm.GLM(
            frame[family].to_numpy(), matrix(held), family=kind, freq_weights=weights, offset=offset
        ).fit(tol=1e-14, maxiter=100)
        return 1 - fit.deviance / fit.null_deviance

    return value


def test_answers_in_blocks_are_those_in_one(monkeypatch):
    frame = table(rows=300)
    whole = objective_of(frame, "binomial", {name: [name] for name in COLUMNS})
    monkeypatch.setattr(refits, "BLOCK", 650)
    blocks = objective_of(frame, "binomial", {name: [name] for name in COLUMNS})
    for state in (whole, blocks):
        state.add_all([1, 3])
    np.testing.assert_allclose(blocks.gains(), whole.gains(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(blocks.losses(), whole.losses(), rtol=1e-10, atol=1e-12)


def test_columns_that_others_make_up_gain_nothing_and_are_not_missed():
    frame = table(rows=300).with_columns(same=2 * pl.col("a") - 1, none=pl.lit(3.0))
    groups = {"a": ["a"], "same": ["same"], "none": ["none"], "b": ["b"]}
    state = objective_of(frame, "binomial", groups)
    state.add(0)
    assert state.gains()[[1, 2]].tolist() == [0, 0]
    state.add_all([1, 2])
    assert state.losses()[[0, 1, 2]].tolist() == [0, 0, 0]
    assert state.model().aliased == ("same", "none")
    assert state.remove(0) == pytest.approx(0, abs=1e-12)
    value = explained_by(frame, "binomial", {"same": ["same"]})
    assert state.value == pytest.approx(value(frozenset({0})), abs=1e-11)


def test_rows_told_for_certain_do_not_end_in_overflow():
    frame = table(rows=200).with_columns(sure=pl.col("binomial") * 2 - 1)
    state = objective_of(frame, "binomial", {**GROUPS, "sure": ["sure"]})
    gains = state.gains()
    assert gains.argmax() == 4
    assert 0.999 < gains[4] <= 1
    assert state.add(4) > 0.999
    with pytest.warns(ds.errors.SeparationWarning, match="in this model some columns determine"):
        assert state.model().status.name == "SEPARATED"
    assert np.isfinite(state.gains()).all()
    assert (state.gains() >= 0).all()


def test_the_model_is_that_of_fit_on_the_same_columns():
    frame = table()
    for family in [*FAMILIES, "multinomial"]:
        state = objective_of(frame, family, weight="w")
        state.add_all([3, 0])
        model = state.model()
        expected = ds.fit(
            frame, family, ["e", "a", "b"], family=family, weight="w", offset=OFFSETS.get(family)
        )
        assert (model.groups, model.columns) == (["e", "ab"], ["e", "a", "b"])
        assert model.deviance == pytest.approx(expected.deviance, rel=1e-10)
        assert model.null_deviance == pytest.approx(expected.null_deviance, rel=1e-10)
        np.testing.assert_allclose(model.predict(frame), expected.predict(frame), rtol=1e-6)
        assert (model.rows, model.skipped) == (expected.rows, expected.skipped)
        assert (model.passes, model.rows_read) == (1, frame.height)


# Which rows


def with_gaps(frame):
    return frame.with_columns(a=pl.when(pl.int_range(pl.len()) % 7 > 0).then("a"))


def test_every_engine_holds_the_same_rows(as_source):
    frame = with_gaps(table(rows=900)).select(*COLUMNS, "multinomial")
    options = {"family": "multinomial", "rows": 300, "seed": 5}
    expected = ds.Problem(frame, "multinomial", GROUPS, **options).objective()
    found = ds.Problem(as_source(frame), "multinomial", GROUPS, **options).objective()
    assert found.rows == expected.rows
    assert 240 < found.rows < 300
    np.testing.assert_allclose(found.gains(), expected.gains(), rtol=1e-10)


def sampled(frame, rows, seed=0):
    return sample(open_table(frame, None), ["n"], rows, seed).table["n"].to_numpy()


def test_a_sample_is_of_distinct_rows_each_as_likely_as_the_others():
    frame = pl.DataFrame({"n": np.arange(400)})
    times = np.zeros(400)
    for seed in range(200):
        held = sampled(frame, 50, seed=seed)
        assert (np.diff(held) > 0).all()
        times[held] += 1
    assert times.sum() == 200 * 50
    # Chi squared has 399 degrees of freedom.
    expected = 200 / 8
    chi = ((times - expected) ** 2).sum() / (expected * (1 - 1 / 8))
    assert chi < 399 + 5 * np.sqrt(2 * 399)
    np.testing.assert_array_equal(sampled(frame, 50, seed=7), sampled(frame, 50, seed=7))
    np.testing.assert_array_equal(sampled(frame, 400), np.arange(400))


def test_a_table_of_fewer_rows_than_asked_for_is_held_whole():
    frame = with_gaps(table(rows=300))
    asked, held = (objective_of(frame, "binomial", rows=rows) for rows in (300, None))
    assert held.rows == asked.rows == 257
    assert "257 rows, 43 skipped" in repr(held)
    np.testing.assert_array_equal(held.gains(), asked.gains())


def test_rows_in_memory_take_one_pass_and_a_stream_will_do():
    frame = table(rows=500)
    source = Counted(frame)
    objective = objective_of(source, "binomial")
    ds.greedy(objective, k=3)
    assert source.reads == 1
    assert objective.model().passes == objective.passes == 1
    assert objective.model().rows_read == 500
    stream = objective_of(Stream(frame.to_arrow()), "binomial")
    np.testing.assert_array_equal(stream.gains(), objective.gains())
    some = objective_of(Stream(frame.to_arrow()), "binomial", rows=200)
    assert some.rows == 200
    np.testing.assert_array_equal(some.gains(), objective_of(source, "binomial", rows=200).gains())


def test_what_is_known_is_not_fitted_again(monkeypatch):
    asked = []
    read = HeldRows.read
    monkeypatch.setattr(HeldRows, "read", lambda self, asks: asked.append(1) or read(self, asks))
    objective = objective_of(table(rows=300), "binomial")
    gains = objective.gains()
    assert objective.add(0) == pytest.approx(gains[0], abs=1e-11)
    again = objective.copy()
    again.remove(0)
    asked.clear()
    again.gains()
    again.add(0)
    assert not asked


# More rows than memory has room for


@pytest.fixture
def little_memory(monkeypatch):
    """Have 300 rows of the five columns fit into memory."""
    monkeypatch.setattr(rows_of_search, "MOST_NUMBERS", 5 * 300)


SAMPLED = "the search looks at 300 of 1,500 rows, drawn by seed 3"


@pytest.mark.parametrize(
    "search",
    [
        lambda problem: problem.foba(),
        lambda problem: problem.backward(),
        lambda problem: problem.floating(),
        lambda problem: problem.step(),
    ],
)
def test_a_sequence_of_a_sample_is_fitted_to_all_rows(search, little_memory):
    frame = table()
    problem = ds.Problem(frame, "binomial", GROUPS, family="binomial", weight="w", seed=3)
    with pytest.warns(ds.errors.SampleWarning, match=SAMPLED):
        seq = search(problem)
    assert seq.rows_searched == 300
    assert "300 searched" in repr(seq)
    used = frame.filter(pl.col("w") > 0)
    assert (seq.rows, seq.skipped) == (used.height, frame.height - used.height)
    value = explained_by(used, "binomial", weight="w")
    order, held = list(GROUPS), set()
    for step, explained in zip(seq.records, seq.explained[1:], strict=True):
        held ^= {step.group}
        assert explained == pytest.approx(value(frozenset(held)), rel=1e-8)
    truth = ds.fit(
        frame, "binomial", [c for g in order if g in seq.at().groups for c in GROUPS[g]],
        family="binomial", weight="w",
    )  # fmt: skip
    for name, coefficient in truth.coefficients.items():
        assert seq.at().coefficients[name] == pytest.approx(coefficient, rel=1e-6)
    again = ds.results.GlmSequence.from_struct(seq.to_struct())
    assert again.rows_searched == 300
    # The order is that of the rows drawn.
    drawn = search(ds.Problem(frame, "binomial", GROUPS, family="binomial", weight="w", seed=3,
                              rows=300))  # fmt: skip
    assert drawn.rows_searched is None
    assert actions(seq.steps) == actions(drawn.steps)


@pytest.mark.parametrize(
    "choose",
    [
        lambda problem: problem.greedy(k=2),
        lambda problem: problem.dash(k=2),
        lambda problem: problem.exchange(k=2),
        lambda problem: problem.top_k(k=2),
        lambda problem: problem.random_k(k=2),
        lambda problem: problem.sght(max_columns=3, max_groups=2),
    ],
)
def test_a_choice_of_a_sample_is_fitted_to_all_rows(choose, little_memory):
    frame = table()
    with pytest.warns(ds.errors.SampleWarning, match=SAMPLED):
        found = choose(ds.Problem(frame, "binomial", GROUPS, family="binomial", seed=3))
    assert found.rows_searched == found.model.rows_searched == 300
    assert "1500 rows, 300 searched" in repr(found)
    assert found.model.rows == 1500
    truth = ds.fit(frame, "binomial", found.model.columns, family="binomial")
    assert found.model.deviance == pytest.approx(truth.deviance, rel=1e-10)
    for name, coefficient in truth.coefficients.items():
        assert found.model.coefficients[name] == pytest.approx(coefficient, rel=1e-6)


def test_coefficients_of_a_sample_are_not_returned(little_memory):
    problem = ds.Problem(table(), "binomial", GROUPS, family="binomial", seed=3)
    with (
        pytest.warns(ds.errors.SampleWarning),
        pytest.raises(
            ds.errors.ArgumentError, match="refit is False; the search looks at 300 rows"
        ),
    ):
        problem.sght(max_columns=3, max_groups=2, refit=False)


def test_methods_that_search_all_rows_do_not_sample(little_memory):
    frame = table()
    problem = ds.Problem(frame, "binomial", GROUPS, family="binomial")
    seq, model = problem.anytime_sequence(rule="score"), problem.fit()
    assert seq.rows_searched is model.rows_searched is None
    assert seq.rows == model.rows == 1500
    # The rows that a problem has are all rows of it.
    some = problem.replace(rows=300).foba()
    assert (some.rows, some.rows_searched) == (300, None)


def test_a_stream_of_too_many_rows_is_refused(little_memory):
    with pytest.raises(ds.errors.SourceError, match="read only once"):
        objective_of(Stream(table().to_arrow()), "binomial")


# Searches


def actions(steps):
    return [(step["action"], step["group"]) for step in steps.to_dicts()[1:]]


def test_an_interrupted_search_keeps_its_steps(monkeypatch):
    frame = table(rows=300)
    steps = ds.foba(objective_of(frame, "binomial")).steps
    with_each, asked = refits.InMemory.with_each, []

    def interrupted(self, fit, groups):
        asked.append(groups)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return with_each(self, fit, groups)

    monkeypatch.setattr(refits.InMemory, "with_each", interrupted)
    seq = ds.foba(objective_of(frame, "binomial"))
    assert seq.stop.name == "INTERRUPTED"
    assert 1 < seq.steps.height < steps.height
    assert actions(seq.steps) == actions(steps)[: seq.steps.height - 1]
    assert len(seq.at().groups) == seq.steps.height - 1


def test_the_omp_rule_follows_the_whitened_gradient():
    frame = table(rows=300)
    seq = ds.foba(objective_of(frame, "binomial"), rule="omp", max_steps=1)
    y = frame["binomial"].to_numpy()
    scores = []
    for columns in GROUPS.values():
        X = design(frame, columns)[:, 1:]
        X = X - X.mean(axis=0)
        scores.append((y - y.mean()) @ X @ np.linalg.solve(X.T @ X, X.T @ (y - y.mean())))
    assert seq.steps["group"][1] == list(GROUPS)[int(np.argmax(scores))]
    assert seq.rule == "foba-omp"


# Refusals


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"family": "probit"}, ds.errors.ArgumentError, "family is 'probit'; it must be one of"),
        (
            {"offset": "b", "family": "multinomial"},
            ds.errors.ArgumentError,
            "offset is 'b'; added to the predictors of all",
        ),
        ({"target": "nothing"}, ds.errors.ColumnError, "target names unknown column 'nothing'"),
        (
            {"target": "multinomial"},
            ds.errors.DataError,
            "has more than two levels; a binomial target",
        ),
        ({"target": "poisson"}, ds.errors.DataError, "has a value that is not 0/1"),
    ],
)
def test_wrong_arguments_are_refused(options, error, message):
    options = {"target": "binomial", "groups": GROUPS, "family": "binomial", **options}
    with pytest.raises(error, match=message):
        ds.Problem(table(rows=50), **options).objective()


@pytest.mark.parametrize("search", [ds.foba, ds.backward])
def test_what_an_objective_has_is_not_given_twice(search):
    objective = objective_of(table(rows=50), "binomial")
    with pytest.raises(ds.errors.ArgumentError, match=r"ridge is 0\.5; it is for tables"):
        search(objective, ridge=0.5)
    with pytest.raises(ds.errors.ArgumentError, match=r"groups is .*; it is for tables"):
        search(objective, groups=GROUPS)
    with pytest.raises(ds.errors.GroupError, match="group 'c' has no cost"):
        search(objective, costs={"ab": 1.0})
    with pytest.raises(ds.errors.ArgumentError, match="target is 'y'; it is for tables"):
        search(objective, "y")
    with pytest.raises(ds.errors.ArgumentError, match="family is 'poisson'; it is for tables"):
        search(objective, family="poisson")
    with pytest.raises(
        ds.errors.ColumnError, match="target is None; it must be the name of a column"
    ):
        search(table(rows=50))
    objective.add(0)
    with pytest.raises(ds.errors.ArgumentError, match="objective has 1 candidates selected"):
        search(objective)


# The greedy search


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["fr", "score", "omp"])
def test_an_objective_is_searched_as_its_rows_are(rule):
    frame = table(rows=300)
    costs = {name: 1.0 + at for at, name in enumerate(GROUPS)}
    objective = ds.Problem(frame, "binomial", GROUPS, costs, family="binomial").objective()
    found = ds.anytime_sequence(objective, rule=rule)
    expected = ds.anytime_sequence(frame, "binomial", GROUPS, costs, family="binomial", rule=rule)
    assert isinstance(found, ds.results.GlmSequence)
    assert found.steps["group"].to_list() == expected.steps["group"].to_list()
    assert found.spent.tolist() == expected.spent.tolist()
    np.testing.assert_allclose(found.explained, expected.explained, rtol=1e-6)
    assert objective.held == []
    dear = dict.fromkeys(GROUPS, 5.0)
    cut = ds.anytime_sequence(objective, costs=dear, rule=rule, budget=7.0)
    assert cut.spent.tolist() == [0.0, 5.0]
    last = list(GROUPS)[-1]
    assert ds.anytime_sequence(objective, always=[last]).steps["group"][1] == last

"""Sequences of generalised linear models against refits, score tests and the linear search."""

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from problems import in_passes
from test_glm import FAMILIES, Counted, design, table

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, SeparationWarning, SourceError

#: The information behind a score is of the last pass, which the last step left: at its
#: tolerance of 1e-8 of the deviance the predictors moved by at most some 1e-4.
SCORE = 1e-4


GROUPS = {"ab": ["a", "b"], "c": ["c"], "de": ["d", "e"]}
COSTS = {"ab": 3.0, "c": 0.5, "de": 2.0}


def refit(frame: pl.DataFrame, family: str, groups: list[str]) -> sm.GLM:
    columns = [column for group in groups for column in GROUPS[group]]
    A = design(frame, columns) if columns else np.ones((frame.height, 1))
    A[:, 1:] -= A[:, 1:].mean(axis=0)
    offset = frame["logs"].to_numpy() if family == "poisson" else None
    return sm.GLM(frame[family].to_numpy(), A, family=FAMILIES[family](), offset=offset)


def explained(frame: pl.DataFrame, family: str, groups: list[str]) -> float:
    found = refit(frame, family, groups).fit(tol=1e-14, maxiter=100)
    return 1 - found.deviance / found.null_deviance


def search(frame: pl.DataFrame, family: str, rule: str, **options) -> ds.results.GlmSequence:
    offset = "logs" if family == "poisson" else None
    return in_passes(
        frame, family, GROUPS, COSTS, family=family, rule=rule, offset=offset, **options
    )


@pytest.mark.parametrize("rule", ["fr", "score", "omp", "omp-single", "omp-unwhitened"])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_every_prefix_is_the_fit_of_its_groups(family, rule):
    frame = table()
    seq = search(frame, family, rule)
    order = [name for name in seq.steps["group"] if name is not None]
    assert sorted(order) == sorted(GROUPS)
    for step in range(1, len(order) + 1):
        found = refit(frame, family, order[:step]).fit(tol=1e-14, maxiter=100)
        np.testing.assert_allclose(seq.deviance[step], found.deviance, rtol=1e-9)
        model = seq.at(budget=seq.spent[step])
        assert model.groups == order[:step]
        np.testing.assert_allclose(model.predict(frame), found.fittedvalues, rtol=1e-6)
        spread = frame.select(model.columns).to_numpy().std(axis=0)
        own = np.array(list(model.coefficients.values()))
        np.testing.assert_allclose(own * spread, found.params[1:] * spread, atol=1e-6)
    np.testing.assert_allclose(seq.deviance[0], found.null_deviance, rtol=1e-12)
    np.testing.assert_allclose(seq.explained, 1 - seq.deviance / seq.deviance[0], rtol=1e-10)
    assert seq.stop.name == "EXHAUSTED"


@pytest.mark.parametrize("family", list(FAMILIES))
def test_rule_fr_takes_the_group_whose_refit_gains_most_per_cost(family):
    frame = table(2)
    seq = search(frame, family, "fr")
    held: list[str] = []
    for step in seq.records:
        before = explained(frame, family, held) if held else 0.0
        gains = {
            group: (explained(frame, family, [*held, group]) - before) / COSTS[group]
            for group in GROUPS
            if group not in held
        }
        best = max(gains, key=gains.__getitem__)
        assert seq.groups.names[step.group] == best
        np.testing.assert_allclose(step.score, gains[best], rtol=1e-6)
        np.testing.assert_allclose(step.gain, gains[best] * COSTS[best], rtol=1e-6)
        held.append(best)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_rule_score_is_the_score_test(family):
    frame = table(3)
    seq = search(frame, family, "score")
    held: list[str] = []
    for step in seq.records:
        fitted = refit(frame, family, held).fit(tol=1e-14, maxiter=100)
        scores = {}
        for group in set(GROUPS) - set(held):
            wide = refit(frame, family, [*held, group])
            at = np.concatenate([fitted.params, np.zeros(len(GROUPS[group]))])
            slope, information = wide.score(at), -wide.hessian(at)
            statistic = slope @ np.linalg.solve(information, slope)
            scores[group] = statistic / seq.deviance[0] / COSTS[group]
        best = max(scores, key=scores.__getitem__)
        assert seq.groups.names[step.group] == best
        np.testing.assert_allclose(step.score, scores[best], rtol=SCORE)
        held.append(best)


@pytest.mark.parametrize("rule", ["omp", "omp-information", "omp-unwhitened", "omp-single"])
def test_gradient_rules_are_those_of_the_definition(rule):
    frame = table(4)
    seq = search(frame, "binomial", rule)
    n = frame.height
    held: list[str] = []
    for step in seq.records:
        model = refit(frame, "binomial", held)
        mean = model.predict(model.fit(tol=1e-14, maxiter=100).params)
        rest, weight = frame["binomial"].to_numpy() - mean, mean * (1 - mean)
        scores = {}
        for group in set(GROUPS) - set(held):
            X = frame.select(GROUPS[group]).to_numpy()
            Z = (X - X.mean(axis=0)) / X.std(axis=0)
            slope = Z.T @ rest / n
            centred = Z - np.average(Z, axis=0, weights=weight)
            block = (centred * weight[:, None]).T @ centred / n
            value = {
                "omp": slope @ np.linalg.solve(Z.T @ Z / n, slope),
                "omp-information": slope @ np.linalg.solve(block, slope),
                "omp-unwhitened": slope @ slope,
                "omp-single": (slope**2).max(),
            }[rule]
            scores[group] = value * n / seq.deviance[0] / COSTS[group]
        best = max(scores, key=scores.__getitem__)
        assert seq.groups.names[step.group] == best
        np.testing.assert_allclose(step.score, scores[best], rtol=SCORE)
        held.append(best)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("rule", ["fr", "omp", "omp-unwhitened", "omp-single"])
def test_family_gaussian_is_the_linear_search_in_one_pass(rule, ridge, scale):
    frame = table(5)
    options = {"rule": rule, "ridge": ridge, "scale": scale}
    source = Counted(frame)
    found = in_passes(source, "gaussian", GROUPS, COSTS, family="gaussian", **options)
    linear = ds.anytime_sequence(frame, "gaussian", GROUPS, COSTS, **options)
    assert source.reads == found.passes_made == 1
    shared = ["step", "action", "group", "cost", "spent", "useful"]
    assert found.steps.select(shared).equals(linear.steps.select(shared))
    for name in ("score", "gain", "explained", "r2"):
        np.testing.assert_allclose(
            found.steps[name].drop_nulls(), linear.steps[name].drop_nulls(), rtol=1e-10, atol=1e-14
        )
    np.testing.assert_allclose(found.coef[:, :, 0], linear.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.intercept[:, 0], linear.intercept, rtol=1e-9)
    np.testing.assert_allclose(
        found.deviance, (1 - linear.r2) * frame["gaussian"].var(ddof=0) * frame.height, rtol=1e-10
    )


@pytest.mark.slow
def test_classes_are_sequenced_as_their_fits_say():
    frame = table(6, rows=600)
    seqs = {
        rule: ds.anytime_sequence(
            frame, "multinomial", GROUPS, family="multinomial", rule=rule, ridge=0.01, weight="w"
        )
        for rule in ("fr", "score")
    }
    for seq in seqs.values():
        order = [name for name in seq.steps["group"] if name is not None]
        for step in range(1, len(order) + 1):
            columns = [column for group in order[:step] for column in GROUPS[group]]
            fit = ds.fit(
                frame, "multinomial", columns, family="multinomial", ridge=0.01, weight="w"
            )
            np.testing.assert_allclose(seq.explained[step], fit.explained, rtol=1e-9)
            np.testing.assert_allclose(seq.deviance[step], fit.deviance, rtol=1e-7)
            model = seq.at(budget=float(step))
            np.testing.assert_allclose(model.predict(frame), fit.predict(frame), atol=1e-7)
    alone = {
        group: ds.fit(
            frame, "multinomial", columns, family="multinomial", ridge=0.01, weight="w"
        ).explained
        for group, columns in GROUPS.items()
    }
    assert seqs["fr"].steps["group"][1] == max(alone, key=alone.__getitem__)


def test_passes_are_those_of_the_newton_steps_and_stated():
    source = Counted(table())
    seq = ds.anytime_sequence(source, "binomial", GROUPS, family="binomial", rule="score")
    assert seq.passes_made == seq.passes[-1] == source.reads
    assert seq.rows_read == 1500 * source.reads
    # Five columns and the target of eight bytes.
    assert seq.bytes_read == seq.rows_read * 6 * 8
    assert seq.passes[0] == 1
    assert set(np.diff(seq.passes)) <= {1, 2, 3}
    # A refit from scratch of every prefix, in the mind of one without warm starts.
    cold = sum(
        ds.fit(table(), "binomial", seq.at(budget=float(k)).columns, family="binomial").passes
        for k in (1, 2, 3)
    )
    assert seq.passes_made < cold


@pytest.mark.parametrize("policy", ["mean", "indicator", {"c": "mean"}])
def test_missing_values_are_filled_in_every_pass(policy):
    frame = table().with_columns(
        c=pl.when(pl.int_range(pl.len()) % 7 == 0).then(None).otherwise("c"),
        binomial=pl.when(pl.int_range(pl.len()) % 11 == 0).then(None).otherwise("binomial"),
    )
    # Rows without the target are left out, whatever the policy.
    known = frame.filter(pl.col("binomial").is_not_null())
    filled = known.with_columns(pl.col("c").fill_null(pl.col("c").mean()))
    groups = GROUPS
    if policy == "indicator":
        filled = known.with_columns(pl.col("c").fill_null(0.0), there=pl.col("c").is_null())
        groups = {**GROUPS, "c": ["c", "there"]}
    for rule in ("fr", "score"):
        found = search(frame, "binomial", rule, null_policy=policy)
        expected = ds.anytime_sequence(
            filled, "binomial", groups, COSTS, family="binomial", rule=rule
        )
        assert (found.rows, found.skipped) == (known.height, frame.height - known.height)
        assert found.steps["group"].equals(expected.steps["group"])
        np.testing.assert_allclose(found.deviance, expected.deviance, rtol=1e-10)
        np.testing.assert_allclose(found.predict(known), expected.predict(filled), rtol=1e-7)


def test_an_offset_of_the_linear_model_is_taken_from_the_target():
    frame = table()
    rest = frame.with_columns(rest=pl.col("gaussian") - pl.col("logs"))
    found = ds.anytime_sequence(frame, "gaussian", GROUPS, COSTS, offset="logs", ridge=0.1)
    expected = ds.anytime_sequence(rest, "rest", GROUPS, COSTS, ridge=0.1)
    assert found.steps["group"].equals(expected.steps["group"])
    np.testing.assert_allclose(found.explained, expected.explained, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found.coef[..., 0], expected.coef, rtol=1e-9, atol=1e-12)


def test_limits_and_groups_to_take_first_are_kept():
    frame = table()
    seq = search(frame, "binomial", "score", budget=2.5, always=["c"])
    assert seq.steps["group"].to_list() == [None, "c", "de"]
    assert seq.stop.name == "BUDGET"
    assert seq.at(budget=0.6).groups == ["c"]
    assert seq.at(budget=0.1).columns == []
    share = frame["binomial"].mean()
    np.testing.assert_allclose(seq.predict(np.ones((2, 5)), budget=0.0), share, rtol=1e-12)
    limited = search(frame, "binomial", "fr", max_groups=1)
    assert limited.steps.height == 2
    part = ds.anytime_sequence(frame, "binomial", {"a": ["a"]}, family="binomial")
    others = {"b", "c", "d", "e", "poisson", "gaussian", "multinomial", "w", "logs"}
    assert others == set(part.unused)


def test_separated_rows_do_not_end_the_search():
    frame = table().with_columns(sign=pl.col("a") > 0).with_columns(y=pl.col("sign"))
    groups = {"sign": ["sign"], "b": ["b"], "c": ["c"]}
    with pytest.warns(SeparationWarning, match="from step 1 on, with 'sign', some") as caught:
        seq = ds.anytime_sequence(
            frame, "y", groups, {"sign": 1.0, "b": 9.0, "c": 9.0}, family="binomial", rule="score"
        )
    assert [one.filename for one in caught] == [__file__]
    assert seq.steps["group"].to_list()[:2] == [None, "sign"]
    assert seq.steps.height == 4
    assert seq.steps["status"][1] == "separated"
    assert np.isfinite(seq.coef).all()
    assert seq.explained[1] > 1 - 1e-4


@pytest.mark.parametrize("rule", ["score", "fr"])
def test_an_interrupt_ends_with_the_sequence_so_far(rule):
    whole = ds.anytime_sequence(table(), "binomial", GROUPS, family="binomial", rule=rule)
    fail_at = int(whole.passes[2]) + 1
    source = Counted(table(), fail_at=fail_at)
    seq = ds.anytime_sequence(source, "binomial", GROUPS, family="binomial", rule=rule)
    assert seq.stop.name == "INTERRUPTED"
    assert "interrupted" in repr(seq)
    assert seq.steps.height == 3
    np.testing.assert_allclose(seq.deviance, whole.deviance[:3], rtol=1e-12)
    np.testing.assert_allclose(seq.coef, whole.coef[:3], rtol=1e-12)
    with pytest.raises(KeyboardInterrupt):
        ds.anytime_sequence(Counted(table(), fail_at=1), "binomial", GROUPS, family="binomial")


REFUSED = [
    ({"rule": "doubling"}, ArgumentError, "rule is 'doubling'; it must be one of"),
    ({"c_min": 1.0}, ArgumentError, "rule 'fr' has none, 'doubling' of the linear model"),
    ({"null_policy": "zero"}, ArgumentError, "null_policy is 'zero'; it must be one of"),
    ({"family": None}, ArgumentError, "family is None; it must be one of"),
    ({"family": "gaussian", "tol": 0.1}, ArgumentError, "tol is 0.1; the linear model needs"),
    ({"family": "multinomial", "offset": "w"}, ArgumentError, "offset is 'w'; added to"),
    ({"offset": "z"}, ColumnError, "offset names unknown column 'z'"),
    ({"groups": {"x": ["z"]}}, ColumnError, "unknown column 'z'"),
    ({"offset": "multinomial"}, ColumnError, "offset 'multinomial' has type"),
    ({"gram": "lazy"}, ArgumentError, "gram is 'lazy'; rows of the Gram are those of"),
    ({"always": ["ab"], "budget": 1.0}, ArgumentError, "always costs 2"),
]


@pytest.mark.parametrize(("options", "error", "words"), REFUSED)
def test_what_cannot_be_sequenced_is_refused_before_a_row_is_read(options, error, words):
    options = {
        "family": "binomial",
        "groups": GROUPS,
        "costs": {"ab": 2, "c": 1, "de": 1},
        **options,
    }
    source = Counted(table(rows=50))
    with pytest.raises(error, match=words):
        ds.anytime_sequence(source, "binomial", **options)
    assert source.reads <= 1  # for the schema


def test_a_gram_holds_no_rows_to_read_again():
    gram = ds.gram(table(rows=50).drop("multinomial"))
    with pytest.raises(SourceError, match="source is a Gram"):
        ds.anytime_sequence(gram, "binomial", family="binomial")

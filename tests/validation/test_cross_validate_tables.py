"""Cross-validation of a table, of several responses and of families is that of scikit-learn."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import Stream
from polars.testing import assert_frame_equal
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.metrics import (
    accuracy_score,
    d2_log_loss_score,
    d2_tweedie_score,
    log_loss,
    mean_poisson_deviance,
    mean_squared_error,
    r2_score,
)
from sklearn.preprocessing import StandardScaler
from test_glm import table as glm_table

import dbselect as ds

#: scikit-learn's solvers end at gradients of 1e-8 and less, on penalised problems; the
#: deviance errs by the square, and predictions on other rows by some ten times that.
SOLVED = {"rtol": 1e-6, "atol": 1e-7}
GROUPS = {"ab": ["a", "b"], "c": ["c"], "de": ["d", "e"]}
COSTS = {"ab": 3.0, "c": 0.5, "de": 2.0}
COLUMNS = ["a", "b", "c", "d", "e"]
RIDGE = 0.05


def rows(seed: int = 0, n: int = 400) -> pl.DataFrame:
    ids = np.random.default_rng(seed).permutation(n)
    return glm_table(seed, n).with_columns(id=ids)


def parts(
    frame: pl.DataFrame, k: int = 4, seed: int = 1
) -> list[tuple[pl.DataFrame, pl.DataFrame]]:
    """Return training and held-out rows of each fold, by the Polars plugin."""
    fold = frame.select(pl.col("id").dbselect.fold(k, seed).alias("fold"))["fold"]
    return [(frame.filter(fold != number), frame.filter(fold == number)) for number in range(k)]


def predicted(family: str, train: pl.DataFrame, test: pl.DataFrame, columns: list[str]) -> Any:
    """Return what scikit-learn's penalised fit on scaled columns predicts of other rows."""
    y = train[family].to_numpy()
    if not columns:
        if family == "multinomial":
            return np.tile([np.mean(y == name) for name in np.unique(y)], (test.height, 1))
        return np.full(test.height, y.mean())
    scaler = StandardScaler().fit(train.select(columns).to_numpy())
    X, there = (scaler.transform(part.select(columns).to_numpy()) for part in (train, test))
    if family == "poisson":
        model = PoissonRegressor(alpha=RIDGE, solver="newton-cholesky", tol=1e-12)
        return model.fit(X, y).predict(there)
    # The deviance is twice the log loss; its penalty n ridge |w|^2, over two that of 1 / C.
    model = LogisticRegression(
        C=1 / (len(y) * RIDGE), tol=1e-12, max_iter=10000, solver="newton-cg"
    )
    found = model.fit(X, y).predict_proba(there)
    return found if family == "multinomial" else found[:, 1]


def truth(family: str, train: pl.DataFrame, test: pl.DataFrame, columns: list[str]) -> Any:
    y, guess = test[family].to_numpy(), predicted(family, train, test, columns)
    if family == "poisson":
        d2 = d2_tweedie_score(y, guess, power=1)
        return {"deviance": mean_poisson_deviance(y, guess), "r2": d2}
    labels = np.unique(train[family])
    best = labels[guess.argmax(axis=1) if guess.ndim == 2 else (guess > 0.5).astype(int)]
    return {
        "deviance": 2 * log_loss(y, guess, labels=labels),
        "r2": d2_log_loss_score(y, guess, labels=labels),
        "accuracy": accuracy_score(y, best),
    }


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binomial", "poisson", "multinomial"])
def test_prefixes_of_a_family_are_scored_as_scikit_learn_does(family):
    frame = rows()
    options = {"groups": GROUPS, "costs": COSTS, "family": family, "rule": "score", "ridge": RIDGE}
    found = ds.cross_validate(
        frame, family, "anytime_sequence", folds=4, key="id", seed=1, **options
    )
    measured = ["r2", "deviance", "accuracy"][: 2 if family == "poisson" else 3]
    assert found.table["mse"].null_count() == found.table.height
    assert found.table["step"].to_list() == [0, 1, 2, 3]
    for fold, (train, test) in enumerate(parts(frame)):
        seq = ds.anytime_sequence(train, family, **options)
        for row in found.scores.filter(fold=fold).iter_rows(named=True):
            held = [list(GROUPS)[group] for group in seq.held(row["step"])]
            columns = [name for group in held for name in GROUPS[group]]
            assert (row["rows"], row["columns"]) == (test.height, len(columns))
            assert row["spent"] == pytest.approx(sum(COSTS[group] for group in held))
            for name, value in truth(family, train, test, columns).items():
                np.testing.assert_allclose(row[name], value, **SOLVED)
    for row in found.table.iter_rows(named=True):
        folds = found.scores.filter(step=row["step"])
        for name in measured:
            assert row[name] == pytest.approx(folds[name].mean())
            assert row[f"{name}_std_error"] == pytest.approx(folds[name].std() / 2)
    assert found.best["deviance"].item() == found.table["deviance"].min()


@pytest.mark.slow
@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_fits_of_a_family_are_scored_as_scikit_learn_does(family):
    frame = rows(1)
    found = ds.cross_validate(
        frame, family, "fit", {"max_iter": [25, 30]}, folds=4, key="id", seed=1,
        columns=COLUMNS, family=family, ridge=RIDGE,
    )  # fmt: skip
    for fold, (train, test) in enumerate(parts(frame)):
        for name, value in truth(family, train, test, COLUMNS).items():
            for scored in found.scores.filter(fold=fold)[name]:
                np.testing.assert_allclose(scored, value, **SOLVED)
    assert found.scores["step"].is_null().all()
    model = ds.fit(frame, family, COLUMNS, family=family, ridge=RIDGE)
    assert found.model().coefficients == pytest.approx(model.coefficients)


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "id"])
@pytest.mark.parametrize("groups", [None, GROUPS])
def test_a_linear_method_reads_a_table_by_gram_by(groups, key, connection, tmp_path):
    frame = rows(2).select(*COLUMNS, "id", "w", "gaussian")
    columns = None if groups is None else ["gaussian", *COLUMNS]
    folds = ds.gram_by(frame, columns=columns, weight="w", fold=5, key=key, seed=7)
    expected = ds.cross_validate(folds, "gaussian", "anytime_sequence", groups=groups)
    frame.write_parquet(tmp_path / "rows.parquet")
    arrow = frame.to_arrow()
    sources = (frame, frame.lazy(), arrow, tmp_path / "rows.parquet", connection.from_arrow(arrow))
    for source in sources:
        found = ds.cross_validate(
            source, "gaussian", "anytime_sequence", groups=groups, weight="w", folds=5, key=key,
            seed=7,
        )  # fmt: skip
        assert_frame_equal(found.scores, expected.scores, rel_tol=1e-9)
        assert_frame_equal(found.table, expected.table, rel_tol=1e-9)


@pytest.mark.slow
def test_the_key_of_a_table_is_no_feature(connection):
    frame = rows(3).select(*COLUMNS, "id", "binomial")
    expected = None
    for source in (frame, frame.to_arrow(), connection.from_arrow(frame.to_arrow())):
        found = ds.cross_validate(
            source, "binomial", "anytime_sequence", folds=3, key="id", family="binomial"
        )
        assert sorted(found.model("best").groups) <= COLUMNS
        assert found.table["step"].max() == len(COLUMNS)
        expected = found.scores if expected is None else expected
        assert_frame_equal(found.scores, expected, rel_tol=1e-6)


@pytest.mark.slow
def test_weights_and_an_offset_belong_to_the_family():
    frame = rows(4)
    found = ds.cross_validate(
        frame, "poisson", "anytime_sequence", folds=4, key="id", seed=1, weight="w", offset="logs",
        groups=GROUPS, family="poisson",
    )  # fmt: skip
    for fold, (train, test) in enumerate(parts(frame)):
        seq = ds.anytime_sequence(
            train, "poisson", GROUPS, family="poisson", weight="w", offset="logs"
        )
        expected = ds.evaluate(seq, test, weight="w")
        scores = found.scores.filter(fold=fold)
        for name in ("r2", "deviance"):
            np.testing.assert_allclose(scores[name], expected[name], rtol=1e-8)
        assert scores["rows"][0] == (test["w"] > 0).sum()


@pytest.mark.slow
def test_the_model_of_a_choice_is_that_of_all_rows():
    frame = rows(5)
    options: dict[str, Any] = {"groups": GROUPS, "costs": COSTS, "family": "binomial"}
    found = ds.cross_validate(
        frame, "binomial", "anytime_sequence", {"ridge": [0.0, 0.3]}, folds=3, key="id", **options
    )
    for choice in ("best", "one_standard_error"):
        arguments = found.arguments(choice)
        expected = ds.anytime_sequence(frame, "binomial", **arguments).at()
        model = found.model(choice)
        assert model.groups == expected.groups
        assert model.coefficients == pytest.approx(expected.coefficients, rel=1e-6)
        assert model.rows == frame.height


@pytest.mark.slow
def test_a_fold_that_cannot_be_judged_has_a_reason():
    frame = rows(6, 60).with_columns(
        multinomial=pl.when(pl.int_range(60) == 0).then(pl.lit("rare")).otherwise("multinomial"),
        binomial=pl.when(pl.col("id").dbselect.fold(4, 1) == 2).then(0).otherwise("binomial"),
    )
    options: dict[str, Any] = {"folds": 4, "key": "id", "seed": 1, "groups": {"a": ["a"]}}
    found = ds.cross_validate(
        frame, "multinomial", "anytime_sequence", family="multinomial", ridge=0.1, **options
    )
    assert "none of the model's classes" in found.table["reason"].item()
    found = ds.cross_validate(frame, "binomial", "anytime_sequence", family="binomial", **options)
    assert found.table["reason"][0] == "target 'binomial' is constant in fold 2: no r2"
    assert found.table["r2"].null_count() == found.table.height
    assert found.table["deviance"].null_count() == 0
    one = frame.with_columns(id=pl.lit(1))
    options = {"columns": ["a"], "family": "poisson", "folds": 4, "key": "id"}
    with pytest.warns(
        ds.errors.FoldsWarning, match="only 1 of 4 folds have rows: rows of equal 'id'"
    ):
        found = ds.cross_validate(one, "poisson", "fit", **options)
    assert found.table["reason"].item() == ("1 of 4 folds have usable rows; at least 2 are needed")


@pytest.mark.parametrize("scale", [True, False])
def test_several_responses_are_scored_by_their_shares(scale):
    frame = rows(7)
    targets = ["gaussian", "poisson"]
    columns = [*COLUMNS, *targets]
    folds = ds.gram_by(frame, columns=columns, fold=4, key="id", seed=1)
    found = ds.cross_validate(folds, targets, "anytime_sequence", groups=GROUPS, scale=scale)
    whole = frame.select(targets).to_numpy().var(axis=0)
    for fold, (train, test) in enumerate(parts(frame)):
        seq = ds.anytime_sequence(train.select(columns), targets, GROUPS, scale=scale)
        variance = train.select(targets).to_numpy().var(axis=0)
        share = np.full(2, 0.5) if scale else variance / variance.sum()
        for row in found.scores.filter(fold=fold).iter_rows(named=True):
            groups = seq.steps["group"][1 : row["step"] + 1]
            names = [name for group in groups for name in GROUPS[group]]
            mse, r2 = [], []
            for name in targets:
                y, there = train[name].to_numpy(), test[name].to_numpy()
                guess = np.full(len(there), y.mean())
                if names:
                    X, other = (part.select(names).to_numpy() for part in (train, test))
                    guess = LinearRegression().fit(X, y).predict(other)
                mse.append(mean_squared_error(there, guess))
                r2.append(r2_score(there, guess))
            assert row["r2"] == pytest.approx(share @ r2, rel=1e-9, abs=1e-9)
            assert row["mse"] == pytest.approx(share @ (mse / whole), rel=1e-9)
            assert row["columns"] == len(names)
    assert found.target == targets
    model = found.model("best")
    assert isinstance(model, ds.results.JointModel)
    everything = ds.anytime_sequence(frame.select(columns), targets, **found.arguments("best"))
    for name, own in everything.at().coefficients.items():
        assert model.coefficients[name] == pytest.approx(own, rel=1e-9)


def test_a_seed_decides_folds_and_draws():
    frame = rows(8).select(*COLUMNS, "gaussian")
    folds = ds.gram_by(frame, fold=4, seed=5)
    expected = ds.cross_validate(folds, "gaussian", "random_k", k=2, seed=5)
    found = ds.cross_validate(frame, "gaussian", "random_k", k=2, folds=4, seed=5)
    assert_frame_equal(found.scores, expected.scores, rel_tol=1e-9)
    drawn = ds.cross_validate(frame, "gaussian", "random_k", {"seed": [1, 2]}, k=2, folds=4, seed=5)
    of_two = ds.cross_validate(folds, "gaussian", "random_k", {"seed": [1, 2]}, k=2)
    assert_frame_equal(drawn.scores, of_two.scores, rel_tol=1e-9)


FRAME = rows(9, 50)
SEARCH = "anytime_sequence"


@pytest.mark.parametrize(
    ("given", "options", "kind", "message"),
    [
        (
            FRAME,
            {"family": "binomial"},
            ds.errors.ArgumentError,
            "folds is None; with family 'binomial'",
        ),
        (FRAME, {"family": "gama", "folds": 3}, ds.errors.ArgumentError, "family is 'gama'"),
        (
            FRAME,
            {"family": "binomial", "folds": 1},
            ds.errors.ArgumentError,
            "folds is 1; it must be",
        ),
        (FRAME, {"key": "id"}, ds.errors.ArgumentError, "key is 'id', but folds is missing"),
        (FRAME, {"folds": 3, "seed": -1}, ds.errors.ArgumentError, "seed is -1"),
        (FRAME, {"folds": 3, "key": "z", "family": "binomial"}, ds.errors.ColumnError, "'z'"),
        (FRAME, {}, ds.errors.ColumnError, "source lacks column 'fold'.*a table needs folds="),
        (
            [ds.gram(FRAME.select("a"))],
            {"weight": "w"},
            ds.errors.ArgumentError,
            "folds is None; with weight 'w'",
        ),
        (
            FRAME,
            {"grid": {"family": ["binomial"]}, "folds": 3},
            ds.errors.ArgumentError,
            "option 'family' is in the grid",
        ),
        (
            FRAME,
            {"grid": {"null_policy": ["mean"]}, "folds": 3},
            ds.errors.ArgumentError,
            "option 'null_policy' is in the grid",
        ),
        (
            Stream(FRAME.to_arrow()),
            {"family": "binomial", "folds": 3},
            ds.errors.SourceError,
            "a stream that can be read only once, and every fold",
        ),
        (
            FRAME.to_numpy(),
            {"family": "binomial", "folds": 3},
            ds.errors.ArgumentError,
            "source is an array",
        ),
        (
            FRAME,
            {"family": "binomial", "folds": 3, "rule": "x"},
            ds.errors.ArgumentError,
            "rule is 'x'",
        ),
    ],
)
def test_mistakes_are_told(given, options, kind, message):
    grid = options.pop("grid", None)
    with pytest.raises(kind, match=message):
        ds.cross_validate(given, "binomial", SEARCH, grid, **options)


def test_a_function_of_a_family_returns_its_models():
    def wrong(problem: ds.Problem) -> ds.results.Model:
        return ds.fit(ds.gram(problem.source, [problem.target, "a"]), problem.target)

    options = {"folds": 3, "key": "id", "family": "binomial"}
    with pytest.raises(ds.errors.ArgumentError, match="with a family it must return a GlmSequence"):
        ds.cross_validate(FRAME, "binomial", wrong, **options)

    def right(problem: ds.Problem) -> ds.results.GlmModel:
        return problem.fit(["a", "c"])

    found = ds.cross_validate(FRAME, "binomial", right, **options)
    expected = ds.cross_validate(FRAME, "binomial", "fit", columns=["a", "c"], **options)
    assert_frame_equal(found.scores, expected.scores)


@pytest.mark.parametrize("null_policy", ["mean", "indicator", {"a": "mean", "*": "indicator"}])
def test_missing_values_of_a_table_become_what_gram_by_makes_of_them(null_policy):
    """All rows with a target are used; those without are left out whatever the policy."""
    frame = rows(3).select("id", "a", "b", y="gaussian")
    frame = frame.with_columns(
        a=pl.when(pl.col("id") % 5 != 1).then("a"), y=pl.when(pl.col("id") % 9 != 2).then("y")
    )
    found = ds.cross_validate(
        frame, "y", "anytime_sequence", folds=4, key="id", null_policy=null_policy
    )
    there = frame.drop_nulls("y")
    folds = ds.gram_by(there, fold=4, key="id", null_policy=null_policy)
    expected = ds.cross_validate(folds, "y", "anytime_sequence")
    assert_frame_equal(found.table, expected.table)
    assert ds.gram(there, null_policy=null_policy).rows == found.model().rows

"""Cross-validation on records is that of scikit-learn on rows."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import PredefinedSplit
from sklearn.model_selection import cross_validate as sklearn_cross_validate
from sklearn.preprocessing import StandardScaler

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, DataError

#: Both sides solve well-conditioned least squares; sums of some hundred rows.
CLOSE = {"rtol": 1e-10, "atol": 1e-10}
GROUPS = {"a": ["x0"], "b": ["x1", "x2"], "c": ["x3", "x4"], "d": ["x5"]}
COSTS = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 0.5}
FEATURES = [f"x{j}" for j in range(6)]


def rows_of(seed: int, n: int = 250, noise: float = 1.0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) @ rng.normal(size=(6, 6)) * 10.0 ** rng.uniform(-2, 2, 6) + 5
    signal = X @ (rng.normal(size=6) / X.std(axis=0) * [2, 1, 0, 0.5, 0, 0.1])
    frame = pl.DataFrame(X, FEATURES).with_columns(y=signal + noise * rng.normal(size=n) - 7)
    ids = rng.permutation(n)
    return frame.with_columns(id=ids, region=np.where(ids % 3 == 0, "north", "south"))


def split(frame: pl.DataFrame, k: int = 5, seed: int = 1) -> PredefinedSplit:
    """Return the folds of the rows, by the Polars plugin."""
    return PredefinedSplit(frame.select(pl.col("id").dbselect.fold(k, seed)).to_series().to_numpy())


def records(frame: pl.DataFrame, by: list[str] | None = None, k: int = 5) -> pl.DataFrame:
    return ds.gram_by(frame, by, [*FEATURES, "y"], fold=k, key="id", seed=1)


def fitted(X: np.ndarray, y: np.ndarray, ridge: float) -> Any:
    """Fit by scikit-learn: C = G + ridge I on columns of unit variance."""
    if X.shape[1] == 0:
        return None, float(np.mean(y))
    scaler = StandardScaler().fit(X)
    model = Ridge(alpha=ridge * len(X), solver="svd") if ridge else LinearRegression()
    return scaler, model.fit(scaler.transform(X), y)


#: Each method with options, and whether what it finds is fitted by least squares anew.
METHODS: list[tuple[Any, dict[str, Any]]] = [
    (ds.anytime_sequence, {"costs": COSTS, "rule": "doubling"}),
    (ds.anytime_sequence, {"budget": 3.5, "costs": COSTS, "always": ["d"]}),
    (ds.foba, {"costs": COSTS, "nu": 0.9}),
    (ds.foba, {"epsilon": 0.02}),
    (ds.backward, {"costs": COSTS}),
    (ds.reference.group_lasso, {"lambda_min_ratio": 0.05}),
    (ds.best_within, {"budget": 3.5, "costs": COSTS}),
    (ds.greedy, {"k": 2}),
    (ds.reference.top_k, {"k": 3}),
    (ds.reference.random_k, {"k": 2, "seed": 5}),
    (ds.dash, {"k": 2, "seed": 3}),
    (ds.sght, {"max_columns": 3, "max_groups": 2}),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "options"), METHODS, ids=[f"{m.__name__}-{i}" for i, (m, _) in enumerate(METHODS)]
)
@pytest.mark.parametrize("by_name", [True, False])
def test_every_method_is_scored_by_its_refits(method, options, by_name):
    frame = rows_of(1)
    found = ds.cross_validate(
        records(frame), "y", method.__name__ if by_name else method, groups=GROUPS, **options
    )
    X, y = frame.select(FEATURES).to_numpy(), frame["y"].to_numpy()
    ends = []
    for fold, (train, test) in enumerate(split(frame).split()):
        table = frame[train].select(*FEATURES, "y")
        result = method(ds.gram(table), "y", groups=GROUPS, **options)
        sequence = isinstance(result, ds.results.Sequence)
        ends.append(len(result.spent) - 1 if sequence else 0)
        for row in found.scores.filter(fold=fold).iter_rows(named=True):
            names = result.columns
            if sequence:
                step = min(row["step"], ends[-1])
                held = [list(GROUPS)[group] for group in result.held(step)]
                names = [name for group in held for name in GROUPS[group]]
                assert row["spent"] == pytest.approx(result.spent[step])
            at = [FEATURES.index(name) for name in names]
            scaler, model = fitted(X[train][:, at], y[train], 0.0)
            predicted = (
                model.predict(scaler.transform(X[test][:, at])) if at else np.full(len(test), model)
            )
            assert row["rows"] == len(test)
            assert row["columns"] == len(at)
            np.testing.assert_allclose(row["mse"], mean_squared_error(y[test], predicted), **CLOSE)
            np.testing.assert_allclose(row["r2"], r2_score(y[test], predicted), **CLOSE)
    steps = found.table["step"].to_list()
    if found.table["step"].is_null().all():
        assert steps == [None]
    else:
        first = {"backward": 4}.get(method.__name__, len(options.get("always", ())))
        assert steps == list(range(first, max(ends) + 1))


@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")
def test_least_squares_on_named_columns_is_a_method():
    frame = rows_of(14)
    columns = FEATURES[1:3]
    found = ds.cross_validate(
        records(frame), "y", "fit", {"intercept": [True, False]}, columns=columns
    )
    X, y = frame.select(columns).to_numpy(), frame["y"].to_numpy()
    for intercept in (True, False):
        model = LinearRegression(fit_intercept=intercept)
        scores = sklearn_cross_validate(model, X, y, cv=split(frame), scoring="r2")["test_score"]
        row = found.table.row(by_predicate=pl.col("intercept") == intercept, named=True)
        np.testing.assert_allclose(row["r2"], scores.mean(), **CLOSE)
        assert (row["step"], row["columns"]) == (None, 2)
    # Other columns at every point: the result has a column of that name.
    with pytest.raises(ArgumentError, match="an option is named 'columns'; wrap the method"):
        ds.cross_validate(records(frame), "y", "fit", {"columns": [["a"], ["b"]]})
    wrapped = ds.cross_validate(
        records(frame),
        "y",
        lambda problem, *, of: problem.fit(of),
        {"of": [[name] for name in columns]},
    )
    assert wrapped.table["columns"].to_list() == [1.0, 1.0]


def test_weights_count_in_every_score():
    frame = rows_of(3).with_columns(w=pl.Series(np.random.default_rng(9).uniform(0.2, 3, 250)))
    folds = ds.gram_by(frame, columns=[*FEATURES, "y"], weight="w", fold=5, key="id", seed=1)
    found = ds.cross_validate(folds, "y", "anytime_sequence").scores.filter(step=6)
    X, y, w = (frame.select(names).to_numpy().squeeze() for names in (FEATURES, "y", "w"))
    for (train, test), row in zip(split(frame).split(), found.iter_rows(named=True), strict=True):
        predicted = LinearRegression().fit(X[train], y[train], w[train]).predict(X[test])
        weights = {"sample_weight": w[test]}
        np.testing.assert_allclose(row["r2"], r2_score(y[test], predicted, **weights), **CLOSE)
        mse = mean_squared_error(y[test], predicted, **weights)
        np.testing.assert_allclose(row["mse"], mse, **CLOSE)


@pytest.mark.slow
def test_segments_are_scored_as_if_they_were_alone():
    frame = rows_of(5).with_columns(region=pl.when(pl.col("id") % 4 == 1).then(pl.col("region")))
    grid = [{"rule": "fr"}, {"rule": "omp", "ridge": 0.1}]
    found = ds.cross_validate(records(frame, ["region"]), "y", "anytime_sequence", grid)
    assert found.keys == ["region"]
    assert found.table["region"].unique().sort().to_list() == [None, "north", "south"]
    for region in ("north", "south", None):
        of_region = pl.col("region").eq_missing(pl.lit(region))
        part = frame.filter(of_region)
        alone = ds.cross_validate(records(part), "y", "anytime_sequence", grid)
        for name in ("table", "scores", "best", "one_standard_error"):
            rows = getattr(found, name).filter(of_region).drop("region")
            assert_frame_equal(rows, getattr(alone, name), rel_tol=1e-9)
        assert found.arguments(region=region) == alone.arguments()
        model, other = found.model("best", region=region), alone.model("best")
        assert model.coefficients == pytest.approx(other.coefficients, rel=1e-9)
    assert found.best.height == found.one_standard_error.height == 3


@pytest.mark.filterwarnings("ignore::dbselect.errors.FoldsWarning")
def test_a_bad_segment_has_a_reason_and_stops_no_other():
    rng = np.random.default_rng(6)
    n = 600
    frame = pl.DataFrame({"id": np.arange(n), "x": rng.normal(size=n), "z": rng.normal(size=n)})
    fold = pl.col("id").dbselect.fold(5, 1)
    kinds = ["good", "constant", "one fold", "missing", "constant in a fold"]
    frame = frame.with_columns(
        y=pl.col("x") + pl.col("z") / 3, kind=pl.Series(kinds)[np.arange(n) % 5]
    ).with_columns(
        y=pl.when(kind="constant").then(2.0)
        .when((pl.col("kind") == "constant in a fold") & (fold == 3)).then(1.0)
        .when(kind="missing").then(None)
        .otherwise("y"),
    )  # fmt: skip
    frame = frame.filter((pl.col("kind") != "one fold") | (fold == 2))
    folds = ds.gram_by(frame, ["kind"], ["x", "z", "y"], fold=5, key="id", seed=1)
    found = ds.cross_validate(folds, "y", "anytime_sequence", {"ridge": [0.0, 0.5]})
    reasons = dict(found.table.select("kind", "reason").unique().rows())
    others = frame.filter(pl.col("kind") == "constant", fold != 0).height  # all but the first fold
    assert reasons == {
        "good": None,
        "constant": f"target 'y' is constant ({others} rows)",
        "one fold": "1 of 1 folds have usable rows; at least 2 are needed",
        "missing": "0 of 5 folds have usable rows; at least 2 are needed",
        "constant in a fold": "target 'y' is constant in fold 3: no r2",
    }
    assert found.best["kind"].to_list() == ["constant in a fold", "good"]
    assert found.scores["kind"].unique().sort().to_list() == ["constant in a fold", "good"]
    for kind in ("constant", "one fold", "missing"):
        rows = found.table.filter(kind=kind)
        assert rows["ridge"].to_list() == [0.0, 0.5]
        assert (
            rows.select("step", "spent", "r2", "mse", "mse_std_error").null_count().row(0)
            == (2,) * 5
        )
        assert not rows.select(pl.any_horizontal("best", "one_standard_error").any()).item()
        with pytest.raises(DataError, match=reasons[kind][:20]):
            found.model(kind=kind)
    partly = found.scores.filter(kind="constant in a fold", step=2, point=0)
    assert partly["r2"].is_null().to_list() == [False, False, False, True, False]
    rows = found.table.filter(kind="constant in a fold")
    assert rows["r2"].null_count() == rows.height
    assert rows["mse"].null_count() == 0


def test_a_point_that_fails_leaves_the_others():
    frame = rows_of(7).with_columns(x1="x0")
    grid = {"backward": ["coefficient", "loss"]}
    found = ds.cross_validate(records(frame), "y", "backward", grid)
    assert "depend linearly" in found.table.filter(backward="coefficient")["reason"].item()
    assert found.best["backward"].item() == "loss"


@pytest.mark.slow
def test_the_choices_are_those_of_their_definition():
    for seed in range(8, 14):
        frame = rows_of(seed, n=80, noise=30.0)
        grid = {"ridge": [0.0, 0.1, 1.0], "rule": ["fr", "omp"]}
        found = ds.cross_validate(
            records(frame), "y", "anytime_sequence", grid, groups=GROUPS, costs=COSTS
        )
        rows = list(found.table.with_row_index().iter_rows(named=True))
        best = min(rows, key=lambda row: row["mse"])
        limit = best["mse"] + best["mse_std_error"]
        within = [row for row in rows if row["mse"] <= limit]
        simple = min(within, key=lambda row: (round(row["spent"], 9), row["columns"], row["mse"]))
        for choice, wanted in (("best", best), ("one_standard_error", simple)):
            (chosen,) = found.table.with_row_index().filter(choice).iter_rows(named=True)
            # Rules that agree on every fold tie; the simpler or first is taken.
            assert chosen["mse"] == pytest.approx(wanted["mse"], rel=1e-12)
            assert chosen["spent"] == pytest.approx(wanted["spent"])
        assert simple["spent"] <= best["spent"]


def test_ties_go_to_the_simpler_and_then_to_the_first():
    frame = rows_of(14).with_columns(x5=2 * pl.col("x0"))
    found = ds.cross_validate(
        records(frame), "y", "anytime_sequence", {"rule": ["fr", "fr"]}, groups=GROUPS
    )
    best = found.best.row(0, named=True)
    assert best["point"] == 0
    # The last group to come adds nothing: its column is a multiple of another.
    full = found.table.filter(point=0, step=4)["mse"].item()
    assert found.table.filter(point=0, step=3)["mse"].item() == pytest.approx(full, rel=1e-9)
    assert best["step"] < 4


def test_no_feature_can_be_the_choice():
    frame = rows_of(16).with_columns(y=pl.Series(np.random.default_rng(0).normal(size=250)))
    found = ds.cross_validate(records(frame), "y", "anytime_sequence")
    assert found.one_standard_error["step"].item() == 0
    assert found.arguments() == {"budget": 0.0}
    assert found.model().columns == []
    assert ds.anytime_sequence(frame, "y", **found.arguments()).at().columns == []


def test_folds_come_from_python_lists_frames_arrow_and_sql(connection):
    frame = rows_of(17)
    folds = records(frame)
    wanted = ds.cross_validate(folds, "y", "anytime_sequence").table
    rows = frame.to_arrow()  # noqa: F841 - DuckDB finds it by its name
    names = ", ".join([*FEATURES, "y"])
    query = (
        f"SELECT fold_of(id, 5, 1) AS fold, gram(struct_pack({names})) AS gram "
        "FROM rows GROUP BY fold"
    )
    parts = [ds.Gram.from_struct(record) for record in folds["gram"]]
    for given in (
        folds.sample(fraction=1, shuffle=True, seed=0),
        folds.lazy(),
        folds.to_arrow(),
        connection.sql(query),
        parts,
        [part.to_struct() for part in parts],
    ):
        found = ds.cross_validate(given, "y", "anytime_sequence").table
        assert_frame_equal(found, wanted, rel_tol=1e-9)


def test_records_of_one_fold_are_merged_and_empty_folds_do_not_count():
    frame = rows_of(18)
    wanted = ds.cross_validate(records(frame), "y", "anytime_sequence").scores
    halves = [records(frame[:100]), records(frame[100:])]
    empty = ds.gram(frame.clear(), [*FEATURES, "y"]).to_struct()
    none = pl.DataFrame({"fold": [9], "gram": [empty]}, schema=halves[0].schema)
    found = ds.cross_validate(pl.concat([*halves, none]), "y", "anytime_sequence").scores
    assert_frame_equal(found, wanted, rel_tol=1e-9)


def test_a_function_of_the_user_is_a_method():
    frame = rows_of(19)

    def two(problem: ds.Problem, *, rule: str) -> ds.results.Model:
        return problem.anytime_sequence(rule=rule, max_groups=2).at()

    found = ds.cross_validate(records(frame), "y", two, {"rule": ["fr", "omp"]})
    whole = ds.cross_validate(records(frame), "y", "anytime_sequence", {"rule": ["fr", "omp"]})
    expected = whole.table.filter(step=2)
    assert_frame_equal(
        found.table.select("rule", "r2", "mse"), expected.select("rule", "r2", "mse"), rel_tol=1e-12
    )


FOLDS = records(rows_of(21))


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ((FOLDS, "y", "lars"), ArgumentError, "method is 'lars'; it must be one of"),
        ((FOLDS, "y", 3), ArgumentError, "method is 3"),
        ((FOLDS, "y", "foba", {"rigde": [1]}), ArgumentError, "unknown option 'rigde'.*'ridge'"),
        ((FOLDS, "y", "foba", {"rule": "fr"}), ArgumentError, "grid has 'fr' for 'rule'"),
        ((FOLDS, "y", "foba", {"rule": []}), ArgumentError, "it has no point"),
        ((FOLDS, "y", "foba", "rule"), ArgumentError, "grid is 'rule'"),
        ((FOLDS, "y", "foba", [3]), ArgumentError, "grid lists 3"),
        ((FOLDS, "y", "foba", {"rule": ["x"]}), ArgumentError, "rule is 'x'"),
        ((FOLDS, "z", "foba"), ColumnError, "target names unknown column 'z'"),
        (([], "y", "foba"), ArgumentError, "source is empty"),
        ((FOLDS.clear(), "y", "foba"), ArgumentError, "source is empty"),
        ((FOLDS.drop("fold"), "y", "foba"), ColumnError, "source lacks column 'fold'"),
        ((7, "y", "foba"), ArgumentError, "source is a int"),
        ((FOLDS, "y", ds.group_lasso_path), ArgumentError, "method is 'group_lasso_path'"),
        (
            (FOLDS, "y", lambda problem: problem.group_lasso_path()),
            ArgumentError,
            "method returns a GroupLassoPath",
        ),
        ((FOLDS.with_columns(step=1), "y", "foba"), ArgumentError, "a key is named 'step'"),
        (
            (FOLDS.with_columns(rule=1), "y", "foba", {"rule": ["fr"]}),
            ArgumentError,
            "a key is named 'rule'",
        ),
    ],
)
def test_mistakes_are_told(arguments, kind, message):
    with pytest.raises(kind, match=message):
        ds.cross_validate(*arguments)


def test_an_option_is_given_once():
    with pytest.raises(ArgumentError, match="option 'rule' is given for all points and in the"):
        ds.cross_validate(FOLDS, "y", "foba", {"rule": ["fr"]}, rule="omp")
    with pytest.raises(ArgumentError, match="unknown option 'k'"):
        ds.cross_validate(FOLDS, "y", "foba", k=3)


def test_a_choice_and_a_segment_must_exist():
    found = ds.cross_validate(FOLDS, "y", "foba")
    with pytest.raises(ArgumentError, match="choice is 'first'; it must be one of"):
        found.model("first")
    with pytest.raises(ArgumentError, match=r"keys are \['region'\]; they must be \[\]"):
        found.model(region="north")
    by_region = ds.cross_validate(records(rows_of(22), ["region"]), "y", "foba")
    with pytest.raises(ArgumentError, match=r"there is no segment .*'west'"):
        by_region.arguments(region="west")

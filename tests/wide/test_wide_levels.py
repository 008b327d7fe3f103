"""One group of very many levels: everything is as from the whole Gram, and within levels."""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from conftest import OPENERS

import dbselect as ds
from dbselect.search import training_folds as training
from dbselect.search import wide_table as wide
from dbselect.sources.wide import gram_rows, wide_rows

ROWS, USERS, ITEMS = 900, 80, 70
NUMBERS = [f"x{j}" for j in range(6)]
USER = {"user": ["user"]}
OTHERS = {name: [name] for name in [*NUMBERS, "age"]}
#: So dear that it comes after some others, or so cheap that it comes first.
DEAR = {**dict.fromkeys(OTHERS, 1.0), "user": 300.0}
CHEAP = {**dict.fromkeys(OTHERS, 9.0), "user": 1.0}


@pytest.fixture(autouse=True)
def few_levels_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have levels summed of which the whole Gram can be made, too."""
    monkeypatch.setattr(wide_rows, "MAX_LEVELS", 50)
    monkeypatch.setattr(wide_rows, "PIECE_ROWS", 130)
    by_row(monkeypatch, 60)


def by_row(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    for module in (wide, training):
        monkeypatch.setattr(module, "MOST_LEVELS_BY_ROW", most)


def problem(seed: int = 1) -> pl.DataFrame:
    """Return rows of users and items, a number that users determine, and others beside them."""
    rng = np.random.default_rng(seed)
    user = np.r_[np.arange(USERS), rng.integers(0, USERS, ROWS - USERS)]
    item = np.r_[rng.integers(0, ITEMS, ROWS - ITEMS), np.arange(ITEMS)]
    effect, age = rng.normal(size=USERS)[user], rng.normal(size=USERS)[user]
    X = rng.normal(size=(ROWS, 6)) + 0.5 * effect[:, None]
    y = effect + X[:, :3] @ [1.0, 2.0, 0.5] + 0.3 * age + 2 * (item == 3) + rng.normal(size=ROWS)
    columns = {"y": y, **dict(zip(NUMBERS, X.T, strict=True)), "age": age}
    frame = pl.DataFrame({**columns, "w": rng.uniform(0.1, 2, ROWS), "user": user, "item": item})
    return frame.with_columns(
        pl.format("u{}", "user").alias("user"), pl.format("i{}", "item").alias("item")
    )


def whole(monkeypatch: pytest.MonkeyPatch, search: Callable[[], Any]) -> tuple[Any, Any]:
    """Return what a search finds with sums by level, and with all rows of the Gram.

    Columns of levels against a rare last one may be so nearly dependent that the whole Gram warns.
    """
    found = search()
    by_row(monkeypatch, 10**6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.errors.ConditionWarning)
        full = search()
    by_row(monkeypatch, 60)
    return found, full


def assert_same(found: ds.results.WideSequence, full: ds.results.WideSequence) -> None:
    assert (found.by_level is None, full.by_level is None) == (False, True)
    assert found.steps.select("action", "group").equals(full.steps.select("action", "group"))
    for name in ("explained", "r2", "intercept"):
        np.testing.assert_allclose(getattr(found, name), getattr(full, name), atol=1e-9)
    assert {*found.aliased} == {*full.aliased}
    for step in range(len(found.records) + 1):
        expected = full.model(step).coefficients
        assert found.model(step).coefficients == pytest.approx(expected, rel=1e-6, abs=1e-6)
    for name in ("df", "bic"):
        known = full.criteria()[name].to_numpy()
        np.testing.assert_allclose(found.criteria()[name].to_numpy(), known, rtol=1e-9)


@pytest.mark.sample(6)
@pytest.mark.parametrize("costs", [DEAR, CHEAP], ids=["last", "first"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rule": "omp"},
        {"rule": "omp-unwhitened"},
        {"rule": "omp-single"},
        {"ridge": 0.5},
        {"ridge": 0.5, "rule": "omp"},
        {"ridge": 0.5, "scale": False},
        {"weight": "w"},
        {"ridge": 0.1, "weight": "w", "rule": "doubling"},
    ],
    ids=str,
)
def test_the_sequence_is_that_of_the_whole_gram(monkeypatch, costs, options):
    table = problem()
    found, full = whole(
        monkeypatch,
        lambda: ds.anytime_sequence(table, "y", {**OTHERS, **USER}, costs, gram="lazy", **options),
    )
    assert_same(found, full)
    assert found.scans <= 4


@pytest.mark.parametrize("always", [["user"], ["age", "user"], ["x4", "age", "x5", "user"]])
def test_columns_that_levels_determine_are_aliased_as_in_the_whole_gram(monkeypatch, always):
    table = problem(2).with_columns(x5=pl.col("x4") - pl.col("age"))
    found, full = whole(
        monkeypatch,
        lambda: ds.anytime_sequence(
            table, "y", {**OTHERS, **USER}, gram="lazy", always=always, max_groups=6
        ),
    )
    assert_same(found, full)
    assert found.aliased


def test_levels_are_a_group_beside_groups_of_several_columns_and_other_levels(monkeypatch):
    table = problem(3).with_columns(
        x2=pl.when(pl.int_range(pl.len()) % 50 == 7).then(None).otherwise("x2"),
        user=pl.when(pl.int_range(pl.len()) % 60 == 9).then(None).otherwise("user"),
    )
    items = {f"item.i{j}": [f"item.i{j}"] for j in range(ITEMS - 10)}
    groups = {"pair": ["x0", "x1"], "mix": ["x2", "age", "item.i65"], **USER, **items}
    costs = {**dict.fromkeys(groups, 1.0), "user": 20.0}
    found, full = whole(
        monkeypatch,
        lambda: ds.anytime_sequence(
            table, "y", groups, costs, max_groups=7, gram="lazy", null_policy={"x2": "mean"}
        ),
    )
    assert_same(found, full)
    assert "user" in found.groups.names[:-1]


@pytest.mark.parametrize("ridge", [0.0, 0.01])
def test_a_group_may_have_some_of_the_levels(monkeypatch, ridge):
    table = problem(4)
    groups = {
        "most": [f"user.u{j}" for j in range(12, USERS)],
        "few": [f"user.u{j}" for j in range(9)],
        "one": ["user.u11"],
        **OTHERS,
    }
    costs = {**dict.fromkeys(groups, 1.0), "most": 30.0}
    found, full = whole(
        monkeypatch,
        lambda: ds.anytime_sequence(table, "y", groups, costs, ridge=ridge, gram="lazy"),
    )
    assert_same(found, full)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "options", [{}, {"ridge": 0.1}, {"backward": "coefficient"}, {"nu": 0.9}], ids=str
)
def test_foba_gives_groups_back_as_on_the_whole_gram(monkeypatch, options):
    table = problem(5)
    about = table["y"] + 3 * np.random.default_rng(5).normal(size=ROWS)
    table = table.with_columns(about=about)
    groups = {"about": ["about"], **OTHERS, **USER}
    costs = {**dict.fromkeys(groups, 1.0), "user": 60.0}
    found, full = whole(
        monkeypatch,
        lambda: ds.foba(table, "y", groups, costs, epsilon=1e-6, gram="lazy", **options),
    )
    assert_same(found, full)
    assert "remove" in found.steps["action"]


def test_dash_takes_levels_as_on_the_whole_gram(monkeypatch):
    table = problem(7)
    found, full = whole(
        monkeypatch,
        lambda: ds.dash(table, "y", {**OTHERS, **USER}, k=3, opt=0.99, alpha=0.8, gram="lazy"),
    )
    assert "user" in found.groups
    assert found.groups == full.groups
    assert found.model.coefficients == pytest.approx(full.model.coefficients, abs=1e-8)
    with pytest.warns(ds.errors.SelectionWarning):
        tables = [one.model.summary() for one in (found, full)]
    for name in ("std_error", "standardized"):
        np.testing.assert_allclose(*(each[name].fill_null(0.0) for each in tables), rtol=1e-6)


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", ["anytime_sequence", "foba", "dash"])
@pytest.mark.parametrize("weight", [None, "w"])
def test_folds_are_scored_as_on_the_whole_gram(monkeypatch, method, weight):
    table = problem(8).with_row_index("row")
    grid = {"foba": {"epsilon": [1e-4]}, "dash": {"k": [2, 3]}}.get(method, {"ridge": [0.0, 0.5]})
    items = {"item.i3": ["item.i3"], "item.i69": ["item.i69"]}

    def scores() -> pl.DataFrame:
        return ds.cross_validate(
            table, "y", method, grid, folds=4, key="row", weight=weight, gram="lazy",
            groups={**OTHERS, **USER, **items},
        ).table  # fmt: skip

    found, full = whole(monkeypatch, scores)
    np.testing.assert_allclose(found["mse"].to_numpy(), full["mse"].to_numpy(), rtol=1e-9)
    assert found["columns"].equals(full["columns"])


@pytest.mark.parametrize("weight", [None, "w"])
def test_standard_errors_are_those_of_statsmodels(weight):
    table = problem(10)
    always = ["x0", "age", "user", "x1"]
    seq = ds.anytime_sequence(
        table, "y", {**OTHERS, **USER}, always=always, max_groups=4, weight=weight, gram="lazy"
    )
    model = seq.at()
    kept = [name for name in model.columns if name not in model.aliased]
    levels = [name.removeprefix("user.") for name in kept if name.startswith("user.")]
    dummies = (table["user"].to_numpy()[:, None] == np.array(levels)).astype(float)
    others = [name for name in kept if not name.startswith("user.")]
    X = sm.add_constant(np.hstack([table.select(others).to_numpy(), dummies]))
    weights = 1.0 if weight is None else table[weight].to_numpy()
    fit = sm.WLS(table["y"].to_numpy(), X, weights=weights).fit()
    names = ["(intercept)", *others, *(f"user.{level}" for level in levels)]
    summary = model.summary()
    known = dict(zip(summary["term"], summary.select("estimate", "std_error").rows(), strict=True))
    np.testing.assert_allclose([known[name][0] for name in names], fit.params, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose([known[name][1] for name in names], fit.bse, rtol=1e-7)


def test_a_stored_sequence_goes_on_and_its_model_predicts_in_every_engine(tmp_path: Path):
    table = problem(11)
    groups = {**OTHERS, **USER}
    path = tmp_path / "table.parquet"
    table.write_parquet(path)
    seq = ds.anytime_sequence(path, "y", groups, max_groups=3, gram="lazy")
    seq.write_parquet(tmp_path / "found.parquet")
    read = ds.results.WideSequence.read_parquet(tmp_path / "found.parquet")
    assert "user" in read.groups.names
    with pytest.warns(ds.errors.SelectionWarning):
        assert read.at().summary().equals(seq.at().summary())
    assert read.best("bic").groups == seq.best("bic").groups
    more = ds.anytime_sequence(path, "y", groups, max_groups=6, gram="lazy", resume=read)
    at_once = ds.anytime_sequence(path, "y", groups, max_groups=6, gram="lazy")
    assert more.steps["group"].equals(at_once.steps["group"])
    np.testing.assert_allclose(more.r2, at_once.r2, rtol=1e-12)

    rows = table.head(5).vstack(table.tail(5)).with_columns(
        user=pl.when(pl.int_range(10) == 4).then(pl.lit("nobody")).otherwise("user")
    )  # fmt: skip
    model = read.at()
    coef = model.coefficients
    by_hand = [
        model.intercept
        + sum(value * row[name] for name, value in coef.items() if name in row)
        + coef.get(f"user.{row['user']}", np.nan)
        for row in rows.iter_rows(named=True)
    ]
    np.testing.assert_allclose(model.predict(rows), by_hand)
    np.testing.assert_allclose(rows.select(p=model.expr())["p"].fill_null(np.nan), by_hand)
    given = duckdb.connect().from_arrow(rows.to_arrow())
    found = [np.nan if p is None else p for (p,) in given.project(model.sql()).fetchall()]
    np.testing.assert_allclose(found, by_hand)  # in the order of the rows
    with pytest.raises(Exception, match="level nobody, which the fit has not seen"):
        given.project(model.sql(handle_unknown="error")).fetchall()
    effects = table["user"].replace_strict(
        {name.removeprefix("user."): value for name, value in coef.items()}, default=0.0
    )
    odd = rows.row(4, named=True)
    numbers = sum(value * odd[name] for name, value in coef.items() if name in odd)
    by_hand[4] = model.intercept + numbers + effects.mean()
    np.testing.assert_allclose(model.predict(rows, handle_unknown="mean"), by_hand)
    found = given.project(model.sql(handle_unknown="mean")).fetchall()
    np.testing.assert_allclose([p for (p,) in found], by_hand)


def test_other_data_are_judged_by_what_is_predicted_of_their_rows(monkeypatch):
    table, other = problem(12), problem(13)
    found, full = whole(
        monkeypatch,
        lambda: ds.anytime_sequence(
            table, "y", {**OTHERS, **USER}, max_groups=3, ridge=0.1, gram="lazy"
        ),
    )
    judged = ds.evaluate(found, other)
    errors = [
        ((other["y"].to_numpy() - full.model(step).predict(other)) ** 2).mean() for step in range(4)
    ]
    np.testing.assert_allclose(judged["mse"], errors)
    np.testing.assert_allclose(judged["r2"], 1 - np.array(errors) / other["y"].var(ddof=0))
    own = ds.evaluate(found, table)
    np.testing.assert_allclose(own["explained"], found.explained, atol=1e-12)


def test_what_needs_the_gram_of_levels_says_so():
    table = problem(14)
    seq = ds.anytime_sequence(table, "y", {**OTHERS, **USER}, max_groups=2, gram="lazy")
    assert seq.gram.columns == [name for name in seq.groups.names if name != "user"] + ["y"]
    model = seq.at()
    assert "user" in model.groups
    for asked in (model.vif, model.partial_correlations, partial(model.robust_errors, table)):
        with pytest.raises(
            ds.errors.ArgumentError, match="so many levels that there is no Gram of its"
        ):
            asked()
    with pytest.raises(ds.errors.ArgumentError, match="guarantee needs the correlations of all 87"):
        seq.guarantee()


def test_too_many_products_are_refused_before_and_while_they_are_read(monkeypatch):
    table = problem(15)
    monkeypatch.setattr(gram_rows, "MOST_PAIRS", 300)
    items = {f"item.i{j}": [f"item.i{j}"] for j in range(ITEMS)}
    groups, first = {**USER, **items}, {"always": ["user"], "max_groups": 2}
    with pytest.raises(
        ds.errors.DataError, match="meet more than 300 pairs of a level and another"
    ):
        ds.anytime_sequence(table, "y", groups, gram="lazy", **first)
    monkeypatch.setattr(wide, "MOST_WITHIN", 4000)
    with pytest.raises(
        ds.errors.ArgumentError, match=r"'item' has 70 columns.* but 'user', one of levels"
    ):
        ds.anytime_sequence(table, "y", {**USER, "item": ["item"]}, gram="lazy")
    monkeypatch.setattr(wide, "MOST_WITHIN", 600)
    with pytest.raises(
        ds.errors.ArgumentError, match=r"'user' has 80 levels.* sum of each of the 8"
    ):
        ds.anytime_sequence(table, "y", {**OTHERS, **USER, "w": ["w"]}, gram="lazy")


def test_a_level_of_no_usable_row_is_one_that_the_fit_has_not_seen():
    table = problem(20).with_columns(y=pl.when(pl.col("user") == "u3").then(None).otherwise("y"))
    for groups in (USER, {"x0": ["x0"], "some": ["user.u1", "user.u2"]}):
        model = ds.anytime_sequence(table, "y", groups, gram="lazy").at()
        rows = pl.DataFrame({"x0": [0.0], "user": ["u3"]})
        assert np.isnan(model.predict(rows)).all()
        assert rows.select(p=model.expr())["p"].to_list() == [None]
        given = duckdb.connect().from_arrow(rows.to_arrow())
        assert given.project(model.sql()).fetchall() == [(None,)]
        with pytest.raises(ds.errors.DataError, match="level 'u3', which the fit has not seen"):
            model.predict(rows, handle_unknown="error")


@pytest.mark.parametrize("always", [["user"], ["meter", "user"]])
def test_a_column_that_levels_determine_but_for_a_trace_is_told(always):
    """As from the whole Gram: too few digits are left of what it has of its own."""
    rng = np.random.default_rng(22)
    table = problem(22).select("user").with_columns(own=rng.uniform(size=ROWS))
    meter = 1e6 * rng.uniform(size=ROWS)[table["user"].rank("dense").to_numpy() - 1]
    table = table.with_columns(
        meter=meter + 0.3 * table["own"], y=5 * table["own"] + 0.1 * rng.normal(size=ROWS)
    )
    groups = {"user": ["user"], "meter": ["meter"]}
    with pytest.warns(
        ds.errors.DependenceWarning, match="'meter' nearly depends on the others"
    ) as told:
        ds.anytime_sequence(table, "y", groups, always=always, gram="lazy")
    assert {one.filename for one in told} == {__file__}
    exact = table.with_columns(meter=meter)
    ds.anytime_sequence(exact, "y", groups, always=always, gram="lazy")


def test_a_file_of_levels_is_read_as_what_it_is(tmp_path):
    seq = ds.anytime_sequence(problem(23), "y", {**OTHERS, **USER}, max_groups=3, gram="lazy")
    seq.write_parquet(tmp_path / "found.parquet")
    with pytest.raises(ds.errors.RecordError, match="it is that of a WideSequence; read it as one"):
        ds.results.Sequence.read_parquet(tmp_path / "found.parquet")
    with pytest.raises(ds.errors.ArgumentError, match="'cp', which needs the model on all columns"):
        seq.best("cp")


def test_a_damaged_group_of_levels_is_refused():
    table = problem(16)
    groups = {**OTHERS, **USER}
    record = ds.anytime_sequence(table, "y", groups, max_groups=2, gram="lazy").to_struct()
    missing, known = [float("nan")] * USERS, record["level_group"]
    heavy = [3 * weight for weight in known["weight"]]
    fewer = {"weight": known["weight"][1:], "sums": known["sums"][len(known["sums"]) // USERS :]}
    wider = {"sums": [*known["sums"], *[0.0] * USERS]}
    below = {"weight": [-1.0, *known["weight"][1:]]}
    damages = [{"weight": []}, {"sums": [1.0]}, {"weight": missing}, {"group": "a"}]
    for damage in (*damages, fewer, wider, below, {"weight": heavy}):
        broken = {**record, "level_group": {**record["level_group"], **damage}}
        with pytest.raises(ds.errors.RecordError, match="damaged"):
            ds.results.WideSequence.from_struct(broken)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "as_source", [kind for kind in OPENERS if not kind.startswith("arrow ")], indirect=True
)
def test_every_source_sums_by_level(as_source):
    table, groups = problem(18), {**OTHERS, **USER}
    found = ds.anytime_sequence(as_source(table), "y", groups, DEAR, weight="w", gram="lazy")
    expected = ds.anytime_sequence(table, "y", groups, DEAR, weight="w", gram="lazy")
    assert found.steps["group"].equals(expected.steps["group"])
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-6, atol=1e-9)


@pytest.mark.system
def test_processes_sum_their_parts_by_level():
    dask = pytest.importorskip("dask.dataframe")
    table, groups = problem(19), {**OTHERS, **USER, "item.i3": ["item.i3"]}
    costs = {**DEAR, "item.i3": 1.0}
    parts = dask.from_pandas(table.to_pandas(), npartitions=3)
    found = ds.anytime_sequence(parts, "y", groups, costs, gram="lazy")
    expected = ds.anytime_sequence(table, "y", groups, costs, gram="lazy")
    assert found.by_level is not None
    np.testing.assert_allclose(found.coef, expected.coef, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_a_hundred_thousand_levels_are_one_group(monkeypatch):
    """As they are: no limit is changed."""
    monkeypatch.undo()
    rng = np.random.default_rng(17)
    user = np.r_[np.arange(100_000), rng.integers(0, 100_000, 50_000)]
    effect = rng.normal(size=100_000)[user]
    X = rng.normal(size=(len(user), 2)) + effect[:, None]
    y = effect + X[:, 0] + rng.normal(size=len(user))
    table = pl.DataFrame({"y": y, "a": X[:, 0], "b": X[:, 1], "user": user})
    table = table.with_columns(pl.format("u{}", "user").alias("user"))
    seq = ds.anytime_sequence(table, "y", {"a": ["a"], "b": ["b"], **USER}, gram="lazy")
    assert (seq.n_columns, seq.scans) == (100_002, 3)
    within = table.select(pl.col("y", "a", "b") - pl.col("y", "a", "b").mean().over("user"))
    coef, left, *_ = np.linalg.lstsq(
        within.select("a", "b").to_numpy(), within["y"].to_numpy(), rcond=None
    )
    model = seq.at()
    assert [model.coefficients["a"], model.coefficients["b"]] == pytest.approx(coef)
    assert 1 - model.r2 == pytest.approx(left[0] / ((y - y.mean()) ** 2).sum())


def test_groups_beside_levels_may_share_columns_and_levels_may_not(monkeypatch):
    table = problem()
    groups = {**USER, "a": ["x0", "x1"], "b": ["x1", "x2", "age"], "c": ["x2", "x3"]}
    costs = {"user": 20.0, "a": 1.0, "b": 1.0, "c": 1.0}
    search = partial(ds.anytime_sequence, table, "y", groups, costs, gram="lazy")
    found, full = whole(monkeypatch, search)
    assert_same(found, full)
    groups["d"] = ["user", "x4"]
    with pytest.raises(ds.errors.GroupError, match="'user' has 80 levels, of which another group"):
        ds.anytime_sequence(table, "y", groups, gram="lazy")

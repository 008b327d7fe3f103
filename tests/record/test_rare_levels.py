"""The levels of a text add up to 1, however few rows or however little weight one of them has."""

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm

import dbselect as ds

#: Share by which standard errors may be off whose model has the condition of a rare level.
KNOWN = 1e-6
#: What the order in which threads sum 20,000 rows may change of a coefficient near 1.
ROUNDING = 1e-11


def rare(rows: int, seed: int) -> pl.DataFrame:
    """Return rows of level a, but for two of b, with weights of all sizes."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "k": ["a" if row not in (7, rows // 2) else "b" for row in range(rows)],
            "x": rng.normal(size=rows),
            "y": rng.normal(size=rows),
            "w": np.exp(2 * rng.normal(size=rows)),
        }
    )


def assert_refit(model: ds.results.Model, frame: pl.DataFrame) -> None:
    """Compare a model with the refit on the indicator of a and x."""
    assert model.aliased == ("k.b",)
    X = np.column_stack([np.ones(len(frame)), frame["k"] == "a", frame["x"]])
    refit = sm.WLS(frame["y"].to_numpy(), X, frame["w"].to_numpy()).fit()
    found = model.summary().filter(pl.col("std_error").is_not_null())
    truth = dict(
        zip(["(intercept)", "k.a", "x"], zip(refit.params, refit.bse, strict=True), strict=True)
    )
    assert set(found["term"]) == set(truth)
    for term, estimate, error in found.select("term", "estimate", "std_error").iter_rows():
        assert error == pytest.approx(truth[term][1], rel=KNOWN)
        assert estimate == pytest.approx(truth[term][0], abs=KNOWN * error)


def test_a_constant_level_of_real_weights_is_aliased():
    rows = [
        ("a", 5.0, 0.1), ("b", 3.0, 0.2), ("b", 4.0, 0.8), ("a", 2.0, 0.3), ("a", 8.0, 0.7),
        ("a", 6.0, 0.7), ("a", 5.0, 0.1),
    ]  # fmt: skip
    frame = pl.DataFrame(rows, ["m", "y", "w"], orient="row").with_columns(k=pl.lit("u"))
    model = ds.fit(frame, "y", weight="w")
    of_level = {
        level: [(Fraction(y), Fraction(w)) for m, y, w in rows if m == level] for level in "ab"
    }
    weight = {level: sum(w for _, w in own) for level, own in of_level.items()}
    mean = {level: sum(w * y for y, w in own) / weight[level] for level, own in of_level.items()}
    left = sum(w * (y - mean[level]) ** 2 for level, own in of_level.items() for y, w in own)
    assert sorted(model.aliased) == ["k.u", "m.b"]
    assert model.intercept == pytest.approx(float(mean["b"]), rel=1e-14)
    assert model.coefficients["m.a"] == pytest.approx(float(mean["a"] - mean["b"]), rel=1e-14)
    error = model.summary().filter(pl.col("term") == "(intercept)")["std_error"].item()
    assert error == pytest.approx(float(left / 5 / weight["b"]) ** 0.5, rel=1e-13)


@pytest.mark.parametrize("seed", range(2))
def test_a_level_of_two_rows_among_many_leaves_one_aliased(seed):
    frame = rare(20_000, seed)
    assert_refit(ds.fit(frame, "y", weight="w"), frame)


def test_segments_and_their_merge_have_exact_levels():
    frame = rare(20_000, 3).with_columns(part=pl.int_range(20_000) // 10_000)
    records = ds.gram_by(frame, ["part"], ["k", "x", "y"], weight="w")
    grams = {row["part"]: ds.Gram.from_struct(row["gram"]) for row in records.to_dicts()}
    for part, gram in grams.items():
        assert_refit(ds.fit(gram, "y"), frame.filter(pl.col("part") == part))
    assert_refit(ds.fit(sum(grams.values()), "y"), frame)


def crossed(rows: int, seed: int) -> tuple[pl.DataFrame, list[np.ndarray]]:
    """Return rows of two texts, one with levels of few rows, and the columns of all cells."""
    rng = np.random.default_rng(seed)
    k = np.full(rows, "a")
    for level in "bc":
        k[rng.permutation(rows)[: rng.integers(1, 4)]] = level
    m = rng.choice(list("uv"), rows)
    frame = pl.DataFrame({"k": k, "m": m, "y": 1.0 + rng.poisson(2.0, rows)})
    return frame, [(k == one) & (m == other) for one in "abc" for other in "uv"]


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_cells_of_few_rows_among_many_depend_on_their_levels(family):
    for seed in range(6):
        frame, cells = crossed(3_000, seed)
        cells = [rows for rows in cells if rows.any()]
        terms = ds.terms(frame, ["k", "m"], interactions="pairs")
        model = ds.fit(frame, "y", family=family, terms=terms)
        assert len(model.coefficients) - len(model.aliased) + 1 == len(cells)
        assert not any("y" in name.split(":") for name in model.coefficients)
        if family == "gaussian":
            # Columns of all cells fit the mean of each.
            fitted = frame.select(model.expr()).to_series().to_numpy()
            for rows in cells:
                mean = frame["y"].to_numpy()[rows].mean()
                assert fitted[rows] == pytest.approx(mean, abs=1e-9)
            assert model.summary()["std_error"].max() < 10


def test_segments_with_products_have_exact_cells():
    frame, _ = crossed(6_000, 1)
    frame = frame.with_columns(part=pl.int_range(6_000) // 3_000)
    terms = ds.terms(frame, ["k", "m"], interactions="pairs")
    for row in ds.gram_by(frame, ["part"], terms=terms).to_dicts():
        model = ds.fit(ds.Gram.from_struct(row["gram"]), "y")
        cells = frame.filter(part=row["part"]).select("k", "m").n_unique()
        assert len(model.coefficients) - len(model.aliased) + 1 == cells


def test_many_calls_give_one_answer_but_for_rounding():
    frame = rare(20_000, 0)
    models = [ds.fit(frame, "y", weight="w") for _ in range(200)]
    assert {model.aliased for model in models} == {("k.b",)}
    slopes = [list(model.coefficients.values()) for model in models]
    assert np.ptp(slopes, axis=0) == pytest.approx(0.0, abs=ROUNDING)


@pytest.mark.parametrize("seed", [0, 1])
def test_families_in_sql_have_exact_levels(seed):
    rows, rng = 50_000, np.random.default_rng(seed)
    y = 1 + rng.poisson(np.exp(0.3 * rng.normal(size=rows)))
    frame = rare(rows, 0).with_columns(y=y, x=rng.normal(size=rows))
    con = ds.connect()
    con.register("t", frame.to_arrow())
    query = "SELECT fit_glm({'y': y, 'x': x, 'k': k}, 'y', 'poisson') FROM t"
    model = con.sql(query).fetchall()[0][0]
    X = np.column_stack([np.ones(rows), frame["x"], frame["k"] == "a"])
    refit = sm.GLM(y, X, sm.families.Poisson()).fit(tol=1e-14)
    assert model["aliased"] == ["k.b"]
    found = [model["std_errors"][name] for name in ("(intercept)", "x", "k.a")]
    assert found == pytest.approx(refit.bse, rel=KNOWN)

"""Formulas against formulaic: names, coefficients, rows left out, predictions."""

import duckdb
import numpy as np
import polars as pl
import pytest
from formulaic import model_matrix

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, DataError, SourceError

FORMULAS = [
    "y ~ a + b",
    "y ~ a + C(k, contr.treatment('c'))",
    "y ~ C(k, Treatment(reference='b')):a",
    "y ~ k:a",
    "y ~ a + k:a",
    "y ~ k*a",
    "y ~ k:m",
    "y ~ k + k:m",
    "y ~ 0 + k + m",
    "y ~ k*m*a",
    "y ~ k:m + a - 1",
    "y ~ (a + b + x)**2 - a:x",
    "y ~ C(i)*k",
    "y ~ `odd name` + `odd name`:k",
    "y ~ np.log(x) + exp(a) + I(x**3) + {x + 1}:b",
    "y ~ I(a*b - 1/x) + log10(x) + np.sqrt(x) + abs(a)",
    "y ~ bs(x, 4):k + a",
    "y ~ 0 + bs(x, df=6)",
    "y ~ poly(x, 2) + a",
    "y ~ poly(x, degree=4):m",
    "log(x) ~ a*b",
    "y ~ . - error - `odd name`",
]


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    """Return rows of numbers and texts, some of them missing."""
    rng = np.random.default_rng(7)
    n = 240
    columns = {name: rng.normal(size=n) for name in ("a", "b", "odd name")}
    frame = pl.DataFrame({
        **columns, "x": rng.uniform(1.0, 3.0, n), "k": rng.choice(list("abc"), n),
        "m": rng.choice(list("uvw"), n), "i": rng.integers(0, 3, n), "error": rng.normal(size=n),
    })  # fmt: skip
    late = pl.col("a") * (pl.col("k") == "b") + pl.col("x") ** 2 + pl.col("error")
    gaps = {name: pl.when(pl.Series(rng.random(n) > 0.04)).then(name) for name in ("a", "x", "k")}
    return frame.with_columns(y=late).with_columns(**gaps)


def pandas_of(table: pl.DataFrame) -> object:
    """Return the rows as pandas has them, None for a missing text."""
    frame = table.to_pandas()
    frame["k"] = frame["k"].astype(object).where(frame["k"].notna(), None)
    return frame


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_fits_what_formulaic_builds(table, formula):
    matrix = model_matrix(formula, pandas_of(table))
    X, y = (np.asarray(side, dtype=float) for side in (matrix.rhs, matrix.lhs))
    expected, *_ = np.linalg.lstsq(X, y[:, 0], rcond=None)
    model = ds.fit(table, formula)
    summary = model.summary()
    names = [name.replace("Intercept", "(intercept)") for name in matrix.rhs.columns]
    assert summary["term"].to_list() == names
    np.testing.assert_allclose(summary["estimate"], expected, rtol=1e-10, atol=1e-10)
    assert model.rows == len(X)
    predicted = model.predict(table)
    np.testing.assert_allclose(predicted[matrix.rhs.index], X @ expected, rtol=1e-10, atol=1e-10)
    assert f"formula {formula}\n" in str(summary)


def test_engines_predict_alike_and_a_stored_model_as_well(table, tmp_path):
    model = ds.fit(table, "y ~ a + C(k, ref='b') + a:b + bs(x, 4) + k:np.log(x)")
    expected = model.predict(table)
    in_sql = duckdb.from_arrow(table.to_arrow()).select(f"{model.sql()} AS p").pl()["p"]
    in_polars = table.lazy().select(p=model.expr()).collect()["p"]
    model.write_parquet(tmp_path / "model.parquet")
    stored = ds.read(tmp_path / "model.parquet").predict(table)
    for found in (in_sql.to_numpy(), in_polars.to_numpy(), stored):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("engine", ["lazy", "arrow", "relation"])
def test_every_engine_fits_alike(table, engine):
    formula, arrow = "y ~ k*x + poly(x, 2):a", table.to_arrow()
    source = {"lazy": table.lazy(), "arrow": arrow, "relation": duckdb.from_arrow(arrow)}
    found, expected = ds.fit(source[engine], formula), ds.fit(table, formula)
    assert found.columns == expected.columns
    assert list(found.coefficients.values()) == pytest.approx(
        list(expected.coefficients.values()), rel=1e-10
    )


def test_the_reference_is_the_level_that_is_named(table):
    plain, other = ds.fit(table, "y ~ k"), ds.fit(table, "y ~ C(k, ref='b')")
    against_b = plain.coefficients["k[T.c]"] - plain.coefficients["k[T.b]"]
    assert other.coefficients["C(k, ref='b')[T.c]"] == pytest.approx(against_b)


def test_categories_have_references_without_a_formula(table):
    terms = ds.terms(table, ["k"], reference={"k": "b"})
    assert ds.Terms.from_struct(terms.to_struct()) == terms
    model = ds.fit(table, "y", groups={"k": ["k"], "a": ["a"]}, terms=terms)
    expected = ds.fit(table, "y ~ C(k, ref='b') + a").coefficients
    assert model.coefficients == pytest.approx(
        {name.replace("C(k, ref='b')[T.", "k.").rstrip("]"): b for name, b in expected.items()}
    )
    assert not model.aliased
    late = table.select("a", "k", "m", y=pl.col("y") > pl.col("y").median())
    for asked in ({}, {"null_policy": "mean"}):
        with pytest.warns(ds.errors.LeftOutWarning, match="'m' .text, for which the terms have no"):
            of_family = ds.fit(late, "y", family="binomial", terms=terms, **asked)
        assert [name for name in of_family.columns if name.startswith("k.")] == ["k.a", "k.c"]
        assert not of_family.aliased
    with pytest.raises(ArgumentError, match="reference of 'k' is 'z'; it must be one of"):
        ds.terms(table, ["k"], reference={"k": "z"})


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_families_take_formulas(table, family):
    sm = pytest.importorskip("statsmodels.api")
    table = table.with_columns(z=(pl.col("y") > 4.0).cast(pl.Int64))
    formula = "z ~ a + k:b + np.log(x)"
    matrix = model_matrix(formula, pandas_of(table))
    kinds = {"binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}
    expected = sm.GLM(matrix.lhs, matrix.rhs, kinds[family]).fit(tol=1e-14)
    found = ds.fit(table, formula, family=family).summary()
    np.testing.assert_allclose(found["estimate"], expected.params, rtol=1e-8)


def test_searches_take_a_formula_and_its_terms_are_the_groups(table):
    formula = "y ~ a + k + a:b + bs(x, 4)"
    costs = {"a": 2.0, "k": 1.0, "a:b": 1.0, "bs(x, 4)": 3.0}
    problem = ds.Problem(table, formula, costs=costs)
    assert repr(problem) == f"Problem({formula}, costs 1 to 3; DataFrame)"
    seq = problem.anytime_sequence()
    assert sorted(seq.steps["group"].drop_nulls()) == sorted(costs)
    assert seq.predict(table).shape == (len(table),)
    assert problem.best_within(3.0).groups == ["bs(x, 4)"]
    sources = {"one": ["a", "bs(x, 4)"], "two": ["a:b"]}
    both = ds.anytime_sequence(table, formula, groups=sources)
    assert sorted(both.steps["group"].drop_nulls()) == ["one", "two"]


@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_a_missing_factor_is_filled_as_a_column_is(table, policy):
    model = ds.fit(table, "y ~ a:x + b", null_policy=policy)
    made = (pl.col("a") * pl.col("x")).alias("p")
    plain = ds.fit(
        table.select("y", "b", made), "y", ["p", "b"], null_policy={"p": policy, "b": "skip"}
    )
    names = {"p": "a:x", "p.missing": "a:x.missing", "b": "b"}
    assert model.coefficients == pytest.approx(
        {names[name]: value for name, value in plain.coefficients.items()}
    )
    np.testing.assert_allclose(model.predict(table), plain.predict(table.with_columns(made)))


def test_a_level_that_the_fit_has_not_seen(table):
    model = ds.fit(table, "y ~ k:b")
    new = pl.DataFrame({"k": ["a", "z"], "b": [1.0, 1.0]})
    assert np.isnan(model.predict(new)).tolist() == [False, True]
    with pytest.raises(DataError, match="has the level 'z', which the fit has not seen"):
        model.predict(new, handle_unknown="error")
    with pytest.raises(ArgumentError, match="the levels of term 'k:b' have no mean effect"):
        model.predict(new, handle_unknown="mean")
    with pytest.raises(ColumnError, match="lack column 'b'"):
        model.predict(new.drop("b"))


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("y ~ sin(x)", r"term 'sin\(x\)' cannot be computed while a table is summed; allowed are"),
        ("y ~ I(a**b)", r"term 'I\(a \*\* b\)' cannot be computed"),
        ("y ~ C(k, contr.sum)", r"term 'C\(k, contr.sum\)'"),
        ("y ~ C(k, ref='z')", r"has the reference 'z'; it must be one of \['a', 'b', 'c'\]"),
        ("y ~ bs(x, 2)", r"must be bs\(x, df\), a whole number >= 3"),
        ("y ~ bs(x, df=4, degree=1)", "has no option 'degree'"),
        ("y ~ I(x**0.3)", "the power 0.3; it must be 0.5 or a whole number up to 20"),
        ("y ~ a +* b", "formulaic cannot read"),
        ("y + a ~ b", "a formula has one target"),
        ("~ a", "a formula has one target"),
    ],
)
def test_what_an_engine_cannot_compute_is_refused(table, formula, told):
    with pytest.raises(ArgumentError, match=told):
        ds.fit(table, formula)


def test_columns_that_are_not_there_and_the_other_order_are_refused(table):
    with pytest.raises(ColumnError, match="term 'q' names unknown column 'q'"):
        ds.fit(table, "y ~ a + q")
    with pytest.raises(ColumnError, match=r"term 'I\(k \*\* 2\)' reads column 'k' of type"):
        ds.fit(table, "y ~ I(k**2)")
    with pytest.raises(ColumnError, match=r"the table comes first, as in Problem\(table, 'y'\)"):
        ds.anytime_sequence("y", table)
    with pytest.raises(ColumnError, match=r"'C\(a\)' is of type double.* cast column 'a'"):
        ds.fit(table.select("y", pl.col("a").cast(pl.Float64)), "y ~ C(a)")
    with pytest.raises(ArgumentError, match=r"a formula is a target: fit\(table, 'y ~ a'\)"):
        ds.fit("y ~ a", table)
    with pytest.raises(SourceError):
        ds.fit("~/no/such/table.parquet", "y")
    with pytest.raises(ArgumentError, match="term 'z' has no levels"):
        ds.fit(table.with_columns(z=pl.lit(None, pl.String)), "y ~ z")
    with pytest.raises(ArgumentError, match="source is a Gram, which has its columns already"):
        ds.fit(ds.gram(table.select("y", "a")), "y ~ a")

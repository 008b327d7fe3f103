"""Categories and curves give the Gram of the columns that other tools make of them."""

import functools
import json

import numpy as np
import polars as pl
import psutil
import pyarrow as pa
import pytest
from numpy.polynomial import Polynomial
from scipy.special import eval_legendre
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, SplineTransformer
from tables import assert_gram

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, DataError, RecordError
from dbselect.sources.partial import learn, values

#: Texts that are hard to tell apart, to quote or to hold in a fixed number of bytes.
ODD = [
    "",
    " ",
    "a.b",
    "a[1]",
    "größer",
    "北京",
    "twelve bytes",
    "more than twelve bytes",
    '"',
    "o'",
]


def table(rng: np.random.Generator, rows: int = 600) -> pl.DataFrame:
    """Numbers far from zero, categories of several types, and something missing in each."""
    x = 1e6 + rng.standard_normal(rows)
    size = rng.gamma(2.0, size=rows)
    carrier = rng.choice(ODD, rows, p=np.arange(1, 11) / 55)
    frame = pl.DataFrame(
        {
            "y": x + rng.standard_normal(rows),
            "x": x,
            "size": np.where(rng.random(rows) < 0.03, np.nan, size),
            "carrier": carrier,
            "hour": rng.integers(-2, 5, rows),
            "late": rng.random(rows) < 0.3,
            "w": rng.integers(0, 4, rows) * 0.75,
            "key": rng.choice(["k1", "k2"], rows),
        }
    )
    holes = {name: pl.Series(rng.random(rows) < 0.97) for name in ("x", "carrier", "hour", "late")}
    return frame.with_columns(pl.when(keep).then(name).alias(name) for name, keep in holes.items())


def indicators(values: pl.Series, levels: list, rest: bool = False) -> np.ndarray:
    """Return what scikit-learn makes of a column; NaN in every column for NULL."""
    encoder = OneHotEncoder(categories=[levels], handle_unknown="ignore", sparse_output=False)
    encoder.fit(np.array(levels, dtype=object)[:, None])
    X = encoder.transform(np.array(values.to_list(), dtype=object)[:, None])
    if rest:
        X = np.column_stack([X, 1.0 - X.sum(axis=1)])
    X[values.is_null().to_numpy()] = np.nan
    return X


def numbers(frame: pl.DataFrame, *names: str) -> np.ndarray:
    return np.column_stack([frame[n].cast(float).fill_null(np.nan).to_numpy() for n in names])


def dense(frame: pl.DataFrame) -> tuple[list[str], np.ndarray]:
    """Return the columns that `as_source` tables must give, in their order."""
    hours, late = [-2, -1, 0, 1, 2, 3, 4], [False, True]
    texts = sorted(ODD, key=lambda text: text.encode())
    names = ["y", "x", "size", *(f"carrier.{text}" for text in texts)]
    names += [*(f"hour.{hour}" for hour in hours), "late.false", "late.true"]
    parts = [indicators(frame[c], levels) for c, levels in
             (("carrier", texts), ("hour", hours), ("late", late))]  # fmt: skip
    return names, np.column_stack([numbers(frame, "y", "x", "size"), *parts])


NUMBERS, CATEGORIES = ["y", "x", "size"], ["carrier", "hour", "late"]


def is_once(source) -> bool:
    """Whether a source can be read only once."""
    return type(source).__name__ in ("RecordBatchReader", "Stream")


def wanted_of(source, frame: pl.DataFrame, **wanted) -> dict:
    """Give a stream that can be read only once what another reading of the table finds."""
    return {"terms": ds.terms(frame, **wanted)} if is_once(source) else wanted


@pytest.mark.parametrize("weight", [None, "w"])
def test_every_source_gives_the_gram_of_zeros_and_ones(as_any_source, weight):
    frame = table(np.random.default_rng(1))
    names, X = dense(frame)
    source = as_any_source(frame)
    found = ds.gram(source, NUMBERS, weight, **wanted_of(source, frame, categories=CATEGORIES))
    assert_gram(found, names, X, None if weight is None else frame["w"].to_numpy())


def test_every_source_groups_zeros_and_ones(as_any_source):
    frame = table(np.random.default_rng(2))
    names, X = dense(frame)
    source = as_any_source(frame)
    found = ds.gram_by(
        source, ["key"], NUMBERS, "w", **wanted_of(source, frame, categories=CATEGORIES)
    )
    assert found["key"].to_list() == ["k1", "k2"]
    for key, record in found.rows():
        mine = frame["key"].to_numpy() == key
        assert_gram(record, names, X[mine], frame["w"].to_numpy()[mine])
    total = sum(ds.Gram.from_struct(record) for record in found["gram"])
    # Stored means are rounded: 1e6 times the spread, they lose six digits when merged.
    assert_gram(total, names, X, frame["w"].to_numpy(), tolerance=1e-9)


@pytest.mark.parametrize(
    "cast",
    [
        lambda s: s.cast(pl.Categorical),
        lambda s: s.cast(pl.Enum(ODD)),
        lambda s: s.to_arrow().cast(pa.string()),
        lambda s: s.to_arrow().cast(pa.large_string()),
        lambda s: s.to_arrow().cast(pa.string()).dictionary_encode(),
        lambda s: pa.array(s.to_pandas().astype("category")),
    ],
    ids=["Categorical", "Enum", "string", "large string", "dictionary", "pandas category"],
)
def test_every_type_of_text_has_the_same_levels(cast):
    frame = table(np.random.default_rng(3))
    names, X = dense(frame)
    values = cast(frame["carrier"])
    columns = {name: frame[name] for name in (*NUMBERS, "hour", "late")}
    if isinstance(values, pl.Series):
        source = pl.DataFrame({**columns, "carrier": values})
    else:
        source = pa.table({name: column.to_arrow() for name, column in columns.items()})
        source = source.append_column("carrier", values)
    assert_gram(ds.gram(source, NUMBERS, categories=CATEGORIES), names, X)


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int16, pl.UInt8, pl.UInt32, pl.UInt64, pl.Int64])
def test_integers_of_every_size_are_levels(dtype):
    far = pl.select(dtype.max()).item()
    values = pl.Series([3, far, 3, 1, far, far], dtype=dtype)
    found = ds.gram(pl.DataFrame({"x": np.arange(6.0), "i": values}), categories=["i"])
    levels = [1, 3, far]
    expected = np.column_stack([np.arange(6.0), indicators(values, levels)])
    assert_gram(found, ["x", *(f"i.{level}" for level in levels)], expected)


@pytest.mark.filterwarnings("ignore::dbselect.errors.SkippedRowsWarning")
def test_rows_that_are_all_left_out_come_and_go():
    # A block of rows, more than a panel wide, of which none is used, and then some more.
    gap = pl.Series([None] * 5000 + [0.0] * 100, dtype=pl.Float64)
    frame = pl.DataFrame({f"x{j}": gap + np.arange(5100) * (j + 1) for j in range(6)})
    frame = frame.with_columns(k=pl.Series(["a", "b"] * 2550))
    found = ds.gram(frame, categories=["k"])
    assert (found.rows, found.skipped) == (100, 5000)
    np.testing.assert_allclose(found.mean[6:], 0.5)


@pytest.mark.parametrize(
    "values",
    [
        pl.Series(ODD * 3 + ODD[4:7] + [None]),
        pl.Series(ODD * 3 + ODD[4:8], dtype=pl.Categorical),
        pl.Series(["b", "a", "b", None], dtype=pl.Enum(["a", "b", "c"])),
        pl.Series([True, None, False, True]),
        pl.Series([-(2**63), 2**63 - 1, 0, 0, None]),
        pl.Series([2**64 - 1, 2**64 - 2, 2**64 - 1], dtype=pl.UInt64),
        pl.Series([-128, 127, 127, None], dtype=pl.Int8),
        pl.Series([7] * 5, dtype=pl.UInt32),
        pl.Series([None, None], dtype=pl.String),
    ],
    ids=lambda values: str(values.dtype),
)
def test_values_are_counted_as_polars_counts_them(values):
    counted = learn.Values()
    # In parts, one of them of two chunks, and in one that is cut from the middle.
    counted.add(values[:2].append(values[2:3]))
    counted.add(values[3:])
    plain = values.cast(pl.String) if values.dtype in (pl.Categorical, pl.Enum) else values
    expected = plain.drop_nulls().alias("value").value_counts(name="rows").sort("value")
    assert counted.counts().rows() == expected.rows()


def test_the_most_frequent_levels_stay_and_the_first_of_equally_frequent_ones():
    values = pl.Series(["d", "c", "b", "a", "d", "d", "other", "other", None])
    frame = pl.DataFrame({"x": np.arange(9.0), "k": values})
    found = ds.gram(frame, categories=["k"], max_levels=3)
    X = np.column_stack([np.arange(9.0), indicators(values, ["a", "d", "other"], rest=True)])
    # The column of the others gives way to the level of that name.
    assert_gram(found, ["x", "k.a", "k.d", "k.other", "k.other_"], X)


def test_given_levels_keep_their_order_and_need_no_second_reading():
    values = pl.Series(["UA", "AA", "DL", "UA", None])
    frame = pl.DataFrame({"x": [1.0, 2.0, 4.0, 8.0, 16.0], "k": values})
    stream = frame.to_arrow().to_reader(max_chunksize=2)
    found = ds.gram(stream, categories={"k": ["UA", "AA"]})
    X = np.column_stack([frame["x"], indicators(values, ["UA", "AA"], rest=True)])
    assert_gram(found, ["x", "k.UA", "k.AA", "k.other"], X)


def test_columns_may_name_categories_and_a_category_of_integers_is_no_number():
    frame = table(np.random.default_rng(5))
    named = ds.gram(frame, columns=["y", "hour", "carrier", "x"], categories=["carrier", "hour"])
    not_named = ds.gram(frame, columns=["y", "x"], categories=["carrier", "hour"])
    fields = list(dict.fromkeys(name.split(".")[0] for name in named.columns))
    assert fields == ["y", "hour", "carrier", "x"]
    fields = list(dict.fromkeys(name.split(".")[0] for name in not_named.columns))
    assert fields == ["y", "x", "carrier", "hour"]
    # Threads add up in any order.
    same = named.select(not_named.columns)
    np.testing.assert_allclose(same.comoment, not_named.comoment, rtol=1e-12, atol=1e-12)
    assert "hour" not in ds.gram(frame.drop("key"), categories=["hour"]).columns


def filled(
    frame: pl.DataFrame, policy: str, weight: np.ndarray, gram: ds.Gram
) -> tuple[list[str], np.ndarray]:
    """Fill what is missing in the columns of `dense` by hand."""
    names, X = dense(frame)
    gaps = np.isnan(X)
    # Numbers a thousand deviations from 0 have one near their mean, in the terms.
    fills = gram.terms.means if policy == "indicator" else {}
    assert not fills or (list(fills) == ["x"] and abs(fills["x"] - np.nanmean(X[:, 0])) < 1)
    if policy == "mean":
        present = np.where(gaps, 0.0, weight[:, None])
        return names, np.where(gaps, (present * np.nan_to_num(X)).sum(0) / present.sum(0), X)
    fields = [name.split(".")[0] for name in names]
    made, columns = [], []
    for field in dict.fromkeys(fields):
        mine = [j for j, other in enumerate(fields) if other == field]
        made += [names[j] for j in mine]
        columns += [np.nan_to_num(X[:, j], nan=fills.get(names[j], 0.0)) for j in mine]
        if gaps[weight > 0, mine[0]].any():
            made.append(f"{field}.missing")
            columns.append(gaps[:, mine[0]].astype(float))
    return made, np.column_stack(columns)


@pytest.mark.parametrize("policy", ["mean", "indicator"])
def test_every_source_fills_categories_group_by_group(as_source, policy):
    frame = table(np.random.default_rng(14))
    source = as_source(frame)
    found = ds.gram_by(
        source, ["key"], NUMBERS, null_policy=policy,
        **wanted_of(source, frame, categories=CATEGORIES),
    )  # fmt: skip
    for key, record in found.rows():
        mine = frame.filter(pl.col("key") == key)
        gram = ds.Gram.from_struct(record)
        assert_gram(gram, *filled(mine, policy, np.ones(len(mine)), gram), tolerance=1e-9)


def test_columns_of_one_table_may_have_policies_of_their_own():
    frame = pl.DataFrame(
        {"k": ["a", None, "b", "a", "a"], "x": [1.0, 2.0, None, 4.0, 6.0], "z": [None, 1, 2, 3, 8]}
    )
    wanted = {"categories": ["k"], "basis": {"x": ("poly", 2)}}
    found = ds.gram(frame, null_policy={"*": "indicator", "z": "skip", "k": "mean"}, **wanted)
    # The range of x is 1 to 6, also where a row is left out.
    poly = [(x - 3.5) / 2.5 for x in (2, 4, 6)]
    one, two = ([eval_legendre(n, p) for p in poly] for n in (1, 2))
    expected = {
        "x.poly1": [one[0], 0.0, *one[1:]],
        "x.poly1.missing": [0, 1, 0, 0],
        "x.poly2": [two[0], 0.0, *two[1:]],
        "z": [1, 2, 3, 8],
        "k.a": [2 / 3, 0, 1, 1],
        "k.b": [1 / 3, 1, 0, 0],
    }
    names = list(expected)
    X = np.column_stack(list(expected.values()))
    assert (found.rows, found.skipped) == (4, 1)
    ordered = found.select(names)
    assert_gram(ds.Gram(names, 4, 0, 4.0, ordered.mean, ordered.comoment), names, X)
    assert found.missing == {"x": 1, "z": 1, "k": 1}


def test_a_mean_far_from_zero_costs_no_digits():
    rng = np.random.default_rng(6)
    rows = 5000
    # Multiples of 2^-10: their sums are exact, so that the definition is.
    x = np.round(rng.standard_normal(rows) * 1024) / 1024
    # Sorted, so that the first rows are far from the mean of all.
    x.sort()
    key = rng.integers(0, 3, rows)
    level = rng.integers(0, 20, rows)
    frame = pl.DataFrame({"x": x + 2.0**27, "k": level.astype(str), "g": key})
    near = pl.DataFrame({"x": x, "k": level.astype(str), "g": key})
    for far_record, near_record in zip(
        ds.gram_by(frame, ["g"], ["x"], categories=["k"])["gram"],
        ds.gram_by(near, ["g"], ["x"], categories=["k"])["gram"],
        strict=True,
    ):
        far, close = ds.Gram.from_struct(far_record), ds.Gram.from_struct(near_record)
        spread = np.sqrt(np.diagonal(close.comoment))
        error = np.abs(far.comoment - close.comoment) / np.outer(spread, spread)
        assert error.max() < 1e-12


def test_levels_agree_with_the_counts_of_every_engine(connection):
    rng = np.random.default_rng(7)
    frame = pl.DataFrame({"k": rng.zipf(1.3, 3000) % 97, "x": rng.standard_normal(3000)})
    frame = frame.with_columns(pl.col("k").cast(pl.String))
    query = "SELECT k FROM frame GROUP BY k ORDER BY count(*) DESC, k LIMIT 10"
    expected = sorted(k for (k,) in connection.execute(query).fetchall())
    for source in (frame, frame.lazy(), frame.to_arrow(), connection.sql("FROM frame")):
        (category,) = ds.terms(source, ["k"], max_levels=10).categories
        assert list(category.levels) == expected


def test_polynomials_are_legendres_on_the_range_of_the_column(as_source):
    frame = table(np.random.default_rng(9)).drop("hour", "late", "key", "w")
    source = as_source(frame)
    x = numbers(frame, "x")[:, 0]
    low, high = np.nanmin(x), np.nanmax(x)
    center, scale = low / 2 + high / 2, high / 2 - low / 2
    wanted = wanted_of(source, frame, basis={"x": ("poly", 3)})
    u = (x - center) / scale
    X = np.column_stack([numbers(frame, "y"), *(eval_legendre(k, u) for k in (1, 2, 3)),
                         numbers(frame, "size")])  # fmt: skip
    found = ds.gram(source, ["y", "x", "size"], **wanted)
    assert_gram(found, ["y", "x.poly1", "x.poly2", "x.poly3", "size"], X)


def test_a_polynomial_explains_what_powers_explain_far_from_zero():
    rng = np.random.default_rng(10)
    x = 1e4 + rng.uniform(-1, 1, 500)
    y = Polynomial([0, 1, -2, 3])(x - 1e4) + 0.1 * rng.standard_normal(500)
    frame = pl.DataFrame({"x": x, "y": y})
    sequence = ds.anytime_sequence(ds.gram(frame, basis={"x": ("poly", 3)}), "y")
    powers = np.vander(x - 1e4, 4)
    residual = y - powers @ np.linalg.lstsq(powers, y, rcond=None)[0]
    expected = 1 - residual @ residual / ((y - y.mean()) @ (y - y.mean()))
    assert sequence.steps["r2"][-1] == pytest.approx(expected, abs=1e-12)
    assert not sequence.aliased


@pytest.mark.parametrize("k", [3, 5, 8])
def test_splines_are_those_of_scikit_learn(k):
    rng = np.random.default_rng(11)
    x = rng.gamma(2.0, size=700)
    y = rng.standard_normal(700)
    frame = pl.DataFrame({"y": y, "x": x})
    peer = SplineTransformer(k - 1, degree=3, knots="quantile", include_bias=False)
    peer.fit(x[:, None])
    names = [f"x.spline{j + 1}" for j in range(k)]
    found = ds.gram(frame, basis={"x": ("spline", k)})
    assert_gram(found, ["y", *names], np.column_stack([y, peer.transform(x[:, None])]))
    beyond = np.array([-1.0, x.min(), 3.0, x.max(), 99.0])
    terms = ds.terms(frame, basis={"x": ("spline", k)})
    rows = terms.transform(pl.DataFrame({"x": beyond})).select(names).to_numpy()
    np.testing.assert_allclose(rows, peer.transform(beyond[:, None]), atol=1e-14)


def test_knots_fall_together_where_many_rows_share_a_value():
    x = np.r_[np.zeros(900), np.linspace(1, 2, 100)]
    (spline,) = ds.terms(pl.DataFrame({"x": x}), basis={"x": ("spline", 6)}).bases
    assert spline.knots == (0.0, 2.0)
    assert spline.names == ["x.spline1", "x.spline2", "x.spline3"]


def test_knots_of_many_values_depend_on_no_order_and_lie_near_the_quantiles(monkeypatch):
    monkeypatch.setattr(learn, "SAMPLED", 4096)
    monkeypatch.setattr(values, "WAITING", 5000)
    rng = np.random.default_rng(12)
    x = rng.standard_normal(60_000)
    spec = {"x": ("spline", 5)}
    (found,) = ds.terms(pa.table({"x": x}), basis=spec).bases
    (again,) = ds.terms(pa.table({"x": rng.permutation(x)}), basis=spec).bases
    assert found == again
    assert (found.knots[0], found.knots[-1]) == (x.min(), x.max())
    shares = [(x < knot).mean() for knot in found.knots[1:-1]]
    # Five standard errors of a share in a sample of 4096.
    np.testing.assert_allclose(shares, [1 / 3, 2 / 3], atol=5 * 0.5 / 64)


@pytest.mark.parametrize("lazy", [False, True])
def test_new_rows_get_the_columns_of_the_gram_and_are_predicted(lazy):
    rng = np.random.default_rng(13)
    frame = table(rng)
    terms = ds.terms(
        frame, ["carrier", "late"], {"x": ("poly", 2), "size": ("spline", 4)}, max_levels=4
    )
    g = ds.gram(frame, ["y", "x", "size"], terms=terms)
    new = table(np.random.default_rng(14)).with_columns(carrier=pl.lit("never seen"))
    new = pl.concat([frame, new])
    made = terms.transform(new.lazy() if lazy else new).lazy().collect()
    features = [name for name in g.columns if name != "y"]
    assert made.columns[: new.width] == new.columns
    again = ds.gram(made, g.columns)
    assert_gram(again, g.columns, numbers(made, *g.columns))
    direct = ds.gram(new, ["y", "x", "size"], terms=terms)
    assert (direct.columns, direct.rows, direct.skipped) == (g.columns, again.rows, again.skipped)
    np.testing.assert_allclose(direct.mean, again.mean, rtol=1e-12)

    model = ds.anytime_sequence(g, "y").at()
    predicted = made.select(model.expr(nested=False).alias("p"))["p"].to_numpy()
    X = numbers(made, *model.columns)
    np.testing.assert_allclose(predicted, model.predict(X), rtol=1e-12)
    assert set(model.columns) == set(features)
    missing = np.isnan(X).any(axis=1)
    assert (np.isnan(predicted) == missing).all()
    assert 0 < missing.sum() < len(new)


def test_new_rows_of_missing_values_are_predicted_by_indicators():
    frame = table(np.random.default_rng(18)).with_columns(
        carrier=pl.when(pl.int_range(pl.len()) % 7 > 0).then("carrier")
    )
    terms = ds.terms(frame, ["carrier"], {"x": ("poly", 2), "size": ("spline", 4)}, max_levels=4)
    policy = {"*": "indicator", "y": "skip", "size": "skip"}
    g = ds.gram(frame, ["y", "x", "size"], terms=terms, null_policy=policy)
    assert {"x.poly1.missing", "carrier.missing"} < set(g.columns)
    made = terms.transform(frame, null_policy={"*": "indicator", "size": "skip"})
    assert_gram(g, g.columns, numbers(made, *g.columns))
    model = ds.anytime_sequence(g, "y").at()
    predicted = made.select(model.expr(nested=False)).to_series()
    assert predicted.is_null().to_list() == frame["size"].is_nan().to_list()
    np.testing.assert_allclose(model.predict(made), predicted, rtol=1e-12)
    for wrong in ("mean", "error"):
        with pytest.raises(ArgumentError, match=f"null_policy is '{wrong}'; new columns take"):
            terms.transform(frame, null_policy=wrong)
    named = frame.with_columns(**{"carrier.missing": 1.0})
    with pytest.raises(ColumnError, match=r"'carrier.missing', the name of an indicator"):
        terms.transform(named, null_policy="indicator")


def test_a_value_that_is_no_level_is_other_or_nothing():
    seen = pl.DataFrame({"k": ["a", "b", "b", "c"]})
    new = pl.DataFrame({"k": ["b", "z", None]})
    rest = ds.terms(seen, ["k"], max_levels=1)
    assert rest.transform(new).rows() == [("b", 1.0, 0.0), ("z", 0.0, 1.0), (None, None, None)]
    every = ds.terms(seen, ["k"])
    assert every.transform(new).row(1) == ("z", 0.0, 0.0, 0.0)
    assert ds.gram(new, terms=every).mean.tolist() == [0.0, 0.5, 0.0]


def test_terms_survive_json():
    frame = table(np.random.default_rng(15))
    terms = ds.terms(frame, CATEGORIES, {"x": ("poly", 2), "size": ("spline", 4)}, max_levels=3)
    again = ds.Terms.from_struct(json.loads(json.dumps(terms.to_struct())))
    assert again == terms
    frame = frame.drop("key")
    assert ds.gram(frame, terms=again).columns == ds.gram(frame, terms=terms).columns
    with pytest.raises(RecordError, match="no record of terms"):
        ds.Terms.from_struct({"categories": [{"column": "k"}], "bases": []})


@pytest.mark.slow
def test_a_row_of_a_thousand_levels_is_never_built(tmp_path):
    rng = np.random.default_rng(18)
    process = psutil.Process()

    def grown(rows: int) -> float:
        path = tmp_path / f"{rows}.parquet"
        codes = [rng.integers(0, 1000, rows) for _ in range(2)]
        frame = pl.DataFrame({"x": rng.random(rows), "a": codes[0], "b": codes[1]})
        frame.write_parquet(path, row_group_size=50_000)
        terms = ds.terms(path, ["a", "b"])
        ds.gram(path, terms=terms)
        before = process.memory_info().rss
        ds.gram(path, terms=terms)
        return (process.memory_info().rss - before) / 2**20

    # Dense, the rows of the larger table would take 16 GB.
    grown(100_000)
    assert grown(1_000_000) < 200


REFUSED = [
    ({"categories": ["x"]}, ColumnError, "'x' of type double; it must be text"),
    ({"categories": ["nobody"]}, ColumnError, "unknown column 'nobody'"),
    ({"categories": ["carrier", "carrier"]}, ColumnError, "'carrier' twice"),
    ({"categories": "carrier"}, ArgumentError, "it must be a list"),
    ({"categories": [3]}, ArgumentError, "categories names 3"),
    ({"categories": {"carrier": []}}, ArgumentError, "must list levels"),
    ({"categories": {"carrier": ["a", 1]}}, ArgumentError, "all text, all integers"),
    ({"categories": {"carrier": ["a", "a"]}}, ArgumentError, "levels must differ"),
    ({"categories": {"carrier": [1, 2]}}, ColumnError, "'carrier' is text; .* are integer"),
    ({"categories": {"carrier": ["a\0b"]}}, DataError, "cannot hold a NUL"),
    ({"categories": ["carrier"], "max_levels": 0}, ArgumentError, "max_levels is 0"),
    ({"basis": {"x": ("poly", 0)}}, ArgumentError, "degree >= 1"),
    ({"basis": {"x": ("spline", 2)}}, ArgumentError, "columns >= 3"),
    ({"basis": {"x": ("fourier", 2)}}, ArgumentError, "fourier"),
    ({"basis": {"x": 3}}, ArgumentError, "basis gives 3 for 'x'"),
    ({"basis": ["x"]}, ArgumentError, "it must map columns"),
    ({"basis": {"carrier": ("poly", 2)}}, ColumnError, "'carrier' of type .* numeric"),
    ({"basis": {"one": ("poly", 2)}}, DataError, "fewer than two distinct values"),
    ({"basis": {"far": ("poly", 2)}}, DataError, "'far' has an infinite value"),
    ({"basis": {"hour": ("poly", 2)}, "categories": ["hour"]}, ColumnError, "both name"),
    ({"basis": {"clash": ("poly", 2)}}, ColumnError, "'clash.poly1'"),
    ({"terms": {"k": 1}}, ArgumentError, "must come from ds.terms"),
    ({"terms": ds.Terms(), "categories": ["carrier"]}, ArgumentError, "takes their place"),
]


@pytest.mark.parametrize(("wanted", "kind", "words"), REFUSED, ids=[words for *_, words in REFUSED])
def test_mistakes_are_named(wanted, kind, words):
    frame = table(np.random.default_rng(19)).with_columns(
        one=1.0, far=pl.Series([np.inf] * 600), clash=pl.col("y")
    )
    frame = frame.with_columns(pl.lit(1.0).alias("clash.poly1"))
    with pytest.raises(kind, match=words):
        ds.gram(frame, ["y"], **wanted)
    with pytest.raises(kind, match=words):
        ds.gram_by(frame, ["key"], ["y"], **wanted)


@pytest.mark.parametrize("curve", [("poly", 2), ("spline", 4)])
@pytest.mark.parametrize("by", [None, ["k"]])
def test_an_infinite_value_of_another_table_has_no_curve(as_source, curve, by):
    terms = ds.terms(pl.DataFrame({"x": np.arange(30.0)}), basis={"x": curve})
    new = pl.DataFrame({"y": [1.0, 2.0, 3.0], "x": [1.0, np.inf, 2.0], "k": [1, 1, 1]})
    read = ds.gram if by is None else functools.partial(ds.gram_by, by=by)
    with pytest.raises(DataError, match="column 'x' has an infinite value"):
        read(as_source(new), columns=["y"], terms=terms)


def test_a_stream_that_cannot_be_read_again_says_what_to_give():
    reader = pl.DataFrame({"k": ["a"]}).to_arrow().to_reader()
    with pytest.raises(ArgumentError, match=r"read only once; give categories as \{column"):
        ds.gram(reader, categories=["k"])


def test_new_rows_of_another_type_are_refused():
    terms = ds.terms(pl.DataFrame({"k": ["a"]}), ["k"])
    with pytest.raises(ColumnError, match="'k' is integer; the levels of its category are text"):
        terms.transform(pl.DataFrame({"k": [1]}))
    with pytest.raises(ArgumentError, match="frame is a dict"):
        terms.transform({"k": ["a"]})
    with pytest.raises(ColumnError, match=r"'k.a'"):
        terms.transform(terms.transform(pl.DataFrame({"k": ["a"]})))


def test_pairs_are_the_products_of_scikit_learn():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 4))
    y = X[:, 0] - X[:, 1] * X[:, 2] + rng.normal(size=90)
    table = pl.DataFrame({**{f"x{j}": X[:, j] for j in range(4)}, "y": y})
    features = PolynomialFeatures(2, interaction_only=True).fit_transform(X)
    expected, *_ = np.linalg.lstsq(features, y, rcond=None)
    terms = ds.terms(table, interactions="pairs")
    assert ds.Terms.from_struct(terms.to_struct()) == terms
    assert repr(terms).startswith("Terms(x0:x1, x0:x2, ")
    model = ds.fit(table, "y", terms=terms)
    assert [model.intercept, *model.coefficients.values()] == pytest.approx(expected.tolist())
    lazy = ds.anytime_sequence(table, "y", terms=terms, gram="lazy", max_groups=3)
    assert lazy.steps["group"].to_list()[1:3] == ["x1:x2", "x0"]


def test_a_gram_that_no_memory_holds_is_refused():
    levels = [f"level {j}" for j in range(40_000)] * 2
    table = pl.DataFrame({"k": levels, "m": levels, "x": range(80_000)})
    with pytest.raises(ArgumentError, match=r"columns are 80,001, whose Gram takes 51"):
        ds.gram(table, terms=ds.terms(table, ["k", "m"], max_levels=40_000))


def test_a_category_times_a_curve_and_groups_times_groups():
    rng = np.random.default_rng(4)
    table = pl.DataFrame({
        "k": rng.choice(["p", "q", "r"], 80), "x": rng.uniform(0, 1, 80), "z": rng.normal(size=80),
        "y": rng.normal(size=80),
    })  # fmt: skip
    terms = ds.terms(
        table, ["k"], {"x": ("poly", 2)}, interactions=["k", "x"], reference={"k": "p"}
    )
    made = terms.transform(table)
    assert made["k.q:x.poly2"].to_list() == pytest.approx((made["k.q"] * made["x.poly2"]).to_list())
    assert "k.p:x.poly1" not in made.columns
    groups = ds.terms(table, ["k"], interactions={"who": ["k"], "what": ["x", "z"]})
    for asked in (["k", "x"], {"who": ["k"], "what": ["x"]}):
        with pytest.raises(ColumnError, match="'k', a text; name it among"):
            ds.terms(table, interactions=asked)
    with pytest.raises(ArgumentError, match="interactions is 3"):
        ds.terms(table, interactions=3)
    seq = ds.anytime_sequence(table, "y", terms=groups)
    assert {"k", "x", "z", "who:what"} == set(seq.steps["group"].drop_nulls())
    table = table.drop("k")
    of_target = ds.anytime_sequence(table, "y", terms=ds.terms(table, interactions="pairs"))
    assert not any("y" in str(group) for group in of_target.steps["group"])


def test_records_with_computed_columns_merge_and_keep_their_terms():
    table = pl.DataFrame({"a": [1.0, 2.0, 3.0, 5.0], "b": [2.0, 1.0, 0.0, 4.0]})
    terms = ds.terms(table, interactions="pairs")
    parts = [ds.gram(part, terms=terms) for part in (table[:2], table[2:])]
    both = sum(parts[1:], parts[0])
    assert both.columns == ["a", "b", "a:b"]
    assert both.mean.tolist() == pytest.approx([2.75, 1.75, 6.0])
    merged = ds.connect().sql(
        "SELECT gram_merge(g) AS g FROM (SELECT unnest(?) AS g)",
        params=[[part.to_struct() for part in parts]],
    )
    assert ds.Gram.from_struct(merged.fetchall()[0][0]).terms == terms
    other = ds.gram(table, terms=ds.terms(table))
    with pytest.raises(RecordError, match="unequal"):
        _ = both + other

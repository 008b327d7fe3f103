"""Least squares on columns of records: every door's and LAPACK's; tails by scipy."""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import t as student

import dbselect as ds
from dbselect.doors.frames import ExprNamespace

#: Share by which two solutions of a well-conditioned problem may differ.
NEAR = 1e-10
#: Condition number below which the above holds; beyond it the share grows in proportion.
LIMIT = 1e5
#: p-values by two ways of computing the incomplete beta function.
NEAR_TAILS = 1e-9

FITS = pl.col("gram").dbselect
#: What is wrong, or special, with the columns of a table.
KINDS = (
    "plain", "dependent", "constant", "copies", "flat", "missing", "far", "nearly", "weights",
    "levels",
)  # fmt: skip


def record_frame(table: pl.DataFrame, weight: str | None = None) -> pl.DataFrame:
    """Return a frame of one record, also of a table without rows that can be used."""
    gram = ds.gram(table, weight=weight)
    return pl.DataFrame({"gram": [gram.to_struct()]})


def tables() -> Iterator[tuple[str, pl.DataFrame, dict[str, Any]]]:
    """Random tables of few rows with everything that can be wrong with their columns."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows, width = int(rng.integers(1, 40)), int(rng.integers(1, 7))
        X = rng.normal(size=(rows, width)) * 10.0 ** rng.integers(-3, 4, width)
        X += 10.0 ** rng.integers(-1, 3, width)
        y = X @ rng.normal(size=width) + rng.normal(size=rows)
        what = KINDS[seed % len(KINDS)]
        if what == "dependent" and width > 2:
            X[:, -1] = X[:, 0] - 2.0 * X[:, 1]
        if what == "constant":
            X[:, rng.integers(width)] = 7.5
        if what == "copies":
            X[:, -1] = X[:, 0]
        if what == "flat":
            y[:] = 3.25
        if what == "far":
            X[:, 0] += 1e6
        columns: dict[str, Any] = {f"x{j}": X[:, j] for j in range(width)}
        if what == "nearly" and width > 1:
            columns["x1"] = X[:, 0] + 1e-4 * X[:, 0].std() * rng.normal(size=rows)
        if what == "weights":
            columns["w"] = rng.uniform(0.5, 3.0, rows)
        if what == "levels":
            columns["k"] = rng.choice(list("abc"), rows)
        if what == "missing":
            columns["x0"] = np.where(rng.random(rows) < 0.3, np.nan, X[:, 0])
        table = pl.DataFrame({**columns, "y": y})
        options: dict[str, Any] = {}
        if seed % 3 == 1:
            options["intercept"] = False
        if seed % 5 == 2:
            options["ridge"] = 0.25
            options["scale"] = bool(seed % 2)
        yield f"{seed} {what}", table, options


CASES = list(tables())
each = pytest.mark.parametrize(
    ("table", "options"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)


def by_python(gram: Any, options: dict[str, Any]) -> ds.results.Model | str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ds.fit(gram, "y", **options)
        except ds.errors.DataError as error:
            return str(error)


def in_sql(frame: pl.DataFrame, method: str, options: dict[str, Any]) -> Any:
    """Return what SQL answers of the record of a frame, as Polars' plain data."""
    given = "".join(f", {name} := {value}" for name, value in options.items())
    with ds.connect() as con:
        con.register("frame", frame.to_arrow())
        return con.sql(f"SELECT {method}(gram, 'y'{given}) AS found FROM frame").pl()["found"][0]


def model_of(fit: Any) -> tuple[Any, ...] | None:
    """Return the numbers of a fit of a record."""
    if fit is None:
        return None
    terms = fit["coefficients"]
    pairs = terms if isinstance(terms, dict) else {one["key"]: one["value"] for one in terms}
    names = ("intercept", "explained", "r2", "sigma", "rows", "skipped")
    return pairs, *(fit[name] for name in names), list(fit["aliased"])


@each
def test_every_door_has_the_same_model_to_the_last_bit(table, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = record_frame(table, "w" if "w" in table.columns else None)
        (by_record,) = ds.fit_by(frame, "y", **options).iter_rows(named=True)
    expected = by_python(frame["gram"][0], options)
    if isinstance(expected, str):
        assert (by_record["fit"], by_record["status"]) == (None, expected)
        assert in_sql(frame, "fit", options) is None
        return
    sigma = None if "ridge" in options or expected.df_residual <= 0 else expected.sigma
    known = expected.intercept, expected.explained, expected.r2, sigma
    counts = expected.rows, expected.skipped, list(expected.aliased)
    assert model_of(by_record["fit"]) == (expected.coefficients, *known, *counts)
    assert model_of(in_sql(frame, "fit", options)) == model_of(by_record["fit"])
    full = "as many coefficients as rows" in (by_record["fit"]["note"] or "")
    assert full == expected.saturated


@each
def test_lapack_finds_the_same_model(table, options):
    found = by_python(table, options)
    rows = with_levels(table).fill_nan(None).drop_nulls()
    if isinstance(found, str):
        assert found.startswith("target 'y' is constant")
        assert rows["y"].n_unique() == 1
        return
    kept = [name for name in found.columns if name not in found.aliased]
    X, y = rows[kept].to_numpy().reshape(len(rows), len(kept)), rows["y"].to_numpy()
    mean, target_mean = np.zeros(len(kept)), 0.0
    if options.get("intercept", True):
        mean, target_mean = X.mean(axis=0), y.mean()
    X, y = X - mean, y - target_mean
    spread = np.sqrt((X**2).mean(axis=0))
    unit = spread if options.get("scale", True) else np.ones(len(kept))
    # A ridge is as many rows more that ask for 0.
    more = np.diag(unit) * math.sqrt(options.get("ridge", 0.0) * len(rows))
    w, *_ = np.linalg.lstsq(np.vstack([X, more]), np.append(y, np.zeros(len(kept))))
    # Rounding grows with the condition number.
    share = NEAR * max(1.0, condition(table, found, options) / LIMIT)
    near = share * math.sqrt((y**2).mean()) / spread
    for name, own, size in zip(kept, w, near, strict=True):
        assert found.coefficients[name] == pytest.approx(own, rel=share, abs=size)
    error = near @ np.abs(mean)  # of the intercept, by those of the coefficients
    assert found.intercept == pytest.approx(target_mean - w @ mean, rel=share, abs=error)
    assert found.r2 == pytest.approx(1.0 - ((y - X @ w) ** 2).sum() / (y**2).sum(), abs=NEAR)


def with_levels(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table with its texts as indicators of their levels."""
    return table if "k" not in table.columns else table.to_dummies("k", separator=".")


def condition(table: pl.DataFrame, model: ds.results.Model, options: dict[str, Any]) -> float:
    """Return that of the columns that are not aliased, in units of their own."""
    kept = [name for name in model.columns if name not in model.aliased]
    if not kept:
        return 1.0
    X = with_levels(table).fill_nan(None).drop_nulls().select(kept).to_numpy()
    X = X - X.mean(axis=0) if options.get("intercept", True) else X
    singular = np.linalg.svd(X / np.linalg.norm(X, axis=0), compute_uv=False)
    return float((singular[0] / singular[-1]) ** 2) if singular[-1] else math.inf


@each
def test_every_door_has_the_same_summary_to_the_last_bit(table, options):
    if "ridge" in options:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame = record_frame(table, "w" if "w" in table.columns else None)
    found = frame.select(FITS.summary("y", level=0.9, **options))["gram"][0]
    expected = by_python(frame["gram"][0], options)
    if isinstance(expected, str):
        assert found is None
        return
    summary, ends = expected.summary(), expected.intervals(0.9)
    columns = [*summary.get_columns(), ends["low"], ends["high"]]
    told = found.struct.unnest()
    assert told.equals(pl.DataFrame(columns).select(told.columns))
    assert in_sql(frame, "summary", {"level": 0.9, **options}).to_list() == found.to_list()


@pytest.mark.parametrize("free", [1, 2, 3, 10, 99, 10_000, 5_000_000])
def test_tails_and_quantiles_are_those_of_scipy(free):
    # One column of mean 0 at right angles to the rest: t = slope sqrt(free) / sqrt(1 - slope^2).
    for r in (1e-6, 0.1, 0.7, 0.999, 1.0 - 1e-9):
        gram = {
            "columns": ["x", "y"], "rows": free + 2, "skipped": 0, "missing": [0, 0],
            "weight": float(free + 2), "mean": [0.0, 0.0], "mean_low": [0.0, 0.0],
            "comoment": [1.0, r, 1.0], "terms": None,
        }  # fmt: skip
        frame = ds.gram(pl.DataFrame({"x": [0.0], "y": [0.0]}))
        frame = pl.DataFrame(
            {"gram": [gram]}, schema={"gram": pl.DataFrame([frame.to_struct()]).to_struct().dtype}
        )
        slope = (
            frame.select(FITS.summary("y", level=0.99))["gram"][0]
            .struct.unnest()
            .row(1, named=True)
        )
        expected = 2.0 * student.sf(slope["statistic"], free)
        assert slope["p_value"] == pytest.approx(expected, rel=NEAR_TAILS)
        reach = (slope["high"] - slope["estimate"]) / slope["std_error"]
        assert reach == pytest.approx(student.ppf(0.995, free), rel=1e-7)


def segments() -> pl.DataFrame:
    rng = np.random.default_rng(5)
    table = pl.DataFrame(
        {"k": rng.integers(0, 30, 200), **{name: rng.normal(size=200) for name in "abcy"}}
    )
    return table.with_columns(c=pl.when(pl.col("k") % 4 == 0).then("a").otherwise("c"))


def test_sql_and_polars_say_what_python_says():
    table = segments()
    grams = ds.gram_by(table, by=["k"])
    expected = ds.fit_by(grams, "y", ["a", "b*", "c"])
    by_polars = grams.select("k", fit=FITS.fit("y", ["a", "b*", "c"]))
    assert by_polars.equals(expected.drop("status"))
    summaries = grams.select("k", s=FITS.summary("y", ["a"], level=0.5))
    with ds.connect() as con:
        con.register("grams", grams.to_arrow())
        for call in ("fit", "dbselect.fit", "system.main.fit"):
            query = f"SELECT k, {call}(gram, 'y', ['a', 'b*', 'c']) AS fit FROM grams"
            rows = con.sql(f"SELECT k, unnest(fit) FROM ({query}) ORDER BY k").pl()
            told = expected.select("k", pl.col("fit").struct.unnest())
            assert rows.drop("coefficients").equals(told.drop("coefficients"))
            maps = con.sql(f"SELECT map_entries(fit.coefficients) AS m FROM ({query}) ORDER BY k")
            assert maps.pl()["m"].to_list() == told["coefficients"].to_list()
        query = "SELECT k, summary(gram, 'y', ['a'], level := 0.5) AS s FROM grams ORDER BY k"
        assert con.sql(query).pl()["s"].to_list() == summaries["s"].to_list()


def test_an_unusable_record_is_null_and_says_why():
    with pytest.warns(ds.errors.SkippedRowsWarning):
        empty = record_frame(pl.DataFrame({"a": [math.nan, math.nan], "y": [1.0, 3.0]}))
    frame = pl.concat(
        [
            record_frame(pl.DataFrame({"a": [1.0, 2.0], "y": [1.0, 3.0]})),
            record_frame(pl.DataFrame({"a": [1.0, 2.0], "y": [3.0, 3.0]})),
            empty,
        ]
    )
    frame = frame.vstack(pl.DataFrame({"gram": [None]}, schema=frame.schema))
    found = ds.fit_by(frame, "y")
    assert found["fit"].is_null().to_list() == [False, True, True, True]
    assert found["status"].to_list() == [
        None, "target 'y' is constant (2 rows)", "no usable rows: 2 rows were skipped", "no rows",
    ]  # fmt: skip
    assert found["fit"][0]["note"] == (
        "2 rows: it has as many coefficients as rows, which fit any target"
    )
    assert found["fit"][0]["sigma"] is None
    assert frame.select(FITS.check("y"))["gram"].to_list() == found["status"].to_list()
    # Through the origin a constant is no longer one.
    assert ds.fit_by(frame, "y", intercept=False)["fit"][1] is not None
    assert ds.fit_by(frame.clear(), "y").shape == (0, 2)


def test_levels_missing_values_and_nested_fields_are_columns_as_in_python():
    table = pl.DataFrame(
        {
            "k": ["u", "v", "w", "u", "v", "w", "u", "v"],
            "x": [1.0, None, 3.0, 4.0, 5.5, None, 7.0, 8.0],
            "s": [{"a": float(i % 5), "b": float(i * i % 7)} for i in range(8)],
            "y": [1.0, 4.0, 2.0, 8.0, 5.0, 7.0, 3.0, 9.0],
        }
    )
    gram = ds.gram(table, null_policy={"x": "indicator"})
    frame = pl.DataFrame({"gram": [gram.to_struct()]})
    for columns in (None, ["x"], ["s", "k*"], ["x.missing", "x"]):
        found = ds.fit_by(frame, "y", columns)["fit"][0]
        expected = ds.fit(gram, "y", columns)
        values = [one["value"] for one in found["coefficients"]]
        assert [one["key"] for one in found["coefficients"]] == expected.columns
        assert values == pytest.approx(list(expected.coefficients.values()), rel=NEAR, abs=NEAR)
        assert found["aliased"] == list(expected.aliased)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"columns": "a"}, "columns is 'a'; it must be a list of column names and globs"),
        ({"columns": [1]}, r"columns is \[1\]; it must be a list of column names and globs"),
        ({"columns": ["z"]}, "columns names unknown column 'z'; there is 'a', 'b', 'y'"),
        ({"columns": []}, "columns is empty; at least one column besides the target is needed"),
        ({"columns": ["y"]}, "columns is empty; at least one column besides the target is needed"),
        ({"columns": ["a", "a"]}, "columns names column 'a' twice"),
        ({"target": "z"}, "target names unknown column 'z'"),
        ({"target": None}, "target is None; it must be the name of a column"),
        ({"ridge": -1.0}, "ridge is -1.0; it must be"),
        ({"intercept": 1}, "intercept is 1; it must be True or False"),
        ({"sign": {"a": 1}}, "fit_by has unknown option 'sign'; there is 'signs'"),
    ],
)
def test_a_wrong_argument_is_named(given, error):
    frame = record_frame(pl.DataFrame({"a": [1.0, 2.0, 4.0], "b": [1.0, 5.0, 2.0], "y": [1, 3, 4]}))
    arguments = {"target": "y", **given}
    with pytest.raises((ds.errors.ArgumentError, ds.errors.ColumnError), match=error):
        ds.fit_by(frame, **arguments)


def test_a_frame_without_records_is_refused():
    table = pl.DataFrame({"a": [1.0]})
    for call in (ds.fit_by, ds.anytime_sequence_by):
        with pytest.raises(
            ds.errors.ArgumentError, match="no column 'gram'; it must be a DataFrame as of gram_by"
        ):
            call(table, "y", by=["a"])
    with pytest.raises(ds.errors.ArgumentError, match="rename it"):
        ds.fit_by(table.with_columns(gram=1, fit=2), "y")
    with pytest.raises(ds.errors.ArgumentError, match="level is 95; it must lie between 0 and 1"):
        ExprNamespace(pl.col("gram")).summary("y", level=95)

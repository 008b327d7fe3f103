"""Columns of any name: Polars, SQL and NumPy predict the same of them, or refuse."""

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbselect as ds

#: Patterns, globs, paths, quotes: what an engine could read as something else than a name.
ODD = [
    "a", "b", "^a$", "^.*$", "*", "?", "[ab]", "[a]", "a.b", "a[1]", ".a", "a.", "'", '"', '""',
    "\\", "a\nb", "\n", "\t", " ", "%s", "{a}", "$1", "--", ";", "ä", "Ä", "ß", "日本", "NULL",
    "select", "a b", "y.missing_", "x.missing",
]  # fmt: skip
names = st.one_of(st.sampled_from(ODD), st.text("ab^$*.[]'\"\\\n?1", min_size=1, max_size=4))


def rows_of(columns: list[str]) -> pl.DataFrame:
    rng = np.random.default_rng(len(columns))
    return pl.DataFrame(rng.normal(size=(30, len(columns))), columns)


def truth(frame: pl.DataFrame, columns: list[str]) -> np.ndarray:
    design = np.column_stack([np.ones(len(frame)), frame.to_numpy()[:, : len(columns)]])
    target = frame.to_numpy()[:, -1]
    return design @ np.linalg.lstsq(design, target, rcond=None)[0]


def differ_in_case_only(columns: list[str]) -> bool:
    return len({name.casefold() for name in columns}) < len(columns)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(names, min_size=1, max_size=4, unique=True))
def test_every_name_predicts_alike_in_every_engine(columns):
    frame = rows_of([*columns, "target of all"])
    model = ds.fit(ds.gram(frame), "target of all", columns)
    expected = truth(frame, columns)
    np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-8, atol=1e-9)
    found = frame.lazy().select(p=model.expr()).collect()["p"]
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)
    if differ_in_case_only(columns):
        with pytest.raises(ds.errors.ColumnError, match="one column to SQL"):
            model.sql()
        return
    in_sql = duckdb.from_arrow(frame.to_arrow()).select(f"{model.sql()} AS p").fetchall()
    np.testing.assert_allclose([p for (p,) in in_sql], expected, rtol=1e-8, atol=1e-9)


def test_a_pattern_is_a_name_at_every_door(tmp_path):
    frame = rows_of(["^a$", "*", "a", "y"])
    frame.write_parquet(tmp_path / "table.parquet")
    expected = np.cov(frame.to_numpy().T, ddof=0)
    for source in (frame, frame.lazy(), str(tmp_path / "table.parquet"), frame.to_arrow()):
        found = ds.gram(source)
        assert found.columns == frame.columns
        np.testing.assert_allclose(found.covariance(), expected, rtol=1e-12)
    found = frame.lazy().dbselect.gram().collect()["gram"][0]
    assert found["columns"] == frame.columns
    np.testing.assert_allclose(found["mean"], frame.to_numpy().mean(axis=0), rtol=1e-12)


def test_columns_that_differ_in_case_only_are_refused_in_sql():
    frame = rows_of(["a", "A", "y"])
    model = ds.fit(ds.gram(frame), "y")
    np.testing.assert_allclose(model.predict(frame), truth(frame, ["a", "A"]))
    np.testing.assert_allclose(frame.select(p=model.expr())["p"], model.predict(frame))
    for dialect in ("duckdb", "postgres"):
        with pytest.raises(ds.errors.ColumnError, match="'a' and 'A' are one column to SQL"):
            model.sql(dialect)


def test_a_pattern_inside_a_struct_is_refused():
    flat = rows_of(["^q$", "q", "y"])
    frame = pl.DataFrame([_struct(flat), flat["y"]])
    model = ds.fit(ds.gram(frame), "y")
    with pytest.raises(ds.errors.ColumnError, match=r"'\^q\$' is a child of 's'"):
        model.expr()
    in_sql = duckdb.from_arrow(frame.to_arrow()).select(f"{model.sql()} AS p").fetchall()
    np.testing.assert_allclose([p for (p,) in in_sql], truth(flat, ["^q$", "q"]), rtol=1e-9)


def _struct(flat: pl.DataFrame) -> pl.Series:
    return pl.Series("s", pl.DataFrame(flat.get_columns()[:2]).to_dicts())

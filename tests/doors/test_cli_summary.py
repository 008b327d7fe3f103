"""``dbselect summary``: what Python tells, in the words of a shell."""

import json

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dbselect as ds
from dbselect.doors.cli import main

RNG = np.random.default_rng(2)
TABLE = pl.DataFrame(RNG.normal(size=(80, 3)), schema=["a", "b", "w"]).with_columns(
    pl.col("w").abs(), y=pl.col("a") - pl.col("b") * RNG.normal(size=80), k=pl.Series([1, 2] * 40)
)


@pytest.fixture
def path(tmp_path):
    TABLE.with_columns(
        a=pl.when(pl.int_range(80) > 0).then(pl.col("a")), twice=pl.col("b") * 2
    ).write_parquet(tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


@pytest.mark.parametrize(
    ("flags", "options"),
    [([], {}), (["--weight", "w", "--intercept", "no"], {"weight": "w", "intercept": False})],
)
def test_the_terms_are_those_of_python(path, flags, options, capsys):
    command = ["summary", str(path), "--target", "y", "--columns", "a", "b", *flags]
    assert main([*command, "--level", "0.9", "--out", f"{path.parent}/terms.csv"]) == 0
    printed = capsys.readouterr().out
    assert "79 rows, 1 skipped." in printed
    assert "F(2, " in printed
    model = ds.fit(path, "y", ["a", "b"], **options)
    found = pl.read_csv(path.parent / "terms.csv")
    ends = model.intervals(0.9).select("term", "low", "high")
    expected = model.summary().join(ends, on="term").select(found.columns[:-2])
    assert_frame_equal(found.select(expected.columns), expected, rel_tol=1e-9)
    of_columns = found.filter(pl.col("vif").is_not_null())
    np.testing.assert_allclose(of_columns["vif"], model.vif()["vif"])
    np.testing.assert_allclose(of_columns["partial"], model.partial_correlations()["partial"])


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        (["--cov-type", "HC3"], {"cov_type": "HC3"}),
        (["--cluster", "k", "--weight", "w"], {"cluster": "k", "weight": "w"}),
    ],
)
def test_robust_errors_are_those_of_python(path, flags, options, capsys):
    assert main(["summary", str(path), "--target", "y", "--columns", "a", *flags, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    model = ds.fit(path, "y", ["a"], weight=options.get("weight"))
    expected = model.robust_errors(path, **options)
    errors = [term["std_error"] for term in told["terms"]]
    assert errors == pytest.approx(expected.summary()["std_error"].to_list(), rel=1e-9)
    assert (told["cov_type"], told["clusters"]) == (expected.cov_type, expected.clusters)
    assert told["f_test"] is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--columns", "nothing"], "nothing"),
        (["--level", "95"], "--level is 95"),
        (["--cov-type", "HC9"], "cov_type is 'HC9'"),
        (["--cov-type", "cluster"], "needs the column"),
        (["--cluster", "none"], "unknown column 'none'"),
        (["--intercept", "maybe"], "must be yes or no"),
        (["--out", "terms.xls"], "its name must end in"),
    ],
)
def test_a_mistake_is_one_sentence(path, flags, words, capsys):
    try:
        code = main(["summary", str(path), "--target", "y", "--columns", "a", *flags])
    except SystemExit as end:  # of argparse
        code = end.code
    error = capsys.readouterr().err
    assert code == 2
    assert words in error
    assert error.count("\n") == 1


def test_a_record_has_no_rows_for_robust_errors(path, capsys):
    gram = f"{path.parent}/g.parquet"
    assert main(["gram", str(path), "--columns", "a", "y", "--out", gram]) == 0
    assert main(["summary", gram, "--target", "y"]) == 0
    assert main(["summary", gram, "--target", "y", "--cov-type", "HC1"]) == 2
    assert "data is a Gram and holds no rows" in capsys.readouterr().err

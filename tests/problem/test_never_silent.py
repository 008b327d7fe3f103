"""What a user must be told: models that fit anything, rows left out, and how many are used."""

import re

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.record.steps import Stop

#: One source of each engine.
every_engine = pytest.mark.parametrize(
    "as_source",
    ["parquet path", "DataFrame", "relation, extension", "relation, plain", "pandas"],
    indirect=True,
)


def noise(rows: int, width: int, seed: int = 0) -> pl.DataFrame:
    """Columns that have nothing to do with the target."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(rng.normal(size=(rows, width)), [f"x{j}" for j in range(width)])
    y, z = rng.normal(size=(2, rows))
    return frame.with_columns(y=pl.Series(y), z=pl.Series(z))


# Models with as many coefficients as rows

#: Of n rows, least squares fits any target by n - 1 columns and an intercept.
SATURATED = [(6, 5), (6, 8), (3, 2), (12, 20)]
ROOMY = [(7, 5), (10, 8), (40, 20)]


@pytest.mark.parametrize(("rows", "width"), [*SATURATED, *ROOMY])
@pytest.mark.parametrize("call", [ds.anytime_sequence, ds.foba, ds.reference.group_lasso, "joint"])
def test_a_sequence_that_fits_any_target_says_so(call, rows, width):
    frame = noise(rows, width)
    names = [name for name in frame.columns if name.startswith("x")]
    gram = ds.gram(frame)
    if call == "joint":
        found = ds.anytime_sequence(gram, ["y", "z"], {name: [name] for name in names})
    else:
        found = call(gram, "y", {name: [name] for name in names})
    full = (rows, width) in SATURATED and call is not ds.foba
    # FoBa may end before the last column.
    if call is ds.foba:
        full = np.count_nonzero(found.coef, axis=1).max() + 1 >= rows
    assert (found.stop is Stop.SATURATED) == full
    assert ("as many coefficients as rows" in repr(found)) == full
    assert found.r2.max() <= 1
    assert found.explained.max() <= 1
    assert found.steps["r2"].max() <= 1
    assert found.at().saturated == full


@pytest.mark.sample(6)
@pytest.mark.filterwarnings("ignore::dbselect.errors.ConditionWarning")
@pytest.mark.parametrize("seed", range(20))
def test_no_share_exceeds_one(seed):
    frame = noise(9, 14, seed).drop("z")
    gram = ds.gram(frame)
    shares = [
        ds.fit(gram, "y").r2,
        ds.sght(gram, "y", max_columns=10, max_groups=10).r2,
        ds.dash(gram, "y", k=10).r2,
        *ds.group_lasso_path(gram, "y", lambda_min_ratio=1e-9).r2,
        *ds.anytime_sequence(gram, "y", ridge=1e-12).r2,
        *ds.evaluate(ds.anytime_sequence(gram, "y"), gram)["r2"],
    ]
    records = pl.DataFrame({"gram": [gram.to_struct()]})
    steps = ds.anytime_sequence_by(records, "y")["sequence"][0].struct
    shares += [*steps.field("r2"), *steps.field("explained")]
    assert max(shares) <= 1


def test_a_ridge_fits_no_target_exactly():
    gram = ds.gram(noise(6, 8).drop("z"))
    found = ds.anytime_sequence(gram, "y", ridge=0.1)
    assert found.stop is Stop.EXHAUSTED
    assert not found.at().saturated


# Squares that underflow


@pytest.mark.parametrize(
    ("size", "weight"),
    [(1e-170, 1.0), (1e-170, 1e-150), (1e-155, 1e-150), (1e-170, 1e-200), (1e-150, 1e-200)],
)
def test_a_target_whose_squares_underflow_is_not_just_constant(size, weight):
    rows = noise(50, 1).with_columns(y=size * (1.0 + pl.col("y")), w=pl.lit(weight))
    with pytest.raises(ds.errors.DbselectError, match=r"'y' is .*small.* multiply it, or "):
        ds.fit(rows, "y", ["x0"], weight="w")
    near = rows.with_columns(pl.col("y") / size, pl.col("w") / weight)
    assert ds.fit(near, "y", ["x0"], weight="w").r2 < 1


@pytest.mark.parametrize(("size", "is_small"), [(1e-150, True), (0.0, False), (1.0, False)])
def test_a_segment_whose_squares_underflow_says_so(size, is_small):
    rows = noise(50, 2).with_columns(pl.lit(1e-200).alias("w"), pl.lit(1).alias("k"))
    rows = rows.with_columns(y=size if size == 1.0 else size * (1.0 + pl.col("y")))
    grams = ds.gram_by(rows, ["k"], ["x0", "y"], weight="w")
    (told,) = ds.anytime_sequence_by(grams, "y")["status"]
    assert told.startswith("target 'y' is constant (50 rows)")
    assert ("or all weights" in told) == is_small
    with pytest.raises(ds.errors.DataError) as caught:
        ds.fit(rows, "y", ["x0"], weight="w")
    assert str(caught.value) == told


@pytest.mark.parametrize("rows", [4, 30])
def test_a_generalised_model_that_fits_any_target_says_so(rows):
    frame = noise(rows, 3).drop("z").with_columns(y=1 + pl.int_range(rows) ** 2 % 5)
    found = ds.anytime_sequence(frame, "y", family="poisson")
    assert (found.stop is Stop.SATURATED) == (rows == 4)
    assert found.at().saturated == (rows == 4)
    assert found.r2.max() <= 1


# Rows that are left out


def gappy(rows: int, missing: dict[str, int]) -> pl.DataFrame:
    """Return a table whose columns are missing in their first rows."""
    rng = np.random.default_rng(1)
    names = ["a", "b", "c", "y"]
    frame = pl.DataFrame(rng.normal(size=(rows, 4)), names).with_row_index("row")
    frame = frame.with_columns(c=pl.Series(rng.poisson(3.0, rows)))
    gaps = [pl.when(pl.col("row") >= missing.get(name, 0)).then(name).alias(name) for name in names]
    return frame.select(gaps)


@every_engine
def test_more_than_half_of_the_rows_left_out_is_said_with_the_columns(as_source):
    whole = gappy(20, {})
    linear = ds.anytime_sequence(whole, "y")
    counts = ds.anytime_sequence(whole, "c", family="poisson")
    source = as_source(gappy(20, {"a": 3, "b": 11}))
    told = "11 of 20 rows are left out: 'b' is missing in 11, 'a' is missing in 3"
    calls = [
        lambda: ds.gram(source),
        lambda: ds.gram_by(source, fold=2),
        lambda: ds.anytime_sequence(source, "y"),
        lambda: ds.anytime_sequence(source, "c", family="poisson", max_groups=1),
        lambda: ds.cross_validate(source, "y", "anytime_sequence", folds=2),
        lambda: ds.fit(source, "y"),
        lambda: ds.evaluate(linear, source),
        lambda: ds.evaluate(counts, source),
    ]
    for call in calls:
        with pytest.warns(ds.errors.SkippedRowsWarning, match=re.escape(told)) as caught:
            call()
        assert {one.filename for one in caught} == {__file__}


def test_rows_without_weight_are_told_apart():
    frame = gappy(20, {"a": 2}).with_columns(w=pl.Series([0.0] * 15 + [1.0] * 5))
    with pytest.warns(
        ds.errors.SkippedRowsWarning, match="the weight is missing or 0 in at least 13"
    ):
        ds.gram(frame, weight="w")


# How many rows a result rests on


@pytest.mark.parametrize("skipped", [0, 7])
def test_every_result_shows_its_rows(skipped):
    told = f"{100 - skipped} rows" + (f", {skipped} skipped" if skipped else "")
    frame = gappy(100, {"a": skipped}).with_columns(
        n=pl.int_range(100) % 3, flag=(pl.int_range(100) * 7 % 10) > 4
    )
    names = {"groups": {name: [name] for name in "abc"}}
    linear = ds.anytime_sequence(frame, "y", **names)
    logistic = ds.anytime_sequence(frame, "flag", family="binomial", **names)
    joint = ds.anytime_sequence(frame, ["y", "n"], **names)
    for found in [
        linear,
        joint,
        joint.at(),
        logistic,
        logistic.at(),
        ds.foba(frame, "y", **names),
        ds.greedy(frame, "y", k=2, **names),
        ds.sght(frame, "flag", family="binomial", max_columns=2, max_groups=2, **names),
        ds.group_lasso_path(frame, "y", **names),
    ]:
        assert told in repr(found)
    model = ds.fit(frame, "y", ["a", "b", "c"])
    assert told in repr(model)
    assert (model.rows, model.skipped) == (100 - skipped, skipped)
    folded = ds.cross_validate(frame, "y", "anytime_sequence", folds=3, groups=names["groups"])
    assert f"{100 - skipped} rows" in repr(folded)


@pytest.mark.filterwarnings("ignore::dbselect.errors.LeftOutWarning")
@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")
def test_text_of_too_many_levels_still_decides_folds():
    table = pl.DataFrame({"x": [1.0, 2.0, 3.0] * 100, "id": [f"r{i}" for i in range(300)]})
    records = ds.gram_by(table, fold=3)
    # Rows that differ in their text alone are told apart: all folds have rows.
    assert records["gram"].struct.field("rows").sum() == 300
    assert records.height == 3
    assert ds.cross_validate(table.with_columns(y=pl.col("x") * 2), "y", "fit", folds=3)

"""Records that are wrong or lose their digits: a sentence for the row, never silent numbers."""

import math
import re
import warnings
from fractions import Fraction

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.errors import DataError, DependenceWarning, RecordError
from dbselect.record.gram import RECORD_DTYPE

FRAME = pl.DataFrame({"x": [1.0, 2.0, 3.0, 7.0], "y": [1.0, 3.0, 8.0, 9.0]})
SOUND = ds.gram(FRAME).to_struct()


def column(*records) -> pl.DataFrame:
    return pl.DataFrame({"gram": list(records)}, schema={"gram": RECORD_DTYPE})


def in_python(call, one, two):
    records = ds.Gram.from_struct(one), ds.Gram.from_struct(two)
    return (records[0] + records[1] if call == "merge" else records[0] - records[1]).to_struct()


def in_polars(call, one, two):
    return column(one, two).select(pl.col("gram").dbselect.merge())["gram"][0]


def in_sql(connection):
    def run(call, one, two):
        records = column(one, two).to_arrow()
        if call == "merge":
            relation = connection.from_arrow(records).query("t", "SELECT gram_merge(gram) FROM t")
        else:
            pairs = pl.DataFrame(
                {"a": [one], "b": [two]}, schema={"a": RECORD_DTYPE, "b": RECORD_DTYPE}
            )
            relation = connection.from_arrow(pairs.to_arrow()).query(
                "t", "SELECT gram_remove(a, b) FROM t"
            )
        return relation.fetchall()[0][0]

    return run


@pytest.fixture(params=["Python", "Polars", "SQL"])
def door(request, connection):
    return {"Python": in_python, "Polars": in_polars, "SQL": in_sql(connection)}[request.param]


# Sums that no record can hold

TOO_MUCH = {
    "rows": ({"rows": 2**63 - 1}, {"rows": 2**63 - 1}),
    "skipped": ({"skipped": 2**63 - 1}, {"skipped": 1}),
    "missing": ({"missing": [2**63 - 1, 0]}, {"missing": [1, 0]}),
    "comoments": ({"comoment": [1.7e308, 0.0, 1.0]},) * 2,
    "means": ({"mean": [1e200, 0.0]}, {"mean": [-1e200, 0.0]}),
}


@pytest.mark.parametrize(("one", "two"), TOO_MUCH.values(), ids=TOO_MUCH)
def test_what_overflows_is_refused_at_every_door(door, one, two):
    with pytest.raises(Exception, match=r"rows|too large|not finite"):
        door("merge", SOUND | one, SOUND | two)


# Rows taken away

remove_doors = pytest.mark.parametrize("door", ["Python", "SQL"], indirect=True)


def values_with(outlier: float) -> list[float]:
    rng = np.random.default_rng(5)
    return [*rng.normal(size=200).tolist(), outlier]


def exact_variation(values: list[float]) -> Fraction:
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return sum((value - mean) ** 2 for value in exact)


@remove_doors
@pytest.mark.parametrize("power", range(17))
def test_what_is_left_has_digits_or_is_refused(door, power):
    values = values_with(10.0**power)
    whole = ds.gram(pl.DataFrame({"x": values})).to_struct()
    part = ds.gram(pl.DataFrame({"x": values[150:]})).to_struct()
    expected = exact_variation(values[:150])
    try:
        found = door("remove", whole, part)
    except Exception as error:
        assert "column 'x' is rounding of what is taken away" in str(error)  # noqa: PT017
        assert power >= 6
    else:
        assert math.isclose(found["comoment"][0], expected, rel_tol=1e-5)
        assert power < 8


@remove_doors
def test_a_level_that_is_gone_is_no_rounding(door):
    rng = np.random.default_rng(6)
    rare = np.arange(1000) % 97 == 3
    late = np.arange(1000) >= 700
    frame = pl.DataFrame({"x": rng.normal(size=1000), "k": (rare & late).astype(float)})
    whole, part = ds.gram(frame).to_struct(), ds.gram(frame[700:]).to_struct()
    found = door("remove", whole, part)
    assert found["comoment"][1:] == [0.0, 0.0]
    assert math.isclose(
        found["comoment"][0], exact_variation(frame["x"][:700].to_list()), rel_tol=1e-12
    )


def test_cross_validation_sums_what_stays():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(250, 3))
    frame = pl.DataFrame(X, ["a", "b", "c"]).with_columns(
        y=pl.Series(X @ [1.0, -2.0, 0.5] + rng.normal(size=250)), fold=pl.Series(np.arange(250) % 5)
    )
    wild = frame.with_columns(a=pl.when(pl.int_range(pl.len()) == 4).then(1e12).otherwise("a"))
    seen = []

    def method(problem):
        seen.append(problem.source)
        return problem.fit()

    ds.cross_validate(ds.gram_by(wild, ["fold"]), "y", method)
    # Fold 4 has the outlier: what is fitted without the fold knows nothing of it.
    (kept,) = (gram for gram in seen if gram.comoment[0, 0] < 1e6)
    rows = frame["fold"].to_numpy() != 4
    coef = np.linalg.lstsq(np.column_stack([np.ones(250), X])[rows], frame["y"].to_numpy()[rows])
    found = ds.fit(kept, "y")
    np.testing.assert_allclose(
        [found.intercept, *found.coefficients.values()], coef[0], rtol=1e-10, atol=1e-12
    )


# Records that no rows have

IMPOSSIBLE = [[1.0, 5.0, 1.0], [1.0, -1.1, 1.0], [0.0, 1.0, 1.0], [1e-300, 1e10, 1e300]]


@pytest.mark.parametrize("comoment", IMPOSSIBLE)
def test_an_impossible_record_costs_its_own_row_only(comoment, connection):
    bad = SOUND | {"comoment": comoment, "mean": [0.0, 0.0]}
    records = column(SOUND, bad, None)
    with pytest.raises(RecordError, match=r"no rows can have.*'x' and 'y'"):
        ds.anytime_sequence(bad, "y")
    check = records.select(pl.col("gram").dbselect.check("y"))["gram"].to_list()
    assert check[0] is None
    assert "no rows can have" in check[1]
    relation = connection.from_arrow(records.to_arrow())
    told = relation.query("t", "SELECT gram_check(gram, 'y') FROM t").fetchall()
    assert [reason for (reason,) in told] == check
    for method in ("anytime_sequence", "foba", "backward"):
        steps = records.select(getattr(pl.col("gram").dbselect, method)("y"))["gram"]
        assert [bool(length) for length in steps.list.len().to_list()] == [True, False, False]
        rows = relation.query("t", f"SELECT {method}(gram, 'y') FROM t").fetchall()
        assert [bool(row[0]) for row in rows] == [True, False, False]
    for method, options in [("dash", {"k": 1}), ("sght", {"max_columns": 1, "max_groups": 1})]:
        found = records.select(getattr(pl.col("gram").dbselect, method)("y", **options))["gram"]
        assert [one is not None for one in found.to_list()] == [True, False, False]


# Columns that depend on others but for a trace


def nearly(distance: float) -> pl.DataFrame:
    rng = np.random.default_rng(9)
    x, z = rng.normal(size=(2, 400))
    return pl.DataFrame({"x1": x, "x2": x + distance * z, "y": z})


@pytest.mark.parametrize("call", [ds.fit, ds.anytime_sequence])
@pytest.mark.parametrize("distance", [1e-6, 1e-7, 1e-8])
def test_a_trace_that_explains_the_target_is_told(call, distance):
    frame = nearly(distance)
    with pytest.warns(
        DependenceWarning, match=r"column 'x[12]' .*may explain.*give the difference"
    ):
        found = call(frame, "y")
    assert len(found.aliased) == 1
    apart = frame.select("x1", "y", rest=pl.col("x2") - pl.col("x1"))
    with pytest.warns(ds.errors.LeakageWarning, match="'rest' alone explains"):
        assert ds.fit(apart, "y").r2 > 0.99


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
def test_columns_that_depend_outright_are_not_told(scale):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(300, 6)) + 10.0
    frame = pl.DataFrame(X, [f"x{j}" for j in range(6)]).with_columns(
        sum=scale * pl.sum_horizontal("x0", "x1", "x2"),
        copy=pl.col("x3") / 3.0 + 7.0,
        y=pl.Series(X @ np.arange(6.0) + rng.normal(size=300)),
    )
    assert set(ds.fit(frame, "y").aliased) == {"sum", "copy"}
    assert len(ds.anytime_sequence(frame, "y").aliased) == 2


# Weights of any size


@pytest.mark.parametrize("weight", [1e-300, 1e-200, 1.0, 1e200, 1e300])
def test_the_size_of_weights_costs_no_digits(weight, connection):
    values = np.random.default_rng(12).normal(size=60)
    frame = pl.DataFrame({"x": values, "w": [weight] * 60})
    expected = float(exact_variation(values.tolist()) / 60)
    parts = [ds.gram(frame[at : at + 20], weight="w") for at in (0, 20, 40)]
    query = "SELECT gram({'x': x}, w) AS g FROM t"
    in_sql = connection.from_arrow(frame.to_arrow()).query("t", query).fetchall()[0][0]
    grams = [ds.gram(frame, weight="w"), sum(parts), ds.Gram.from_struct(in_sql)]
    grams.append(ds.Gram.from_struct(in_polars("merge", *(part.to_struct() for part in parts[:2]))))
    grams[-1] += parts[2]
    for gram in grams:
        assert math.isclose(gram.covariance()[0, 0], expected, rel_tol=1e-13)


# Sizes that squares do not hold


def scaled(column: str, factor: float) -> pl.DataFrame:
    rng = np.random.default_rng(13)
    x, z, noise = rng.normal(size=(3, 200))
    frame = pl.DataFrame({"x": x, "z": z, "y": x - z / 2 + noise, "w": [1.0] * 200})
    return frame.with_columns(pl.col(column) * factor)


def r2_of(rows: str):
    return f"SELECT anytime_sequence({rows}, 'y')[-1].r2, gram_check({rows}, 'y') FROM t"


@pytest.mark.parametrize("column", ["x", "y", "w"])
@pytest.mark.parametrize(
    "factor",
    [10.0**p for p in (-300, -170, -162, -160, -158, -157, -155, -150, 150, 155, 160, 300)],
)
def test_any_size_keeps_its_digits_or_is_told(column, factor, connection):
    frame = scaled(column, factor)
    expected = ds.anytime_sequence(ds.gram(scaled(column, 1.0), weight="w"), "y").steps["r2"][-1]
    connection.register("t", frame.to_arrow())
    rows = "gram({'x': x, 'z': z, 'y': y}, w)"
    told = rf"column '{column}' is too (small|large)"
    try:
        found = ds.anytime_sequence(ds.gram(frame, weight="w"), "y").steps["r2"][-1]
    except ds.DbselectError as error:
        assert column != "w"
        assert re.search(told, str(error))  # noqa: PT017
        if factor < 1:
            assert re.search(told, connection.sql(r2_of(rows)).fetchall()[0][1])
        else:
            with pytest.raises(duckdb.Error, match=told):
                connection.sql(r2_of(rows)).fetchall()
    else:
        assert math.isclose(found, expected, rel_tol=1e-11)
        ((in_sql, reason),) = connection.sql(r2_of(rows)).fetchall()
        assert math.isclose(in_sql, expected, rel_tol=1e-11)
        assert reason is None


@pytest.mark.parametrize("weight", [1e-320, 1e306, 1.7e308])
def test_weights_that_do_not_add_up_are_to_blame(weight, connection):
    frame = scaled("w", weight)
    with pytest.raises(DataError, match=r"the weights are too (small|large)"):
        ds.gram(frame, weight="w")
    connection.register("t", frame.to_arrow())
    with pytest.raises(duckdb.Error, match=r"the weights are too (small|large)"):
        connection.sql("SELECT gram({'x': x, 'y': y}, w) FROM t").fetchall()


def test_weights_are_named_beside_a_column_that_overflows_by_them():
    frame = scaled("w", 1e300).with_columns(pl.col("x") * 1e6)
    with pytest.raises(DataError, match=r"'x' and the weights, 1\.0e300 on average, are too large"):
        ds.gram(frame, weight="w")


# Columns that no rows have, though each two of them might


def indefinite(more: int = 0) -> dict:
    """Return a record of a, b, c and y of which a, b, c agree by twos only."""
    correlations = np.eye(4 + more)
    correlations[:3, :3] = [[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]]
    correlations[3, :3] = correlations[:3, 3] = 0.1
    names = ["a", "b", "c", "y", *(f"x{j}" for j in range(more))]
    lower = correlations[np.tri(len(names), dtype=bool)].tolist()
    bad = {"columns": names, "rows": 99, "skipped": 0, "weight": 99.0}
    return bad | {"mean": [0.0] * len(names), "comoment": lower}


THREE = "not three or more together"


@pytest.mark.parametrize("more", [0, 30])
@pytest.mark.parametrize("method", ["anytime_sequence", "foba", "backward"])
def test_columns_that_agree_by_twos_only_are_refused_by_searches(method, more, connection):
    bad = indefinite(more)
    with pytest.raises(RecordError, match=THREE):
        getattr(ds, method)(bad, "y")
    fields = ["columns", "rows", "skipped", "weight", "mean", "comoment"]
    records = column(SOUND, SOUND | {"missing": None, "mean_low": None, "terms": None} | bad)
    assert set(fields) <= set(records["gram"].struct.fields)
    steps = records.select(getattr(pl.col("gram").dbselect, method)("y"))["gram"]
    assert [bool(length) for length in steps.list.len().to_list()] == [True, False]
    assert re.search(THREE, records.select(pl.col("gram").dbselect.check("y"))["gram"][1])
    relation = connection.from_arrow(records.to_arrow())
    query = f"SELECT {method}(gram, 'y') AS s, gram_check(gram, 'y') FROM t"
    (sound, _), (nothing, reason) = relation.query("t", query).fetchall()
    assert sound
    assert not nothing
    assert re.search(THREE, reason)


@pytest.mark.parametrize(
    "call", [lambda bad: ds.fit(bad, "y"), lambda bad: ds.best_within(bad, "y", 3.0)]
)
def test_columns_that_agree_by_twos_only_are_refused_by_fits(call):
    with pytest.raises(RecordError, match=THREE):
        call(indefinite())


@pytest.mark.parametrize("seed", range(6))
def test_what_many_rows_have_is_possible(seed, connection):
    """Nearly dependent columns, rows removed, few rows: rounding is no fault."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 12)) * 10.0 ** rng.integers(-6, 6, 12)
    X[:, 5:8] = X[:, :3] + X[:, 3:6] * 10.0 ** -rng.integers(2, 12, 3)
    X[:, 8] = X[:, :8] @ rng.normal(size=8)
    frame = pl.DataFrame(X, [f"x{j}" for j in range(12)]).with_columns(
        y=pl.Series(rng.normal(size=60))
    )
    wild = frame[-1].select(pl.all() * 1e3)
    grams = [ds.gram(frame), ds.gram(frame[:6]), ds.gram(pl.concat([frame, wild])) - ds.gram(wild)]
    records = column(*(gram.to_struct() for gram in grams))
    reasons = records.select(pl.col("gram").dbselect.check("y"))["gram"].to_list()
    assert reasons == [None] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for gram in grams:
            for method in (ds.anytime_sequence, ds.foba):
                assert 0 <= method(gram, "y").at().r2 <= 1
            assert 0 <= ds.fit(gram, "y").r2 <= 1


# Dependence is told by every door that can warn


@pytest.mark.parametrize("method", ["anytime_sequence", "foba"])
def test_a_trace_is_told_of_single_records_and_of_many(method):
    frame = nearly(1e-7).with_columns(pl.col("y") + pl.col("x1"))
    with pytest.warns(DependenceWarning, match=r"may explain 0\.[45]"):
        getattr(ds, method)(frame, "y")
    many = column(SOUND, ds.gram(frame).to_struct())
    with pytest.warns(DependenceWarning, match=r"columns \['x[12]'\].*the difference as a column"):
        many[1:].select(getattr(pl.col("gram").dbselect, method)("y"))
    if method == "anytime_sequence":
        with pytest.warns(DependenceWarning, match=r"segments leave out columns \['x[12]'\]"):
            ds.anytime_sequence_by(many[1:], "y")


def test_backward_elimination_warns_of_a_trace_before_it_goes():
    with pytest.warns(DependenceWarning, match="column 'x2' nearly depends"):
        ds.backward(nearly(1e-7), "y")


def test_a_ridge_or_a_full_dependence_is_told_by_none(recwarn):
    many = column(ds.gram(nearly(0.0)).to_struct(), ds.gram(nearly(1e-7)).to_struct())
    ds.anytime_sequence_by(many[:1], "y")
    ds.anytime_sequence_by(many, "y", ridge=1.0)
    assert not [one for one in recwarn if one.category is DependenceWarning]

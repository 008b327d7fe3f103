"""What takes a table takes one of ibis elsewhere, and what comes back predicts there."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pytest
from warehouses import DATABASES, Warehouse, opened

import dbselect as ds
from dbselect.errors import ColumnError, DriverWarning, SourceError

#: What ibis asks of pandas.
pytestmark = pytest.mark.filterwarnings("ignore:The .future.infer_string")
ROWS = 150
GROUPS = {"a": ["a"], "b": ["b"], "kind": ["kind"]}


@pytest.fixture(scope="module", params=DATABASES)
def warehouse(request: pytest.FixtureRequest) -> Iterator[Warehouse]:
    with opened(request.param) as found:
        yield found


def table() -> pl.DataFrame:
    rng = np.random.default_rng(11)
    a, b, noise = rng.normal(size=(3, ROWS))
    kind = rng.choice(["u", "v", "it's"], ROWS)
    frame = pl.DataFrame(
        {
            "a": a,
            "b": b,
            "kind": kind,
            "region": rng.choice(["north", "south"], ROWS),
            "y": 2 * a - b + 3 * (kind == "u") + noise,
            "late": a + noise > 0,
        }
    )
    return frame.with_columns(
        pl.when(pl.Series(rng.random(ROWS) < 0.9)).then(name).alias(name) for name in ("b", "kind")
    )


@pytest.fixture(scope="module")
def source(warehouse: Warehouse) -> Any:
    return warehouse.load(table())


# Nothing but sums leaves the database: a warning, which these tests take for an error, tells.
CALLS = {
    "anytime_sequence": lambda rows: ds.anytime_sequence(rows, "y", GROUPS).r2,
    "foba": lambda rows: ds.foba(rows, "y", GROUPS).r2,
    "backward": lambda rows: ds.backward(rows, "y", GROUPS).r2,
    "best_within": lambda rows: ds.best_within(rows, "y", 2, GROUPS).r2,
    "sght": lambda rows: ds.sght(rows, "y", max_columns=2, max_groups=2).r2,
    "fit": lambda rows: list(ds.fit(rows, "y").coefficients.values()),
    "evaluate": lambda rows: ds.evaluate(ds.anytime_sequence(table(), "y", GROUPS), rows)["r2"],
    "segments": lambda rows: [
        step["r2"]
        for steps in ds.anytime_sequence_by(ds.gram_by(rows, ["region"], list("aby")), "y")[
            "sequence"
        ]
        for step in steps
    ],
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_calls_that_start_with_a_gram_pull_no_row(source, call):
    np.testing.assert_allclose(call(source), call(table()), rtol=1e-10)


PULLING = {
    "cross_validate": lambda rows: ds.cross_validate(
        rows, "y", "anytime_sequence", folds=3, groups=GROUPS
    ).scores["r2"],
    "folds": lambda rows: [
        ds.Gram.from_struct(gram).mean[0]
        for gram in ds.gram_by(rows, ["region"], ["a", "y"], fold=2)["gram"]
    ],
    "family": lambda rows: list(
        ds.anytime_sequence(rows, "late", GROUPS, family="binomial").at().coefficients.values()
    ),
    "basis": lambda rows: ds.gram(rows, ["a", "b"], basis={"a": ("spline", 4)}).mean,
}


@pytest.mark.parametrize("call", PULLING.values(), ids=PULLING)
def test_calls_that_take_the_rows_say_so(source, call):
    with pytest.warns(DriverWarning, match="all pass into this process, as .*; write") as told:
        found = call(source)
    assert {one.filename for one in told if one.category is DriverWarning} == {__file__}
    np.testing.assert_allclose(found, call(table()), rtol=1e-8)


def test_a_prediction_reads_its_columns_only(source):
    found = ds.anytime_sequence(source, "y", GROUPS)
    with pytest.warns(DriverWarning, match="all pass into this process"):
        values = found.predict(source)
    np.testing.assert_allclose(values, found.predict(table()), rtol=1e-12)


def test_what_lacks_columns_is_refused_unread(source):
    model = ds.fit(table(), "y", ["a", "b"])
    with pytest.raises(ColumnError, match="the rows lack column 'a', which"):
        model.predict(source.drop("a"))
    with pytest.raises(ColumnError, match=r"source lacks column 'fold'.*a table needs folds="):
        ds.cross_validate(source, "y", "anytime_sequence")


def test_text_among_the_numbers_of_sqlite_is_told_by_a_prediction():
    model = ds.fit(pl.DataFrame({"x": [1.0, 2.0, 4.0], "y": [1.0, 2.0, 3.0]}), "y")
    with opened("sqlite") as warehouse:
        rows = warehouse.load(pl.DataFrame({"x": ["1.5", "many"]}), {"x": "REAL"})
        with (
            pytest.warns(DriverWarning),
            pytest.raises(SourceError, match="ibis cannot read the table"),
        ):
            model.predict(rows)


FILLED = {"b": "mean", "kind": "indicator"}
MODELS = {
    "rows skipped": lambda: ds.anytime_sequence(table(), "y", GROUPS).at(),
    "values filled": lambda: ds.anytime_sequence(
        ds.gram(table(), ["a", "b", "kind", "y"], null_policy=FILLED), "y", GROUPS
    ).at(),
    "logistic": lambda: ds.anytime_sequence(table(), "late", GROUPS, family="binomial").at(),
}


@pytest.mark.parametrize("handle_unknown", ["mean", "unavailable"])
@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.filterwarnings("ignore::dbselect.errors.UnknownLevelWarning")
def test_a_model_scores_where_the_rows_are(warehouse, make, handle_unknown):
    model = make()
    every = pl.int_range(pl.len())
    rows = table().with_columns(kind=pl.when(every % 7 == 0).then(pl.lit("new")).otherwise("kind"))
    name = warehouse.load(rows).get_name()
    dialect = warehouse.connection.name
    score = model.sql(dialect=dialect, handle_unknown=handle_unknown)
    with warehouse.connection.begin() as cursor:
        cursor.execute(f"SELECT {score} FROM {name}")
        found = [np.nan if value is None else float(value) for (value,) in cursor.fetchall()]
    own = model.predict(rows, handle_unknown=handle_unknown)
    np.testing.assert_allclose(found, own, rtol=1e-12)
    assert np.isfinite(own).any()


@pytest.mark.system
def test_postgres_scores_booleans_and_numbers_of_every_type_to_the_last_digit():
    rng = np.random.default_rng(5)
    whole = rng.integers(-(2**62), 2**62, 60)
    frame = pl.DataFrame(
        {
            "flag": rng.random(60) < 0.5,
            "single": pl.Series(rng.normal(size=60), dtype=pl.Float32),
            "double": rng.normal(size=60) * 10.0 ** rng.integers(-100, 100, 60),
            "exact": pl.Series([f"{n}.123456789" for n in whole]).cast(pl.Decimal(38, 9)),
            "whole": whole,
        }
    )
    frame = frame.with_columns(pl.when(pl.int_range(60) % 7 > 0).then("flag").alias("flag"))
    with opened("postgres") as warehouse:
        name = warehouse.load(frame).get_name()
        for column in frame.columns:
            y = frame[column].cast(pl.Float64)
            model = ds.fit(frame.select(column, y=y / y.abs().max()), "y", [column])
            score = model.sql("postgres", booleans=[column] if column == "flag" else ())
            with warehouse.connection.begin() as cursor:
                cursor.execute(f"SELECT {score} FROM {name}")
                rows = [np.nan if one is None else one for (one,) in cursor.fetchall()]
            assert {type(one) for one in rows} == {float}
            np.testing.assert_array_equal(rows, model.predict(frame), err_msg=column)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda rows: ds.gram(rows, ["aa"]), "unknown column 'aa'; there is 'a'"),
        (lambda rows: ds.gram(rows, weight="kind"), "weight names field 'kind' of type string"),
        (lambda rows: ds.gram_by(rows, ["regions"]), "unknown column 'regions'; there is 'region'"),
        (lambda rows: ds.anytime_sequence(rows, "kind"), "target 'kind' is text"),
    ],
)
def test_mistakes_are_told_before_a_query(source, call, words):
    with pytest.raises(ColumnError, match=re.escape(words)):
        call(source)


def test_a_table_that_is_gone_is_told(warehouse):
    source = warehouse.load(table())
    with warehouse.connection.begin() as cursor:
        cursor.execute(f"DROP TABLE {source.get_name()}")
    with pytest.raises(SourceError, match=r"ibis cannot (sum|read) the table: .*rows"):
        ds.gram(source, ["a", "y"])


def test_local_engines_hand_over_their_rows():
    ibis = pytest.importorskip("ibis")
    pytest.importorskip("datafusion")
    rows = ibis.datafusion.connect().create_table("rows", table().to_arrow())
    own = ds.gram(table())
    found = ds.gram(rows)
    assert found.columns == own.columns
    np.testing.assert_allclose(found.comoment, own.comoment, atol=1e-11)

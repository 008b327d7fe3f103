"""VIF, partial correlations, condition numbers and F tests of records, in SQL and Polars."""

import duckdb
import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.spec.methods import OF_FITS

RNG = np.random.default_rng(5)
TABLE = pl.DataFrame(RNG.normal(size=(90, 3)) @ RNG.normal(size=(3, 3)), schema=["a", "b", "y"])
TABLE = TABLE.with_columns(k=pl.Series([0, 1, 2] * 30))
KEYS = [0, 1, 2]


def asked(name: str, frame: pl.DataFrame) -> object:
    """Return what Python tells of the rows of a key."""
    model = ds.fit(frame.drop("k"), "y", ["a", "b"], intercept=False)
    if name == "condition_number":
        return model.condition_number
    if name == "f_test":
        return model.f_test(["b"]).row(0, named=True)
    return getattr(model, name)().to_dicts()


@pytest.mark.parametrize("name", [name for name in OF_FITS if name != "summary"])
def test_each_record_is_told_what_python_tells(connection, name):
    expected = [asked(name, TABLE.filter(k=key)) for key in KEYS]
    tested = {"tested": ["b"]} if name == "f_test" else {}
    grams = TABLE.group_by("k").agg(gram=pl.struct("a", "b", "y").dbselect.gram()).sort("k")
    told = getattr(pl.col("gram").dbselect, name)("y", intercept=False, **tested)
    assert flat(grams.select(told)["gram"].to_list()) == pytest.approx(flat(expected), rel=1e-9)
    options = ", tested := ['b']" if tested else ""
    connection.register("rows", TABLE.to_arrow())
    found = connection.sql(
        f"SELECT {name}(gram({{'a': a, 'b': b, 'y': y}}), 'y', intercept := false{options}) "
        "FROM rows GROUP BY k ORDER BY k"
    ).fetchall()
    assert flat([one for (one,) in found]) == pytest.approx(flat(expected), rel=1e-9)


def flat(told: object) -> list[float]:
    """Return all numbers of lists and structs, in their order."""
    if isinstance(told, str):
        return []
    if isinstance(told, dict):
        told = list(told.values())
    return [number for one in told for number in flat(one)] if isinstance(told, list) else [told]


@pytest.mark.parametrize("name", [name for name in OF_FITS if name != "summary"])
def test_an_unusable_record_is_null_and_others_are_answered(connection, name):
    table = TABLE.with_columns(y=pl.when(pl.col("k") == 1).then(1.0).otherwise(pl.col("y")))
    grams = table.group_by("k").agg(gram=pl.struct("a", "b", "y").dbselect.gram()).sort("k")
    told = grams.select(getattr(pl.col("gram").dbselect, name)("y"))["gram"]
    assert told.is_null().to_list() == [False, True, False]
    connection.register("rows", table.to_arrow())
    query = f"SELECT {name}(gram({{'a': a, 'y': y}}), 'y') IS NULL FROM rows GROUP BY k ORDER BY k"
    assert connection.sql(query).fetchall() == [(False,), (True,), (False,)]
    assert connection.sql(f"SELECT {name}(NULL, 'y')").fetchall() == [(None,)]


def test_columns_are_those_of_the_model(connection):
    connection.register("rows", TABLE.to_arrow())
    query = "SELECT vif(gram({'a': a, 'b': b, 'y': y}), 'y', columns := ['a']) FROM rows"
    (((found,),),) = connection.sql(query).fetchall()
    assert found == {"column": "a", "vif": pytest.approx(1.0)}
    twice = "SELECT condition_number(gram({'a': a, 'b': 2 * a, 'y': y}), 'y') FROM rows"
    ((number,),) = connection.sql(twice).fetchall()
    alone = ds.fit(TABLE.select("a", "y"), "y").condition_number
    assert number == pytest.approx(alone, rel=1e-12)


@pytest.mark.parametrize("name", [name for name in OF_FITS if name != "summary"])
@pytest.mark.parametrize(
    ("option", "value"), [("columns", "'a'"), ("intercept", "'no'"), ("columns", "['none']")]
)
def test_wrong_options_are_refused_at_each_door(connection, name, option, value):
    call = f"{name}(gram({{'a': i, 'y': i * i}}), 'y', {option} := {value})"
    with pytest.raises(duckdb.Error, match=f"{option} (is|names)"):
        connection.execute(f"SELECT {call} FROM range(9) t(i)").fetchall()
    told = {"'a'": "a", "'no'": "no", "['none']": ["none"]}[value]
    grams = TABLE.select(gram=pl.struct("a", "y").dbselect.gram())

    def in_polars():
        return grams.select(getattr(pl.col("gram").dbselect, name)("y", **{option: told}))

    refusals = (ds.DbselectError, pl.exceptions.ComputeError)
    with pytest.raises(refusals, match=f"{option} (is|names)"):
        in_polars()


@pytest.mark.parametrize("name", ["fit", *OF_FITS])
@pytest.mark.parametrize(
    "given", [{"groups": {"g": ["a"]}}, {"costs": {"a": 2.0}}, {"costs": pl.Series([1.0, 2.0])}]
)
def test_groups_and_costs_are_refused_where_columns_are_named(name, given):
    grams = TABLE.select(gram=pl.struct("a", "b", "y").dbselect.gram())
    with pytest.raises(Exception, match=f"{next(iter(given))} is .*; {name} of a record takes"):
        grams.select(getattr(pl.col("gram").dbselect, name)("y", **given))

"""Records that no rows have, at the edge of what doubles hold: refused alike by every door."""

import math

import polars as pl
import pytest

import dbselect as ds
from dbselect.record.gram import RECORD_DTYPE

SOUND = ds.gram(pl.DataFrame({"x": [1.0, 2.0, 4.0, 7.0], "y": [1.0, 3.0, 2.0, 5.0]})).to_struct()
LAST_BIT = r"'mean_low' for column 'x'; rounding takes no more than the last bit of its mean, 3\.5"

#: What is altered -> what every door says of it.
NO_ROWS = [
    ({"mean_low": [0.5, 0.0]}, LAST_BIT),
    ({"mean_low": [-1e-15, 0.0]}, LAST_BIT),
    ({"weight": 1e-308}, "column 'x' varies too much: its variance, .* overflows a double"),
    ({"missing": [-1, 0]}, "'missing'"),
    ({"missing": [0]}, "'missing'"),
    ({"mean_low": [0.0]}, "'mean_low'"),
    ({"terms": "["}, "terms"),
    ({"terms": "{}"}, "terms"),
    ({"terms": '{"indicators": 3}'}, "terms"),
]


def column(*records):
    return pl.DataFrame({"gram": records}, schema={"gram": RECORD_DTYPE})


@pytest.mark.parametrize(("change", "reason"), NO_ROWS)
def test_every_door_refuses_what_no_rows_have(change, reason, connection):
    # The first is sound, so that its plan is at hand for the next.
    records = column(SOUND, SOUND | change)
    relation = connection.from_arrow(records.to_arrow())
    query = "SELECT gram_check(gram, 'y'), len(anytime_sequence(gram, 'y')) FROM t"
    (nothing, steps), (in_sql, none) = relation.query("t", query).fetchall()
    assert (nothing, steps, none) == (None, 2, 0)
    gram = pl.col("gram").dbselect
    in_polars = records.select(gram.check("y"))["gram"].to_list()
    assert records.select(gram.anytime_sequence("y"))["gram"].list.len().to_list() == [2, 0]
    assert in_polars == [None, in_sql]
    with pytest.raises(ds.errors.RecordError) as told:
        ds.Gram.from_struct(SOUND | change)
    pattern = pytest.RaisesExc(ds.errors.RecordError, match=reason)
    assert pattern.matches(told.value)
    assert pattern.matches(ds.errors.RecordError(in_sql))


@pytest.mark.parametrize("low", [2.0**-52, -(2.0**-53), 0.0])
def test_what_rounding_can_take_is_no_fault(low):
    sound = SOUND | {"mean_low": [low, 0.0]}
    assert ds.Gram.from_struct(sound).mean_low[0] == low
    assert column(sound).select(pl.col("gram").dbselect.check("y"))["gram"].to_list() == [None]


@pytest.mark.parametrize("mean", [1e308, -1e200])
@pytest.mark.parametrize("target", ["x", "y"])
def test_a_mean_beyond_every_variation_gives_no_infinite_intercept(mean, target, connection):
    """Such a column is constant: doubles of that size are 1e184 and more apart."""
    record = SOUND | {"mean": [mean, 2.75], "mean_low": [1e-300, 0.0]}
    relation = connection.from_arrow(column(record).to_arrow())
    query = f"SELECT gram_check(gram, '{target}'), anytime_sequence(gram, '{target}') FROM t"
    reason, steps = relation.query("t", query).fetchall()[0]
    if target == "x":
        assert "constant" in reason
        assert steps == []
        with pytest.raises(ds.errors.DataError, match="constant"):
            ds.anytime_sequence(record, target)
        return
    assert reason is None
    intercepts = [step["intercept"] for step in steps]
    assert all(map(math.isfinite, intercepts))
    assert ds.anytime_sequence(record, target).at().intercept == intercepts[-1]

"""Windows that move are those of their rows, and so are their sequences."""

import datetime as dt
import json

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.store.merging import Sliding

DAY = dt.date(2020, 2, 20)


@pytest.fixture(scope="module")
def table():
    """Return rows of 30 days but for a week, of two shops, in which what y hangs on changes."""
    rng = np.random.default_rng(3)
    days = np.array([n for n in range(30) if not 12 <= n < 19]).repeat(10)
    x, z = rng.normal(size=(2, len(days)))
    y = np.where(days < 15, x, z) + 0.1 * rng.normal(size=len(days))
    return pl.DataFrame(
        {
            "day": [DAY + dt.timedelta(days=int(n)) for n in days],
            "shop": rng.choice(["a", "b"], len(days)),
            "x": x, "z": z, "y": y,
            "k": [f"k{n // 5 % 4}" for n in range(len(days))],
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(table, tmp_path_factory):
    store = ds.GramStore(tmp_path_factory.mktemp("rolling") / "stats")
    store.refresh(table, by=["day", "shop"])
    return store


@pytest.mark.parametrize(("days", "every"), [(5, 1), (9, 4), (30, 1), (1, 1)])
def test_every_window_is_that_of_its_rows(store, table, days, every):
    found = store.rolling(days=days, every=every).grams
    last, wanted = table["day"].max(), []
    while last - dt.timedelta(days=days - 1) >= DAY:
        first = last - dt.timedelta(days=days - 1)
        rows = table.filter(pl.col("day").is_between(first, last)).drop("day", "shop")
        if rows.height:
            wanted.append((first, last, ds.gram(rows)))
        last -= dt.timedelta(days=every)
    assert found.select("first", "last").rows() == [each[:2] for each in wanted[::-1]]
    for record, (_, _, true) in zip(found["gram"], wanted[::-1], strict=True):
        gram = ds.Gram.from_struct(record)
        assert (gram.columns, gram.rows) == (true.columns, true.rows)
        assert np.allclose(gram.mean, true.mean, rtol=1e-12, atol=1e-13)
        assert np.allclose(gram.comoment, true.comoment, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore::dbselect.errors.LeakageWarning")
def test_sequences_over_time_are_those_of_the_windows(store, table):
    found = store.rolling(days=10, every=5).sequences("y", costs={"x": 2.0, "z": 1.0, "k": 3.0})
    for first, last in found.windows.select("first", "last").iter_rows():
        rows = table.filter(pl.col("day").is_between(first, last)).drop("day", "shop")
        true = ds.anytime_sequence(rows, "y", costs={"x": 2.0, "z": 1.0, "k": 3.0}).steps[1:]
        told = found.steps.filter(pl.col("last") == last)
        assert told["group"].to_list() == true["group"].to_list()
        assert np.allclose(told["r2"], true["r2"], rtol=1e-12)
    first = found.steps.filter(pl.col("step") == 1)["group"].to_list()
    assert (first[0], first[-1]) == ("x", "z")


def test_a_part_is_added_three_times_at_most(monkeypatch):
    grams = [ds.gram(pl.DataFrame({"x": [float(n), 1.0]})) for n in range(40)]
    added = []
    real = ds.Gram.__add__
    monkeypatch.setattr(ds.Gram, "__add__", lambda a, b: added.append(1) or real(a, b))
    moving = Sliding(grams)
    for start in range(30):
        assert moving.moved(start, start + 10).rows == 20
    assert len(added) <= 3 * 40


def test_picture_shows_the_steps(store, tmp_path):
    pytest.importorskip("altair", reason="the picture needs altair")
    found = store.rolling(days=10, every=5).sequences("y")
    chart = found.plot()
    told = json.loads(chart.to_json())
    (rows,) = told["datasets"].values()
    assert len(rows) == found.steps.height
    assert {row["group"] for row in rows} == {"x", "z", "k"}
    assert chart.data.equals(found.steps)
    chart.save(str(tmp_path / "order.html"))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda s: s.rolling(days=0), "days is 0"),
        (lambda s: s.rolling(days="90"), "days is '90'"),
        (lambda s: s.rolling(days=3, every=None), "every is None"),
        (lambda s: s.rolling(days=31), "days is 31, but the keys reach from 2020-02-20"),
        (lambda s: s.rolling(days=3).sequences("why"), "target"),
    ],
)
def test_mistakes_are_told(store, call, error):
    with pytest.raises(ds.DbselectError, match=error):
        call(store)


def test_text_has_no_windows_that_move(tmp_path):
    store = ds.GramStore(tmp_path / "stats")
    store.refresh(pl.DataFrame({"k": ["a", "b"], "x": [1.0, 2.0]}), by="k")
    with pytest.raises(ds.errors.ArgumentError, match="the key 'k' is String"):
        store.rolling(days=2)

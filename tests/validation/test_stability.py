"""Stability selection: frequencies counted by refits of each record; its bound in simulations."""

import numpy as np
import polars as pl
import pytest

import dbselect as ds

ROWS = 60


def table(seed=0, width=6, rows=ROWS):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width))
    y = 1.5 * x[:, 0] + x[:, 1] + rng.normal(size=rows)
    return pl.DataFrame({f"x{j}": x[:, j] for j in range(width)} | {"y": y})


def counts_of(frame, **drawing):
    """Return how often each row is in each record, read off columns that mark the rows."""
    marks = frame.select(**{f"row{i}": pl.int_range(ROWS) == i for i in range(ROWS)})
    records = [ds.Gram.from_struct(one) for one in ds.io.resample(marks, **drawing)["gram"]]
    return [np.rint(gram.mean * gram.weight) for gram in records]


def forward(x, y, weight, size):
    """Return the columns that forward selection takes, each by refits of weighted rows."""
    root = np.sqrt(weight)
    held = []

    def left(columns):
        design = np.column_stack([np.ones(len(y)), x[:, columns]]) * root[:, None]
        coef, *_ = np.linalg.lstsq(design, y * root)
        return float(((y * root - design @ coef) ** 2).sum())

    while len(held) < size:
        rest = [j for j in range(x.shape[1]) if j not in held]
        held.append(min(rest, key=lambda j: left([*held, j])))
    return held


@pytest.mark.parametrize("kind", ["halves", "poisson"])
def test_frequencies_are_those_of_refits_of_each_record(kind):
    frame = table()
    drawing = {"records": 16, "kind": kind, "seed": 7}
    found = ds.stability(frame, "y", size=2, **drawing)
    x, y = frame.drop("y").to_numpy(), frame["y"].to_numpy()
    orders = [forward(x, y, times, 6) for times in counts_of(frame, **drawing)]
    for row in found.frequencies.iter_rows(named=True):
        column = int(row["group"][1:])
        expected = np.mean([column in order[: row["size"]] for order in orders])
        assert row["frequency"] == pytest.approx(expected)
    at_two = found.frequencies.filter(size=2).select("group", "frequency")
    assert dict(at_two.iter_rows()) == dict(found.table.select("group", "frequency").iter_rows())
    assert found.stable == found.table.filter(pl.col("frequency") >= 0.75)["group"].to_list()
    assert found.chosen == 2


def test_the_bound_is_that_of_meinshausen_and_buehlmann():
    found = ds.stability(table(), "y", size=2, threshold=0.9, records=10)
    assert found.bound() == pytest.approx(4 / (0.8 * 6))
    assert found.bound(0.6) == pytest.approx(4 / (0.2 * 6))
    for threshold in (0.5, 1.1, "many"):
        with pytest.raises(ds.errors.ArgumentError, match="threshold is"):
            found.bound(threshold)


def test_records_parts_and_tables_are_searched_alike():
    frame = table()
    drawn = ds.io.resample(frame, records=10, kind="halves")
    from_table = ds.stability(frame, "y", size=2, records=10)
    assert ds.stability(drawn, "y", size=2).table.equals(from_table.table)
    parts = [ds.gram(frame[start : start + 5]) for start in range(0, ROWS, 5)]
    assert ds.stability(parts, "y", size=2, records=10).records == 10
    with pytest.raises(ds.errors.ArgumentError, match="has its records already"):
        ds.stability(drawn, "y", size=2, seed=3)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("foba", {"epsilon": 0.01}),
        ("backward", {"budget": 2.0}),
        ("exchange", {"k": 2}),
        ("greedy", {"k": 2}),
        ("dash", {"k": 2}),
        ("best_within", {"budget": 2.0}),
        ("sght", {"max_groups": 2, "max_columns": 2}),
        (ds.anytime_sequence, {"max_groups": 2}),
    ],
)
def test_every_method_that_chooses_groups_is_counted(method, options):
    found = ds.stability(table(), "y", method=method, records=6, **options)
    assert {"x0", "x1"} >= set(found.stable) >= {"x0"}
    assert found.table["frequency"].sum() == pytest.approx(found.chosen)


def test_groups_costs_and_a_callback_are_those_of_the_method():
    turns = []
    groups = {"good": ["x0", "x1"], "bad": ["x2", "x3", "x4", "x5"]}
    costs = {"good": 2.0, "bad": 1.0}
    found = ds.stability(table(), "y", groups, costs, records=4, budget=2.0, callback=turns.append)
    assert found.table.select("group", "cost").rows() == [("good", 2.0), ("bad", 1.0)]
    assert [turn.done for turn in turns] == [1, 2, 3, 4]
    assert found.chosen <= 1


def test_records_that_cannot_be_searched_are_told():
    frame = pl.DataFrame({"x": [0.0, 1.0, 2.0, 3.0, 4.0], "z": [1.0, 0.0, 1.0, 1.0, 0.0]})
    frame = frame.with_columns(y=pl.Series([0.0, 0.0, 0.0, 0.0, 1.0]))
    found = ds.stability(frame, "y", size=1, records=20)
    assert found.records + len(found.unusable) == 20
    assert found.unusable
    assert all("constant" in reason for reason in found.unusable.values())
    assert "unusable" in repr(found)
    with pytest.raises(ds.errors.DataError, match="constant"):
        ds.stability(frame.with_columns(y=1.0), "y", size=1)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"method": "foobar"}, "method is 'foobar'"),
        ({"method": "fit"}, "method is 'fit'"),
        ({"family": "binomial"}, "hold no rows"),
        ({"records": 5}, "give an even one"),
        ({}, "every record chooses all 6 groups; give size"),
        ({"method": "greedy"}, "greedy needs option 'k'"),
        ({"method": "greedy", "k": 2, "size": 1}, "makes no sequence"),
    ],
)
def test_bad_arguments_are_refused(given, error):
    with pytest.raises(ds.DbselectError, match=error):
        ds.stability(table(), "y", **{"records": 4, **given})


def test_wrong_sources_are_refused():
    with pytest.raises(ds.errors.ArgumentError, match="one Gram"):
        ds.stability(ds.gram(table()), "y", size=1)
    with pytest.raises(ds.errors.ColumnError, match="z"):
        ds.stability(table(), "z", size=1)
    with pytest.raises(ds.errors.GroupError, match="x9"):
        ds.stability(table(), "y", costs={"x9": 1.0}, size=1)


def test_the_picture_is_what_was_counted():
    pytest.importorskip("altair")
    found = ds.stability(table(), "y", size=2, records=6)
    chart = found.plot(most=3)
    assert chart.data["group"].n_unique() == 3
    assert "3 most frequent of 6" in chart.to_dict()["description"]
    assert "<table" in found._repr_html_()
    with pytest.raises(ds.errors.ArgumentError, match="no sequence"):
        ds.stability(table(), "y", method="greedy", k=2, records=4).plot()


@pytest.mark.slow
def test_false_groups_are_no_more_than_the_bound_says():
    false, bound = [], None
    for seed in range(40):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(120, 30))
        y = x[:, :3] @ [1.0, -1.0, 0.8] + rng.normal(size=120)
        frame = pl.DataFrame(np.column_stack([x, y]), schema=[*(f"x{j}" for j in range(30)), "y"])
        found = ds.stability(frame, "y", size=5, threshold=0.7, records=50)
        false.append(sum(int(name[1:]) >= 3 for name in found.stable))
        assert {"x0", "x1"} <= set(found.stable)
        bound = found.bound()
    assert np.mean(false) <= bound

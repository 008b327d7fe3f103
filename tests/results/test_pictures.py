"""Pictures: what is drawn is the frame, at any size, on any page, and says what it leaves out."""

import sys
import xml.etree.ElementTree as ET
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from test_results import COSTS, FAMILIES, GROUPS, found, table

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, EngineError
from dbselect.pages.style import PAGE, TEXT

vl_convert = pytest.importorskip("vl_convert", reason="vl-convert-python draws the pictures")
families = pytest.mark.parametrize("family", list(FAMILIES))


def wide(groups: int, rows: int = 300) -> pl.DataFrame:
    """Return a target of many columns, few of which matter."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, groups))
    weights = rng.normal(size=groups) * rng.exponential(size=groups) ** 2
    frame = pl.DataFrame(X, schema=[f"a_rather_long_name_{j}" for j in range(groups)])
    return frame.with_columns(y=pl.Series(X @ weights + rng.normal(size=rows)))


def sequence_of(groups: int) -> ds.results.Sequence:
    frame = wide(groups)
    costs = np.random.default_rng(8).lognormal(size=groups)
    return ds.anytime_sequence(
        frame, "y", costs=dict(zip(frame.columns[:-1], costs, strict=True)), ridge=0.1
    )


def drift_of_halves() -> ds.results.Drift:
    rows = table().select("x", "demo", "emb", "noise", "y")
    half = rows.height // 2
    return ds.drift(ds.gram(rows[:half]), ds.gram(rows[half:]), "y", GROUPS, COSTS)


def gaps() -> ds.io.Patterns:
    """Return patterns of which one lacks `x`, a fourth of the rows."""
    rows = table().select("x", "demo", "emb", "noise", "y").with_row_index("n")
    lacks = pl.when(pl.col("n") % 4 > 0).then("x").alias("x")
    return ds.patterns(rows.with_columns(lacks).drop("n"))


def pictures() -> dict[str, Any]:
    """Return a picture of each kind."""
    gram = ds.gram(table(), ["x", "demo", "emb", "noise", "y"])
    folds = ds.gram_by(table(), columns=["x", "demo", "emb", "noise", "y"], fold=4)
    cv = ds.cross_validate(folds, "y", ds.anytime_sequence, {"ridge": [0.0, 0.5]}, groups=GROUPS)
    seq = found("linear")
    return {
        "sequence": seq.plot(),
        "comparison": ds.compare({"seq": seq, "oracle": ds.reference.oracle(seq)}).plot(),
        "cross-validation": cv.plot(),
        "cross-validation of fits": ds.cross_validate(
            folds, "y", ds.fit, {"ridge": [0.0, 0.5]}
        ).plot("mse"),
        "path": ds.group_lasso_path(gram, "y", GROUPS, COSTS).plot(),
        "path of columns": ds.lasso_path(gram, "y", GROUPS, COSTS).plot(),
        "gram": gram.plot(GROUPS),
        "drift": drift_of_halves().plot(),
        "patterns": gaps().plot(GROUPS),
    }


def svg_of(chart: Any) -> ET.Element:
    return ET.fromstring(vl_convert.vegalite_to_svg(chart.to_json()))


# What is drawn


@pytest.mark.sample(3)
@families
def test_the_data_of_a_picture_are_the_steps(family):
    seq = found(family)
    drawn = seq.plot().data
    steps = drawn.filter(curve="r2")
    assert_frame_equal(
        steps.select("step", "group", "cost", "spent", "gain", r2="value"),
        seq.steps.select("step", "group", "cost", "spent", "gain", "r2"),
    )
    assert steps["why"][-1].endswith(seq.stop.value)
    bounds = drawn.filter(curve="bound on any groups")
    if family in ("linear", "joint"):
        certificate = seq.certificate(seq.spent)
        assert bounds["value"].to_list() == certificate["bound"].to_list()
        assert seq.plot(bound=False).data.filter(curve="bound on any groups").is_empty()
    else:
        assert bounds.is_empty()
    assert set(seq.plot().to_dict()) >= {"description", "title"}


def test_a_picture_shows_what_each_budget_buys_where_groups_are_given_back():
    frame = wide(6)
    backward, foba = ds.backward(frame, "y"), ds.foba(frame, "y", nu=0.9)
    for seq in (backward, foba):
        steps = seq.plot().data.filter(curve="r2")
        assert steps["spent"].is_sorted()
        bought = [seq.explained_at(budget) for budget in steps["spent"]]
        assert steps["value"].to_list() == bought
    # From left to right a group enters where the step to its left removed it.
    removed = backward.steps.filter(action="remove")["group"].to_list()
    entering = backward.plot().data.filter(curve="r2")["group"].to_list()
    assert entering == [None, *reversed(removed)]


def test_several_responses_have_a_curve_each():
    seq = found("joint")
    drawn = seq.plot().data
    for name, own in seq.responses.items():
        assert drawn.filter(curve=f"r2 of {name}")["value"].to_list() == own.r2.tolist()


def test_the_plateau_stands_where_it_is():
    seq = sequence_of(30)
    (mark,) = seq.plot().data.filter(curve="plateau").rows(named=True)
    assert mark["spent"] == ds.reference.stopping_cost(seq, ds.reference.plateau(seq))


def test_held_out_rows_are_a_curve_and_folds_a_band():
    frame = wide(6)
    train, test = frame[:200], frame[200:]
    seq = ds.anytime_sequence(train, "y")
    judged = ds.evaluate(seq, test)
    drawn = seq.plot(held_out=judged).data.filter(curve="r2, held out")
    assert drawn["value"].to_list() == judged["r2"].to_list()
    assert drawn["low"].null_count() == drawn.height
    measured = ds.evaluate(seq, test, metric=["r2", "mae"])
    of_metrics = seq.plot(held_out=measured).data.filter(curve="r2, held out")
    assert of_metrics["value"].to_list() == measured.table["r2"].to_list()
    cv = ds.cross_validate(ds.gram_by(train, fold=4), "y", ds.anytime_sequence)
    drawn = seq.plot(held_out=cv).data.filter(curve="r2, held out")
    scores = cv.table["r2"].to_numpy(), cv.table["r2_std_error"].to_numpy()
    np.testing.assert_allclose(drawn["low"], scores[0] - scores[1])
    np.testing.assert_allclose(drawn["high"], scores[0] + scores[1])


def test_a_comparison_draws_the_rows_that_judge():
    frame = wide(5)
    seq = ds.anytime_sequence(frame[:200], "y")
    compared = ds.compare({"seq": seq}, data=frame[200:])
    judged = ds.evaluate(seq, frame[200:])
    assert_frame_equal(
        compared.plot().data.select("step", "group", "spent", "explained"),
        judged.select("step", "group", "spent", "explained"),
    )
    assert compared.cut == ds.reference.stopping_cost(seq, ds.reference.plateau(seq))


@pytest.mark.slow
def test_a_cross_validation_draws_its_table_and_choices():
    frame = wide(4).with_columns(part=pl.Series(["p", "q", "q"] * 100))
    folds = ds.gram_by(frame, by=["part"], fold=3)
    cv = ds.cross_validate(folds, "y", ds.anytime_sequence, {"ridge": [0.0, 0.5]})
    for part, measure in product("pq", ("r2", "mse")):
        drawn = cv.plot(measure, part=part).data.filter(pl.col("choice").is_null())
        table_ = cv.table.filter(pl.col("part") == part)
        rest = table_.filter(~pl.col("best") & ~pl.col("one_standard_error"))
        assert sorted(drawn["value"]) == sorted(rest[measure])
        chosen = cv.plot(measure, part=part).data.filter(pl.col("choice").str.contains("best"))
        (best,) = cv.best.filter(pl.col("part") == part)[measure]
        assert set(chosen["value"]) == {best}


def test_a_gram_draws_the_strongest_pair_of_columns():
    rng = np.random.default_rng(4)
    z, w = rng.normal(size=(2, 200))
    noise = rng.normal(size=(6, 200))
    columns = [z, w, z, w, z, w] + noise * [[0.1], [0.1], [0.5], [0.5], [1.0], [1.0]]
    frame = pl.DataFrame(dict(zip("abcdef", columns, strict=True)))
    chart = ds.gram(frame).plot({"ab": ["a", "b"], "c": ["c"], "d": ["d"], "ef": ["e", "f"]})
    R = dict(zip("abcdef", np.corrcoef(np.array(columns)), strict=True))
    for row in chart.data.rows(named=True):
        pairs = [(i, j) for i in row["group"] for j in row["other"]]
        best = max(pairs, key=lambda pair: abs(R[pair[0]]["abcdef".index(pair[1])]))
        assert row["correlation"] == pytest.approx(R[best[0]]["abcdef".index(best[1])])
        assert row["columns"] == ", ".join(best)
    singles = ds.gram(frame.select(list("abcdef"))).plot()
    order = singles.to_dict()["layer"][0]["encoding"]["x"]["sort"]
    assert {frozenset(order[:3]), frozenset(order[3:])} == {frozenset("ace"), frozenset("bdf")}


def test_a_picture_of_patterns_counts_rows_of_pairs():
    whole = table().height
    drawn = gaps().plot({"x": ["x"], "noise": ["noise"]}).data
    rows = {(row[0], row[1]): row[2] for row in drawn.iter_rows()}
    assert rows == {
        ("x", "x"): whole - (whole + 3) // 4, ("x", "noise"): whole - (whole + 3) // 4,
        ("noise", "x"): whole - (whole + 3) // 4, ("noise", "noise"): whole,
    }  # fmt: skip


# How it looks


@pytest.mark.slow
def test_every_picture_has_words_and_a_white_page_with_dark_text():
    for name, chart in pictures().items():
        svg = svg_of(chart)
        assert isinstance(chart.data, pl.DataFrame), name
        text_colours = {node.get("fill") for node in svg.iter("{http://www.w3.org/2000/svg}text")}
        assert text_colours == {TEXT}, name
        assert contrast(TEXT, PAGE) >= 7
        assert svg.find(f".//*[@fill='{PAGE}']") is not None, name
        assert chart.to_dict()["description"].endswith("."), name


def test_what_is_too_much_is_thinned_and_said():
    frame = wide(120, rows=200)
    chart = ds.gram(frame).plot()
    assert chart.data["group"].n_unique() == 60
    assert "The 60 groups that correlate most" in chart.to_dict()["description"]
    path = ds.group_lasso_path(frame, "y", n_lambda=5)
    assert path.plot(most=2).to_dict()["description"].endswith("longest coefficients are drawn.")
    seq = sequence_of(5)
    curve = pl.DataFrame({"spent": np.arange(3000.0), "explained": np.linspace(0, 1, 3000)})
    told = ds.compare({"seq": seq, "long": curve}).plot()
    assert told.data.height <= 1010
    assert "drawn, spread evenly" in told.to_dict()["description"]


def contrast(colour: str, page: str) -> float:
    """Return the contrast of WCAG 2.1."""

    def light(text: str) -> float:
        shares = [int(text[k : k + 2], 16) / 255 for k in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in shares]
        return float(np.dot([0.2126, 0.7152, 0.0722], linear))

    high, low = sorted((light(colour), light(page)), reverse=True)
    return (high + 0.05) / (low + 0.05)


# Refusals


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda seq: seq.plot(held_out=3), ArgumentError, "held_out is a int; it must be what"),
        (
            lambda seq: seq.plot(held_out=pl.DataFrame({"x": [1]})),
            ArgumentError,
            r"held_out has x, and lacks step, spent, r2; it must be what cross_validate",
        ),
        (
            lambda seq: seq.plot(held_out=seq),
            ArgumentError,
            "whose r2 is that of the rows it was searched on",
        ),
        (lambda seq: seq.gram.plot(most=1), ArgumentError, "most is 1; .* from 2 to 70"),
        (lambda seq: seq.gram.plot({"a": ["q"]}), ColumnError, "unknown column 'q'"),
        (lambda seq: seq.plot(bound="no"), ArgumentError, "bound is 'no'; it must be True or"),
    ],
)
def test_what_cannot_be_drawn_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(found("linear"))


def test_without_altair_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(EngineError, match=r"pictures need altair: pip install 'dbselect\[plot\]'"):
        found("linear").plot()

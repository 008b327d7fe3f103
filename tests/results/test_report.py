"""The report: what its sections say, and what a browser shows of it."""

import json
import re
import warnings
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from sklearn.metrics import roc_auc_score
from test_results import COSTS, FAMILIES, GROUPS, columns_of, found, table

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.errors import ArgumentError, ColumnError, SelectionWarning, SourceError
from dbselect.results.report import models, reproduce, write

families = pytest.mark.parametrize("family", list(FAMILIES))


class Page(HTMLParser):
    """The texts and tables of a page, and what it would ask for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_data(self, data: str) -> None:
        if self.tables and self.tables[-1] and self.tables[-1][-1] and "table" in self.open:
            self.tables[-1][-1][-1] += data

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def with_head(self, head: str) -> list[list[str]]:
        """Return the rows of the table that has a head."""
        return next(rows[1:] for rows in self.tables if head in rows[0])


def report(sequence: Any, folder: Path, **more: Any) -> str:
    path = folder / "r.html"
    sequence.report(path, **more)
    return path.read_text()


def data_of(text: str) -> Any:
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


# What it says


@families
def test_the_page_has_the_model_of_every_step(family, tmp_path):
    seq = found(family)
    data = data_of(report(seq, tmp_path, source=table()))
    assert len(data["steps"]) == len(seq.spent)
    for at, step in enumerate(data["steps"]):
        model = seq.model(at)
        assert step["groups"] == model.groups
        assert step["spent"] == pytest.approx(model.spent)
        several = isinstance(model.intercept, dict)
        each = model.coefficients.values() if several else [model.coefficients]
        firsts = model.intercept.values() if several else [model.intercept]
        expected = [
            value
            for first, own in zip(firsts, each, strict=True)
            for value in [first, *own.values()]
        ]
        assert [row[2] for row in step["rows"]] == pytest.approx(expected, rel=1e-9)
    assert "errors" in data["certainty"]


def test_standard_errors_are_those_of_summary_up_to_some_columns(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "MOST_TESTED", 3)
    seq = found("linear")
    data = data_of(report(seq, tmp_path))
    assert data["certainty"].startswith("Standard errors are given for models of at most 3 columns")
    for at, step in enumerate(data["steps"]):
        model = seq.model(at)
        errors = [row[3] for row in step["rows"]]
        if at < len(data["steps"]) - 1 and len(model.columns) > 3:
            assert errors == [None] * len(errors)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SelectionWarning)
                assert errors == pytest.approx(model.summary()["std_error"].to_list())


def test_coefficients_that_would_be_too_many_are_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.setattr(models, "MOST_COEFFICIENTS", 8)
    steps = data_of(report(found("linear"), tmp_path))["steps"]
    there = [at for at, step in enumerate(steps) if step["rows"] is not None]
    assert {0, 4} <= set(there) < set(range(5))


def test_roles_are_refits(tmp_path):
    seq = found("linear")
    page = Page(report(seq, tmp_path))
    y = table()["y"].to_numpy()

    def r2(groups: list[str]) -> float:
        X = columns_of([name for group in groups for name in seq.groups.columns[group]])
        residual = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
        return 1 - residual.var() / y.var()

    every = list(GROUPS)
    rows = page.with_head("gain alone")
    per_cost = [float(row[4]) for row in rows]
    assert per_cost == sorted(per_cost, reverse=True)
    for row in rows:
        name, alone, rest = row[0], float(row[3]), float(row[5])
        assert alone == pytest.approx(r2([name]), rel=5e-3)
        assert float(row[4]) == pytest.approx(r2([name]) / COSTS[name], rel=5e-3)
        left = r2([one for one in every if one != name])
        assert rest == pytest.approx(r2(every) - left, rel=5e-3, abs=1e-6)
        taken = {
            other: 1 - (r2([name, other]) - r2([other])) / r2([name])
            for other in every
            if other != name
        }
        best = max(taken, key=taken.get)
        assert row[6] == (best if taken[best] >= 0.1 else "")


def test_a_yes_or_no_target_has_auc_and_roc_curve_in_place_of_residuals(tmp_path):
    for kind, target in [("binomial", "flag"), ("linear", "flag"), ("linear", "y")]:
        seq = found(kind) if kind == "binomial" else ds.anytime_sequence(table(), target, GROUPS)
        text = report(seq, tmp_path, source=table())
        charts = [
            json.loads(own["data-chart"]) for _, own in Page(text).tags if "data-chart" in own
        ]
        if target == "y":
            assert [one["kind"] for one in charts] == ["bars", "points"]
            assert "is ranked above one" not in text
            continue
        score = seq.model(data_of(text)["chosen"]["step"]).predict(table())
        flag = table()["flag"].to_numpy()
        area = roc_auc_score(flag, score)
        assert f"AUC {area:.3f}" in text
        assert [one["kind"] for one in charts] == ["line", "points"]
        assert np.trapezoid(charts[0]["y"], charts[0]["x"]) == pytest.approx(area, abs=5e-3)


def test_the_page_opens_at_the_choice_and_not_at_the_end(tmp_path):
    frame = table().select("x", "noise", "logs", "y")
    seq = ds.anytime_sequence(frame, "y")
    cv = ds.cross_validate(frame, "y", "anytime_sequence", folds=4)
    (step,) = cv.one_standard_error["step"]
    opened = data_of(report(seq, tmp_path, held_out=cv))["chosen"]
    assert (opened["step"], opened["budget"]) == (step, seq.spent[step])
    assert opened["why"] == "cross-validated choice"
    judged = ds.evaluate(seq, frame.head(100))
    opened = data_of(report(seq, tmp_path, held_out=judged))["chosen"]
    assert opened["step"] == judged["r2"].arg_max()
    flat = ds.anytime_sequence(frame, "y", costs={"x": 1.0, "noise": 9.0, "logs": 9.0})
    opened = data_of(report(flat, tmp_path))["chosen"]
    assert opened["step"] == 1
    assert "of the gain remains" in opened["why"]


def test_sets_that_are_better_than_a_prefix_are_shown(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 3))
    y = X @ [1.0, 0.9, 1.2] + rng.normal(size=500)
    frame = pl.DataFrame(X, schema=["a", "b", "c"]).with_columns(y=pl.Series(y))
    # c is better for its cost than nothing but does not fit beside a.
    costs = {"a": 1.0, "b": 4.0, "c": 4.1}
    seq = ds.anytime_sequence(frame, "y", costs=costs)
    found = data_of(report(seq, tmp_path))["best"]
    assert found
    for one in found:
        best = ds.best_within(frame, "y", one["spent"], costs=costs)
        assert one["groups"] == best.groups
        assert one["r2"] == pytest.approx(best.model.r2)
        assert one["r2"] > seq.at(one["spent"]).r2


def test_prices_that_are_no_sums_are_told_and_kept_by_better_sets(tmp_path):
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(200, 6)) + rng.normal(size=(200, 1))
    frame = pl.DataFrame(rows, schema=list("abcdey"))
    told: dict[str, Any] = {
        "costs": {"a": 0.0, "b": 1.0, "c": 2.0, "d": 0.5, "e": 3.0}, "needs": {"e": ["b"]},
        "shared": {"set": (2.0, ["a", "c"])}, "one_of": [["a", "d"]],
        "limits": {"ms": ({"b": 20.0, "c": 30.0}, 40.0, "max")},
    }  # fmt: skip
    seq = ds.anytime_sequence(frame, "y", **told)
    text = unescape(report(seq, tmp_path, unit="€"))
    for sentence in (
        "set costs 2 €, once, with the first of a, c.", "e needs b.",
        "At most one of a, d.", "Limit: 40 ms, the dearest.",
        "'ms': {'costs': {'b': 20.0, 'c': 30.0}, 'limit': 40.0, 'how': 'max'}",
    ):  # fmt: skip
        assert sentence in text
    for better in write.better_sets(seq):
        best = ds.best_within(frame, "y", better["spent"] + 1e-9, **told)
        assert best.explained == pytest.approx(better["r2"], abs=1e-9)
    costs = dict(write.worth_of_groups(seq).select("group", "cost").rows())
    assert costs == {"a": 2.0, "b": 1.0, "c": 4.0, "d": 0.5, "e": 4.0}


def test_title_and_unit_are_the_callers(tmp_path):
    text = report(found("linear"), tmp_path, title="Who <pays>?", unit="€")
    assert "<h1>Who &lt;pays&gt;?</h1>" in text
    assert data_of(text)["titles"]["cost"] == "cost in €"
    with pytest.raises(ArgumentError, match="unit is 3; it must be text"):
        report(found("linear"), tmp_path, unit=3)
    with pytest.raises(ArgumentError, match="title is 3; it must be text"):
        report(found("linear"), tmp_path, title=3)


@pytest.mark.parametrize(
    ("family", "told"),
    [("linear", None), ("joint", "with one response"), ("binomial", "linear models")],
)
def test_the_page_asks_again_or_says_why_not(family, told, tmp_path, monkeypatch):
    monkeypatch.setattr(write, "module_text", lambda: "AAAA")
    text = report(found(family), tmp_path)
    assert ("wasm-unsafe-eval" in text) == (told is None)
    assert (data_of(text)["ask"] is None) == (told is not None)
    assert told is None or told in text
    monkeypatch.setattr(write, "module_text", lambda: "")
    text = report(found(family), tmp_path)
    assert data_of(text)["ask"] is None
    assert "wasm-unsafe-eval" not in text
    assert (told or "without its WebAssembly module") in text


def test_a_record_that_is_too_large_for_a_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "module_text", lambda: "AAAA")
    monkeypatch.setattr(reproduce, "MOST_RECORD", 100)
    text = report(found("linear"), tmp_path)
    assert "the record of 6 columns takes 0.0 MB" in text
    assert data_of(text)["ask"] is None


@families
def test_residuals_are_those_of_the_rows(family, tmp_path):
    seq = found(family)
    text = report(seq, tmp_path, source=table().lazy())
    model = seq.model(data_of(text)["chosen"]["step"])
    targets = [FAMILIES[family][0]] if family != "joint" else FAMILIES[family][0]
    for k, name in enumerate(targets):
        if family == "multinomial":
            truth = np.array([table()[name] == str(one) for one in model.classes]).T
            errors = (truth - model.predict(table()))[:, 0]
        else:
            predicted = model.predict(table()).reshape(400, -1)[:, k]
            errors = table()[name].cast(pl.Float64).to_numpy() - predicted
        error = np.sqrt(np.mean(errors**2))
        judged = f"root mean squared error {error:.3g}"
        if family in ("binomial", "multinomial"):
            judged = f"Brier score {error**2:.3g}"
        assert f"400 rows, {judged}; 0 rows" in text


def test_rows_of_the_source_that_cannot_be_predicted_are_counted(tmp_path):
    frame = table().select("x", "noise", "y")
    seq = ds.anytime_sequence(frame, "y")
    holes = frame.with_columns(x=pl.when(pl.col("noise") > 0).then("x"))
    left = int((frame["noise"] <= 0).sum())
    assert f"{left} rows are left out because a value is missing" in report(
        seq, tmp_path, source=holes
    )
    nothing = frame.with_columns(x=pl.lit(None, pl.Float64))
    assert "No row of the source, of 400 read, has" in report(seq, tmp_path, source=nothing)


def test_segments_have_a_row_and_a_curve_each(tmp_path):
    frame = table().select("x", "noise", "y").with_columns(part=pl.Series(["p", "q"] * 200))
    grams = ds.gram_by(frame, by=["part"])
    segments = ds.anytime_sequence_by(grams, "y")
    text = report(ds.anytime_sequence(frame.drop("part"), "y"), tmp_path, segments=segments)
    rows = Page(text).with_head("curve")
    for row, (key, record) in zip(rows, grams.select("part", "gram").rows(), strict=True):
        own = ds.anytime_sequence(ds.Gram.from_struct(record), "y")
        assert row[0] == key
        assert float(row[-3]) == pytest.approx(own.r2[-1], rel=5e-3)
        assert row[-2] == ", ".join(own.at().groups)


def test_the_python_of_the_page_finds_the_same_again(tmp_path):
    seq = ds.anytime_sequence(table(), "y", GROUPS, COSTS, ridge=0.25, rule="omp")
    page = report(seq, tmp_path)
    code = re.search(r'<code id="python">(.*?)</code>', page, re.DOTALL)[1]
    names: dict[str, Any] = {"table": table()}
    exec(unescape(code), names)
    assert_frame_equal(names["seq"].steps, seq.steps, rel_tol=1e-9)


def test_a_page_asks_for_nothing_and_tells_pictures_in_words(tmp_path):
    text = report(found("linear"), tmp_path, source=table())
    page = Page(text)
    for tag, attributes in page.tags:
        assert "src" not in attributes
        assert tag not in ("img", "iframe", "object")
        if tag == "link":
            assert attributes["href"] == "data:,"
        if attributes.get("role") == "img":
            assert len(attributes["aria-label"]) > 20
        if "data-chart" in attributes:
            assert len(json.loads(attributes["data-chart"])["words"]) > 20
    assert "default-src 'none'" in text
    assert "http://" not in text
    assert "https://" not in text


def test_names_cannot_leave_their_place(tmp_path):
    name = "</script><b onload=x>&\"'"
    frame = pl.DataFrame({name: [1, 2, 3, 5], "y<i>": [1, 3, 2, 4]})
    seq = ds.anytime_sequence(frame, "y<i>")
    text = report(seq, tmp_path, source=frame)
    tags = [tag for tag, _ in Page(text).tags]
    assert "b" not in tags
    assert "i" not in tags
    assert data_of(text)["terms"][1][0] == name


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"held_out": 3}, ArgumentError, "held_out is a int"),
        ({"segments": 3}, ArgumentError, "segments is a int; it must be what"),
        ({"source": pl.DataFrame({"q": [1]})}, ColumnError, "source names unknown column 'y'"),
        ({"source": "no/such.parquet"}, SourceError, "no/such.parquet"),
        ({"path": "no/such/r.html"}, ArgumentError, "path is 'no/such/r.html'; it must be a"),
        ({"path": "."}, SourceError, r"'\.' is a folder, which is not replaced"),
        ({"path": "r.pdf"}, ArgumentError, r"path is 'r\.pdf'; a report is HTML"),
        ({"path": 3}, ArgumentError, "path is 3; it must be a file"),
    ],
)
def test_what_cannot_be_told_is_refused_and_nothing_is_written(more, error, message, tmp_path):
    with pytest.raises(error, match=message):
        found("linear").report(**({"path": tmp_path / "r.html"} | more))
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_writes_it(tmp_path, capsys):
    table().select("x", "noise", "logs", "y").write_parquet(tmp_path / "t.parquet")
    (tmp_path / "costs.json").write_text('{"x": 2, "noise": 1, "logs": 3}')
    source, out = str(tmp_path / "t.parquet"), str(tmp_path / "r.html")
    arguments = ["report", source, "--target", "y", "--costs", str(tmp_path / "costs.json")]
    named = ["--title", "Sources", "--unit", "ms"]
    assert main([*arguments, "--ridge", "0.1", "--cv", "4", "--out", out, *named]) == 0
    data = data_of(Path(out).read_text())
    assert data["unit"] == "ms"
    assert "<h1>Sources</h1>" in Path(out).read_text()
    seq = ds.anytime_sequence(source, "y", costs={"x": 2, "noise": 1, "logs": 3}, ridge=0.1)
    assert [one["r2"] for one in data["steps"]] == pytest.approx(seq.r2.tolist())
    assert all(one["held"] is not None for one in data["steps"])
    assert "r.html: 3 steps" in capsys.readouterr().out
    ds.gram(source).write_parquet(tmp_path / "g.parquet")
    gram = ["report", str(tmp_path / "g.parquet"), "--target", "y", "--out", out]
    assert main(gram) == 0
    assert "need the table; this was a Gram" in capsys.readouterr().out
    assert main([*gram, "--cv", "3"]) == 2
    assert "--cv is 3; a Gram has no rows" in capsys.readouterr().err


def test_break_even_prices_are_a_column_where_a_worth_is_given(tmp_path):
    seq = ds.anytime_sequence(table().select("x", "noise", "logs", "y"), "y")
    rows = Page(report(seq, tmp_path, worth=20.0)).with_head("break-even")
    prices = dict(seq.break_even(20.0).rows())
    for row in rows:
        assert float(row[-1]) == pytest.approx(prices[row[0]], rel=5e-3, abs=5e-4)
    with pytest.raises(ArgumentError, match="worth is -1; it must be a number > 0"):
        report(seq, tmp_path, worth=-1)
    late = table().select("x", y=pl.col("y") > pl.col("y").mean())
    family = ds.anytime_sequence(late, "y", family="binomial")
    with pytest.raises(ArgumentError, match="binomial', whose sequences have no break_e"):
        report(family, tmp_path, worth=20.0)

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
from test_results import COSTS, FAMILIES, GROUPS, columns_of, found, table

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.results.report import models

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
                warnings.simplefilter("ignore", ds.errors.SelectionWarning)
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
    for row in page.with_head("gain alone"):
        name, alone, rest = row[0], float(row[3]), float(row[4])
        assert alone == pytest.approx(r2([name]), rel=1e-3)
        left = r2([one for one in every if one != name])
        assert rest == pytest.approx(r2(every) - left, rel=1e-3, abs=1e-6)
        taken = {
            other: 1 - (r2([name, other]) - r2([other])) / r2([name])
            for other in every
            if other != name
        }
        best = max(taken, key=taken.get)
        assert row[5] == (best if taken[best] >= 0.1 else "")


@families
def test_residuals_are_those_of_the_rows(family, tmp_path):
    seq = found(family)
    text = report(seq, tmp_path, source=table().lazy())
    model = seq.at()
    targets = [FAMILIES[family][0]] if family != "joint" else FAMILIES[family][0]
    for k, name in enumerate(targets):
        if family == "multinomial":
            truth = np.array([table()[name] == str(one) for one in model.classes]).T
            errors = (truth - model.predict(table()))[:, 0]
        else:
            predicted = model.predict(table()).reshape(400, -1)[:, k]
            errors = table()[name].cast(pl.Float64).to_numpy() - predicted
        assert (
            f"400 rows, root mean squared error {np.sqrt(np.mean(errors**2)):.4g}; 0 rows" in text
        )


def test_rows_of_the_source_that_cannot_be_predicted_are_counted(tmp_path):
    frame = table().select("x", "noise", "y")
    seq = ds.anytime_sequence(frame, "y")
    holes = frame.with_columns(x=pl.when(pl.col("noise") > 0).then("x"))
    left = int((frame["noise"] <= 0).sum())
    assert f"{left} rows are left out, as a value is missing" in report(seq, tmp_path, source=holes)
    nothing = frame.with_columns(x=pl.lit(None, pl.Float64))
    assert "No row of the source, of 400 read, has" in report(seq, tmp_path, source=nothing)


def test_rows_left_out_are_told_with_their_columns(tmp_path):
    whole = table().select(a="x", b="noise", y="y")
    frame = whole.with_row_index("n").with_columns(
        a=pl.when(pl.col("n") != 0).then("a"), b=pl.when(pl.col("n") > 1).then("b")
    )
    text = report(ds.anytime_sequence(frame.drop("n"), "y"), tmp_path)
    assert "398 rows were used and 2 left out" in text
    assert Page(text).with_head("rows without a value") == [["b", "2"], ["a", "1"]]


def test_segments_have_a_row_and_a_curve_each(tmp_path):
    frame = table().select("x", "noise", "y").with_columns(part=pl.Series(["p", "q"] * 200))
    grams = ds.gram_by(frame, by=["part"])
    segments = ds.anytime_sequence_by(grams, "y")
    text = report(ds.anytime_sequence(frame.drop("part"), "y"), tmp_path, segments=segments)
    rows = Page(text).with_head("curve")
    for row, (key, record) in zip(rows, grams.select("part", "gram").rows(), strict=True):
        own = ds.anytime_sequence(ds.Gram.from_struct(record), "y")
        assert row[0] == key
        assert float(row[-3]) == pytest.approx(own.r2[-1], rel=1e-3)
        assert row[-2] == ", ".join(own.at().groups)


def test_held_out_rows_are_told_step_by_step(tmp_path):
    frame = table().select("x", "noise", "logs", "y")
    cv = ds.cross_validate(frame, "y", "anytime_sequence", folds=4)
    seq = ds.anytime_sequence(frame, "y")
    steps = data_of(report(seq, tmp_path, held_out=cv))["steps"]
    assert [one["held"] for one in steps] == pytest.approx(cv.table["r2"].to_list())
    assert [one["error"] for one in steps] == pytest.approx(cv.table["r2_std_error"].to_list())


def test_the_python_of_the_page_finds_the_same_again(tmp_path):
    seq = ds.anytime_sequence(table(), "y", GROUPS, COSTS, ridge=0.25, rule="omp")
    page = report(seq, tmp_path)
    code = re.search(r"<h3>Python</h3><pre><code>(.*?)</code>", page, re.DOTALL)[1]
    text = unescape(code).replace("budget=...", "")
    names: dict[str, Any] = {"source": table(), "table": table()}
    exec(text, names)
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
        ({"held_out": 3}, ds.errors.ArgumentError, "held_out is a int"),
        ({"segments": 3}, ds.errors.ArgumentError, "segments is a int; it must be what"),
        (
            {"source": pl.DataFrame({"q": [1]})},
            ds.errors.ColumnError,
            "source names unknown column 'y'",
        ),
        ({"source": "no/such.parquet"}, ds.errors.SourceError, "no/such.parquet"),
        (
            {"path": "no/such/r.html"},
            ds.errors.ArgumentError,
            "path is 'no/such/r.html'; it must be a",
        ),
        ({"path": "."}, ds.errors.SourceError, r"'\.' is a folder, which is not replaced"),
        ({"path": "r.pdf"}, ds.errors.ArgumentError, r"path is 'r\.pdf'; a report is HTML"),
        ({"path": 3}, ds.errors.ArgumentError, "path is 3; it must be a file"),
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
    assert main([*arguments, "--ridge", "0.1", "--cv", "4", "--out", out]) == 0
    data = data_of(Path(out).read_text())
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

"""The code that a report shows as "the same again" is run, and finds the same model."""

import json
import re
from html import unescape
from typing import Any

import numpy as np
import polars as pl
import pytest

import dbselect as ds

ROWS = 400
#: Blocks of code, by language.
CODE = re.compile(r'<code id="(\w+)">(.*?)</code>', re.DOTALL)


def table() -> pl.DataFrame:
    rng = np.random.default_rng(28)
    x, z, t = rng.normal(size=(3, ROWS))
    k = rng.choice(["north", "south", "west"], ROWS)
    mean = 1.0 + 2.0 * x - z + np.sin(2.0 * t) + 1.5 * (k == "south")
    return pl.DataFrame(
        {
            "x": pl.Series(np.where(rng.random(ROWS) < 0.1, np.nan, x)).fill_nan(None),
            "z": z, "t": t, "k": k, "w": rng.uniform(0.5, 2.0, ROWS),
            "e": rng.uniform(0.5, 3.0, ROWS), "y": mean + rng.normal(size=ROWS),
            "late": np.where(mean + rng.normal(size=ROWS) > 1.0, "no", "yes"),
            "n": rng.poisson(np.exp(0.3 * z)),
        }
    )  # fmt: skip


TABLE = table()
#: Columns of the table, target, fields of the problem, and the method with its options.
PROBLEMS: dict[str, tuple[list[str], str, dict[str, Any], str, dict[str, Any]]] = {
    "text": (["z", "k"], "y", {}, "anytime_sequence", {}),
    "indicators": (["x", "z"], "y", {"null_policy": "indicator"}, "anytime_sequence", {}),
    "indicators of a family": (
        ["x", "z"], "late", {"null_policy": "indicator", "family": "binomial"},
        "anytime_sequence", {},
    ),
    "positive": (
        ["z", "k"], "late", {"family": "binomial", "positive": "no"}, "anytime_sequence", {},
    ),
    "weight": (["z", "t", "w"], "y", {"weight": "w"}, "foba", {"epsilon": 1e-4}),
    "spline": (["z", "t"], "y", {"terms": {"t": ("spline", 4)}}, "anytime_sequence", {}),
    "exposure": (
        ["z", "t", "e"], "n", {"family": "poisson", "exposure": "e", "ridge": 0.01},
        "anytime_sequence", {"max_groups": 1},
    ),
    "costs": (
        ["z", "t", "k"], "y", {"costs": {"z": 3.0, "t": 0.5, "k": 1.0}}, "backward", {},
    ),
    "always": (["z", "t", "k"], "y", {"always": ["t"], "scale": False}, "anytime_sequence", {}),
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_code_of_a_report_finds_the_same_model(name, tmp_path):
    columns, target, fields, method, options = PROBLEMS[name]
    frame = TABLE.select(*columns, target)
    if "terms" in fields:
        fields = {"terms": ds.terms(frame.drop(target), basis=fields["terms"])}
    expected = getattr(ds.Problem(frame, target, **fields), method)(**options)
    expected.report(tmp_path / "report.html", source=frame)
    page = (tmp_path / "report.html").read_text()
    code = {name: unescape(text) for name, text in CODE.findall(page)}
    found: dict[str, Any] = {"table": frame}
    exec(code["python"], found)
    assert found["seq"].steps["group"].to_list() == expected.steps["group"].to_list()
    step = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])["chosen"]["step"]
    model, same = expected.model(step), found["model"]
    assert same.columns == model.columns
    assert same.coefficients == pytest.approx(model.coefficients, rel=1e-9)
    rows = frame.drop(target)
    np.testing.assert_allclose(same.predict(rows), model.predict(rows), rtol=1e-9)
    with ds.connect() as con:
        con.register("your_table", frame.to_arrow())
        if "duckdb" in code:
            assert code["duckdb"].startswith("LOAD dbselect;\n")
            ((steps,),) = con.sql(code["duckdb"].partition("\n")[2]).fetchall()
            assert [one["group"] for one in steps] == expected.steps["group"].to_list()
            assert [one["r2"] for one in steps] == pytest.approx(expected.r2)
        predicted = con.sql(code["sql"]).pl()["prediction"]
    whole = predicted.is_not_null().to_numpy()
    assert whole.any()
    np.testing.assert_allclose(predicted.to_numpy()[whole], model.predict(rows)[whole], rtol=1e-9)


def test_code_in_duckdb_has_every_field_that_a_record_can_have(tmp_path):
    problem = ds.Problem(
        TABLE.select("z", "t", "k", "y"), "y", {"it's": ["z", "t"], "k": ["k"]},
        {"it's": 2.5, "k": 1}, ridge=0.5, always=["k"],
    )  # fmt: skip
    expected = problem.anytime_sequence(rule="omp")
    expected.report(tmp_path / "report.html")
    code = {
        name: unescape(text) for name, text in CODE.findall((tmp_path / "report.html").read_text())
    }
    with ds.connect() as con:
        con.register("your_table", TABLE.select("z", "t", "k", "y").to_arrow())
        ((steps,),) = con.sql(code["duckdb"].partition("\n")[2]).fetchall()
    assert [one["group"] for one in steps] == expected.steps["group"].to_list()
    for name in ("spent", "r2"):
        assert [one[name] for one in steps] == pytest.approx(expected.steps[name].to_list())

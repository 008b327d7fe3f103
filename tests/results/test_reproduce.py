"""The code that a report shows as "the same again" is run, and finds the same model."""

import re
from html import unescape
from typing import Any

import numpy as np
import polars as pl
import pytest

import dbselect as ds

ROWS = 400


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
    code = unescape(re.search(r"<h3>Python</h3><pre><code>(.*?)</code>", page, re.DOTALL)[1])
    found: dict[str, Any] = {"table": frame}
    exec(code, found)
    assert found["seq"].steps["group"].to_list() == expected.steps["group"].to_list()
    model, same = expected.at(), found["model"]
    assert same.columns == model.columns
    assert same.coefficients == pytest.approx(model.coefficients, rel=1e-9)
    rows = frame.drop(target)
    np.testing.assert_allclose(same.predict(rows), model.predict(rows), rtol=1e-9)

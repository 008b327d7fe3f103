"""Charts in a browser: marks have area, names do not lie on each other, the last step is inside."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import dbselect as ds

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
Service = pytest.importorskip("selenium.webdriver.chrome.service").Service
pytest.importorskip("vl_convert", reason="vl-convert-python has Vega without a network")

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        BROWSER is None or DRIVER is None, reason="chromium and chromedriver are not on the path"
    ),
    # All in one process: a browser is heavy.
    pytest.mark.xdist_group("browser"),
]

#: What is measured of a drawn chart: boxes of names of groups, of areas, and of the last points.
MEASURED = """
const box = (one) => { const b = one.getBoundingClientRect();
  return [b.left, b.top, b.right, b.bottom]; };
const boxes = (query) => [...document.querySelectorAll(query)].map(box);
const names = [...document.querySelectorAll('.mark-text.role-mark text')]
  .filter((one) => one.textContent.startsWith('group') && !one.getAttribute('stroke'));
return {
  names: names.map(box),
  areas: boxes('.mark-area path, .mark-rect.role-mark path'),
  points: boxes('.mark-symbol.role-mark path').filter((one) => one[2] > one[0]),
  view: box(document.querySelector('.mark-group.role-frame.root path.background')),
  picture: box(document.querySelector('svg')),
};
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.add_argument("--window-size=1200,1600")
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def charts(groups: int) -> dict[str, tuple[Any, bool]]:
    """Return a chart of each kind, and whether it has bands or cells."""
    rng = np.random.default_rng(groups)
    X = rng.normal(size=(400, groups))
    weights = rng.normal(size=groups) * rng.exponential(size=groups) ** 2
    names = [f"group number {j}" for j in range(groups)]
    rows = pl.DataFrame(X, names).with_columns(y=pl.Series(X @ weights + rng.normal(size=400)))
    costs = dict(zip(names, rng.lognormal(size=groups).tolist(), strict=True))
    half, other = rows[:200], rows[200:]
    folds = ds.gram_by(rows, fold=4)
    seq = ds.anytime_sequence(half, "y", costs=costs, ridge=0.1)
    cv = ds.cross_validate(folds, "y", ds.anytime_sequence, {"ridge": [0.1, 1.0]}, costs=costs)
    one = ds.cross_validate(folds, "y", ds.anytime_sequence, costs=costs)
    drawn = ds.io.resample(rows, records=20, kind="halves")
    stable = ds.stability(drawn, "y", costs=costs, max_groups=4)
    return {
        "sequence": (seq.plot(held_out=one), True),
        "backward": (ds.backward(half, "y", costs=costs).plot(), False),
        "evaluation": (ds.evaluate(seq, other, metric="mae").plot(), False),
        "comparison": (ds.compare({"seq": seq, "best": ds.reference.oracle(seq)}).plot(), False),
        "cross-validation": (cv.plot(), True),
        "drift": (ds.drift(ds.gram(half), ds.gram(other), "y", costs=costs).plot(), False),
        "stability": (stable.plot(), True),
        "lasso": (ds.lasso_path(rows, "y", costs=costs).plot(), False),
        "group lasso": (ds.group_lasso_path(rows, "y", costs=costs).plot(), False),
    }


@pytest.mark.parametrize("groups", [5, 50])
def test_charts_read_at_a_glance(browser, groups, tmp_path):
    for name, (chart, filled) in charts(groups).items():
        path = Path(tmp_path) / "chart.html"
        path.write_text(chart.to_html(inline=True))
        browser.get(path.as_uri())
        browser.implicitly_wait(300)
        browser.find_element("css selector", "svg.marks")
        found = browser.execute_script(MEASURED)
        areas = [(right - left) * (low - high) for left, high, right, low in found["areas"]]
        assert not filled or max(areas) > 100, name
        for k, (left, top, right, bottom) in enumerate(found["names"]):
            for other in found["names"][:k]:
                apart = right <= other[0] or other[2] <= left
                assert apart or bottom <= other[1] or other[3] <= top, name
            assert found["picture"][0] <= left <= right <= found["picture"][2], name
        for left, top, right, bottom in [] if "lasso" in name else found["points"]:
            assert found["view"][0] <= left + 5, name
            assert right <= found["view"][2] + 1, name
            assert found["view"][1] <= top + 4 <= bottom <= found["view"][3] + 5, name

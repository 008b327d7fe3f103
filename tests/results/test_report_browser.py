"""The report in a browser: the slider buys what `at` buys, by keys too, and nobody is asked."""

import base64
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from test_results import COSTS, FAMILIES, GROUPS, found, table

import dbselect as ds

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
Service = pytest.importorskip("selenium.webdriver.chrome.service").Service

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
#: Digits that the page shows.
SHOWN = 1e-5


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.add_argument("--disable-background-networking")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def shown(browser: Any, name: str) -> str:
    return browser.find_element("id", name).text


def model_shown(browser: Any) -> list[list[str]]:
    return browser.execute_script(
        "return [...document.querySelectorAll('#model tr')].map(l => [...l.cells].map(c => "
        "c.textContent))"
    )


def type_budget(browser: Any, budget: float) -> None:
    box = browser.find_element("id", "budget")
    box.clear()
    box.send_keys(repr(budget))


def assert_shows(browser: Any, seq: Any, budget: float) -> None:
    """Compare what stands on the page with the model of `at`."""
    model = seq.at(budget)
    assert float(shown(browser, "spent")) == pytest.approx(model.spent, rel=SHOWN)
    groups = shown(browser, "groups")
    assert groups == (", ".join(model.groups) or "none: the model without columns")
    step = int(shown(browser, "step"))
    assert float(shown(browser, "r2")) == pytest.approx(seq.r2[step], rel=SHOWN, abs=1e-9)
    several = isinstance(model.intercept, dict)
    each = model.coefficients.values() if several else [model.coefficients]
    firsts = model.intercept.values() if several else [model.intercept]
    expected = [
        (name, value)
        for first, own in zip(firsts, each, strict=True)
        for name, value in [("(intercept)", first), *own.items()]
    ]
    rows = model_shown(browser)
    assert [row[0] for row in rows] == [name for name, _ in expected]
    values = [float(row[4 if several else 3]) for row in rows]
    assert values == pytest.approx([value for _, value in expected], rel=SHOWN, abs=1e-12)


def sequences() -> dict[str, Any]:
    linear = table().select("x", "demo", "emb", "noise", "y")
    return {
        **{family: found(family) for family in FAMILIES},
        "foba": ds.foba(linear, "y", GROUPS, COSTS),
        "backward": ds.backward(linear, "y", GROUPS, COSTS),
    }


@pytest.mark.parametrize("kind", [*FAMILIES, "foba", "backward"])
def test_what_a_budget_buys_is_what_at_buys(browser, kind, tmp_path):
    seq = sequences()[kind]
    seq.report(tmp_path / "r.html", source=table())
    browser.get(f"file://{tmp_path}/r.html")
    for budget in (0.0, 0.999, 3.0, float(seq.spent.max()) / 2, 6.5, 100.0):
        type_budget(browser, budget)
        assert_shows(browser, seq, budget)
    assert not browser.get_log("browser")


def test_the_slider_moves_by_keys_and_shows_the_budget_that_it_is_at(browser, tmp_path):
    seq = found("linear")
    seq.report(tmp_path / "r.html")
    browser.get(f"file://{tmp_path}/r.html")
    slider = browser.find_element("id", "slider")
    budget = browser.find_element("id", "budget")
    assert_shows(browser, seq, 10.0)
    slider.send_keys(Keys.HOME)
    assert float(budget.get_property("value")) == 0.0
    assert_shows(browser, seq, 0.0)
    seen = set()
    for _ in range(14):
        slider.send_keys(*([Keys.ARROW_RIGHT] * 70))
        assert_shows(browser, seq, float(budget.get_property("value")))
        seen.add(shown(browser, "step"))
    assert seen == {str(step) for step in range(1, 4)} | ({"0"} & seen) | ({"4"} & seen)
    slider.send_keys(Keys.END)
    assert_shows(browser, seq, 10.0)
    assert "spent 10" in slider.get_attribute("aria-valuetext")
    assert "nothing: every group is in the sequence" in shown(browser, "next")


def test_the_next_group_and_held_out_rows_are_told(browser, tmp_path):
    frame = table().select("x", "noise", "logs", "y")
    cv = ds.cross_validate(frame, "y", "anytime_sequence", folds=4)
    seq = ds.anytime_sequence(frame, "y")
    seq.report(tmp_path / "r.html", held_out=cv)
    browser.get(f"file://{tmp_path}/r.html")
    for step in range(3):
        type_budget(browser, float(step))
        held, error = cv.table.filter(step=step).select("r2", "r2_std_error").row(0)
        value, _, spread = shown(browser, "held").partition(" ± ")
        assert float(value) == pytest.approx(held, rel=SHOWN)
        assert float(spread) == pytest.approx(error, rel=0.05)
        following = seq.steps.row(step + 1, named=True)
        text = shown(browser, "next")
        assert text.startswith(f"{following['group']}, for {following['cost']:g}: ")
        gain = float(text.split(": ")[1].split(" ")[0])
        assert gain == pytest.approx(100 * following["gain"], rel=1e-3)


def test_the_page_asks_for_nothing(browser, tmp_path):
    browser.get_log("performance")
    found("linear").report(tmp_path / "r.html", source=table())
    browser.get(f"file://{tmp_path}/r.html")
    type_budget(browser, 3.0)
    events = [json.loads(one["message"])["message"] for one in browser.get_log("performance")]
    asked = [
        one["params"]["request"]["url"]
        for one in events
        if one["method"] == "Network.requestWillBeSent"
    ]
    assert [one for one in asked if not one.startswith("data:")] == [f"file://{tmp_path}/r.html"]
    assert not browser.get_log("browser")


def test_tables_sort_by_every_column_with_the_keyboard(browser, tmp_path):
    found("linear").report(tmp_path / "r.html")
    browser.get(f"file://{tmp_path}/r.html")
    read = (
        "return [...[...document.querySelectorAll('table.sortable')].at(-1).tBodies[0].rows]"
        ".map(r => [...r.cells].map(c => c.dataset.value))"
    )
    heads = browser.find_elements("css selector", "table.sortable")[-1].find_elements(
        "css selector", "th button"
    )
    for column, head in enumerate(heads):
        for rising in (True, False):
            head.send_keys(Keys.ENTER)
            values = [row[column] for row in browser.execute_script(read)]
            there = [one for one in values if one]
            numeric = head.text not in ("group", "redundant with")
            order = sorted(there, key=float if numeric else str, reverse=not rising)
            assert there == order
            assert values == there + [""] * (len(values) - len(there))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_on_screen_in_light_and_dark(browser, scheme, tmp_path):
    found("linear").report(tmp_path / "r.html")
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(f"file://{tmp_path}/r.html")
    style = "const s = getComputedStyle(document.body); return [s.color, s.backgroundColor]"
    shades = [np.mean(json.loads(one[3:].replace("(", "[").replace(")", "]")))
              for one in browser.execute_script(style)]  # fmt: skip
    assert abs(shades[0] - shades[1]) > 180
    assert (shades[0] < shades[1]) == (scheme == "light")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_on_paper_everything_stands_and_nothing_is_to_be_moved(browser, tmp_path):
    found("linear").report(tmp_path / "r.html", source=table())
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    browser.get(f"file://{tmp_path}/r.html")
    assert not browser.find_element("id", "slider").is_displayed()
    assert browser.find_element("id", "spent").is_displayed()
    lists = browser.find_elements("css selector", ".scroll")
    clipped = "return arguments[0].scrollHeight > arguments[0].clientHeight + 1"
    assert not any(browser.execute_script(clipped, one) for one in lists)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    paper = browser.execute_cdp_cmd("Page.printToPDF", {})
    assert base64.b64decode(paper["data"]).startswith(b"%PDF")


def test_a_hundred_groups_answer_at_once(browser, tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 100))
    frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(100)])
    frame = frame.with_columns(y=pl.Series(X @ rng.normal(size=100) + rng.normal(size=400)))
    seq = ds.anytime_sequence(frame, "y")
    seq.report(tmp_path / "r.html")
    assert Path(tmp_path / "r.html").stat().st_size < 1_000_000
    browser.get(f"file://{tmp_path}/r.html")
    for budget in (0.0, 17.0, 71.5, 100.0):
        type_budget(browser, budget)
        assert_shows(browser, seq, budget)

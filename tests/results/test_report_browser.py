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
from dbselect.results.report.reproduce import module_text

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
Keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
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
#: Digits that a report keeps of a number.
SHOWN = 1e-9
has_module = pytest.mark.skipif(not module_text(), reason="make wasm did not build the module")


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


def value(browser: Any, name: str) -> float:
    """Return the number behind a text of three digits."""
    return float(browser.find_element("id", name).get_attribute("data-value"))


def model_shown(browser: Any) -> list[list[str]]:
    return browser.execute_script(
        "return [...document.querySelectorAll('#model tr')].map(l => [...l.cells].map(c => "
        "c.dataset.value ?? c.textContent))"
    )


def type_budget(browser: Any, budget: float) -> None:
    box = browser.find_element("id", "budget")
    box.clear()
    box.send_keys(repr(budget))


def assert_shows(browser: Any, seq: Any, budget: float, digits: float = SHOWN) -> None:
    """Compare what stands on the page with the model of `at`."""
    model = seq.at(budget)
    assert value(browser, "spent") == pytest.approx(model.spent, rel=digits)
    groups = shown(browser, "groups")
    assert groups == (", ".join(model.groups) or "none: the model without columns")
    step = int(value(browser, "step"))
    assert value(browser, "r2") == pytest.approx(seq.r2[step], rel=digits, abs=1e-12)
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
    assert values == pytest.approx([value for _, value in expected], rel=digits, abs=1e-12)


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
    assert_shows(browser, seq, float(budget.get_property("value")))
    slider.send_keys(Keys.HOME)
    assert float(budget.get_property("value")) == 0.0
    assert_shows(browser, seq, 0.0)
    seen = set()
    for _ in range(14):
        slider.send_keys(*([Keys.ARROW_RIGHT] * 70))
        assert_shows(browser, seq, float(budget.get_property("value")))
        seen.add(int(value(browser, "step")))
    assert seen == set(range(1, 4)) | ({0, 4} & seen)
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
        spread = shown(browser, "held").partition(" ± ")[2]
        assert value(browser, "held") == pytest.approx(held, rel=SHOWN)
        assert float(spread) == pytest.approx(error, rel=0.05)
        following = seq.steps.row(step + 1, named=True)
        text = shown(browser, "next")
        assert text.startswith(f"{following['group']}, for {following['cost']:g}: ")
        gain = float(text.split(": ")[1].split(" ")[0])
        assert gain == pytest.approx(100 * following["gain"], rel=5e-3)
        assert value(browser, "next") == pytest.approx(following["gain"], rel=SHOWN)


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
            numeric = head.text not in ("group", "overlaps with")
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
    assert not browser.find_element("id", "what-if").is_displayed()
    assert browser.find_element("id", "spent").is_displayed()
    lists = browser.find_elements("css selector", ".scroll")
    clipped = "return arguments[0].scrollHeight > arguments[0].clientHeight + 1"
    assert not any(browser.execute_script(clipped, one) for one in lists)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    paper = browser.execute_cdp_cmd("Page.printToPDF", {})
    assert base64.b64decode(paper["data"]).startswith(b"%PDF")


# What if?


@pytest.fixture
def asked() -> tuple[pl.DataFrame, dict[str, list[str]], dict[str, float]]:
    """Return rows, groups, one of which has the name of another script, and costs."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(300, 7)) + 0.5 * rng.normal(size=(300, 1))
    y = X @ [1.0, -0.7, 0.5, 0.3, 0.0, 0.2, -0.4] + rng.normal(size=300)
    frame = pl.DataFrame(X, schema=[f"c{j}" for j in range(7)]).with_columns(y=pl.Series(y))
    groups = {"10": ["c0", "c1"], "2": ["c2"], "</script><b>": ["c3", "c4"], "d": ["c5", "c6"]}
    return frame, groups, {"10": 3.0, "2": 1.0, "</script><b>": 2.0, "d": 1.5}


def opened(browser: Any, path: Path) -> None:
    browser.get(f"file://{path}")
    WebDriverWait(browser, 300).until(lambda one: one.find_element("id", "what-if").is_displayed())


def edit(browser: Any, group: str, tag: str, text: str) -> None:
    """Give a group another cost (input) or use (select)."""
    found = browser.find_elements("css selector", "#uses tr")
    line = next(one for one in found if one.get_attribute("data-group") == group)
    choose(browser, line.find_element("css selector", tag), text)


def choose(browser: Any, element: Any, text: str) -> None:
    change = (
        "arguments[0].value = arguments[1];"
        "arguments[0].dispatchEvent(new Event('input', {bubbles: true}))"
    )
    browser.execute_script(change, element, text)


@has_module
def test_edits_are_answered_as_python_answers_them(browser, asked, tmp_path):
    frame, groups, costs = asked
    problem = ds.Problem(frame, "y", groups, costs)
    problem.anytime_sequence().report(tmp_path / "r.html", unit="€")
    opened(browser, tmp_path / "r.html")
    assert shown(browser, "state") == "As in the report."

    def assert_answers(of: Any, **options: Any) -> None:
        seq = of.anytime_sequence(**options)
        assert shown(browser, "refusal") == ""
        for budget in [0.0, *(seq.spent + 0.01)]:
            type_budget(browser, float(budget))
            assert_shows(browser, seq, float(budget), 1e-12)
        names: dict[str, Any] = {"table": frame}
        exec(browser.find_element("id", "python").get_property("textContent"), names)
        assert names["seq"].steps["group"].to_list() == seq.steps["group"].to_list()
        assert names["model"].groups == seq.at().groups
        sql = browser.find_element("id", "sql").get_property("textContent")
        with ds.connect() as con:
            con.register("your_table", frame.to_arrow())
            predicted = con.sql(sql).pl()["prediction"].to_numpy()
        np.testing.assert_allclose(predicted, seq.at().predict(frame), rtol=1e-9)

    edit(browser, "10", "input", "0.25")
    cheap = costs | {"10": 0.25}
    assert_answers(problem.replace(costs=cheap))
    edit(browser, "</script><b>", "select", "always")
    always = ["</script><b>"]
    assert_answers(problem.replace(costs=cheap, always=always))
    edit(browser, "2", "select", "exclude")
    less = {name: own for name, own in groups.items() if name != "2"}
    own = {name: cost for name, cost in cheap.items() if name != "2"}
    final = problem.replace(groups=less, costs=own, always=always)
    assert_answers(final)
    choose(browser, browser.find_element("id", "rule"), "omp")
    assert_answers(final, rule="omp")
    choose(browser, browser.find_element("id", "ridge"), "0.5")
    assert_answers(final.replace(ridge=0.5), rule="omp")
    drawn = browser.execute_script("return document.querySelector('#chart .c1').getAttribute('d')")
    assert drawn.count("L") > 20
    browser.find_element("id", "reset").click()
    assert shown(browser, "state") == "As in the report."
    assert_shows(browser, problem.anytime_sequence(), float(shown_budget(browser)))
    assert not browser.find_elements("css selector", "b")
    assert not browser.get_log("browser")


def shown_budget(browser: Any) -> str:
    return str(browser.find_element("id", "budget").get_property("value"))


@has_module
def test_prices_that_are_no_sums_are_edited_and_answered_as_python_answers_them(
    browser, asked, tmp_path
):
    frame, groups, costs = asked
    costs |= {"d": 0.0}
    told: dict[str, Any] = {
        "shared": {"draw": (2.0, ["d", "2"]), "visit": (1.5, ["10", "2"])},
        "needs": {"2": ["d"]},
        "one_of": [["10", "</script><b>"]],
        "limits": {"ms": ({"10": 4.0, "2": 1.0}, 5.0, "sum")},
    }
    problem = ds.Problem(frame, "y", groups, costs, **told)
    problem.anytime_sequence().report(tmp_path / "r.html", source=frame)
    opened(browser, tmp_path / "r.html")

    def assert_answers(of: Any) -> None:
        seq = of.anytime_sequence()
        assert shown(browser, "refusal") == ""
        for budget in [0.0, *(seq.spent + 0.01)]:
            type_budget(browser, float(budget))
            assert_shows(browser, seq, float(budget))
        names: dict[str, Any] = {"table": frame}
        exec(browser.find_element("id", "python").get_property("textContent"), names)
        assert names["seq"].steps["group"].to_list() == seq.steps["group"].to_list()
        assert names["seq"].spent == pytest.approx(seq.spent)

    assert_answers(problem)
    type_budget(browser, 0.0)
    assert "10 with visit, for 4.5" in shown(browser, "next")
    edit(browser, "10", "input", "0.1")
    cheap = costs | {"10": 0.1}
    assert_answers(problem.replace(costs=cheap))
    box = browser.find_element("css selector", "input[aria-label='cost of draw']")
    choose(browser, box, "0.25")
    told["shared"] |= {"draw": (0.25, ["d", "2"])}
    assert_answers(problem.replace(costs=cheap, shared=told["shared"]))
    # What needs a group that is excluded goes with it.
    edit(browser, "d", "select", "exclude")
    kept = ["10", "</script><b>"]
    assert_answers(ds.Problem(
        frame, "y", {name: groups[name] for name in kept}, {name: cheap[name] for name in kept},
        shared={"visit": (1.5, ["10"])}, one_of=told["one_of"],
    ))  # fmt: skip
    choose(browser, box, "-1")
    assert "it must have a cost > 0 and the groups that share it" in shown(browser, "refusal")
    assert not browser.get_log("browser")


@has_module
def test_a_mistake_is_told_and_what_is_shown_stays(browser, asked, tmp_path):
    frame, groups, costs = asked
    ds.foba(frame, "y", groups, costs).report(tmp_path / "r.html")
    opened(browser, tmp_path / "r.html")
    before = model_shown(browser)
    edit(browser, "d", "input", "-1")
    assert shown(browser, "refusal") == "group 'd' has cost -1.0; costs must be > 0 and finite"
    assert model_shown(browser) == before
    edit(browser, "d", "input", "4")
    assert shown(browser, "refusal") == ""
    seq = ds.foba(frame, "y", groups, costs | {"d": 4.0})
    type_budget(browser, 5.0)
    assert_shows(browser, seq, 5.0, 1e-12)


@pytest.mark.parametrize("count", [5, 50])
@pytest.mark.parametrize("width", [390, 1100])
def test_names_of_steps_have_room_and_the_last_step_is_inside(browser, count, width, tmp_path):
    rng = np.random.default_rng(count)
    X = rng.normal(size=(300, count)) + 0.4 * rng.normal(size=(300, 1))
    names = [f"source number {j}" for j in range(count)]
    y = X @ rng.exponential(size=count) + rng.normal(size=300)
    frame = pl.DataFrame(X, schema=names).with_columns(y=pl.Series(y))
    costs = dict(zip(names, rng.exponential(size=count) + 0.1, strict=True))
    ds.anytime_sequence(frame, "y", costs=costs).report(tmp_path / "r.html", unit="ms")
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(f"file://{tmp_path}/r.html")
    boxes = (
        "return [...document.querySelectorAll(arguments[0])].map(n => n.getBoundingClientRect())"
    )
    labels = browser.execute_script(boxes, "#chart text.step")
    (chart,) = browser.execute_script(boxes, "#chart svg.chart")
    assert len(labels) >= 2
    for one in [*labels, *browser.execute_script(boxes, "#chart circle, #chart text")]:
        assert chart["left"] <= one["left"]
        assert one["right"] <= chart["right"]
        assert one["bottom"] <= chart["bottom"]
    for at, one in enumerate(labels):
        for other in labels[:at]:
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert apart or abs(one["top"] - other["top"]) >= 12
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

"""The documentation site: it builds without a warning, needs no network, and leaves nothing out."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from inspect import ismodule
from operator import attrgetter
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from test_docstrings import has_shared_doc

import dbselect as ds
from dbselect import sklearn
from dbselect.doors.sql import texts

pytest.importorskip("material", reason="the site needs dbselect[docs]")

ROOT = Path(__file__).parents[2]
# All in one process: the site is built once.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("site")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site, with warnings as errors, and return its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    told = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return folder


class Addresses(HTMLParser):
    """What a page loads and links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded, self.linked, self.anchors = [], [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "id" in given:
            self.anchors.add(given["id"])
        to = self.linked if tag == "a" else self.loaded
        is_address = tag != "link" or given.get("rel") != "canonical"
        to += [given[name] for name in ("href", "src") if given.get(name) and is_address]


@pytest.fixture(scope="module")
def pages(site):
    """Return what each page of the site loads and links to."""
    found = {path: Addresses(path.read_text()) for path in site.rglob("*.html")}
    found.pop(site / "404.html")  # its addresses start where the site is served
    return found


def shown(page: Path) -> str:
    """Return the text of a page."""
    return re.sub(r"<[^>]*>", "", page.read_text())


def local(page: Path, addresses: list[str]) -> Iterator[tuple[Path, str]]:
    """Yield the files, and the anchors in them, that addresses within the site name."""
    for address in addresses:
        parts = urlsplit(address)
        if not parts.scheme:
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            yield path, unquote(parts.fragment)


def test_nothing_is_loaded_from_elsewhere(site, pages):
    away = {path.name: [a for a in page.loaded if "//" in a] for path, page in pages.items()}
    assert not {name: loaded for name, loaded in away.items() if loaded}
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?https?:", style.read_text()), style


def test_links_lead_somewhere(pages):
    missing = [
        f"{page.name}: {target.name}#{anchor}"
        for page, addresses in pages.items()
        for target, anchor in local(page, addresses.loaded + addresses.linked)
        if not target.exists() or (target in pages and anchor not in pages[target].anchors)
    ]
    assert missing == []


def test_every_page_of_the_repository_is_in_the_navigation(site, pages):
    files = [p for f in ("docs/**/*.md", "bench/*.md") for p in ROOT.glob(f)]
    there = {path.relative_to(site).with_suffix(".md") for path in pages}
    places = {path: path.relative_to(ROOT) for path in files}
    assert not {
        str(path)
        for path in places.values()
        if (path.relative_to("docs") if path.parts[0] == "docs" else path) not in there
    }


def test_every_public_name_has_its_page_with_an_example(site):
    errors = shown(site / "api" / "errors.html")
    rooms = [*(name for name in ds.__all__ if ismodule(getattr(ds, name))), "io", "reference"]
    of_rooms = [f"{room}.{name}" for room in rooms for name in public_in(room)]
    for name in [*(name for name in ds.__all__ if name not in rooms), *of_rooms]:
        thing = attrgetter(name)(ds)
        if isinstance(thing, type) and issubclass(thing, Exception):
            assert name.rpartition(".")[2] in errors
            continue
        folder = "classes" if isinstance(thing, type) else "calls"
        page = site / "api" / folder / f"{name}.html"
        assert f"ds.{name}" in shown(page)
        assert 'class="gp"' in page.read_text() or has_shared_doc(thing), name
    for name in sklearn.__all__:
        assert 'class="gp"' in (site / "api" / "classes" / f"sklearn.{name}.html").read_text()


def public_in(room: str) -> list[str]:
    """Return the public names of a module; that of errors has no list."""
    module = getattr(ds, room)
    return getattr(module, "__all__", None) or [
        name for name, thing in vars(module).items()
        if isinstance(thing, type) and issubclass(thing, Exception)
    ]  # fmt: skip


def test_every_sql_function_is_in_the_reference(site, connection):
    text = (site / "sql-reference.html").read_text()
    anchors = set(re.findall(r'<h2 id="(\w+)"', text))
    functions = (
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name SIMILAR TO ?"
    )
    of_grams = {name for (name,) in connection.execute(functions, ["gram(_.*)?"]).fetchall()}
    assert set(texts()) | of_grams | {"fold_of", "anytime_sequence"} <= anchors


def test_search_knows_every_page_by_its_title(site, pages):
    index = (site / "search" / "search_index.js").read_text()
    assert "ds.anytime_sequence" in index
    assert "gram_merge" in index


def test_pages_that_come_later_are_no_error_and_are_shown(site):
    sys.path.insert(0, str(ROOT / "docs/website"))
    try:
        from hooks import existing
    finally:
        sys.path.pop(0)
    assert existing([{"A": ["here.md", {"B": "not-yet.md"}]}, "gone.md"], {"here.md"}) == [
        {"A": ["here.md"]}
    ]


def prices_move_an_order(browser, waiting) -> None:
    """Make the scan of the report on the first page cheap: it is bought first."""
    browser.execute_script("document.querySelector('iframe.report').loading = 'eager'")
    browser.switch_to.frame(browser.find_element("css selector", "iframe.report"))
    cost = waiting(browser, 300).until(
        lambda one: one.find_element("css selector", "#uses [data-group=thallium_scan] input")
    )
    first = "return document.querySelector('.chart .step').textContent"
    waiting(browser, 300).until(lambda one: one.execute_script(first) == "chest_pain")
    browser.execute_script(
        "arguments[0].value = '0.1';"
        "arguments[0].dispatchEvent(new Event('input', {bubbles: true}))", cost,
    )  # fmt: skip
    waiting(browser, 300).until(lambda one: one.execute_script(first) == "thallium_scan")
    browser.switch_to.default_content()


@pytest.mark.skipif(
    shutil.which("chromium") is None or shutil.which("chromedriver") is None,
    reason="chromium and chromedriver are not on the path",
)
def test_files_that_are_opened_in_a_browser_are_searched_and_ask_nobody(site):
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium drives the browser")
    waiting = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    try:
        browser.get((site / "duckdb.html").as_uri())
        browser.find_element("css selector", "[data-md-component=search-query]").send_keys("foba")
        found = waiting(browser, 300).until(
            lambda one: one.find_elements("css selector", ".md-search-result__link")
        )
        assert "foba" in " ".join(one.get_attribute("href") for one in found)
        browser.get((site / "index.html").as_uri())
        prices_move_an_order(browser, waiting)
        assert browser.get_log("browser") == []
        events = [json.loads(one["message"])["message"] for one in browser.get_log("performance")]
    finally:
        browser.quit()
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked
    assert not [address for address in asked if not address.startswith(("file:", "data:", "blob:"))]

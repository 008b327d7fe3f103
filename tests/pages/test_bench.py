"""`make bench` keeps figures of an idle machine only, and its page has one form."""

import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCH = Path(__file__).parents[2] / "bench"
sys.path.insert(0, str(BENCH))

import growth  # noqa: E402
import idle  # noqa: E402
import page  # noqa: E402
from rows import HEADER, Row, skipped  # noqa: E402

sys.path.remove(str(BENCH))

LINE = re.compile(r"\| [^|]+ \| ([\d.,]+x)? \| ([\d.,]+ \w+)? \|( [^|]* \|){3}")


def scans():
    yield Row("a gram", 0.5, 0.4, "sum()", most=1.3, note="three passes")
    yield skipped("a cluster", "no Spark")


def peaks():
    yield Row("peak memory", 1234.5, 1000.0, "a fourth", unit="MB", most=1.1, limit=2000.0)


SUBJECTS = {
    "Scans": SimpleNamespace(__doc__="One pass.\n\nMore.", PARTS=(scans,)),
    "Memory": SimpleNamespace(__doc__="A process.", PARTS=(peaks,)),
}


@pytest.fixture
def shares(monkeypatch):
    """Let other processes take given shares: before and during the first subject, and so on."""

    def take(*given: float) -> None:
        left = iter(given)
        monkeypatch.setattr(idle, "settled", lambda *_: next(left))
        monkeypatch.setattr(idle, "foreign_share", lambda *_: next(left))

    return take


def test_rows_have_one_form():
    assert [row.line() for row in (*scans(), *peaks())] == [
        "| a gram | 1.25x | 0.500 s | 0.400 s, sum() | <= 1.3x | three passes |",
        "| a cluster |  |  |  |  | skipped: no Spark |",
        "| peak memory | 1.23x | 1,234 MB | 1,000 MB, a fourth | <= 1.1x: missed, <= 2000 MB |  |",
    ]
    written = [
        Row("", value, 2.0, "a base").line().split(" | ")[1:4] for value in (0.0123, 20.0, 2469.0)
    ]
    assert written == [
        ["0.00615x", "12.3 ms", "2.00 s, a base"],
        ["10.0x", "20.0 s", "2.00 s, a base"],
        ["1,234x", "2,469 s", "2.00 s, a base"],
    ]


def test_a_page_has_a_table_a_subject_and_says_how_idle_the_machine_was(shares, tmp_path):
    shares(0.004, 0.013, 0.011, 0.002)
    page.main(SUBJECTS, [], tmp_path / "page.md", tmp_path / "finished.json")
    text = (tmp_path / "page.md").read_text()
    assert re.search(
        r"took 0\.4 % of \d+ cores at first, at most 1\.1 % before a table and 1\.3 % while", text
    )
    assert re.findall(r"^## (.+)\n\n(.+)\n\n\| what \| ratio ", text, re.MULTILINE) == [
        ("Scans", "One pass."),
        ("Memory", "A process."),
    ]
    assert text.count(HEADER) == 2


@pytest.mark.parametrize(
    ("given", "when", "measured"),
    [
        ((0.2,), "before 'Scans'", []),
        ((0.0, 0.2, 0.0, 0.2, 0.0, 0.2), "during 'Scans'", ["Scans"] * 3),
        ((0.0, 0.2, 0.0, 0.0, 0.2), "before 'Memory'", ["Scans"] * 2),
        ((0.0, 0.0, *(0.0, 0.2) * 3), "during 'Memory'", ["Scans", *["Memory"] * 3]),
    ],
)
def test_figures_of_a_busy_machine_are_not_kept(shares, tmp_path, capsys, given, when, measured):
    kept = tmp_path / "page.md"
    kept.write_text("as it was")
    shares(*given)
    with pytest.raises(SystemExit, match=f"took 20.0 % .* {when}, more than 5.0 %") as ended:
        page.main(SUBJECTS, [], kept, tmp_path / "finished.json")
    assert ended.value.code != 0
    assert kept.read_text() == "as it was"
    assert re.findall("## (.*)", capsys.readouterr().out) == measured


def test_a_run_that_ends_early_goes_on_where_it_ended(shares, tmp_path, capsys):
    paths = tmp_path / "page.md", tmp_path / "finished.json"
    shares(0.0, 0.0, 0.2)
    with pytest.raises(SystemExit, match="before 'Memory'"):
        page.main(SUBJECTS, [], *paths)
    shares(0.0, 0.0)
    page.main(SUBJECTS, [], *paths)
    assert re.findall("## (.*)", capsys.readouterr().out) == ["Scans", "Memory"]
    assert re.findall("## (.*)", paths[0].read_text()) == ["Scans", "Memory"]
    assert "| a gram | 1.25x |" in paths[0].read_text()
    assert not paths[1].exists()


def test_figures_of_another_commit_are_measured_again(shares, tmp_path, capsys, monkeypatch):
    paths = tmp_path / "page.md", tmp_path / "finished.json"
    shares(0.0, 0.0, 0.2)
    with pytest.raises(SystemExit):
        page.main(SUBJECTS, [], *paths)
    monkeypatch.setattr(page, "version", lambda: "another")
    shares(0.0, 0.0, 0.0, 0.0)
    page.main(SUBJECTS, [], *paths)
    assert re.findall("## (.*)", capsys.readouterr().out) == ["Scans", "Scans", "Memory"]


def test_every_part_is_of_a_subject_that_is_run():
    texts = {path.stem: path.read_text() for path in BENCH.glob("*.py")}
    listed = {name: re.search(r"^PARTS = \((.*)\)", text, re.M) for name, text in texts.items()}
    subjects = {name: set(re.findall(r"\w+", found[1])) for name, found in listed.items() if found}
    assert set(re.findall(r'": (\w+),', texts["run"])) == set(subjects)
    measuring = re.compile(r"^def ([a-z]\w*)\(.*\) -> Iterator\[Row\]:", re.M)
    assert subjects == {name: set(measuring.findall(texts[name])) for name in subjects}


def test_the_page_that_is_kept_has_the_form_of_rows():
    text = (BENCH / "RESULTS.md").read_text()
    sections = text.split("\n## ")[1:]
    for section in sections:
        _, lead, *tables = section.strip().split("\n\n")
        assert "|" not in lead
        assert [table.startswith(f"{HEADER}\n| ") for table in tables] == [True], section
        lines = tables[0].splitlines()[2:]
        assert [line for line in lines if not LINE.fullmatch(line)] == []


@pytest.mark.parametrize(
    ("seconds", "promised", "fails"),
    [
        ([1.0, 2.0, 4.0, 8.0], 1, False),
        ([1.0, 2.0, 8.0, 8.0], 1, True),
        ([1.0, 4.0, 16.0, 64.0], 2, False),
        ([1.0, 4.0, 16.0, 64.0], 1, True),
        ([0.001, 0.04, 2.0, 2.0], 1, False),  # of noise there is no exponent
    ],
)
def test_a_doubling_that_costs_more_than_is_promised_fails(seconds, promised, fails, tmp_path):
    ran = []
    clock = iter([at for each in seconds for at in (0.0, each, 0.0, 2 * each)])
    one = growth.Growth("door", "size", promised, 5, lambda n: lambda: ran.append(n))
    curve = growth.measured(one, 3, math.inf, clock=lambda: next(clock))
    assert (curve.seconds, curve.fails) == (seconds, fails)
    assert curve.sizes == [5, 10, 20, 40]
    assert ran == [n for n in curve.sizes for _ in range(2)]
    growth.write([curve], tmp_path)
    assert ": above" in (tmp_path / "GROWTH.md").read_text() or not fails
    assert (tmp_path / "growth.svg").read_text().count("<polyline") == 2
    assert len((tmp_path / "growth.csv").read_text().splitlines()) == 5


@pytest.mark.slow
@pytest.mark.parametrize("one", growth.GROWTHS, ids=lambda one: f"{one.door}-{one.size}")
def test_every_line_of_the_map_can_be_measured(one):
    curve = growth.measured(one, 0, 1.0)
    assert curve.sizes == [one.first]

"""``dbselect tables``: the sequence of Python, and one sentence for a mistake."""

import json

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dbselect as ds
from dbselect.doors.cli import main


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Return a folder with facts and two tables, in which the commands run."""
    rng = np.random.default_rng(0)
    shop, area = rng.integers(0, 9, 200), rng.normal(size=9)
    facts = {"shop": shop, "x": rng.normal(size=200), "y": area[shop] + rng.normal(size=200)}
    pl.DataFrame(facts).write_parquet(tmp_path / "facts.parquet")
    shops = pl.DataFrame({"id": range(9), "area": area})
    shops.write_parquet(tmp_path / "shops.parquet")
    pl.concat([shops, shops]).rename({"id": "shop"}).write_parquet(tmp_path / "visits.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(candidates: object) -> list[str]:
    with open("candidates.json", "w") as file:
        json.dump(candidates, file)
    return ["tables", "facts.parquet", "--target", "y", "--candidates", "candidates.json"]


SHOPS = {"table": "shops.parquet", "key": {"shop": "id"}, "cost": 5}
VISITS = {"table": "visits.parquet", "key": "shop", "cost": 7, "many": ["count"]}


def test_it_prints_and_writes_the_steps_of_python(files, capsys):
    (files / "groups.json").write_text(json.dumps({"own": ["x"]}))
    command = told({"shops": SHOPS, "visits": VISITS})
    command += ["--groups", "groups.json", "--budget", "6", "--out", "steps.parquet"]
    assert main(command) == 0
    printed = capsys.readouterr().out
    assert "no other group fits the budget." in printed
    assert "Not bought: visits." in printed
    expected = ds.anytime_tables(
        "facts.parquet", "y", {"shops": ("shops.parquet", {"shop": "id"}, 5)}, {"own": ["x"]}
    )
    assert_frame_equal(ds.results.Sequence.read_parquet("steps.parquet").steps, expected.steps)


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ([], "must map names to candidates"),
        ({"shops": 5}, "candidate 'shops' is 5"),
        ({"shops": {"table": "shops.parquet"}}, "candidate 'shops' lacks ['key', 'cost']"),
        ({"shops": {**SHOPS, "cots": 5}}, "candidate 'shops' has unknown option 'cots'"),
        ({"shops": {**SHOPS, "cost": "5"}}, "candidate 'shops': cost is '5'"),
        ({"shops": {**SHOPS, "table": "none.parquet"}}, "no file is at 'none.parquet'"),
        ({"visits": {**VISITS, "many": []}}, "candidate 'visits': the table has several rows"),
    ],
)
def test_a_mistake_is_one_sentence(files, capsys, candidates, words):
    assert main(told(candidates)) == 2
    assert words in capsys.readouterr().err

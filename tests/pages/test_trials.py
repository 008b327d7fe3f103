"""A few cases and faults of `make fuzz` and `make faults`: the long runs are in RELIABILITY.md."""

import random
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests/trials"))

import doors  # noqa: E402
import drawing  # noqa: E402

NUMERIC = runpy.run_path(str(ROOT / "tests/trials/numeric/__main__.py"))["FAMILIES"]
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def at_doors(connection, tmp_path):
    return doors.Doors(connection, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("family", doors.FAMILIES)
def test_the_first_cases_find_nothing(family, at_doors):
    for seed in range(12):
        doors.run(family, seed, at_doors)


def test_what_was_found_is_found_no_more(at_doors):
    for family, seed in doors.corpus():
        doors.run(family, seed, at_doors)


@pytest.mark.slow
@pytest.mark.parametrize("family", NUMERIC)
def test_the_first_numbers_are_right(family):
    for seed in range(5):
        drawing.run(family, NUMERIC[family], seed)


needs_unix = pytest.mark.skipif(sys.platform != "linux", reason="limits and signals of Linux")


@needs_unix
@pytest.mark.slow
@pytest.mark.parametrize("name", ["report", "dbselect gram --out", "store stats.delta"])
def test_a_killed_writer_leaves_the_old_or_the_new_state(name, tmp_path):
    if name.endswith("delta"):
        pytest.importorskip("deltalake", reason="a store in a Delta table needs deltalake")
    import faults

    assert faults.killed(random.Random(0), faults.WRITERS[name], tmp_path).startswith("state")


@needs_unix
@pytest.mark.slow
@pytest.mark.parametrize("name", ["sequence JSON", "store stats", "store stats.duckdb"])
def test_a_full_disk_leaves_the_old_state(name, tmp_path):
    import faults

    faults.full(random.Random(0), faults.WRITERS[name], tmp_path)


@needs_unix
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["memory ends", "file replaced"])
def test_what_is_read_is_right_or_refused(fault):
    import faults

    faults.one(fault, faults.WRITERS["Gram JSON"], 1)


def test_every_mutant_still_has_its_place():
    import mutants

    every = mutants.mutants()
    assert len(every) >= 60
    lost = [name for name, before, _, _ in every if before not in (ROOT / name).read_text()]
    assert lost == []
    for *_, test in every:
        file, _, name = test.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / file).read_text()

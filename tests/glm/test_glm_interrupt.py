"""A real SIGINT ends a search with the steps so far; a terminal shows the passes."""

import os
import re
import subprocess
import sys

import polars as pl
import pytest

import dbselect as ds

#: A fit and a search are interrupted in the middle of a pass, which takes some ten
#: milliseconds; then the same process makes the whole search, to compare.
CHILD = """
import os, signal, sys, threading
import numpy as np, polars as pl
import dbselect as ds
from dbselect.sources.passes import Passes

rng = np.random.default_rng(1)
X = rng.normal(size=(100_000, 8))
y = X @ np.arange(1, 9) + 20 * rng.normal(size=len(X)) > 0
frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(8)]).with_columns(y=y)
if sys.argv[1] == "Polars":
    source = frame.lazy()
else:
    con = ds.connect(config={"threads": 1})
    con.execute("SET enable_progress_bar = false")
    con.register("given", frame.to_arrow())
    con.execute("CREATE TABLE t AS FROM given")
    source = con.table("t")

def search():
    if sys.argv[1] == "SQL":
        query = "SELECT anytime_sequence_glm('t', 'y', 'binomial')"
        return ds.results.GlmSequence.from_struct(con.execute(query).fetchall()[0][0])
    return ds.anytime_sequence(source, "y", family="binomial")

note = Passes._note

def interrupt_after(passes):
    def noted(self, *of):
        note(self, *of)
        if self.count == passes:
            threading.Timer(0.005, os.kill, [os.getpid(), signal.SIGINT]).start()
    Passes._note = noted

interrupt_after(5)
part = search()
assert part.stop.name == "INTERRUPTED", part
interrupt_after(1)
try:
    while True:  # the signal may come late
        ds.fit(source, "y", family="binomial", tol=1e-14)
except KeyboardInterrupt:
    print("interrupted")
Passes._note = note
assert ds.fit(source, "y", ["x7"], family="binomial").rows == 100_000
whole = search()
assert whole.stop.name == "EXHAUSTED"
steps = len(part.spent)
assert 1 < steps < len(whole.spent)
assert part.steps["group"].equals(whole.steps["group"][:steps])
np.testing.assert_allclose(part.deviance, whole.deviance[:steps], rtol=1e-12)
np.testing.assert_allclose(part.coef, whole.coef[:steps], rtol=1e-9)
print("usable")
"""

unix = pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent there")


@pytest.mark.slow
@unix
@pytest.mark.parametrize("door", ["Polars", "DuckDB", "SQL"])
def test_an_interrupt_keeps_the_steps_and_leaves_the_engine_usable(door):
    child = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD, door],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert child.stdout.split() == ["interrupted", "usable"], child.stderr


SHOWN = """
import dbselect.sources.passes, polars as pl, dbselect as ds
dbselect.sources.passes.PROGRESS_DELAY = 0
frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0] * 9, "y": [0, 1, 0, 1, 0, 1, 1, 0, 1] * 4})
seq = ds.anytime_sequence(frame, "y", family="binomial")
print(seq.passes_made)
"""


@pytest.mark.slow
@unix
def test_a_terminal_shows_how_many_passes_were_made():
    import pty
    import termios

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    child = subprocess.run(
        [sys.executable, "-c", SHOWN],
        stdout=subprocess.PIPE, stderr=theirs, check=True,
        env={**os.environ, "TQDM_MININTERVAL": "0"},
    )  # fmt: skip
    shown = os.read(ours, 100_000)
    os.close(ours)
    os.close(theirs)
    assert int(child.stdout) > 1
    assert re.findall(rb"\r(\d+) passes", shown)[-1] == child.stdout.strip(), shown


def test_nothing_is_shown_elsewhere(capfd):
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0, 4.0] * 9, "y": [0, 1, 0, 1, 0, 1, 1, 0, 1] * 4})
    ds.anytime_sequence(frame, "y", family="binomial")
    assert capfd.readouterr() == ("", "")

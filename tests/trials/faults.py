"""Faults on purpose, and what is left after them: `make faults`.

``faults.py SECONDS [SEED]`` goes round: every writer is killed at random moments and
meets a full disk and a folder that is read-only; memory ends at random moments; files change while
they are read. What is stored is afterwards what it was before or what was to be written, what
is answered is right or an error, and the next writer needs no help.
"""

import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl

import dbselect as ds

sys.path.insert(0, str(Path(__file__).parent))
from writers import WRITERS, Writer, table

#: Writes that a writer ends, at most, before it is killed in the next.
MOST = 3
#: Where nothing can be created, not even by root.
READ_ONLY = Path("/sys/kernel")
#: How a process may end whose memory does: by an exception, or by an allocator's abort.
ENDS_OF_MEMORY = (0, 1, -signal.SIGABRT)

#: Reads and searches in memory that ends; what is answered is right, or nothing is.
STARVED = """
import resource, sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
import polars as pl
from writers import gram, sequence, table
import dbselect as ds
wanted, frame = gram(0), table(0)
groups = sequence(0).steps["group"].to_list()
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(sys.argv[2]),) * 2)
many = pl.concat([frame] * 300).rechunk()
found = ds.gram(many)
assert found.rows == 300 * wanted.rows
assert abs(found.mean - wanted.mean).max() < 1e-9
found = ds.anytime_sequence(many.select("x0", "x1", "x2", "y"), "y")
assert found.steps["group"].to_list() == groups
"""


def started(writer: Writer, path: Path, limit: int | None = None) -> subprocess.Popen:
    """Start a process that writes without end, and wait until it has begun."""
    given = [writer.name, str(path), *([str(limit)] if limit is not None else [])]
    command = [sys.executable, str(Path(__file__).with_name("writers.py")), *given]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    line = running.stdout.readline()
    assert line == "ready\n", line + (running.stderr.read() if running.stderr else "")
    return running


def place(writer: Writer, folder: Path) -> Path:
    """Return what a writer writes to: a file, or the folder of a store."""
    return folder if writer.name.startswith("store") else folder / "file"


def ended(running: subprocess.Popen) -> None:
    running.kill()
    running.communicate()


def killed(draw: random.Random, writer: Writer, folder: Path) -> str:
    """Kill a writer at a random moment."""
    path = place(writer, folder)
    running = started(writer, path)
    assert running.stdout is not None
    start = time.monotonic()
    for _ in range(draw.randint(1, MOST)):
        start = time.monotonic()
        assert running.stdout.readline() == "written\n"
    time.sleep(draw.uniform(0.0, time.monotonic() - start))
    running.send_signal(signal.SIGKILL)
    ended(running)
    found = writer.read(path)
    writer.write(path, 1 - found)
    assert writer.read(path) == 1 - found, "the next writer is not taken"
    left = [one.name for one in folder.iterdir() if one.name.startswith(".dbselect-")]
    assert left == [], f"{left} is left behind"
    return f"state {found}"


def full(draw: random.Random, writer: Writer, folder: Path) -> str:
    """Have files grow to some length only, as on a disk that is full."""
    path = place(writer, folder)
    running = started(writer, path, draw.choice([0, 1, 100, 4096, 10_000, 100_000]))
    assert running.stdout is not None
    lines = [running.stdout.readline() for _ in range(2)]
    ended(running)
    for line in lines:
        assert line.startswith(("written", "refused: ")), f"{lines}, {running.returncode}"
        assert "internal" not in line.lower(), line
    found = writer.read(path)
    writer.write(path, 1 - found)
    assert writer.read(path) == 1 - found, "the next writer is not taken"
    return "refused" if any(line.startswith("refused") for line in lines) else "it was enough"


def read_only(_: random.Random, writer: Writer, __: Path) -> str:
    """Have a writer write where nothing can be."""
    if not READ_ONLY.is_dir():
        return "no such folder"
    try:
        writer.write(READ_ONLY / "dbselect-trial", 0)
    except (ds.DbselectError, OSError):
        return "refused"
    raise AssertionError(f"{writer.name} wrote below {READ_ONLY}")


def starved(draw: random.Random, _: Writer, folder: Path) -> str:
    """Have memory end at some moment of a read and a search."""
    spare = draw.randrange(2 ** draw.randint(20, 30))
    command = [sys.executable, "-c", STARVED, str(Path(__file__).parent), str(spare)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert "AssertionError" not in ran.stderr, ran.stderr
    if ran.returncode not in ENDS_OF_MEMORY:
        # Which library it was decides whether it is ours: the last lines tell.
        raise AssertionError(f"ended by {ran.returncode}: {ran.stderr[-300:]}")
    kinds = {0: "answered", 1: "exception"}
    return kinds.get(ran.returncode, "an allocator's abort")


def replaced(draw: random.Random, _: Writer, folder: Path) -> str:
    """Replace a file by another, whole, again and again while it is read."""
    path = folder / "table.parquet"
    columns = draw.sample([f"x{j}" for j in range(20)], 3)
    states = [table(state).select(*columns, "y") for state in (0, 1)]
    # Text takes two passes: they must not be of two files.
    levels = [
        (pl.int_range(len(one)) % 3 + state).cast(pl.String) for state, one in enumerate(states)
    ]
    states = [one.with_columns(k=level) for one, level in zip(states, levels, strict=True)]
    wanted = [ds.gram(one).to_struct() for one in states]
    states[0].write_parquet(path)
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            for state in states:
                state.write_parquet(folder / "new")
                (folder / "new").replace(path)
                time.sleep(draw.uniform(0.0, 0.05))

    return _read_while(change, stop, path, wanted)


def written_over(draw: random.Random, _: Writer, folder: Path) -> str:
    """Write over a file in its place, as long as it was, again and again while it is read."""
    path = folder / "table.parquet"
    many = draw.choice([1, 40])
    states = [pl.concat([table(state)] * many).rechunk() for state in (0, 1)]
    wanted = [ds.gram(one).to_struct() for one in states]
    forms = []
    for state in states:
        state.write_parquet(folder / "new", compression="uncompressed", statistics=False)
        forms.append((folder / "new").read_bytes())
    path.write_bytes(forms[0])
    stop = threading.Event()

    def change() -> None:
        # Half of a file at a time, as a copy in progress.
        while not stop.is_set():
            for form in forms:
                with path.open("r+b") as file:
                    file.write(form[: len(form) // 2])
                    file.flush()
                    time.sleep(draw.uniform(0.0, 0.002))
                    file.write(form[len(form) // 2 :])
                    file.truncate()
                time.sleep(draw.uniform(0.0, 0.1))

    return _read_while(change, stop, path, wanted)


def _read_while(
    change: Callable[[], None], stop: threading.Event, path: Path, wanted: list[dict]
) -> str:
    """Read a file some times while a thread changes it."""
    changing = threading.Thread(target=change)
    changing.start()
    try:
        ends = Counter(_read_of(path, wanted) for _ in range(30))
    finally:
        stop.set()
        changing.join()
    return (
        "refused"
        if ends["right"] == 0
        else "now right, now refused"
        if ends["refused"]
        else "right"
    )


def _read_of(path: Path, wanted: list[dict]) -> str:
    try:
        found = ds.gram(str(path)).to_struct()
    except (ds.DbselectError, OSError, pl.exceptions.PolarsError):
        return "refused"
    close = [
        found["columns"] == one["columns"]
        and max(abs(a - b) for a, b in zip(found["mean"], one["mean"], strict=True)) < 1e-9
        for one in wanted
    ]
    assert any(close), "the answer is of two files"
    return "right"


FAULTS: dict[str, Callable[[random.Random, Writer, Path], str]] = {
    "killed": killed,
    "disk full": full,
    "read-only": read_only,
}
#: Faults that no writer has a part in.
OF_READERS = {"memory ends": starved, "file replaced": replaced, "file written over": written_over}


def one(fault: str, writer: Writer, seed: int) -> str:
    """Have one fault happen; an AssertionError says what should not have."""
    draw = random.Random(f"{fault} {writer.name} {seed}")
    folder = Path(tempfile.mkdtemp(prefix="dbselect-trial-"))
    try:
        return {**FAULTS, **OF_READERS}[fault](draw, writer, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def go_round(seconds: float, seed: int) -> int:
    """Have all faults happen in turn, for some time; return how many findings there were."""
    start = time.monotonic()
    ends: Counter[tuple[str, str, str]] = Counter()
    findings = 0
    any_writer = next(iter(WRITERS.values()))
    turns = [(fault, writer) for fault in FAULTS for writer in WRITERS.values()]
    turns += [(fault, any_writer) for fault in OF_READERS for _ in range(4)]
    while time.monotonic() - start < seconds:
        for fault, writer in random.Random(seed).sample(turns, len(turns)):
            if time.monotonic() - start >= seconds:
                break
            whose = "" if fault in OF_READERS else writer.name
            try:
                ends[fault, whose, one(fault, writer, seed)] += 1
            except AssertionError as error:
                findings += 1
                print(f"finding: {fault}, {writer.name}, seed {seed}: {error}", flush=True)
        seed += 1
    for (fault, whose, end), count in sorted(ends.items()):
        print(f"{fault}{', ' * bool(whose)}{whose}: {count} times: {end}")
    print(f"all: {sum(ends.values())} faults, {findings} findings")
    return findings


def main(given: list[str]) -> int:
    """Go round; 1 if something was found."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return int(go_round(float(given[0]), int([*given, 0][1])) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

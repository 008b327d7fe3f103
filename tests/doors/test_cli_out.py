"""Where the command line puts results, and what scripts go by: files, pipes, exit codes."""

import io
import json
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dbselect as ds
from dbselect.doors.cli import main

#: Libraries that take longer to load than help takes to print.
HEAVY = {"duckdb", "pandas", "pyarrow", "scipy", "numpy.linalg", "tqdm", "deltalake"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder, the current one, with a table of 200 rows, of which 20 are left out."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = x @ [1.0, 2.0, 0.0] + rng.normal(size=200)
    frame = pl.DataFrame(
        {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y, "n": rng.poisson(2, 200)}
    )
    frame = frame.with_columns(yes=pl.col("y") > 0, b=pl.when(pl.int_range(200) >= 20).then("b"))
    frame.write_parquet("t.parquet")
    return tmp_path


def run(*arguments: str, **settings) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "dbselect", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


SEARCHES = {
    "linear": (["--target", "y"], ds.results.Sequence, {"target": "y"}),
    "joint": (["--target", "y", "--target", "c"], ds.results.JointSequence, {"target": ["y", "c"]}),
    "binomial": (
        ["--target", "yes", "--family", "binomial", "--rule", "score", "--max-iter", "30"],
        ds.results.GlmSequence,
        {"target": "yes", "family": "binomial", "rule": "score", "max_iter": 30},
    ),
    "poisson": (
        ["--target", "n", "--family", "poisson", "--offset", "c", "--tol", "1e-9"],
        ds.results.GlmSequence,
        {"target": "n", "family": "poisson", "offset": "c", "tol": 1e-9},
    ),
    "unscaled": (
        ["--target", "y", "--ridge", "2", "--scale", "no"],
        ds.results.Sequence,
        {"target": "y", "ridge": 2.0, "scale": False},
    ),
}


@pytest.mark.parametrize("search", SEARCHES)
def test_what_is_written_is_the_sequence_of_python(folder, capsys, search):
    arguments, family, asked = SEARCHES[search]
    (folder / "groups.json").write_text('{"a": ["a"], "b": ["b"]}')
    arguments = ["sequence", "t.parquet", "--groups", "groups.json", *arguments]
    expected = ds.anytime_sequence("t.parquet", groups={"a": ["a"], "b": ["b"]}, **asked)
    for name, read in (("s.parquet", family.read_parquet), ("s.json", family.read_json)):
        assert main([*arguments, "--out", name]) == 0
        assert_frame_equal(read(name).steps, expected.steps, rel_tol=1e-9)
    capsys.readouterr()
    assert main([*arguments, "--out", "-"]) == 0
    (folder / "piped.json").write_text(capsys.readouterr().out)
    assert_frame_equal(family.read_json("piped.json").steps, expected.steps, rel_tol=1e-9)
    assert (folder / "s.json").read_text().startswith("{")


@pytest.mark.system
def test_a_gram_goes_through_a_pipe(folder):
    written = run("gram", "t.parquet", "--columns", "a", "b", "y", "--out", "-")
    found = run("sequence", "-", "--target", "y", "--json", input=written.stdout)
    (folder / "g.json").write_text(written.stdout)
    expected = ds.anytime_sequence(ds.gram("t.parquet", ["a", "b", "y"]), "y").steps
    told = json.loads(found.stdout)
    assert [step["group"] for step in told["steps"]] == expected["group"].to_list()
    assert [step["r2"] for step in told["steps"]] == pytest.approx(expected["r2"].to_list())
    assert (told["rows"], told["skipped"]) == (180, 20)
    assert ds.Gram.read_json("g.json").rows == 180
    assert main(["sequence", "g.json", "--target", "y", "--out", "s.json"]) == 0
    damaged = written.stdout.replace('"rows": 180', '"rows": 181')
    assert "damaged" in run("sequence", "-", "--target", "y", input=damaged).stderr


def test_records_of_groups_of_rows(folder, capsys):
    asked = ["gram", "t.parquet", "--by", "yes", "--fold", "3", "--key", "n", "--seed", "5"]
    asked += ["--columns", "a", "y", "--weight", "n"]
    expected = ds.gram_by("t.parquet", ["yes"], ["a", "y"], "n", fold=3, key="n", seed=5)
    assert main([*asked, "--out", "g.parquet"]) == 0
    assert f"{expected.height} records" in capsys.readouterr().out
    assert_frame_equal(pl.read_parquet("g.parquet"), expected, rel_tol=1e-12)
    for ending in ("ndjson", "arrow"):
        assert main([*asked, "--out", f"g.{ending}"]) == 0
    assert_frame_equal(pl.read_ipc("g.arrow"), expected, rel_tol=1e-12)
    lines = (folder / "g.ndjson").read_text().splitlines()
    rows = [json.loads(line)["gram"]["rows"] for line in lines]
    assert rows == expected["gram"].struct.field("rows").to_list()
    assert main([*asked, "--out", "g.csv"]) == 2
    assert main(["gram", "t.parquet", "--out", "g.arrow"]) == 2
    assert "must end in .parquet, .json, or be '-'" in capsys.readouterr().err


def test_cross_validation_is_that_of_python(folder, capsys):
    arguments = ["sequence", "t.parquet", "--target", "y", "--cv", "4"]
    assert main([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["held_out"]
    expected = ds.cross_validate("t.parquet", "y", "anytime_sequence", folds=4).table
    assert [one["r2"] for one in told] == pytest.approx(expected["r2"].to_list())
    assert [one["best"] for one in told] == expected["best"].to_list()
    assert main(arguments) == 0
    assert "On held-out rows:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("limit", "code"), [("19", 65), ("20", 0), ("9.9%", 65), ("10%", 0), ("0", 65), ("100%", 0)]
)
@pytest.mark.parametrize("command", [["gram"], ["sequence", "--target", "y"], ["gram", "--by", "n"],
                                     ["report", "--target", "y"]], ids=" ".join)  # fmt: skip
def test_more_rows_skipped_than_allowed_is_a_code_of_its_own(folder, capsys, command, limit, code):
    name, *more = command
    found = main([name, "t.parquet", *more, "--max-skipped", limit, "--out", "out"])
    assert found == code
    assert (folder / "out").exists() == (code == 0)
    if code:
        error = capsys.readouterr().err
        assert f"20 of 200 rows are left out; --max-skipped is {limit}\n" in error


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sequence", "t.parquet", "--target", "y", "--bugdet", "5"], "did you mean '--budget'?"),
        (["sequence", "t.parquet", "--target", "y", "--budg", "5"], "did you mean '--budget'?"),
        (["sequences", "t.parquet"], "did you mean 'sequence'?"),
        (["store", "refreshh", "s"], "did you mean 'refresh'?"),
        (["store", "show", "s", "--maxskipped", "3"], "did you mean '--max-skipped'?"),
        (["sequence", "t.parquet"], "the following arguments are required: --target"),
        (
            ["sequence", "t.parquet", "--target", "y", "--ridge", "much"],
            "--ridge: 'much' must be a number >= 0",
        ),
        (["sequence", "t.parquet", "--target", "y", "--scale", "1"], "'1' must be yes or no"),
        (["sequence", "t.parquet", "--target", "y", "--rule", "best"], "rule is 'best'; it must"),
        (["sequence", "t.parquet", "--target", "y", "--family", "f"], "family is 'f'; it must"),
        (["sequence", "t.parquet", "--target", "y", "--out", "s.csv"], "must end in .parquet"),
        (["sequence", "t.parquet", "--target", "y", "--out", "-", "--json"], "give one"),
        (["sequence", "t.parquet", "--target", "y", "--max-skipped", "few"], "is 'few'; it must"),
        (["sequence", "t.parquet", "--target", "y", "--max-skipped", "101%"], "is '101%'"),
        (["sequence", "t.parquet", "--target", "y", "--cv", "1"], "folds is 1"),
        (["sequence", "-", "--target", "y"], "target names unknown column 'y'"),
        (["gram", "t.parquet", "--out", "g.parquet", "--key", "n"], "fold"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_a_mistake_is_one_sentence(folder, capsys, monkeypatch, arguments, words):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"nothing\n1")))
    try:
        code = main(arguments)
    except SystemExit as stopped:
        code = stopped.code
    printed, error = capsys.readouterr()
    assert code == 2
    assert words in error
    assert error.startswith("dbselect: ")
    assert error.count("\n") == 1
    assert printed == ""
    assert {path.name for path in folder.iterdir()} == {"t.parquet"}


@pytest.mark.system
def test_a_process_ends_with_the_code_and_prints_to_the_error_stream(folder):
    for arguments, code in (
        (["sequence", "t.parquet", "--target", "y", "--bugdet", "5"], 2),
        (["sequence", "none.csv", "--target", "y"], 2),
        (["gram", "t.parquet", "--out", "g", "--max-skipped", "5"], 65),
    ):
        found = run(*arguments)
        assert found.returncode == code
        assert found.stderr.startswith("dbselect: ")
        assert (found.stderr.count("\n"), found.stdout) == (1, "")


@pytest.mark.system
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["sequence", "--help"],
        ["store", "show", "--help"],
        ["extension", "--help"],
    ],
)
def test_help_loads_nothing_heavy(arguments):
    code = (
        "import sys\nfrom dbselect.doors.cli import main\n"
        f"try:\n    main({arguments})\nexcept SystemExit:\n    print(*sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(found.stdout.splitlines()[-1].split()) & HEAVY


@pytest.mark.system
def test_a_reader_that_leaves_is_no_error(folder):
    command = f"{sys.executable} -m dbselect sequence t.parquet --target y"
    line = f"{command} --out s.parquet | head -n 1; echo ${{PIPESTATUS[0]}}"
    # A reader that has gone before a line is printed.
    gone = f"{command} | (exec 0<&-; sleep 3); echo ${{PIPESTATUS[0]}}"
    for shell, codes in ((line, ("0", "141")), (gone, ("141",))):
        found = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
        assert found.stderr == ""
        assert found.stdout.splitlines()[-1] in codes
    assert ds.results.Sequence.read_parquet("s.parquet").rule == "fr"


@pytest.mark.system
@pytest.mark.parametrize(
    ("settings", "is_ascii"),
    [
        ({"LC_ALL": "C"}, True),
        ({"TERM": "dumb", "LC_ALL": "C.UTF-8"}, True),
        ({"PYTHONIOENCODING": "ascii", "LC_ALL": "C.UTF-8"}, True),
        ({"LC_ALL": "C.UTF-8", "TERM": "xterm"}, False),
    ],
)
def test_terminals_without_boxes(folder, settings, is_ascii):
    found = run("sequence", "t.parquet", "--target", "y", env={**os.environ, **settings})
    assert found.returncode == 0
    assert found.stdout.isascii() == is_ascii
    assert "\x1b" not in found.stdout + found.stderr


@pytest.mark.system
def test_names_that_a_terminal_cannot_show_are_escaped(folder):
    pl.read_parquet("t.parquet").rename({"a": "größe"}).write_parquet("t.parquet")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    found = run("sequence", "t.parquet", "--target", "y", env=environment)
    assert found.returncode == 0
    assert r"gr\xf6\xdfe" in found.stdout


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="terminals of Unix")
@pytest.mark.parametrize(
    ("settings", "colour"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_are_for_terminals(tmp_path, settings, colour):
    import pty

    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", **settings}
    environment = {name: value for name, value in environment.items() if value}
    command = [sys.executable, "-m", "dbselect", "sequence", "none.parquet", "--target", "y"]
    with subprocess.Popen(command, stderr=end, env=environment, cwd=tmp_path) as process:
        assert process.wait() == 2
    os.close(end)
    printed = os.read(terminal, 1000).decode()
    os.close(terminal)
    assert ("\x1b[" in printed) == colour
    assert "no file is at" in printed

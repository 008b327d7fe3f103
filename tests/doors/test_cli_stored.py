"""Commands on what other commands wrote: merge, compare, predict, sql; and completion of shells."""

import json
import signal
import subprocess
import sys

import duckdb
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import dbselect as ds
from dbselect.doors.cli import COMMANDS, main

ROWS = 120


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder, the current one, with a table in which 10 rows lack a column."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    x = rng.normal(size=(ROWS, 2))
    y = 2 * x[:, 0] + x[:, 1] + rng.normal(size=ROWS)
    frame = pl.DataFrame({"id": np.arange(ROWS), "a": x[:, 0], "b": x[:, 1], "y": y})
    frame = frame.with_columns(
        a=pl.when(pl.col("id") >= 10).then("a"),
        k=pl.Series(rng.choice(["one", "two"], ROWS)),
        c=pl.Series(rng.choice(["u", "v", "w"], ROWS)),
    )
    frame.write_parquet("t.parquet")
    (tmp_path / "groups.json").write_text('{"a": ["a"], "b": ["b"], "k": ["k"]}')
    return tmp_path


def made(*more: str, target: str = "y", out: str = "s.parquet") -> str:
    """Write a sequence, and return the name of its file."""
    command = ["sequence", "t.parquet", "--target", target, "--groups", "groups.json"]
    assert main([*command, "--max-groups", "2", *more, "--out", out]) == 0
    return out


def command_in_process(*arguments: str, **settings) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dbselect", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, **settings)


# Merging


@pytest.mark.parametrize("ending", ["parquet", "ndjson", "arrow"])
def test_merged_records_of_keys_are_those_of_all_their_rows(folder, ending):
    frame = pl.read_parquet("t.parquet").select("k", "c", "a", "y")
    for name, part in (("1", frame[:50]), ("2", frame[50:])):
        part.write_parquet(f"{name}.parquet")
        command = ["gram", f"{name}.parquet", "--by", "k", "c", "--out", f"g{name}.{ending}"]
        assert main(command) == 0
    merge = ["merge", f"g1.{ending}", f"g2.{ending}", "--by", "k", "--out", "all.parquet"]
    assert main(merge) == 0
    found, expected = pl.read_parquet("all.parquet"), ds.gram_by(frame.drop("c"), ["k"])
    assert found["k"].to_list() == expected["k"].to_list()
    for one, other in zip(found["gram"], expected["gram"], strict=True):
        assert one["rows"] == other["rows"]
        np.testing.assert_allclose(one["comoment"], other["comoment"], rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["t.parquet"], "'t.parquet' has no Gram records"),
        (["g.parquet", "none.parquet"], "no file is at 'none.parquet'"),
        (["g.parquet", "h.parquet"], "unequal"),
        (["g.parquet", "--by", "k"], "'g.parquet' has unknown column 'k'"),
    ],
)
def test_what_cannot_be_merged_is_told(folder, capsys, arguments, words):
    assert main(["gram", "t.parquet", "--columns", "a", "y", "--out", "g.parquet"]) == 0
    assert main(["gram", "t.parquet", "--columns", "a", "--out", "h.parquet"]) == 0
    assert main(["merge", *arguments, "--out", "all.parquet"]) == 2
    assert words in capsys.readouterr().err
    assert not (folder / "all.parquet").exists()


# Prediction


@pytest.mark.parametrize("ending", ["parquet", "csv", "tsv", "ndjson", "arrow"])
def test_predictions_are_those_of_python_in_the_order_of_the_rows(folder, capsys, ending):
    out = f"p.{ending}"
    assert main(["predict", made(), "t.parquet", "--budget", "1", "--out", out]) == 0
    told = capsys.readouterr().out
    assert "120 rows, 10 by a shorter prefix, 0 without a prediction" in told
    if ending == "tsv":
        found = pl.read_csv(out, separator="\t")
    else:
        readers = {"ndjson": pl.read_ndjson, "arrow": pl.read_ipc, "csv": pl.read_csv}
        found = readers.get(ending, pl.read_parquet)(out)
    table = pl.read_parquet("t.parquet")
    expected = ds.results.Sequence.read_parquet("s.parquet").predict(table, budget=1)
    assert_frame_equal(found.drop("prediction"), table, abs_tol=1e-9)
    predicted = found["prediction"].fill_null(np.nan).to_numpy()
    np.testing.assert_allclose(predicted, expected, rtol=1e-9)


def test_a_source_may_lack_columns_if_it_is_said(folder, capsys):
    made()
    table = pl.read_parquet("t.parquet").drop("b")
    table.write_parquet("less.parquet")
    arguments = ["predict", "s.parquet", "less.parquet", "--keep", "id", "--out", "p.csv"]
    assert main(arguments) == 2
    assert "the rows lack column 'b', which the prediction reads" in capsys.readouterr().err
    assert main([*arguments, "--missing-columns", "unavailable", "--json"]) == 0
    seq = ds.results.Sequence.read_parquet("s.parquet")
    expected = seq.anytime_predict(table, missing_columns="unavailable")
    told = json.loads(capsys.readouterr().out)
    assert told == {"rows": 120, "shorter": 120, "missing": 0}
    assert set(expected["step"]) <= {0, 1}
    np.testing.assert_allclose(pl.read_csv("p.csv")["prediction"], expected["prediction"])


def test_several_predictions_have_a_column_each(folder, capsys):
    (folder / "groups.json").write_text('{"a": ["a"], "k": ["k"]}')
    joint = made("--target", "b", out="joint.json")
    assert main(["predict", joint, "t.parquet", "--keep", "id", "--out", "p.csv"]) == 0
    found = pl.read_csv("p.csv")
    assert found.columns == ["id", "prediction.y", "prediction.b"]
    expected = ds.results.JointSequence.read_json(joint).predict(pl.read_parquet("t.parquet"))
    np.testing.assert_allclose(found.drop("id").fill_null(np.nan).to_numpy(), expected, rtol=1e-9)
    classes = made("--family", "multinomial", target="c", out="m.parquet")
    assert main(["predict", classes, "t.parquet", "--keep", "id", "--out", "p.csv"]) == 0
    shares = pl.read_csv("p.csv").drop("id", "prediction.u").columns
    assert shares == ["prediction.v", "prediction.w"]


@pytest.mark.system
def test_predictions_go_through_pipes_as_csv(folder):
    written = command_in_process(
        "sequence", "t.parquet", "--target", "y", "--groups", "groups.json", "--out", "-"
    )
    arguments = ("predict", "-", "t.parquet", "--keep", "id")
    found = command_in_process(*arguments, input=written.stdout)
    lines = found.stdout.splitlines()
    assert lines[0] == "id,prediction"
    assert (len(lines), found.stderr, found.returncode) == (ROWS + 1, "", 0)
    pl.read_parquet("t.parquet").clear().write_parquet("t.parquet")
    empty = command_in_process(*arguments, input=written.stdout)
    assert (empty.stdout, empty.returncode) == ("id,prediction\n", 0)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["s.parquet", "less.parquet"], 2, "the rows lack columns 'a', 'b', which"),
        (["t.parquet", "t.parquet"], 2, "rows; a stored result is one"),
        (["g.parquet", "t.parquet"], 2, "'g.parquet' is no sequence"),
        (["none.parquet", "t.parquet"], 2, "No such file"),
        (["s.parquet", "t.parquet", "--keep", "idd"], 2, "unknown column 'idd'; there is 'id'"),
        (["s.parquet", "p.parquet"], 2, "has a column 'prediction'"),
        (["s.parquet", "t.parquet", "--budget", "-1"], 2, "budget is -1.0"),
        (["s.parquet", "t.parquet", "--handle-unknown", "x"], 2, "handle_unknown is 'x'"),
        (["s.parquet", "t.parquet", "--missing-columns", "x"], 2, "missing_columns is 'x'"),
        (["o.parquet", "t.parquet", "--max-skipped", "9"], 65, "10 of 120 rows are left out"),
    ],
)
def test_what_cannot_be_predicted_leaves_no_file(folder, capsys, arguments, code, words):
    made("--rule", "fr")
    (folder / "own.json").write_text('{"b": ["b"]}')
    beside = ["--family", "binomial", "--offset", "a", "--groups", "own.json"]
    made(*beside, target="k", out="o.parquet")
    table = pl.read_parquet("t.parquet")
    table.drop("a", "b").write_parquet("less.parquet")
    table.with_columns(prediction=1).write_parquet("p.parquet")
    assert main(["gram", "t.parquet", "--columns", "a", "--out", "g.parquet"]) == 0
    before = {path.name for path in folder.iterdir()}
    assert main(["predict", *arguments, "--out", "out.parquet"]) == code
    assert words in capsys.readouterr().err
    assert {path.name for path in folder.iterdir()} == before


#: A command that waits, once its file is written, before the file takes its name.
WAITING = """
import os, sys
from dbselect.doors.cli import main

def wait(_):
    print("written", flush=True)
    sys.stdin.read()

os.fsync = wait
sys.exit(main())
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_killed_command_leaves_the_old_file(folder, name):
    sent = signal.Signals[name]
    made()
    (folder / "out.csv").write_text("old")
    command = [sys.executable, "-c", WAITING, "predict", "s.parquet", "t.parquet"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([*command, "--out", "out.csv"], text=True, **pipes) as process:
        assert process.stdout.readline() == "written\n"
        process.send_signal(sent)
        _, told = process.communicate()
        code = process.returncode
    assert code == (130 if sent == signal.SIGINT else -sent)
    assert told == ("dbselect: interrupted\n" if sent == signal.SIGINT else "")
    assert (folder / "out.csv").read_text() == "old"
    assert main(["predict", "s.parquet", "t.parquet", "--out", "out.csv"]) == 0
    assert list(folder.glob(".dbselect-*")) == []


# SQL


def test_sql_predicts_in_duckdb_what_python_predicts(folder, capsys):
    capsys.readouterr()
    made()
    capsys.readouterr()
    assert main(["sql", "s.parquet", "--budget", "2"]) == 0
    expression = capsys.readouterr().out
    found = duckdb.sql(f"SELECT {expression} AS p FROM 't.parquet' ORDER BY id").pl()["p"]
    model = ds.results.Sequence.read_parquet("s.parquet").at(2)
    expected = model.predict(pl.read_parquet("t.parquet"))
    np.testing.assert_allclose(found.fill_null(np.nan).to_numpy(), expected, rtol=1e-12)
    assert main(["sql", "s.parquet", "--dialect", "snowflake", "--out", "p.sql"]) == 0
    assert (folder / "p.sql").read_text().count("\n") == 1
    assert main(["sql", "s.parquet", "--dialect", "duckbd"]) == 2
    assert "dialect is 'duckbd'" in capsys.readouterr().err


# Comparison


def test_sequences_are_compared_as_in_python(folder, capsys):
    made("--rule", "fr", out="fr.parquet")
    made("--rule", "omp", out="omp.json")
    capsys.readouterr()
    assert main(["compare", "fr.parquet", "o=omp.json", "--data", "t.parquet", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    sequences = {
        "fr": ds.results.Sequence.read_parquet("fr.parquet"),
        "o": ds.results.Sequence.read_json("omp.json"),
    }
    expected = ds.compare(sequences, data="t.parquet")
    assert_frame_equal(pl.DataFrame(told["sequences"]), expected.table)
    assert told["cut"] == expected.cut
    assert main(["compare", "fr.parquet", "omp.json", "--out", "c.csv"]) == 0
    assert "Cut at cost" in capsys.readouterr().out
    assert pl.read_csv("c.csv")["name"].to_list() == ["fr", "omp"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["s.parquet", "./s.parquet"], "two sequences are called 's'"),
        (["s.parquet", "--reference", "t"], "reference is 't'"),
        (["s.parquet", "--fraction", "2"], "fraction is 2.0"),
        (["s.parquet", "--weight", "w"], "weight is 'w'"),
        (["t.parquet"], "rows; a stored result is one"),
    ],
)
def test_what_cannot_be_compared_is_told(folder, capsys, arguments, words):
    made()
    assert main(["compare", *arguments]) == 2
    assert words in capsys.readouterr().err


# Completion


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_every_command(shell, capsys):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(name in script for name in COMMANDS)
    assert "max-skipped" in script


@pytest.mark.system
def test_bash_completes(folder):
    pytest.importorskip("shtab")
    (folder / "script").write_text(command_in_process("completion", "bash").stdout)
    program = (
        "source ./script; COMP_WORDS=(dbselect sequence --budg); COMP_CWORD=2; "
        "_shtab_dbselect; echo ${COMPREPLY[@]}"
    )
    found = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["--budget"]


# Models


def test_stored_models_predict(folder, capsys):
    """Against numpy's least squares, and scikit-learn's probabilities of classes."""
    rows = pl.read_parquet("t.parquet").with_columns(pl.col("a").fill_null(0.0))
    rows.write_parquet("full.parquet")
    X = np.column_stack([np.ones(ROWS), rows["a"], rows["b"]])
    ds.fit(rows, "y", ["a", "b"]).write_parquet("m.parquet")
    assert main(["predict", "m.parquet", "full.parquet", "--out", "p.parquet"]) == 0
    expected = X @ np.linalg.lstsq(X, rows["y"].to_numpy(), rcond=None)[0]
    np.testing.assert_allclose(pl.read_parquet("p.parquet")["prediction"], expected, rtol=1e-10)
    # What a row lacks leaves it without a prediction, and that is counted.
    capsys.readouterr()
    assert main(["predict", "m.parquet", "t.parquet", "--keep", "id", "--out", "p.csv"]) == 0
    assert "10 without a prediction" in capsys.readouterr().out
    assert pl.read_csv("p.csv")["prediction"].null_count() == 10
    linear_model = pytest.importorskip("sklearn.linear_model")
    ds.fit(rows, "c", ["a", "b"], family="multinomial").write_json("c.json")
    assert main(["predict", "c.json", "full.parquet", "--keep", "id", "--out", "p.parquet"]) == 0
    found = pl.read_parquet("p.parquet")
    assert found.columns == ["id", "prediction.u", "prediction.v", "prediction.w"]
    other = linear_model.LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    probabilities = other.fit(X[:, 1:], rows["c"]).predict_proba(X[:, 1:])
    np.testing.assert_allclose(found.drop("id").to_numpy(), probabilities, atol=1e-6)


def test_a_model_takes_no_budget_and_is_sql(folder, capsys):
    rows = pl.read_parquet("t.parquet")
    model = ds.fit(rows, "y", ["b"])
    model.write_parquet("m.parquet")
    assert main(["predict", "m.parquet", "t.parquet", "--budget", "2"]) == 2
    assert "--budget is for a sequence, and 'm.parquet' is one model" in capsys.readouterr().err
    assert main(["sql", "m.parquet"]) == 0
    query = f"SELECT {capsys.readouterr().out} FROM 't.parquet'"
    found = [value for (value,) in duckdb.sql(query).fetchall()]
    np.testing.assert_allclose(found, model.predict(rows), rtol=1e-12)
    ds.gram(rows, ["b", "y"]).write_parquet("g.parquet")
    assert main(["predict", "g.parquet", "t.parquet"]) == 2
    assert "no model" in capsys.readouterr().err

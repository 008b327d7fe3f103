"""Files of learning to rank become a table, and its groups and costs are those of the paper."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.sources.engines import sparse

COSTS = (1.0, 5.0, 20.0, 50.0, 100.0, 150.0, 200.0)


@pytest.fixture
def documents(tmp_path):
    """Return a file that scikit-learn writes, and what it holds."""
    rng = np.random.default_rng(0)
    X = np.round(rng.random((300, 40)) * (rng.random((300, 40)) < 0.5), 6)
    X[:, -1] = 0.5
    relevance, query = rng.integers(0, 5, 300), np.repeat(np.arange(30) + 7, 10)
    path = tmp_path / "train.txt"
    dump_svmlight_file(X, relevance, str(path), zero_based=False, query_id=query)
    return path, X, relevance, query


def test_rows_are_those_that_scikit_learn_reads(documents, tmp_path, monkeypatch):
    path, X, relevance, query = documents
    expected = load_svmlight_file(str(path), query_id=True, zero_based=False)
    for block in (sparse.BLOCK_BYTES, 1000):  # some lines at a time
        monkeypatch.setattr(sparse, "BLOCK_BYTES", block)
        out = ds.io.svmlight_to_parquet(path, tmp_path / "train.parquet")
        table = pl.read_parquet(out)
        assert table.columns == ["query", "relevance", *(f"f{j}" for j in range(1, 41))]
        assert table["query"].to_list() == query.tolist()
        assert table["relevance"].to_list() == relevance.tolist()
        assert np.array_equal(table.drop("query", "relevance").to_numpy(), expected[0].toarray())
        assert np.array_equal(expected[0].toarray(), X)


def test_several_files_and_compressed_ones_follow_each_other(documents, tmp_path):
    path, X, *_ = documents
    lines = path.read_bytes().splitlines(keepends=True)
    lines = [line for line in lines if not line.startswith(b"#")]
    (tmp_path / "a.txt").write_bytes(b"".join(lines[:100]))
    with gzip.open(tmp_path / "b.txt.gz", "wb") as file:
        file.write(b"\n# a remark\n" + b"".join(lines[100:]))
    for source in ([tmp_path / "a.txt", tmp_path / "b.txt.gz"], tmp_path / "[ab].txt*"):
        out = ds.io.svmlight_to_parquet(source, tmp_path / "all.parquet", features=42)
        table = pl.read_parquet(out)
        assert table.select("f1", "f2").rows() == [tuple(row) for row in X[:, :2].tolist()]
        assert table["f42"].sum() == 0


def test_the_papers_table_is_one_call_each(documents, tmp_path):
    path, *_ = documents
    rows = ds.io.svmlight_to_parquet(path, tmp_path / "train.parquet")
    costs = {f"f{j}": COSTS[j % 7] for j in range(1, 41)}
    groups, summed = ds.reference.cost_groups(costs, 5)
    assert sorted(name for own in groups.values() for name in own) == sorted(costs)
    for name, own in groups.items():
        assert {costs[column] for column in own} == {summed[name] / len(own)}
        assert len(own) <= 5
    assert sum(len(own) < 5 for own in groups.values()) <= 7
    assert groups != ds.reference.cost_groups(costs, 5, seed=1)[0]
    sequence = ds.anytime_sequence(rows, "relevance", groups, summed, rule="omp", ridge=1e-5)
    assert sequence.spent[-1] == sum(costs.values())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("2 1:0.5", "line 2 begins '2 1:0.5'"),
        ("2 qid:1 1:0.5 x", "line 2 begins"),
        ("2 qid:1 1:0.5 1:0.25", "must rise"),
        ("2 qid:1 3:0.5 2:0.25", "must rise"),
        ("2 qid:1 0:0.5", "from 1 on"),
        ("2 qid:1 1:5e", "5e"),
        ("two qid:1 1:5", "two"),
        ("2 qid:1 1:0.5 2:", "line 2 begins"),
    ],
)
def test_another_form_is_an_error_that_names_the_line(tmp_path, line, said):
    path, out = tmp_path / "bad.txt", tmp_path / "bad.parquet"
    path.write_text(f"1 qid:1 1:0.5 2:1\n{line}\n")
    with pytest.raises(ds.DbselectError, match=said):
        ds.io.svmlight_to_parquet(path, out)
    assert [each.name for each in tmp_path.iterdir()] == ["bad.txt"]


def test_wrong_arguments_are_refused_by_name(documents, tmp_path):
    path, out = documents[0], tmp_path / "out.parquet"
    for source, options, said in (
        (tmp_path / "none.txt", {}, "no file is at"),
        (3, {}, "source is 3"),
        ([], {}, "source"),
        (path, {"features": 0}, "features is 0"),
        (path, {"features": 39}, "features is 39; a line names feature 40"),
    ):
        with pytest.raises(ds.DbselectError, match=said):
            ds.io.svmlight_to_parquet(source, out, **options)
    with pytest.raises(ds.errors.ArgumentError, match="which is a file to read"):
        ds.io.svmlight_to_parquet(path, path)
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing\n")
    with pytest.raises(ds.errors.SourceError, match="name no feature"):
        ds.io.svmlight_to_parquet(empty, out)
    assert not out.exists()
    for costs, size, said in (
        ({"a": 0.0}, 2, "for 'a'"), ({"a": "1"}, 2, "for 'a'"), ({}, 2, "costs is"),
        ({"a": 1.0}, 0, "size is 0"), ({"a": True}, 1, "for 'a'"), ([1.0], 2, "costs is"),
        ({"a": 1.0}, True, "size is True"), ({"a": 1.0}, 1.0, "size is 1.0"),
    ):  # fmt: skip
        with pytest.raises(ds.errors.ArgumentError, match=said):
            ds.reference.cost_groups(costs, size)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "long.txt"
    line = "1 qid:1 " + " ".join(f"{j}:0.5" for j in range(1, 101)) + "\n"
    code = (
        "import dbselect as ds, re, sys; ds.io.svmlight_to_parquet(*sys.argv[1:]);"
        "print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"
    )
    peaks = []
    for lines in (10_000, 80_000):  # 6 and 49 MB of text, 8 and 64 MB of numbers
        path.write_text(line * lines)
        run = [sys.executable, "-c", code, str(path), str(tmp_path / "out.parquet")]
        peaks.append(int(subprocess.run(run, check=True, capture_output=True).stdout) / 1024)
    assert peaks[1] < peaks[0] + 40


def test_the_command_line_writes_the_same(documents, tmp_path, capsys):
    path, own, other = documents[0], tmp_path / "own.parquet", tmp_path / "other.parquet"
    ds.io.svmlight_to_parquet(path, own)
    assert main(["svmlight", str(path), "--out", str(other)]) == 0
    assert "300 documents, 40 features" in capsys.readouterr().out
    assert pl.read_parquet(other).equals(pl.read_parquet(own))
    assert main(["svmlight", str(path), "--out", str(other), "--features", "45", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["features"] == 45
    for arguments, said in (
        (["--out", "-"], "--out is '-'"),
        (["--out", str(tmp_path / "rows.txt")], ".parquet"),
        (["--out", str(other), "--features", "3"], "features is 3"),
    ):
        assert main(["svmlight", str(path), *arguments]) == 2
        assert said in capsys.readouterr().err


def test_many_features_are_one_field_of_entries(documents, tmp_path, capsys):
    path, out = documents[0], tmp_path / "entries.parquet"
    expected, relevance, query = load_svmlight_file(str(path), query_id=True, zero_based=False)
    ds.io.svmlight_to_parquet(path, out, entries="f")
    rows = pq.read_table(out)
    np.testing.assert_array_equal(rows["query"], query)
    table = ds.io.sparse_table(expected, {"relevance": relevance}, field="g")
    wide = ds.anytime_sequence(rows.drop_columns("query"), "relevance", max_groups=5, gram="lazy")
    same = ds.anytime_sequence(table, "relevance", max_groups=5, gram="lazy")
    # Features of the file count from 1, columns of a matrix from 0.
    of_file = [int(name[2:-1]) - 1 for name in wide.groups.names]
    assert of_file == [int(name[2:-1]) for name in same.groups.names]
    np.testing.assert_allclose(wide.r2, same.r2, rtol=1e-12)
    again = tmp_path / "again.parquet"
    arguments = ["svmlight", str(path), "--out", str(again), "--entries", "f", "--json"]
    assert main(arguments) == 0
    assert json.loads(capsys.readouterr().out)["entries"] == "f"
    assert pq.read_table(again).equals(rows)


def test_lines_without_a_query_are_read_into_entries_only(tmp_path):
    path, out = tmp_path / "plain.txt", tmp_path / "plain.parquet"
    path.write_text("1.5 3:2 900000:1 # words\n-1\n0 qid:7 1:4\n")
    rows = pq.read_table(ds.io.svmlight_to_parquet(path, out, entries="f")).to_pylist()
    assert [row["query"] for row in rows] == [0, 0, 7]
    assert [row["relevance"] for row in rows] == [1.5, -1.0, 0.0]
    assert [row["f"] for row in rows] == [[(3, 2.0), (900000, 1.0)], [], [(1, 4.0)]]
    with pytest.raises(ds.errors.SourceError, match="a line must be like"):
        ds.io.svmlight_to_parquet(path, out, features=5)
    for wrong in ("query", "", 3):
        with pytest.raises(ds.errors.ArgumentError, match="it must be the name of a field"):
            ds.io.svmlight_to_parquet(path, out, entries=wrong)
    with pytest.raises(ds.errors.ArgumentError, match="names feature 900000"):
        ds.io.svmlight_to_parquet(path, out, entries="f", features=5)

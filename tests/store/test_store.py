"""Sequences and Grams as files: the same after reading, whole or refused."""

import copy
import json
import tempfile
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal
from problems import random_problem
from tables import typed

import dbselect as ds
from dbselect.selection.criteria import RULES


def through_parquet(found: Any, folder: Path) -> Any:
    found.write_parquet(folder / "one.parquet")
    return type(found).read_parquet(folder / "one.parquet")


def through_json(found: Any, folder: Path) -> Any:
    found.write_json(folder / "one.json")
    return type(found).read_json(str(folder / "one.json"))


def through_arrow(found: Any, _: Path) -> Any:
    """Read a row of another's table, as from a column of stored sequences."""
    if isinstance(found, ds.Gram):
        return ds.Gram.from_struct(found.to_arrow()[0])
    with tempfile.TemporaryDirectory() as folder:
        found.write_parquet(Path(folder) / "one.parquet")
        table = pq.read_table(Path(folder) / "one.parquet")
    return ds.results.Sequence.from_struct(table.to_struct_array().combine_chunks()[0])


def through_duckdb(found: Any, folder: Path) -> Any:
    """Let DuckDB copy the file."""
    found.write_parquet(folder / "one.parquet")
    with ds.connect() as con:
        con.execute(f"CREATE TABLE m AS FROM '{folder}/one.parquet'")
        con.execute(f"COPY m TO '{folder}/two.parquet'")
    return type(found).read_parquet(folder / "two.parquet")


TRIPS = [through_parquet, through_json, through_arrow, through_duckdb]
trips = pytest.mark.parametrize("trip", TRIPS, ids=lambda trip: trip.__name__)


def assert_same_gram(found: ds.Gram, expected: ds.Gram) -> None:
    for field in fields(ds.Gram):
        if field.name == "missing":
            continue  # no field of the record, as the docstring says
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, np.ndarray):
            assert one.tobytes() == other.tobytes()
        else:
            assert one == other


def assert_same(found: ds.results.Sequence, expected: ds.results.Sequence) -> None:
    """Compare everything that a sequence consists of, bit for bit, and what it answers."""
    for field in fields(ds.results.Sequence):
        one, other = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(other, ds.Gram):
            assert_same_gram(one, other.select([expected.target, *expected.columns]))
        elif field.name == "groups":
            assert (one.columns, one.unused) == (other.columns, other.unused)
            assert list(one.columns) == list(other.columns)
            assert one.costs.tobytes() == other.costs.tobytes()
        elif isinstance(other, np.ndarray):
            assert (one.shape, one.dtype) == (other.shape, other.dtype)
            # What is not held yet is 0 of either sign, and is not stored.
            assert (one + 0.0).tobytes() == (other + 0.0).tobytes()
        else:
            assert one == other
    assert repr(found) == repr(expected)
    assert_frame_equal(found.steps, expected.steps, check_exact=True)
    for size, budget in enumerate(expected.spent.tolist()):
        assert found.at(budget) == expected.at(budget)
        assert found.at(size=size) == expected.at(size=size)
    assert found.doubling_capable == expected.doubling_capable
    assert_frame_equal(found.certificate(), expected.certificate(), check_exact=True)
    if expected.rule in RULES:
        mine, theirs = found.guarantee(), expected.guarantee()
        assert (mine.gamma, mine.doubling) == (theirs.gamma, theirs.doubling)
        assert_frame_equal(mine.steps, theirs.steps, check_exact=True)
    # What was read can be written again, and is the same record.
    assert found.to_struct() == expected.to_struct()


# Round trips


def nested() -> ds.results.Sequence:
    table = typed(np.random.default_rng(1))
    return ds.anytime_sequence(ds.gram(table.frame, columns=table.names, weight="weight"), "y")


def aliased() -> ds.results.Sequence:
    problem = random_problem(np.random.default_rng(2), rows=6)
    seq = problem.sequence()
    assert seq.aliased
    assert not seq.useful.all()
    return seq


def repriced() -> ds.results.Sequence:
    problem = random_problem(np.random.default_rng(3))
    shared = {"set": (0.5, list(problem.groups)[:2])}
    return problem.sequence(costs=None).with_costs(problem.costs, shared=shared)


def awkward() -> ds.results.Sequence:
    rng = np.random.default_rng(4)
    names = ['"q"', "o'c", "größe ☃", "a,b", " ", "new\nline", "nul\u0001", "\\"]
    frame = pl.DataFrame(rng.normal(size=(30, 8)), schema=names)
    groups = {f"the {name}": [name] for name in names[:-1]}
    gram = ds.gram(frame.with_columns(y=pl.sum_horizontal(pl.all()), unused=pl.col("\\") * 2))
    seq = ds.anytime_sequence(gram, "y", groups)
    assert seq.unused == ("\\", "unused")
    return seq


def useless() -> ds.results.Sequence:
    frame = pl.DataFrame({"y": [1.0, -1.0, -1.0, 1.0], "x": [1.0, 2.0, 3.0, 4.0], "c": [0.1] * 4})
    seq = ds.anytime_sequence(frame, "y")
    assert not seq.useful[1:].any()
    return seq


def empty() -> ds.results.Sequence:
    seq = random_problem(np.random.default_rng(5)).sequence(budget=0.1)
    assert len(seq.spent) == 1
    return seq


def singular() -> ds.results.Sequence:
    return replace(aliased(), condition=float("inf"))


KINDS = [nested, aliased, repriced, awkward, useless, empty, singular]


@pytest.mark.slow
@trips
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_sequence_is_the_same_after_reading(kind, trip, tmp_path):
    seq = kind()
    assert_same(trip(seq, tmp_path), seq)


@pytest.mark.slow
@trips
def test_gram_is_the_same_after_reading(trip, tmp_path):
    table = typed(np.random.default_rng(6))
    gram = ds.gram(table.frame, columns=table.names, weight="weight")
    extreme = ds.Gram(
        ["a", 'b"', "☃"],
        2**53 + 1,
        0,
        np.nextafter(1, 2),
        np.array([5e-324, -0.0, 1 / 3]),
        np.diag([1e308, 1e-295, 0.1]),
    )
    for one in (gram, gram - gram, extreme):
        assert_same_gram(trip(one, tmp_path), one)


def test_numbers_of_numpy_are_stored_like_pythons(tmp_path):
    problem = random_problem(np.random.default_rng(7))
    expected = problem.sequence(ridge=0.5)
    costs = {name: np.float64(cost) for name, cost in problem.costs.items()}
    seq = problem.sequence(ridge=np.float32(0.5), scale=np.bool_(True), costs=costs)
    for trip in (through_parquet, through_json):
        assert_same(trip(seq, tmp_path), expected)


# In the engines


def test_stored_sequence_predicts_in_duckdb_from_sql_alone(tmp_path):
    problem = random_problem(np.random.default_rng(8), (1, 3, 2, 1))
    seq, table = problem.sequence(), problem.table
    seq.write_parquet(tmp_path / "model.parquet")
    with ds.connect(tmp_path / "a.duckdb") as con:
        con.execute(f"CREATE TABLE m AS FROM '{tmp_path}/model.parquet'")
        con.register("rows", table.frame.to_arrow())
        con.execute("CREATE TABLE t AS FROM rows")
    row = "{" + ", ".join(f"'{name}': t.{name}" for name in table.names) + "}"
    with ds.connect(tmp_path / "a.duckdb", read_only=True) as con:
        for step, budget in enumerate([*seq.spent.tolist(), None]):
            limit = "NULL" if budget is None else budget
            query = f"SELECT unnest(anytime_predict(sequence, {row}, budget := {limit})) FROM m, t"
            found = con.execute(query).fetchall()
            expected = seq.predict(table.X, budget, columns=table.names)
            np.testing.assert_allclose([row[0] for row in found], expected, rtol=1e-10)
            last = min(step, len(seq.spent) - 1)
            assert {row[1] for row in found} == {last}
            assert {row[2] for row in found} == {seq.spent[last]}
            order = [*seq.steps["group"], None]
            assert {row[3] for row in found} == {order[last + 1]}


# Whole or not at all


class FullError(Exception):
    """The disk is full."""


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("kind", [ds.results.Sequence, ds.Gram])
@pytest.mark.parametrize("form", ["parquet", "json"])
def test_a_failed_write_leaves_what_was_there(form, kind, there, tmp_path, monkeypatch):
    problem = random_problem(np.random.default_rng(11))
    found, path = problem.sequence(), tmp_path / f"model.{form}"
    found = found.gram if kind is ds.Gram else found
    write = getattr(found, f"write_{form}")
    if there:
        write(path)
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}

    def full_table(_: pa.Table, path: Path, **__: Any) -> None:
        path.write_bytes(b"PAR1 and not much more")
        raise FullError

    def full_text(path: Path, text: str) -> None:
        path.write_bytes(text[: len(text) // 2].encode())
        raise FullError

    monkeypatch.setattr(pq, "write_table", full_table)
    monkeypatch.setattr(Path, "write_text", full_text)
    with pytest.raises(FullError):
        write(path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before


# Damage


RECORD = random_problem(np.random.default_rng(14), (1, 2, 1)).sequence().to_struct()


def damaged(*place: Any, value: Any = None, gone: bool = False) -> dict[str, Any]:
    """Return the record with one value replaced, or gone."""
    record = copy.deepcopy(RECORD)
    *path, last = place
    part = record
    for key in path:
        part = part[key]
    if gone:
        del part[last]
    else:
        part[last] = value
    return record


def damages() -> Iterator[tuple[str, dict[str, Any]]]:
    for field in RECORD:
        if True:
            yield f"no {field}", damaged(field, gone=True)
        if field not in ("rule", "condition", "scale"):
            yield f"NULL {field}", damaged(field)
            yield f"number for {field}", damaged(field, value=-1.0)
    for field in ("spent", "explained", "r2", "intercept", "gain", "score", "action", "group"):
        yield f"no {field} in a step", damaged("sequence", 1, field, gone=True)
        yield f"NULL {field} in a step", damaged("sequence", 1, field)
        yield f"text for {field} in a step", damaged("sequence", 1, field, value="much")
    for field in ("spent", "explained", "r2", "intercept"):
        yield f"NaN {field} in a step", damaged("sequence", 1, field, value=float("nan"))
        yield f"NULL {field} at the start", damaged("sequence", 0, field)
    column = next(iter(RECORD["sequence"][1]["coefficients"]))
    for value in (None, "much", float("inf")):
        yield f"coefficient {value}", damaged("sequence", 1, "coefficients", column, value=value)
    yield "unknown coefficient", damaged("sequence", 1, "coefficients", "x99", value=1.0)
    yield "coefficients a list", damaged("sequence", 1, "coefficients", value=[1.0])
    yield "no steps", damaged("sequence", value=[])
    yield "one step less", damaged("sequence", 1, gone=True)
    yield "one choice more", damaged("choices", value=["FREE"] * 4)
    yield "unknown choice", damaged("choices", 0, value="LUCKY")
    yield "unknown stop", damaged("stop", value="TIRED")
    yield "text for the condition", damaged("condition", value="good")
    for cost in (None, 0.0, -1.0, float("nan"), "cheap"):
        yield f"cost {cost}", damaged("groups", 0, "cost", value=cost)
    yield "no group name", damaged("groups", 0, "name", gone=True)
    yield "another group name", damaged("groups", 0, "name", value="other")
    yield "text for columns", damaged("groups", 0, "columns", value="x0")
    yield "unknown column", damaged("groups", 0, "columns", value=["x99"])
    yield "text for aliased", damaged("aliased", value="x0")
    yield "another target", damaged("target", value="z")
    yield "gram of other columns", damaged("gram", "columns", 1, value="x99")
    yield "gram too short", damaged("gram", "comoment", gone=False, value=[1.0])
    yield "negative rows", damaged("gram", "rows", value=-1)


DAMAGES = dict(damages())


def test_the_record_that_the_damages_are_made_of_is_sound():
    assert ds.results.Sequence.from_struct(RECORD).to_struct() == RECORD


@pytest.mark.parametrize("name", list(DAMAGES))
def test_a_damaged_record_is_refused(name, tmp_path):
    with pytest.raises(ds.errors.RecordError, match=r"^sequence record ") as refusal:
        ds.results.Sequence.from_struct(DAMAGES[name])
    assert type(refusal.value) is ds.errors.RecordError
    path = tmp_path / "model.json"
    path.write_text(json.dumps(DAMAGES[name]))
    with pytest.raises(ds.errors.RecordError, match=r"^sequence record "):
        ds.results.Sequence.read_json(path)


@pytest.mark.parametrize("record", [None, 3, "text", [], pa.scalar(1)])
def test_what_is_no_record_is_refused(record):
    with pytest.raises(ds.errors.RecordError, match="a sequence record must be a mapping"):
        ds.results.Sequence.from_struct(record)


@pytest.mark.parametrize("kind", [ds.results.Sequence, ds.Gram])
@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("json", None),
        ("json", b""),
        ("json", b'{"target": '),
        ("json", b"\xff\xfe"),
        ("parquet", None),
        ("parquet", b""),
        ("parquet", b"PAR1 and not much more"),
    ],
)
def test_a_file_that_is_none_is_refused(kind, form, content, tmp_path):
    path = tmp_path / "model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ds.errors.SourceError, match=str(path)):
        getattr(kind, f"read_{form}")(path)
    with pytest.raises(ds.errors.SourceError, match=str(tmp_path)):
        getattr(kind, f"read_{form}")(tmp_path)


def test_a_cut_parquet_file_is_refused(tmp_path):
    seq = random_problem(np.random.default_rng(15)).sequence()
    for found in (seq, seq.gram):
        found.write_parquet(tmp_path / "model")
        whole = (tmp_path / "model").read_bytes()
        for end in (len(whole) // 3, len(whole) - 1):
            (tmp_path / "model").write_bytes(whole[:end])
            with pytest.raises(ds.errors.SourceError, match="cannot read"):
                type(found).read_parquet(tmp_path / "model")


def test_a_parquet_file_of_something_else_is_refused(tmp_path):
    seq = random_problem(np.random.default_rng(16)).sequence()
    path = tmp_path / "model.parquet"
    seq.gram.write_parquet(path)
    with pytest.raises(ds.errors.SourceError, match=r"lacks \['target', "):
        ds.results.Sequence.read_parquet(path)
    seq.write_parquet(path)
    table = pq.read_table(path)
    for rows in (table.slice(0, 0), pa.concat_tables([table, table])):
        pq.write_table(rows, path)
        with pytest.raises(ds.errors.SourceError, match=f"has {rows.num_rows} rows"):
            ds.results.Sequence.read_parquet(path)
    pq.write_table(table.set_column(0, "target", pa.array([None], pa.string())), path)
    with pytest.raises(ds.errors.RecordError, match="sequence record is damaged"):
        ds.results.Sequence.read_parquet(path)


@pytest.mark.parametrize("record", ["[]", "3", "null", '{"columns": ["a"]}'])
def test_json_of_something_else_is_refused(record, tmp_path):
    (tmp_path / "model.json").write_text(record)
    for kind in (ds.results.Sequence, ds.Gram):
        with pytest.raises(ds.errors.RecordError, match="record"):
            kind.read_json(tmp_path / "model.json")


@pytest.mark.parametrize(
    ("place", "odd"),
    [
        (["target"], None), (["intercept"], "x"), (["intercept"], True), (["rows"], 0.5),
        (["groups", 0], 1), (["coefficients", "of", 0, 1], "x"), (["aliased"], []),
        (["terms"], 3), (["fit", "of", "ridge"], "x"),
    ],
)  # fmt: skip
def test_a_model_whose_fields_are_of_other_types_is_damaged(place, odd):
    rows = pl.DataFrame({"x": [1.0, 2.0, 4.0, 5.0], "y": [1.0, 3.0, 4.0, 6.0]})
    record = ds.fit(rows, "y").to_struct()
    holder = record["fields"]
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = odd
    with pytest.raises(ds.errors.RecordError, match="damaged"):
        ds.results.Model.from_struct(record)

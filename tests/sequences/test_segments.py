"""Many segments at once: each as if it were alone, and none spoils another."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import reference
from polars.testing import assert_frame_equal
from problems import EPS, Problem, random_problem, rounding
from reference import Table

import dbselect as ds
from dbselect.methods import records as in_blocks
from dbselect.record.gram import check_type
from dbselect.results.store import write_sequences
from dbselect.selection.criteria import RULES as ALL_RULES

ERRORS = (ds.DbselectError, pl.exceptions.ComputeError, duckdb.Error)
RULES = ["fr", "omp", "omp-unwhitened", "omp-single", "doubling"]
PENALTIES = [{}, {"ridge": 0.2}, {"ridge": 0.2, "scale": False}]
LIMITS = [
    {},
    {"budget": 6.0},
    {"max_groups": 3},
    {"always": ("g4", "g1")},
    {"budget": 9.5, "max_groups": 4, "always": ("g2",)},
]


def problems(rng: np.random.Generator, count: int, **asked) -> list[Problem]:
    """Return tables with groups and costs in common, in units that differ a little."""
    first = random_problem(rng, **asked)
    others = [random_problem(rng, **asked).table for _ in range(count - 1)]
    return [
        first.with_table(X=table.X / table.deviation * 10.0 ** rng.uniform(-0.5, 0.5), y=table.y)
        for table in (first.table, *others)
    ]


def frame_of(grams: list[ds.Gram | None]) -> pl.DataFrame:
    """Return the grams as `gram_by` does."""
    none = pa.nulls(1, ds.gram(np.ones((1, 1)), ["x"]).to_arrow().type)
    records = pa.concat_arrays([none if gram is None else gram.to_arrow() for gram in grams])
    return pl.DataFrame(pa.table({"k": range(len(grams)), "gram": records}))


def searched(parts: list[Problem], **options) -> pl.DataFrame:
    first, table = parts[0], parts[0].table
    given = {"ridge": table.ridge, "scale": table.scale} | options
    grams = frame_of([part.gram for part in parts])
    return ds.anytime_sequence_by(grams, "y", first.names, first.costs, **given)


def steps_of(sequence: pl.Series) -> pl.DataFrame:
    return pl.DataFrame({"s": sequence}).unnest("s")


def assert_near(
    found: pl.Series, expected: list[ds.results.Sequence | None], tolerance: float
) -> None:
    """Compare every field of every step with sequences that were searched one by one."""
    lists = pl.Series(write_sequences(expected)).cast(found.dtype)
    assert_frame_equal(
        found.rename("s").to_frame().explode("s").unnest("s").explode("coefficients"),
        lists.rename("s").to_frame().explode("s").unnest("s").explode("coefficients"),
        rel_tol=tolerance,
        abs_tol=tolerance,
    )
    assert found.list.len().to_list() == lists.list.len().to_list()


@pytest.mark.sample(25)
@pytest.mark.parametrize("asked", PENALTIES, ids=["none", "scaled", "raw"])
@pytest.mark.parametrize("limits", LIMITS, ids=" ".join)
@pytest.mark.parametrize("rule", RULES)
def test_every_segment_has_the_steps_and_models_of_brute_force(rule, limits, asked):
    parts = problems(np.random.default_rng(1), 6, weighted=rule == "fr", **asked)
    found = searched(parts, rule=rule, **limits)
    assert found["status"].null_count() == len(parts)
    lengths = set()
    for part, sequence in zip(parts, found["sequence"], strict=True):
        table = part.table
        expected = reference.greedy(table, part.groups, part.costs, rule, **limits)
        steps, tolerance = steps_of(sequence), 10 * rounding(table)
        assert steps["step"].to_list() == list(range(len(expected) + 1))
        assert_frame_equal(
            steps[1:].select(reference.Step._fields),
            pl.DataFrame(expected, orient="row"),
            rel_tol=tolerance,
            abs_tol=tolerance,
        )
        held: list[int] = []
        for name, row in zip(steps["group"], steps.to_dicts(), strict=True):
            held += part.groups[name] if name else []
            intercept, coefficients = reference.model(table, held)
            entries = row["coefficients"]
            assert [entry["key"] for entry in entries] == [f"x{j}" for j in held]
            size = max(1.0, np.abs(coefficients).max(initial=0.0))
            np.testing.assert_allclose(
                [entry["value"] for entry in entries], coefficients, rtol=0, atol=tolerance * size
            )
            assert row["intercept"] == pytest.approx(intercept, abs=tolerance * size)
        lengths.add(len(expected))
    assert lengths != {0}


def difficult(rng: np.random.Generator) -> Iterator[Table]:
    """Yield tables of six columns, each with a fault that a segment of real data can have."""
    X = rng.integers(-3, 4, (24, 6)).astype(float)
    y = X @ [1.0, -2.0, 0.0, 3.0, 0.5, 0.0] + rng.integers(-2, 3, 24)
    yield Table(X, y)
    yield Table(X[:, [0, 1, 2, 0, 1, 5]], y)  # columns that are the same
    yield Table(np.column_stack([X[:, :5], X[:, 0] + X[:, 1] - X[:, 4]]), y)
    yield Table(X * [1, 0, 1, 1, 0, 1] + 7.0, y)  # constant columns
    yield Table(X * 0 + 1.0, y)
    yield Table(X[:4], y[:4])  # fewer rows than columns
    yield Table(X[:2], np.array([1.0, 2.0]))
    yield Table(X, X[:, 3].copy())  # explained by one column
    yield Table(X * 1e-3, y * 1e6 + 1e9)
    yield Table(np.tile(X[:, :1], 6), y)  # every group ties
    yield Table(X, y, rng.integers(0, 3, 24).astype(float))


@pytest.mark.parametrize("asked", [{}, {"ridge": 0.3}], ids=["none", "ridge"])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1, 1), (2, 1, 3)])
@pytest.mark.parametrize("rule", RULES)
def test_difficult_segments_are_what_they_are_alone(rule, sizes, asked):
    # Here rounding decides no step: all sums of products are of small whole numbers.
    tables = list(difficult(np.random.default_rng(2)))
    members = np.split(np.arange(6), np.cumsum(sizes)[:-1])
    groups = {f"g{g}": [f"x{j}" for j in columns] for g, columns in enumerate(members)}
    grams = [ds.gram(table.frame, weight="w") for table in tables]
    found = ds.anytime_sequence_by(frame_of(grams), "y", groups, rule=rule, **asked)
    alone = [ds.anytime_sequence(gram, "y", groups, rule=rule, **asked) for gram in grams]
    assert sum(len(sequence.aliased) > 0 for sequence in alone) >= (3 if asked else 7)
    assert_near(found["sequence"], alone, 1e-9)


UNUSABLE = {
    "NULL": (None, "no rows"),
    "no rows": ({"rows": 0, "weight": 0.0, "skipped": 9}, "no usable rows: 9 rows were skipped"),
    "constant target": ({"comoment": [0.0, 0.0, 4.0]}, "target 'y' is constant"),
    "rounding of a constant": ({"comoment": [1e-31, 0.0, 4.0]}, "target 'y' is constant"),
    "short mean": ({"mean": [1.0]}, "1 values in 'mean'; 2 columns need 2"),
    "long comoment": ({"comoment": [1.0, 1.0, 4.0, 1.0]}, "4 values in 'comoment'"),
    "NaN": ({"mean": [1.0, float("nan")]}, "NaN in 'mean'; values must be finite"),
    "infinite": (
        {"comoment": [2.0, 1.0, float("inf")]},
        "inf in 'comoment'; values must be finite",
    ),
    "NULL entry": ({"comoment": [2.0, None, 4.0]}, "'comoment'"),
    "negative variance": ({"comoment": [2.0, 1.0, -4.0]}, "-4 on the diagonal of 'comoment'"),
    "negative rows": ({"rows": -3}, "-3 in 'rows'"),
    "negative skipped": ({"skipped": -1}, "-1 in 'skipped'"),
    "NaN weight": ({"weight": float("nan")}, "'weight'"),
    "weight 0": ({"weight": 0.0}, "3 rows of total weight 0"),
    "NULL field": ({"mean": None}, "NULL in 'mean'"),
    "NULL name": ({"columns": ["y", None]}, "'columns'"),
    "equal names": ({"columns": ["y", "y"]}, "'y' twice"),
}
DAMAGED = list(UNUSABLE)[list(UNUSABLE).index("short mean") :]
SOUND = {"columns": ["y", "x"], "rows": 3, "skipped": 0, "weight": 3.0, "mean": [1.0, 2.0],
         "comoment": [2.0, 1.0, 4.0]}  # fmt: skip


def among_sound_ones() -> pl.DataFrame:
    """Return every unusable record, each with a sound one before it."""
    bad = [None if change is None else {**SOUND, **change} for change, _ in UNUSABLE.values()]
    records = [record for other in bad for record in (SOUND, other)]
    schema = ds.gram_by(pl.DataFrame({"k": [1], "x": [1]}), ["k"]).schema["gram"]
    return pl.DataFrame({"gram": pl.Series(records, dtype=schema)}).with_row_index("k")


def test_an_unusable_record_is_an_empty_list_and_says_why():
    frame = among_sound_ones()
    found = ds.anytime_sequence_by(frame, "y")
    assert found.columns == ["k", "sequence", "status", "rows", "target_variance"]
    assert found["status"][::2].null_count() == len(UNUSABLE)
    for (name, (_, reason)), said in zip(UNUSABLE.items(), found["status"][1::2], strict=True):
        assert reason in said, name
    assert found["sequence"].list.len().to_list() == [2, 0] * len(UNUSABLE)
    # 1 - RSS/TSS of a simple regression is the squared correlation.
    last = found["sequence"][::2].list.last().struct.field("r2")
    np.testing.assert_allclose(last, 1 / 8, rtol=4 * EPS)


@pytest.mark.parametrize("call", ["anytime_sequence", "foba", "backward"])
def test_no_door_is_stopped_by_an_unusable_record(connection, call):
    frame = among_sound_ones()
    expected = ds.anytime_sequence_by(frame, "y")
    polars = frame.select(
        getattr(pl.col("gram").dbselect, call)("y").list.len(),
        status=pl.col("gram").dbselect.check("y"),
    )
    connection.register("records", frame.to_arrow())
    sql = connection.execute(
        f"SELECT len({call}(gram, 'y')), gram_check(gram, 'y') FROM records ORDER BY k"
    ).fetchall()
    for lengths, status in (polars, zip(*sql, strict=True)):
        assert [length > 0 for length in lengths] == [True, False] * len(UNUSABLE)
        assert list(status) == expected["status"].to_list()


@pytest.mark.parametrize("name", DAMAGED)
def test_no_engine_merges_a_damaged_record(connection, name):
    change, reason = UNUSABLE[name]
    frame = among_sound_ones()[:1].select("gram")
    bad = pl.DataFrame({"gram": pl.Series([{**SOUND, **change}], dtype=frame.schema["gram"])})
    both = pl.concat([frame, bad])
    with pytest.raises(ERRORS, match=re.escape(reason)):
        both.select(pl.col("gram").dbselect.merge())
    connection.register("records", both.to_arrow())
    for query in ("gram_merge(gram) FROM records", "gram_remove(gram, gram) FROM records"):
        with pytest.raises(duckdb.Error, match=re.escape(reason)):
            connection.execute(f"SELECT {query}").fetchall()
    assert connection.execute("SELECT 42").fetchall() == [(42,)]


def test_segments_with_columns_of_their_own_keep_their_places():
    rng = np.random.default_rng(4)
    lists = [["y", "a", "b"], ["a", "y", "b"], ["y", "a", "b", "c"], ["b", "y"]]
    grams = [
        ds.gram(rng.normal(size=(9, len(names))), columns=names)
        for names in (lists[j] for j in rng.integers(0, 4, 40))
    ]
    found = ds.anytime_sequence_by(frame_of([*grams, None]), "y")["sequence"]
    alone = [ds.anytime_sequence(gram, "y") for gram in grams]
    assert_near(found, [*alone, None], 1e-11)


@pytest.mark.slow
def test_neither_blocks_nor_threads_change_a_digit(monkeypatch):
    parts = problems(np.random.default_rng(5), 8)
    grams = frame_of([part.gram for part in parts] * 1000)
    first = parts[0]

    def sequences() -> pl.Series:
        found = ds.anytime_sequence_by(grams, "y", first.names, first.costs, budget=9.0)
        return found["sequence"]

    alone = [ds.anytime_sequence_by(grams[i : i + 1], "y", first.names, first.costs, budget=9.0)
             for i in range(8)]  # fmt: skip
    expected = pl.concat([one["sequence"] for one in alone]).to_list() * 1000
    assert sequences().to_list() == expected  # so many go to several threads
    monkeypatch.setattr(in_blocks, "READ_BYTES", 100_000)
    assert sequences().to_list() == expected


@pytest.mark.parametrize("compiled", [True, False])
def test_a_segment_with_as_many_coefficients_as_rows_says_so(monkeypatch, compiled):
    monkeypatch.setitem(ALL_RULES, "fr", replace(ALL_RULES["fr"], compiled=compiled))
    rng = np.random.default_rng(12)
    grams = [ds.gram(rng.normal(size=(rows, 4)), ["y", "a", "b", "c"]) for rows in (4, 9, 3)]
    grams.append(ds.gram(np.column_stack([rng.normal(size=4), *np.eye(3, 4)]), grams[0].columns))
    told = "{} rows: it has as many coefficients as rows, which fit any target"
    status = ds.anytime_sequence_by(frame_of(grams), "y")["status"].to_list()
    assert status == [told.format(4), None, told.format(3), told.format(4)]
    assert ds.anytime_sequence_by(frame_of(grams), "y", max_groups=1)["status"].null_count() == 4
    assert ds.anytime_sequence_by(frame_of(grams), "y", ridge=0.1)["status"].null_count() == 4


def test_costs_without_labels_are_in_the_order_of_the_groups_of_each_segment():
    rng = np.random.default_rng(13)
    lists = [["y", "a", "b"], ["b", "y", "a"]]
    grams = [ds.gram(rng.normal(size=(9, 3)), columns=names) for names in lists]
    costs = pl.Series([1.0, 8.0])
    found = ds.anytime_sequence_by(frame_of(grams), "y", costs=costs)["sequence"]
    assert_near(found, [ds.anytime_sequence(gram, "y", costs=costs) for gram in grams], 1e-12)
    groups = {"g": ["b"], "h": ["a"]}
    found = ds.anytime_sequence_by(frame_of(grams), "y", groups, costs)["sequence"]
    alone = [ds.anytime_sequence(gram, "y", groups, {"g": 1.0, "h": 8.0}) for gram in grams]
    assert_near(found, alone, 1e-12)


def test_targets_may_differ_from_row_to_row(connection):
    rng = np.random.default_rng(7)
    gram = ds.gram(rng.normal(size=(30, 3)), columns=["a", "b", "c"])
    connection.register("g", frame_of([gram]).to_arrow())
    rows = connection.execute(
        "SELECT t, anytime_sequence(gram, t), gram_check(gram, t) FROM g, "
        "(SELECT unnest(['a', 'a', 'b', 'c', 'b']) AS t)"
    ).fetchall()
    assert sorted(target for target, _, _ in rows) == ["a", "a", "b", "b", "c"]
    for target, sequence, status in rows:
        expected = ds.anytime_sequence(gram, target)
        assert [step["group"] for step in sequence] == expected.steps["group"].to_list()
        assert sequence[-1]["coefficients"] == pytest.approx(expected.at(2).coefficients, rel=1e-10)
        assert status is None


def test_nearly_dependent_columns_are_told():
    rng = np.random.default_rng(8)
    x, noise = rng.normal(size=(2, 50))
    near = pl.DataFrame({"y": x + noise, "a": x, "b": x + 3e-6 * noise})
    good = near.with_columns(b=pl.Series(noise))
    grams = [ds.gram(table) for table in (good, near, good)]
    with pytest.warns(ds.errors.ConditionWarning, match=r"condition number above 1e\+10"):
        ds.anytime_sequence_by(frame_of(grams), "y")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds.anytime_sequence_by(frame_of([grams[0], grams[2]]), "y")


def test_no_segments_give_no_rows():
    found = ds.anytime_sequence_by(frame_of([ds.gram(np.eye(2), ["x", "y"])])[:0], "y")
    assert (found.height, found.columns) == (
        0,
        ["k", "sequence", "status", "rows", "target_variance"],
    )
    assert found.schema["sequence"].inner.fields[2].name == "group"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"target": "q"}, ["target", "unknown column 'q'"]),
        ({"always": ["x"], "budget": 0.5}, ["always", "budget"]),
        ({"c_min": 1.0}, ["c_min", "'fr'"]),
        ({"grams": pl.DataFrame({"x": [1]})}, ["grams", "'gram'"]),
        ({"grams": pl.DataFrame({"gram": [1], "status": [1]})}, ["grams", "'status'"]),
        ({"grams": pl.DataFrame({"gram": [1]})}, ["gram record", "mapping"]),
        ({"grams": pl.DataFrame({"gram": [{"rows": 1}]})}, ["lacks", "'columns'"]),
    ],
)
def test_mistakes_are_named(options, words):
    grams = frame_of([ds.gram(pl.DataFrame({"y": [1, 3, 8], "x": [1, 2, 3]}))])
    with pytest.raises(ERRORS) as refusal:
        ds.anytime_sequence_by(**{"grams": grams, "target": "y", **options})
    missing = [word for word in words if word not in str(refusal.value)]
    assert not missing, f"{missing} not in: {refusal.value}"


def sequence_lists(records: pa.Array) -> list[list[dict]]:
    found = in_blocks.searched(records, ds.Problem(None, "y"), "anytime_sequence", {})
    return found.field("sequence").to_pylist()


KINDS = {
    "small": {},
    "large": {"columns": pa.large_list(pa.large_string()), "mean": pa.large_list(pa.float64())},
    "other numbers": {"rows": pa.int16(), "weight": pa.float32(), "comoment": pa.list_(pa.int8())},
    "decimals": {"weight": pa.decimal128(9, 2), "mean": pa.list_(pa.decimal128(9, 2))},
    "views": {"columns": pa.list_(pa.string_view())},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [slice(None), slice(1, None), slice(2, 4)])
def test_records_are_read_at_every_type_and_in_slices(kind, cut):
    wide = {**SOUND, "columns": ["z", "y", "x"], "mean": [0, 1, 2], "comoment": [1, 0, 2, 0, 1, 4]}
    records = [SOUND, None, wide, {**SOUND, "comoment": [2, 2, 4]}, SOUND]
    plain = pa.array(records)
    fields = [(field.name, KINDS[kind].get(field.name, field.type)) for field in plain.type]
    array = plain.cast(pa.struct(fields))[cut]
    found = sequence_lists(array)
    last = [steps[-1]["r2"] if steps else 0 for steps in found]
    expected = [1 / 8, 0, 1 / 8, 1 / 2, 1 / 8][cut]
    assert last == pytest.approx(expected, rel=8 * EPS)


def test_lists_may_be_arrays_of_one_size():
    wide = {**SOUND, "columns": ["z", "y", "x"], "mean": [0, 1, 2], "comoment": [1, 0, 2, 0, 1, 4]}
    plain = pa.array([None, wide, wide])
    sizes = {"columns": pa.list_(pa.string(), 3), "comoment": pa.list_(pa.float64(), 6)}
    fields = [(field.name, sizes.get(field.name, field.type)) for field in plain.type]
    found = sequence_lists(pa.array([None, wide, wide], pa.struct(fields))[1:])
    assert [steps[-1]["r2"] for steps in found] == pytest.approx([1 / 8, 1 / 8], rel=8 * EPS)


def test_a_column_of_nulls_may_have_any_type():
    check_type(pa.nulls(3))
    check_type(pa.nulls(3, pa.int32()))
    assert sequence_lists(pa.nulls(3, pa.int32())) == [[], [], []]
    assert in_blocks.statuses(pa.nulls(2), "y").to_pylist() == ["no rows"] * 2

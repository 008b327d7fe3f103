"""A planned Gram: parts of a table, read anywhere and merged in any order, as one pass."""

import itertools
import pickle
from fractions import Fraction

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, DataError, LeftOutWarning, SourceError

ROWS = 600
#: As the issue asks: the rounding of some dozen merges.
SAME = 1e-14


def table() -> pa.Table:
    """Return numbers far from zero, gaps, text with gaps, booleans, weights and keys."""
    rng = np.random.default_rng(5)
    gaps = rng.random(ROWS) < 0.2
    text = rng.choice(["a", "b", "c", "never seen"], ROWS, p=[0.5, 0.3, 0.15, 0.05])
    frame = pl.DataFrame(
        {
            "x": rng.normal(1e8, 1.0, ROWS),
            "y": np.where(gaps, np.nan, rng.normal(size=ROWS)),
            "flag": rng.random(ROWS) < 0.3,
            "k": text,
            "w": rng.integers(0, 4, ROWS) / 2,
            "site": rng.integers(0, 4, ROWS),
        }
    )
    # The first rows lack what the others have, so that parts differ in what they know.
    late = pl.int_range(pl.len()) >= ROWS // 2
    frame = frame.with_columns(
        k=pl.when(late & (pl.col("site") == 1)).then(None).otherwise("k"),
        y=pl.when(late).then("y").otherwise(pl.col("y").fill_nan(0.5)),
    )
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def parts_of(plan: ds.results.GramPlan, rows: pa.Table, n: int) -> list[bytes]:
    """Return the states of parts of unequal length, two of them empty, shuffled."""
    rng = np.random.default_rng(n)
    cuts = [0, 0, *np.sort(rng.integers(0, len(rows), n)).tolist(), len(rows), len(rows)]
    parts = [plan.partial(rows.slice(a, b - a)) for a, b in itertools.pairwise(cuts)]
    return [parts[i] for i in rng.permutation(len(parts))]


def assert_same(found: ds.Gram, expected: ds.Gram) -> None:
    assert found.columns == expected.columns
    assert (found.rows, found.skipped) == (expected.rows, expected.skipped)
    assert found.missing == expected.missing
    np.testing.assert_allclose(found.weight, expected.weight, rtol=SAME)
    spread = np.sqrt(np.diagonal(expected.comoment))
    close = np.abs(found.comoment - expected.comoment) <= SAME * np.outer(spread, spread)
    assert close.all()
    scale = np.abs(expected.mean) + spread / np.sqrt(max(expected.weight, 1.0))
    assert (np.abs(found.mean - expected.mean) <= SAME * scale).all()
    terms, asked = found.terms.to_struct(), expected.terms.to_struct()
    means, others = terms.pop("means", {}), asked.pop("means", {})
    assert terms == asked
    assert means == pytest.approx(others, rel=SAME, abs=SAME)


LEVELS = {"k": ["b", "a"]}
ASKED = [
    {},
    {"weight": "w"},
    {"null_policy": "mean"},
    {"null_policy": {"y": "indicator"}, "weight": "w"},
    {"null_policy": "indicator", "categories": LEVELS},
    {"null_policy": "mean", "categories": LEVELS, "weight": "w"},
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_parts_in_any_order_give_the_gram_of_one_pass(asked):
    rows = table()
    columns = ["y", "k", "x", "flag"] if "categories" in asked else ["y", "x", "flag"]
    plan = pickle.loads(pickle.dumps(ds.io.plan_gram(rows.schema, columns, **asked)))
    expected = ds.gram(rows, columns, **asked)
    for n in (1, 20):
        parts = parts_of(plan, rows, n)
        assert_same(plan.finish(parts), expected)
        # A tree of merges, and an attempt whose answer came twice and was taken once.
        half = len(parts) // 2
        tree = [plan.merge(parts[:half]), plan.merge(parts[half:])]
        assert_same(plan.finish(tree), expected)
        assert plan.merge(parts[:half]) == tree[0]


@pytest.mark.parametrize(
    "asked",
    [
        {"by": ["site"], "null_policy": "indicator", "categories": LEVELS},
        {"by": ["site", "flag"], "weight": "w"},
        {"fold": 3},
        {"by": ["site"], "fold": 3, "key": "x", "seed": 7, "null_policy": "mean"},
    ],
    ids=str,
)
def test_groups_and_folds_are_those_of_gram_by(asked):
    rows = table()
    columns = ["x", "y", "k"] if "categories" in asked else ["x", "y"]
    plan = ds.io.plan_gram(rows.schema, columns, **asked)
    expected = ds.gram_by(rows, columns=columns, **asked)
    found = plan.finish([plan.merge(parts_of(plan, rows, 9)), plan.partial([])])
    assert found.drop("gram").equals(expected.drop("gram"))
    for one, other in zip(found["gram"], expected["gram"], strict=True):
        assert_same(ds.Gram.from_struct(one), ds.Gram.from_struct(other))


def test_a_state_keeps_what_a_record_rounds():
    values = [1e8 + k / 7 for k in range(700)]
    exact = [Fraction(x) for x in values]
    mean = sum(exact) / len(exact)
    expected = sum((x - mean) ** 2 for x in exact)
    rows = pa.table({"x": values})
    plan = ds.io.plan_gram(rows.schema)
    found = plan.finish(plan.partial(rows.slice(at, 1)) for at in range(len(values)))
    assert abs(Fraction(float(found.comoment[0, 0])) - expected) < Fraction(SAME) * expected


def test_parts_take_what_engines_make_of_one_type():
    rows = pl.DataFrame({"k": ["a", "b", "a"], "x": [1, 2, 4]})
    plan = ds.io.plan_gram(rows.to_arrow().schema, categories={"k": ["a"]})
    forms = [rows, rows.to_arrow(), *rows.to_arrow().to_batches(), rows.to_pandas(), [rows]]
    forms.append(rows.cast({"x": pl.Float32, "k": pl.Categorical}))
    for form in forms:
        assert_same(plan.finish([plan.partial(form)]), ds.gram(rows, categories={"k": ["a"]}))


def damaged(part: bytes) -> list[tuple[bytes, str]]:
    middle = len(part) // 2
    return [
        (part[:-8], "damaged"),
        (part[:20], "damaged"),
        (b"", "damaged"),
        (part[:middle] + bytes([part[middle] ^ 1]) + part[middle + 1 :], "damaged"),
        (part[:8] + b"\x63" + part[9:], "version 99, and this dbselect reads version 1"),
        (b"PAR1" + part[4:], "other bytes than plan.partial makes"),
    ]


@pytest.mark.parametrize("by", [None, ["site"]])
def test_what_is_no_part_of_the_plan_is_refused(by):
    rows = table()
    plan = ds.io.plan_gram(rows.schema, ["x", "y"], by=by)
    part = plan.partial(rows)
    for bad, words in damaged(part):
        with pytest.raises(DataError, match=words):
            plan.finish([part, bad])
    others = [
        ds.io.plan_gram(rows.schema, ["x", "flag"], by=by),
        ds.io.plan_gram(rows.schema, ["x", "y"], "w", by=by),
        ds.io.plan_gram(rows.schema, ["x", "y"], null_policy="mean", by=by),
        ds.io.plan_gram(rows.schema, ["x", "y"], by=["flag"]),
    ]
    for other in others:
        with pytest.raises(DataError, match="of another plan; all parts must come from one"):
            plan.merge([other.partial(rows)])
    with pytest.raises(ArgumentError, match="parts is one part; give a list"):
        plan.finish(part)
    for none in (None, 3):
        with pytest.raises(ArgumentError, match=f"parts is {none}; it must be a list"):
            plan.finish(none)
        with pytest.raises(ArgumentError, match=f"parts is {none}; it must be a list"):
            plan.merge(none)
    with pytest.raises(ArgumentError, match="parts has a Gram; parts are the bytes"):
        plan.finish([ds.gram(rows, ["x"])])


@pytest.mark.parametrize("asked", [{"by": ["k"]}, {"fold": 3, "key": "k"}])
def test_a_part_whose_key_has_another_type_is_of_another_plan(asked):
    rows = [pa.table({"k": keys, "x": [1.0, 2.0]}) for keys in ([1, 2], ["1", "2"])]
    plans = [ds.io.plan_gram(each.schema, ["x"], **asked) for each in rows]
    with pytest.raises(DataError, match="part is of another plan"):
        plans[0].finish([plans[1].partial(rows[1])])


def test_a_part_without_values_may_lack_their_type():
    plan = ds.io.plan_gram(
        pa.schema([("x", pa.float64()), ("y", pa.float64())]), null_policy="mean"
    )
    parts = [{"x": [1.0, 3.0], "y": [2.0, 4.0]}, {"x": [5.0], "y": [None]}]
    found = plan.finish([plan.partial(pa.table(part)) for part in parts])
    assert (found.rows, found.missing) == (3, {"y": 1})
    np.testing.assert_allclose(found.mean, [3.0, 3.0])


@pytest.mark.parametrize(
    ("rows", "error", "words"),
    [
        ({"x": [1.0]}, SourceError, "a part has no field 'n', which is read"),
        (
            {"x": ["1"], "n": [1]},
            SourceError,
            "field 'x' has type string in a part and double in the table",
        ),
        ({"x": [np.inf], "n": [1]}, DataError, "column 'x' has an infinite value"),
        ({"x": [1.0], "n": [None]}, DataError, "'n' .*missing"),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(rows, error, words):
    schema = pa.schema([("x", pa.float64()), ("n", pa.int64())])
    plan = ds.io.plan_gram(schema, null_policy={"n": "error"})
    typed = (
        pa.table(rows)
        if "n" not in rows
        else pa.table(rows).cast(
            pa.schema([("x", pa.table(rows).schema.field("x").type), ("n", pa.int64())])
        )
    )
    with pytest.raises(error, match=words):
        plan.finish([plan.partial(typed)])


def test_arguments_are_refused_before_rows():
    schema = pa.schema([("x", pa.float64()), ("k", pa.string())])
    for asked, error, words in [
        ({"categories": ["k"]}, ArgumentError, "a plan sees no rows: give {column: levels}"),
        ({"columns": ["z"]}, ColumnError, "'z'"),
        ({"columns": ["k", "x"]}, ColumnError, "takes only from categories= or terms="),
        ({"null_policy": "drop"}, ArgumentError, "null_policy"),
        ({"fold": 1}, ArgumentError, "fold is 1"),
        ({"columns": ["x"], "by": ["gone"]}, ColumnError, "by names"),
    ]:
        with pytest.raises(error, match=words):
            ds.io.plan_gram(schema, **asked)
    with pytest.warns(LeftOutWarning, match="'k' .text, whose levels a plan takes only"):
        ds.io.plan_gram(schema)
    with pytest.raises(ArgumentError, match="schema is a list; it must be an Arrow schema"):
        ds.io.plan_gram(["x"])
    with pytest.raises(ColumnError, match=r"categories=\{'k': levels\}, or terms= from"):
        ds.io.plan_gram(schema, ["x", "k"])
    for odd in ("t.parquet", {"x": [1.0]}):
        with pytest.raises(ArgumentError, match=f"batches is a {type(odd).__name__}; it must"):
            ds.io.plan_gram(schema, ["x"]).partial(odd)
    twice = pa.table([[1.0], [2.0]], names=["x", "x"])
    with pytest.raises(SourceError, match="a part has two fields 'x'"):
        ds.io.plan_gram(schema, ["x"]).partial(twice)
    with pytest.raises(SourceError, match="batches has a int"):
        ds.io.plan_gram(schema, ["x"]).partial([3])

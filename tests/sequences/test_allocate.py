"""One budget for many segments: dynamic programming, bounds, and the same in SQL."""

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.doors.cli import main


def segments(rng, count):
    """Draw sequences of whole costs: a frame, and its points by segment."""
    table = []
    for k in range(count):
        spent = np.cumsum([0, *rng.integers(1, 5, size=rng.integers(0, 5))])
        explained = np.cumsum([0.0, *rng.choice([0, 0.05, 0.1, 0.2], size=len(spent) - 1)])
        steps = [
            {"spent": float(cost), "explained": float(share)}
            for cost, share in zip(spent, explained, strict=True)
        ]
        table.append((k, int(rng.integers(0, 4)), float(rng.integers(0, 3)), steps))
    steps = pl.Struct({"spent": pl.Float64, "explained": pl.Float64})
    schema = {"k": pl.Int64, "rows": pl.Int64, "worth": pl.Float64, "sequence": pl.List(steps)}
    return pl.DataFrame(table, schema, orient="row")


def best(frame, budget):
    """Return the largest value at a budget, by dynamic programming over whole costs."""
    total = int(frame["rows"].sum() * budget)
    value = np.zeros(total + 1)
    for row in frame.iter_rows(named=True):
        options = np.full((len(row["sequence"]), total + 1), -np.inf)
        for own, step in zip(options, row["sequence"], strict=True):
            cost = int(row["rows"] * step["spent"])
            if cost <= total:
                gain = row["rows"] * row["worth"] * step["explained"]
                own[cost:] = value[: total + 1 - cost] + gain
        value = options.max(axis=0)
    return value[-1] / frame["rows"].sum()


@pytest.mark.parametrize("seed", range(20))
def test_the_value_lies_between_the_optimum_and_one_step_less(seed):
    rng = np.random.default_rng(seed)
    frame = segments(rng, 8).with_columns(rows=pl.when(k=0).then(1).otherwise("rows"))
    for budget in (0, 0.25, 1, 2.5, 4, 100):
        found = ds.allocate(frame, budget, worth="worth")
        optimum = best(frame, budget)
        step = (frame["rows"] * frame["worth"] * frame["sequence"].list.last().struct[1]).max()
        assert found.spent <= budget + 1e-9
        assert found.value <= optimum + 1e-9 <= found.bound + 2e-9
        assert found.value >= found.bound - step / frame["rows"].sum() - 1e-9
        table = found.table
        assert found.spent == pytest.approx(
            (table["rows"] * table["spent"]).sum() / table["rows"].sum()
        )
        of = table["rows"] * table["worth"] * table["explained"]
        assert found.value == pytest.approx(of.sum() / table["rows"].sum())
    assert found.value == pytest.approx(found.bound)


def test_sql_allocates_as_python(tmp_path):
    frame = segments(np.random.default_rng(1), 50)
    frame.write_parquet(tmp_path / "s.parquet")
    connection = ds.connect()
    for given, worth in (("", None), (", worth := 'worth'", "worth")):
        expected = ds.allocate(frame, 1.5, worth=worth)
        for table in ("frame", str(tmp_path / "s.parquet")):
            query = f"FROM dbselect.allocate('{table}', budget := 1.5{given}) ORDER BY k"
            assert connection.sql(query).pl().equals(expected.table)
            query = f"FROM dbselect.allocate_summary('{table}', budget := 1.5{given})"
            whole = connection.sql(query).fetchall()
            assert whole == [(expected.value, expected.spent, expected.bound)]


def test_the_command_line_allocates_as_python(tmp_path, capsys):
    frame = segments(np.random.default_rng(1), 50)
    frame.write_parquet(tmp_path / "s.parquet")
    call = ["allocate", str(tmp_path / "s.parquet"), "--budget", "1.5", "--worth", "worth"]
    assert main([*call, "--out", str(tmp_path / "found.parquet")]) == 0
    expected = ds.allocate(frame, 1.5, worth="worth")
    assert repr(expected) in capsys.readouterr().out
    found = pl.read_parquet(tmp_path / "found.parquet")
    assert found.equals(expected.table.drop("sequence"))
    assert main(["allocate", str(tmp_path / "none.parquet"), "--budget", "1"]) == 2
    assert "no Parquet file that can be read" in capsys.readouterr().err


def test_segments_have_rows_and_variances_that_allocate_takes():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(300, 3))
    k = np.arange(300) % 3
    y = x @ [1.0, 0.5, 0.2] * (1 + k) + rng.normal(size=300)
    frame = pl.DataFrame({"k": k, "y": y, **{f"x{i}": x[:, i] for i in range(3)}})
    frame = frame.with_columns(y=pl.when(k=2).then(7.0).otherwise("y"))
    grams = ds.gram_by(frame, by=["k"])
    found = ds.anytime_sequence_by(grams, "y", costs={"x0": 1, "x1": 2, "x2": 4})
    assert found["rows"].to_list() == [100] * 3
    variances = [y[k == 0].var(), y[k == 1].var(), 0.0]
    assert found["target_variance"].to_list() == pytest.approx(variances)
    whole = ds.allocate(found, 100, worth="target_variance")
    errors = [variance * (1 - ds.fit(frame.filter(k=k), "y", ["x0", "x1", "x2"]).r2)
              for k, variance in enumerate(variances[:2])]  # fmt: skip
    assert np.mean(variances) - whole.value == pytest.approx(sum(errors) / 3)
    assert whole.table["step"].to_list() == [3, 3, None]
    raw = ds.anytime_sequence_by(grams, "y", intercept=False)["target_variance"]
    assert raw[0] == pytest.approx((y[k == 0] ** 2).mean())


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"budget": -1}, "budget is -1; it must be a number >= 0"),
        ({"rows": "row"}, "rows is 'row', which sequences does not have; did you mean 'rows'"),
        ({"worth": "sequence"}, "worth is 'sequence', a column of List; it must have numbers"),
        ({"worth": "bad"}, "worth is -1 in row 1; it must be a finite number >= 0"),
        ({"rows": "none"}, "sequences have no rows"),
        ({"rows": "gap"}, "rows is NaN in row 2"),
    ],
)
def test_wrong_arguments_are_refused(options, told):
    frame = segments(np.random.default_rng(0), 3).with_columns(
        bad=pl.lit(-1.0), none=pl.lit(0), gap=pl.Series([1, None, 1])
    )
    with pytest.raises(ds.DbselectError, match=told):
        ds.allocate(frame, **{"budget": 1, **options})


def test_what_is_no_frame_of_sequences_is_refused():
    frame = segments(np.random.default_rng(0), 3)
    for sequences, told in (
        (3, "sequences is 3; it must be a frame"),
        (frame.drop("sequence"), "no column 'sequence'"),
        (frame.with_columns(sequence="k"), "it must have lists of steps"),
        (frame.rename({"rows": "n"}), "sequences has no column 'rows'; name .* rows='k', or add"),
        (frame.with_columns(step=0), "sequences has a column 'step'; rename it"),
    ):
        with pytest.raises(ds.DbselectError, match=told):
            ds.allocate(sequences, 1)

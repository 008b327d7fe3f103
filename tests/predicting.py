"""What a sequence or a model predicts of rows, through every door."""

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from tables import sentence_in_sql

import dbselect as ds
from dbselect.record.steps import SEQUENCE_DTYPE
from dbselect.results.store import write_sequences

#: Two ways to compute the same sum of a handful of terms.
SAME = {"rtol": 1e-10, "atol": 1e-10}
#: Rounding of a fit, of numbers near 1.
CLOSE = {"rtol": 1e-8, "atol": 1e-8}


def plain(values: Any) -> np.ndarray:
    """Return predictions as doubles, NaN for nothing."""
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def in_sql(con: Any, sequence: Any, frame: pl.DataFrame, **options: Any) -> pl.DataFrame:
    """Return what the extension's own function answers, row by row."""
    frame = frame.with_row_index("row_")
    budget = options.pop("budget", None)
    if isinstance(budget, list):
        frame, limit = frame.with_columns(budget_=pl.Series(budget, dtype=pl.Float64)), "budget_"
    else:
        limit = "NULL" if budget is None else str(budget)
    given = ", ".join(f"'{name}': '{value}'" for name, value in options.items())
    con.register("rows_", frame.to_arrow())
    con.register("sequences", pa.table({"sequence_": write_sequences([sequence])}))
    fields = (
        "'{}': r.\"{}\"".format(name.replace("'", "''"), name.replace('"', '""'))
        for name in frame.columns[1:]
    )
    call = f"system.main.anytime_predict(sequence_, {{{', '.join(fields)}}}, {limit}" + (
        f", {{{given}}})" if given else ")"
    )
    found = con.sql(
        f"SELECT p.* FROM (SELECT row_, {call} AS p FROM rows_ r, sequences) ORDER BY row_"
    )
    return pl.DataFrame(found.to_arrow_table())


def in_polars(_: Any, sequence: Any, frame: pl.DataFrame, **options: Any) -> pl.DataFrame:
    literal = pl.lit(pl.Series("s", write_sequences([sequence])).cast(SEQUENCE_DTYPE)).first()
    budget = options.pop("budget", None)
    names = frame.columns
    if isinstance(budget, list):
        frame = frame.with_columns(budget_=pl.Series(budget, dtype=pl.Float64))
        budget = "budget_"
    found = frame.select(p=literal.dbselect.predict(pl.struct(names), budget, **options))
    return found["p"].struct.unnest()


def in_python(_: Any, sequence: Any, frame: pl.DataFrame, **options: Any) -> pl.DataFrame:
    found = sequence.anytime_predict(frame, **options)
    np.testing.assert_array_equal(
        sequence.predict(frame, **options), plain(found["prediction"]), strict=True
    )
    return found


DOORS: dict[str, Callable[..., pl.DataFrame]] = {
    "SQL": in_sql, "Polars": in_polars, "Python": in_python,
}  # fmt: skip


def assert_all_doors(
    con: Any, sequence: Any, frame: pl.DataFrame, close: dict[str, float] = SAME, **options: Any
) -> pl.DataFrame:
    """Return what all doors answer, if it is the same, or the error that all raise."""
    answers: dict[str, pl.DataFrame] = {}
    errors: dict[str, str] = {}
    for name, door in DOORS.items():
        try:
            answers[name] = door(con, sequence, frame, **options)
        except (ds.DbselectError, duckdb.Error, pl.exceptions.ComputeError) as error:
            errors[name] = str(error)
    if errors:
        assert errors.keys() == DOORS.keys(), errors
        sentence = errors["Python"]
        told = {sentence, sentence_in_sql(sentence)}
        assert all(any(each in text for each in told) for text in errors.values()), errors
        raise ds.DbselectError(sentence)
    first = answers["Python"]
    for name, own in answers.items():
        assert own.columns == ["prediction", "step", "spent", "next_group"], name
        assert own.drop("prediction").rows() == first.drop("prediction").rows(), name
        np.testing.assert_allclose(
            plain(own["prediction"]), plain(first["prediction"]), **close, err_msg=name
        )
    return first


def in_duckdb(text: str, frame: pl.DataFrame) -> np.ndarray:
    """Evaluate an SQL expression on a database that knows nothing of dbselect."""
    with duckdb.connect() as con:
        con.register("rows_", frame.with_row_index("row_").to_arrow())
        rows = con.execute(f"SELECT {text} FROM rows_ ORDER BY row_").fetchall()
    return plain(value for (value,) in rows)


def assert_predicts(
    model: Any,
    frame: pl.DataFrame,
    expected: Any,
    close: dict[str, float] = SAME,
    nested: dict[str, bool] | None = None,
    **options: Any,
) -> None:
    """Compare what a model, its expression and its SQL predict of a frame."""
    text = {**options, **(nested or {})}
    forms = {
        "predict": model.predict(frame, **options),
        "expr": plain(frame.with_columns(p_=model.expr(**text))["p_"]),
        "sql": in_duckdb(model.sql(**text), frame),
    }
    for name, predictions in forms.items():
        np.testing.assert_allclose(predictions, expected, **close, err_msg=name)

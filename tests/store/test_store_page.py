"""The SQL of docs/guides/keep-records-in-sql.md does what the page says."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import dbselect as ds

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "keep-records-in-sql.md").read_text()
COLUMNS = ["arr_delay", "dep_delay", "carrier"]


@pytest.mark.slow
def test_sql_keeps_records_up_to_date(flights_file, monkeypatch):
    monkeypatch.chdir(ROOT)
    prepare, merge, windows = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
    with ds.connect() as con:
        con.execute(prepare)
        con.execute(merge)
        kept = dict(con.sql("SELECT day, fingerprint FROM grams").fetchall())
        con.execute(
            "CREATE OR REPLACE VIEW flights AS SELECT departs::DATE AS day, * FROM "
            "'examples/data/flights.parquet' WHERE departs >= '2013-01-02' AND "
            "NOT (departs::DATE = '2013-05-05' AND carrier = 'UA')"
        )
        con.execute(merge)
        now = dict(con.sql("SELECT day, fingerprint FROM grams").fetchall())
        assert len(kept) == len(now) + 1
        assert [str(day) for day in now if now[day] != kept[day]] == ["2013-05-05"]
        (record,) = con.sql("SELECT gram_merge(gram) FROM grams").fetchall()[0]
        rows = con.sql("FROM flights").pl()
        same(ds.Gram.from_struct(record), ds.gram(rows, COLUMNS))
        sequence, moving = windows.strip().split(";\n\n")
        ((steps,),) = con.sql(sequence).fetchall()
        days = con.sql(moving).pl()
        quarter = rows.filter(pl.col("day") <= pl.date(2013, 3, 31))
        wanted = ds.anytime_sequence(quarter.select(COLUMNS), "arr_delay").steps
        assert [step["group"] for step in steps] == wanted["group"].to_list()
        last = rows.filter(pl.col("day") > pl.date(2013, 10, 2))
        assert days.height == 364 - 89
        found = days.sort("day")["gram"][-1]
        same(ds.Gram.from_struct(found), ds.gram(last, COLUMNS))


def same(found: ds.Gram, wanted: ds.Gram) -> None:
    """Compare two Grams, of which one may have a level that none of its rows has."""
    found = found.select(wanted.columns)
    assert found.rows == wanted.rows
    assert np.allclose(found.mean, wanted.mean, rtol=1e-12, atol=1e-13)
    assert np.allclose(found.comoment, wanted.comoment, rtol=1e-10, atol=1e-7)

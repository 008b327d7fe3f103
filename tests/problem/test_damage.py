"""Stored files of which one bit is wrong, and files whose names look like globs."""

import json
import random
import re

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dbselect as ds
from dbselect.doors.cli import main
from dbselect.sources.open import stored_gram


def table() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.normal(size=(40, 3)), ["a", "b", "c"])
    return frame.with_columns(k=pl.Series(["u", "v"] * 20))


GRAM = ds.gram(table())
SEQUENCE = ds.anytime_sequence(GRAM, "a")
FILES = {
    "Gram, JSON": (GRAM, "write_json", ds.Gram.read_json),
    "Gram, Parquet": (GRAM, "write_parquet", ds.Gram.read_parquet),
    "Gram as a source": (GRAM, "write_parquet", lambda path: stored_gram(str(path))),
    "Gram in a folder": (GRAM, "write_parquet", lambda path: stored_gram(str(path.parent))),
    "sequence, JSON": (SEQUENCE, "write_json", type(SEQUENCE).read_json),
    "sequence, Parquet": (SEQUENCE, "write_parquet", type(SEQUENCE).read_parquet),
    "terms, JSON": (GRAM.terms, "write_json", ds.Terms.read_json),
}


def plain(found):
    return found.to_struct()


@pytest.mark.slow
@pytest.mark.parametrize(("stored", "write", "read"), FILES.values(), ids=FILES)
def test_a_flipped_bit_is_an_error_or_nothing(stored, write, read, tmp_path):
    path = tmp_path / "file.parquet"
    getattr(stored, write)(path)
    whole = path.read_bytes()
    draw = random.Random(0)
    refused = 0
    places = draw.sample(range(len(whole)), min(len(whole), 100))
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            found = read(path)
        except ds.DbselectError:
            refused += 1
        else:
            assert plain(found) == plain(stored), place
    # A bit of a digest's name or mark can be wrong, and all that it speaks of right.
    assert refused > 0.9 * len(places)


def test_a_changed_number_is_called_damage(tmp_path):
    path = tmp_path / "gram.json"
    GRAM.write_json(path)
    text = path.read_text()
    assert '"rows": 40' in text
    path.write_text(text.replace('"rows": 40', '"rows": 41'))
    with pytest.raises(ds.errors.SourceError, match=r"gram\.json.*damaged.*digest"):
        ds.Gram.read_json(path)


def test_pages_have_checksums(tmp_path):
    path = tmp_path / "gram.parquet"
    GRAM.write_parquet(path)
    pq.write_table(
        pq.read_table(path),
        path,
        compression="none",
        use_dictionary=False,
        write_page_checksum=True,
    )
    # Written anew without our digest: a flip is found by the checksum alone.
    whole = path.read_bytes()
    at = whole.index(GRAM.mean.tobytes())
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(ds.errors.SourceError, match=r"(?i)crc|checksum|damaged"):
        ds.Gram.read_parquet(path)


def test_files_of_older_releases_and_of_other_engines_are_read(tmp_path, connection):
    GRAM.write_json(tmp_path / "gram.json")
    text = (tmp_path / "gram.json").read_text()
    (tmp_path / "gram.json").write_text(re.sub(r', "digest": "\w{64}"', "", text))
    assert "digest" not in (tmp_path / "gram.json").read_text()
    assert plain(ds.Gram.read_json(tmp_path / "gram.json")) == plain(GRAM)
    pq.write_table(pa.table({"gram": GRAM.to_arrow()}), tmp_path / "g.parquet")
    assert plain(ds.Gram.read_parquet(tmp_path / "g.parquet")) == plain(GRAM)
    connection.execute(
        f"COPY (SELECT gram({{'x': i}}) AS gram FROM range(9) t(i)) TO '{tmp_path}/d.parquet'"
    )
    assert ds.Gram.read_parquet(tmp_path / "d.parquet").rows == 9


def test_what_is_written_can_be_read_by_others(tmp_path, connection):
    GRAM.write_parquet(tmp_path / "gram.parquet")
    path = f"{tmp_path}/gram.parquet"
    (rows,) = connection.sql(f"SELECT t.gram.rows FROM '{path}' t").fetchall()[0]
    assert rows == pl.read_parquet(path)["gram"][0]["rows"] == 40
    assert pq.read_table(path)["gram"][0].as_py()["rows"] == 40
    # What is made of it is another file: no digest travels.
    twice = pa.concat_tables([pq.read_table(path)] * 2)
    pq.write_table(twice, path)
    assert ds.anytime_sequence(path, "a").gram.rows == 80


def test_a_name_that_looks_like_a_glob_is_that_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rows, name in [(3, "[ab].parquet"), (5, "a.parquet"), (7, "*.parquet"), (9, "q?.parquet")]:
        pl.DataFrame({"x": range(rows)}).write_parquet(name)
    for rows, name in [(3, "[ab].parquet"), (5, "a.parquet"), (7, "*.parquet"), (9, "q?.parquet")]:
        assert ds.gram(name).rows == rows
        assert ds.gram(tmp_path / name).rows == rows
    assert ds.gram("[a].parquet").rows == 5
    (tmp_path / "[d]" / "k=1").mkdir(parents=True)
    pl.DataFrame({"x": range(4)}).write_parquet(tmp_path / "[d]" / "k=1" / "a.parquet")
    found = ds.gram(str(tmp_path / "[d]"))
    assert (found.rows, sorted(found.columns)) == (4, ["k", "x"])


@pytest.mark.parametrize("odd", [[None], ["a"], [["a", 1.0]], "a", 3])
def test_coefficients_that_are_no_mapping_are_refused_before_arrow(tmp_path, capsys, odd):
    """Arrow ends the process at a map whose pairs are none."""
    frame = table().with_columns(late=pl.col("a") + pl.col("b") > 0)
    record = ds.anytime_sequence(frame, "late", {"c": ["c"]}, family="binomial").to_struct()
    record["predictors"][0]["sequence"][-1]["coefficients"] = odd
    path = tmp_path / "model.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ds.errors.RecordError, match="damaged: a mapping is a"):
        ds.read(path)
    frame.write_parquet(tmp_path / "rows.parquet")
    assert main(["predict", str(path), str(tmp_path / "rows.parquet")]) == 2
    assert "damaged" in capsys.readouterr().err


def test_classes_that_are_gone_are_called_damage(tmp_path):
    frame = table().with_columns(kind=pl.Series(["x", "y", "z", "x"] * 10))
    seq = ds.anytime_sequence(frame.drop("k"), "kind", family="multinomial", ridge=0.1)
    record = seq.to_struct()
    with pytest.raises(ds.errors.RecordError, match="family is 'multinomial', of 0 classes"):
        type(seq).from_struct({**record, "class_type": None})
    alone = {**record, "family": "binomial"}
    with pytest.raises(ds.errors.RecordError, match="family is 'binomial', of 3 classes"):
        type(seq).from_struct(alone)

"""One table has one record, to the last bit, wherever it lies and however many threads read it."""

import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import dbselect as ds
from dbselect.sources.engines.polars import MOST_ROWS, Blocks, block_rows


def table(rows: int, columns: int = 4) -> pl.DataFrame:
    rng = np.random.default_rng(rows)
    frame = pl.DataFrame(rng.standard_normal((rows, columns)), [f"x{j}" for j in range(columns)])
    return frame.with_columns(
        x0=pl.when(pl.int_range(pl.len()) % 97 != 5).then("x0"),
        k=pl.Series(rng.choice(["a", "b", "c"], rows)),
    )


def bits(gram: ds.Gram) -> tuple[bytes, ...]:
    return gram.mean.tobytes(), gram.mean_low.tobytes(), gram.comoment.tobytes()


@pytest.mark.parametrize("rows", [500, 1500])
def test_every_door_of_python_has_the_same_bits(rows, tmp_path, monkeypatch):
    monkeypatch.setattr("dbselect.sources.engines.polars.block_rows", lambda _: 256)
    frame = table(rows)
    path = tmp_path / "t.parquet"
    frame.write_parquet(path, row_group_size=70)
    cut = pl.concat([frame[:100], frame[100:101], frame[101:]], rechunk=False)
    sources = [frame, path, frame.lazy(), pl.scan_parquet(path), cut]
    for policy in ("skip", "indicator"):
        found = {bits(ds.gram(each, null_policy=policy)) for each in sources for _ in range(3)}
        assert len(found) == 1


def test_blocks_are_whole_whatever_comes_first():
    frame = table(1000).with_row_index("at")
    rng = np.random.default_rng(0)
    ends = np.sort(rng.choice(np.arange(1, 1000), 30, replace=False)).tolist()
    pieces = [(a, frame[a:b]) for a, b in zip([0, *ends], [*ends, 1000], strict=True)]
    blocks, found = Blocks(64), {}
    for at in rng.permutation(len(pieces)):
        found.update(blocks.added(*pieces[at]))
    assert sorted(found) == list(range(15))
    found.update(blocks.rest())
    assert pl.concat([found[n] for n in range(16)]).equals(frame)
    assert (block_rows(1), block_rows(500), block_rows(5000)) == (2**15, 2**13, 2**12)


def test_an_error_in_a_block_is_that_of_the_call():
    frame = table(2 * MOST_ROWS).with_columns(w=pl.lit(-1.0))
    with pytest.raises(ds.errors.DataError, match="weight"):
        ds.gram(frame, weight="w")


@pytest.mark.system
def test_threads_do_not_change_a_bit(tmp_path):
    path = tmp_path / "t.parquet"
    table(3 * MOST_ROWS).write_parquet(path, row_group_size=9000)
    code = f"import dbselect as ds; print(ds.gram({str(path)!r}).comoment.tobytes().hex())"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True,
            env=os.environ | {"POLARS_MAX_THREADS": threads},
        ).stdout
        for threads in ("1", "2", "5")
    }  # fmt: skip
    assert len(found) == 1

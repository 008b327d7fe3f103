"""A store of records is what its table is, whatever has happened to that and wherever it lies."""

import datetime as dt
import json
import os
import threading
from pathlib import Path
from threading import Thread

import duckdb
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbselect as ds
from dbselect.store import files as file_parts
from dbselect.store.folder import Folder

#: Digits that sums of a few hundred parts may lose beside one pass, of the size of the sums.
DIGITS = 1e-12


def same(found: ds.Gram, wanted: ds.Gram) -> None:
    assert found.columns == wanted.columns
    counts = [(each.rows, each.skipped, each.missing) for each in (found, wanted)]
    assert counts[0] == counts[1]
    assert np.isclose(found.weight, wanted.weight, rtol=DIGITS)
    spread = np.sqrt(np.outer(np.diag(wanted.comoment), np.diag(wanted.comoment)))
    size = np.abs(wanted.mean) + np.sqrt(np.diag(wanted.comoment) / max(wanted.weight, 1))
    assert (np.abs(found.mean - wanted.mean) <= DIGITS * size).all()
    assert (np.abs(found.comoment - wanted.comoment) <= DIGITS * (1e-3 + spread)).all()


def rows_of(day: dt.date, seed: int, rows: int = 12) -> pl.DataFrame:
    """Return rows of a day: numbers, text whose levels differ from day to day, and gaps."""
    rng = np.random.default_rng(seed)
    levels = np.array(["AA", "B6", "UA", f"X{seed % 3}"])
    x = rng.normal(3.0, 1.0, rows)
    return pl.DataFrame(
        {
            "day": [day] * rows,
            "origin": rng.choice(["EWR", "JFK"], rows),
            "x": x,
            "z": [
                None if gap else value
                for gap, value in zip(rng.random(rows) < 0.1, x**2, strict=True)
            ],
            "carrier": rng.choice(levels, rows),
            "y": x + rng.normal(size=rows),
        }
    )


DAYS = [dt.date(2013, 1, 1) + dt.timedelta(days=9 * n) for n in range(8)]


def write(frame: pl.DataFrame, folder: Path) -> Path:
    """Write a file for each day, below ``day=...``, so that nobody sees half of one."""
    for (day,), part in frame.partition_by("day", as_dict=True).items():
        path = folder / f"day={day}" / "rows.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        part.drop("day").write_parquet(path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)
    return folder


def spoil(path: Path) -> None:
    """Overwrite the data of a Parquet file, whose size, time and footer stay: reading it fails."""
    told, content = path.stat(), path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(b"x" * (len(content) - footer) + content[-footer:])
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))


PLACES = {"duckdb": "stats.duckdb", "folder": "stats", "delta": "stats.delta"}


def shelf(kind: str, folder: Path) -> ds.GramStore:
    if kind == "delta":
        pytest.importorskip("deltalake", reason="a store in a Delta table needs deltalake")
    return ds.GramStore(folder / PLACES[kind])


@pytest.fixture(params=list(PLACES))
def any_store(request, tmp_path):
    return shelf(request.param, tmp_path)


@pytest.fixture
def store(tmp_path):
    return shelf("folder", tmp_path)


@pytest.fixture
def year():
    return pl.concat([rows_of(day, n) for n, day in enumerate(DAYS)])


def test_every_window_is_that_of_its_rows(tmp_path, year, as_source):
    source, store = as_source(year), shelf("folder", tmp_path)
    if not hasattr(source, "read_next_batch") and type(source).__name__ != "Stream":
        path = isinstance(source, str | Path)
        store.refresh(source, by=["day"] if path else ["day", "origin"])
        for first, last in [(0, 0), (2, 5), (0, 7)]:
            rows = year.filter(pl.col("day").is_between(DAYS[first], DAYS[last]))
            columns = ["origin", "x", "z", "carrier", "y"] if path else ["x", "z", "carrier", "y"]
            same(store.window(DAYS[first], DAYS[last]), ds.gram(rows, columns))
    else:
        with pytest.raises(ds.errors.SourceError, match="only once"):
            store.refresh(source, by="day")


def test_coarse_ends_mean_whole_months_and_years(store, year):
    store.refresh(year, by="day")
    for first, last, low, high in [
        ("2013-01", "2013-02", DAYS[0], dt.date(2013, 2, 28)),
        ("2013", "2013-01-10", DAYS[0], DAYS[1]),
        (dt.date(2013, 2, 1), None, dt.date(2013, 2, 1), DAYS[-1]),
    ]:
        rows = year.filter(pl.col("day").is_between(low, high)).drop("day")
        same(store.window(first, last), ds.gram(rows))


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("keys", "first", "last"),
    [
        ([3, 1, 2, 5], 2, 3),
        (["c", "a", "b", "e"], "b", "c"),
        ([2.5, 0.5, 1.5, 9.0], 1, 2.5),
        (pl.Series(["c", "a", "b", "e"], dtype=pl.Categorical), "b", "c"),
        ([dt.datetime(2020, 1, d, 5) for d in (3, 1, 2, 9)], "2020-01-02", dt.date(2020, 1, 3)),
    ],
)
def test_keys_may_be_of_any_type(any_store, keys, first, last):
    table = pl.DataFrame({"k": [*keys, *keys, None], "x": np.arange(9.0) ** 2})
    any_store.refresh(table, by="k")
    same(any_store.window(first, last), ds.gram(table[[0, 2, 4, 6]].select("x")))
    same(any_store.total(), ds.gram(table.select("x")))


def test_a_cut_is_a_frame_of_grams(store, year):
    store.refresh(year, by=["day", "origin"])
    by = store.by("origin", pl.col("day").dt.month().alias("month"))
    assert by.columns == ["origin", "month", "gram"]
    for origin, month, record in by.iter_rows():
        rows = year.filter(pl.col("origin") == origin, pl.col("day").dt.month() == month)
        wanted = ds.gram(rows.select("x", "z", "carrier", "y"))
        same(ds.Gram.from_struct(record).select(wanted.columns), wanted)
    same(store.where(pl.col("origin") == "JFK").window("2013-02"),
         ds.gram(year.filter(pl.col("origin") == "JFK", pl.col("day").dt.month() >= 2)
                 .select("x", "z", "carrier", "y")))  # fmt: skip


def test_folds_have_the_means_of_all_as_those_of_the_table(tmp_path):
    rng = np.random.default_rng(5)
    x, z, noise = rng.normal(size=(3, 120))
    table = pl.DataFrame({"day": np.arange(120) // 6, "x": x, "z": z, "y": x - z + noise})
    table = table.with_columns(x=pl.when(pl.int_range(120) % 7 > 0).then("x"))
    store, policy = ds.GramStore(tmp_path / "stats"), {"x": "mean"}
    store.refresh(table, by="day", null_policy=policy)
    folds = store.folds(4, seed=1)
    wanted = ds.gram_by(
        table, fold=4, key="day", seed=1, null_policy=policy, columns=["x", "z", "y"]
    )
    assert folds["fold"].to_list() == wanted["fold"].to_list()
    for one, other in zip(folds["gram"], wanted["gram"], strict=True):
        same(ds.Gram.from_struct(one), ds.Gram.from_struct(other))
    found = ds.cross_validate(folds, "y", "fit").scores["r2"]
    np.testing.assert_allclose(found, ds.cross_validate(wanted, "y", "fit").scores["r2"])
    assert ds.Problem(folds, "y").stopped_sequence().sequence.steps.height > 1
    assert ds.stability(folds, "y", size=1, records=4).records == 4


def test_only_what_has_changed_is_read(any_store, year, tmp_path):
    folder = write(year, tmp_path / "flights")
    any_store.refresh(folder, by="day")
    for untouched in range(3, 8):
        spoil(folder / f"day={DAYS[untouched]}" / "rows.parquet")
    write(rows_of(DAYS[1], 77, rows=20), folder)
    (folder / f"day={DAYS[2]}" / "rows.parquet").unlink()
    late = dt.date(2012, 12, 31)
    write(rows_of(late, 78), folder)
    done = any_store.refresh(folder)
    assert (done.added, done.changed, done.dropped, done.unchanged) == (
        ["day=2012-12-31/rows.parquet"],
        [f"day={DAYS[1]}/rows.parquet"],
        [f"day={DAYS[2]}/rows.parquet"],
        6,
    )
    now = pl.concat(
        [rows_of(late, 78), *(rows_of(DAYS[n], n) for n in (0, 3, 4, 5, 6, 7)),
         rows_of(DAYS[1], 77, rows=20)]
    )  # fmt: skip
    same(any_store.total(), ds.gram(now.drop("day")))
    again = any_store.refresh(folder)
    assert (again.added, again.changed, again.dropped, again.unchanged) == ([], [], [], 8)


def test_a_row_that_changes_changes_its_key_only(store, year):
    store.refresh(year, by=["day", "origin"])
    swapped = year.sample(fraction=1.0, shuffle=True, seed=1)
    assert store.refresh(swapped).unchanged == 16
    # The engine and its types do not matter, only values do.
    with duckdb.connect() as con:
        assert store.refresh(con.from_arrow(swapped.to_arrow())).unchanged == 16
        assert store.refresh(swapped.to_pandas(use_pyarrow_extension_array=True)).unchanged == 16
    doubled = pl.concat([year, year[:1]])
    done = store.refresh(doubled)
    assert done.changed == [json.dumps([str(year["day"][0]), year["origin"][0]])]
    assert done.unchanged == 15
    same(store.total(), ds.gram(doubled.select("x", "z", "carrier", "y")))
    done = store.refresh(year.filter(pl.col("day") != DAYS[3]))
    assert len(done.dropped) == 2


def test_a_new_column_opens_a_version(store, year, tmp_path):
    folder = write(year.filter(pl.col("day") < DAYS[4]), tmp_path / "flights")
    store.refresh(folder, by="day")
    more = year.filter(pl.col("day") >= DAYS[4]).with_columns(gust=pl.col("x").sin()).select(
        "day", "gust", "y", "carrier", "x", "z", "origin"
    )  # fmt: skip
    write(more, folder)
    store.refresh(folder)
    versions = store.versions()
    assert versions["version"].to_list() == [1, 2]
    assert versions["first"].to_list() == [DAYS[0], DAYS[4]]
    assert "gust" in versions["columns"][1]
    with pytest.warns(ds.errors.LeftOutWarning, match="'gust'"):
        found = store.total()
    same(found, ds.gram(year.drop("day")))
    same(store.window(DAYS[4]), ds.gram(more.drop("day")))


def test_a_column_that_becomes_text_is_not_shared(store, tmp_path):
    first = pl.DataFrame({"k": 1, "x": [1.0, 2.0, 4.0], "y": [1.0, 0.0, 3.0]})
    store.refresh(first, by="k")
    second = first.with_columns(k=2, x=pl.Series(["a", "b", "a"]))
    for n, frame in enumerate([first, second]):
        frame.write_parquet(tmp_path / f"{n}.parquet")
    store.refresh(tmp_path / "*.parquet")
    with pytest.warns(ds.errors.LeftOutWarning, match=r"\['x'\]"):
        assert store.total().columns == ["y"]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "policy", ["mean", "indicator", {"z": "mean"}, {"*": "indicator", "z": "mean"}]
)
def test_means_are_those_of_the_window(any_store, year, policy):
    gaps = year.with_columns(
        carrier=pl.when(pl.col("x") > 4).then(None).otherwise("carrier"),
    )
    any_store.refresh(gaps, by="day", null_policy=policy)
    for first, last in [(0, 7), (1, 2), (3, 3)]:
        rows = gaps.filter(pl.col("day").is_between(DAYS[first], DAYS[last])).drop("day")
        wanted = ds.gram(rows, null_policy=policy)
        same(any_store.window(DAYS[first], DAYS[last]), wanted)


def test_terms_that_were_learnt_hold(store, year):
    terms = ds.terms(year, {"carrier": ["AA"]}, {"x": ("spline", 3)})
    store.refresh(year[:50], by="day", terms=terms, columns=["z", "y", "carrier"])
    store.refresh(year)
    wanted = ds.gram(year, ["z", "y", "carrier"], terms=terms)
    same(store.total(), wanted)
    assert "carrier.other" in wanted.columns


def test_weights_are_kept(store, year):
    store.refresh(year.with_columns(w=pl.col("x").abs()), by="day", weight="w")
    same(store.total(), ds.gram(year.with_columns(w=pl.col("x").abs()).drop("day"), weight="w"))


changes = st.lists(
    st.tuples(st.sampled_from(["put", "drop"]), st.integers(0, 4), st.integers(0, 5)),
    min_size=1, max_size=4,
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=12)
@given(
    history=st.lists(changes, min_size=1, max_size=4),
    kind=st.sampled_from(list(PLACES)),
    files=st.booleans(),
    ends=st.tuples(st.integers(0, 4), st.integers(0, 4)),
)
def test_any_history_ends_in_the_state_of_the_table(tmp_path_factory, history, kind, files, ends):
    """Days come late, change and go; after each refresh the windows are those of the rows."""
    base = tmp_path_factory.mktemp("history")
    store, folder = shelf(kind, base), base / "table"
    folder.mkdir()
    state: dict[int, pl.DataFrame] = {4: rows_of(DAYS[4], 40)}
    write(state[4], folder)
    for step in history:
        for what, n, seed in step:
            if what == "put":
                state[n] = rows_of(DAYS[n], 10 * n + seed, rows=4 + seed)
                write(state[n], folder)
            elif n in state and len(state) > 1:
                del state[n]
                (folder / f"day={DAYS[n]}" / "rows.parquet").unlink()
        table = pl.concat([state[n] for n in sorted(state)])
        store.refresh(folder if files else table, by="day")
        same(store.total(), ds.gram(table.drop("day")))
        first, last = DAYS[min(ends)], DAYS[max(ends)]
        rows = table.filter(pl.col("day").is_between(first, last)).drop("day")
        if rows.height:
            same(store.window(first, last), ds.gram(rows))
        else:
            with pytest.raises(ds.errors.DataError, match="no record has 'day'"):
                store.window(first, last)
    assert not base.joinpath("stats").exists() or len(list(base.glob("stats/list-*"))) <= 2


def test_a_file_that_changes_while_it_is_read_is_read_again(store, year, tmp_path, monkeypatch):
    folder = write(year, tmp_path / "flights")
    real, changed = file_parts.read_part, []

    def disturbed(frame, reading):
        found = real(frame, reading)
        if not changed:
            changed.append(True)
            write(rows_of(DAYS[0], 99), folder)
        return found

    monkeypatch.setattr(file_parts, "read_part", disturbed)
    store.refresh(folder, by="day")
    now = pl.concat([rows_of(DAYS[0], 99), year.filter(pl.col("day") > DAYS[0])])
    same(store.total(), ds.gram(now.drop("day")))


def test_a_file_that_always_changes_is_an_error(store, year, tmp_path, monkeypatch):
    folder = write(year, tmp_path / "flights")
    real = file_parts.read_part

    def disturbed(frame, reading):
        found = real(frame, reading)
        os.utime(folder / f"day={DAYS[0]}" / "rows.parquet")
        return found

    monkeypatch.setattr(file_parts, "read_part", disturbed)
    with pytest.raises(ds.errors.BusyError, match="changed during each of 3 reads"):
        store.refresh(folder, by="day")
    with pytest.raises(ds.errors.SourceError, match="is empty; refresh it first"):
        store.total()


def test_the_second_of_two_writers_is_told(tmp_path, year):
    """Both begin from one state; the one who ends later has not seen what the other wrote."""
    store = ds.GramStore(tmp_path / "stats")
    store.refresh(year[:40], by="day")
    place = Folder(tmp_path / "stats")
    before = place.read()
    store.refresh(year)
    with pytest.raises(ds.errors.BusyError, match="another process has refreshed"):
        place.write(before, [], before.frame.clear())
    for _ in range(3):
        store.refresh(year[:40])
        store.refresh(year)
    # Its number is free again by now, but lower than others.
    with pytest.raises(ds.errors.BusyError, match="another process has refreshed"):
        place.write(before, [], before.frame.clear())
    same(store.total(), ds.gram(year.drop("day")))


@pytest.mark.parametrize("begun", [False, True], ids=["from nothing", "from a state"])
def test_two_connections_at_once_end_with_one_state(tmp_path, year, begun):
    with duckdb.connect(tmp_path / "shared.duckdb") as con:
        if begun:
            ds.GramStore("stats", con).refresh(year[:20], by="day")
        errors = []

        def refresh(rows):
            with con.cursor() as own:
                try:
                    ds.GramStore("stats", own).refresh(rows, by="day")
                except ds.errors.SourceError as error:
                    errors.append(str(error))

        threads = [threading.Thread(target=refresh, args=(year,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all("another process has refreshed" in error for error in errors)
        assert len(errors) < 2
        same(ds.GramStore("stats", con).total(), ds.gram(year.drop("day")))


def test_a_table_of_an_attached_catalog(tmp_path, year):
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'other.duckdb'}' AS lake")
        con.execute("CREATE SCHEMA lake.stats")
        store = ds.GramStore("lake.stats.grams", connection=con)
        store.refresh(year, by="day")
        same(store.window(DAYS[2]), ds.gram(year.filter(pl.col("day") >= DAYS[2]).drop("day")))


def test_sql_sums_what_the_store_wrote(tmp_path, year):
    ds.GramStore(tmp_path / "stats.duckdb").refresh(year, by="day")
    with ds.connect(tmp_path / "stats.duckdb") as con:
        (record,) = con.execute(
            "SELECT gram_merge(gram) FROM grams WHERE day BETWEEN '2013-02-01' AND '2013-02-28'"
        ).fetchone()
    rows = year.filter(pl.col("day").dt.month() == 2).drop("day")
    wanted = ds.gram(rows)
    same(ds.Gram.from_struct(record).select(wanted.columns), wanted)


def test_what_is_told_otherwise_is_refused(any_store, year):
    with pytest.raises(ds.errors.ArgumentError, match="by is missing"):
        any_store.refresh(year)
    any_store.refresh(year, by="day", columns=["x", "y"])
    assert any_store.refresh(year, by=["day"], columns=["x", "y"]).unchanged == 8
    with pytest.raises(
        ds.errors.ArgumentError, match=r"columns is \['x'\], but the store was made with"
    ):
        any_store.refresh(year, columns=["x"])
    with pytest.raises(ds.errors.ArgumentError, match="by is"):
        any_store.refresh(year, by="origin")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda s: s.window("x"), "first is 'x'; the key 'day' is Date"),
        (lambda s: s.window(3), "first is 3"),
        (lambda s: s.window("2014", "2013"), "last is '2013', before first"),
        (lambda s: s.window("2020"), "no record has 'day' from '2020' to None; there are 2013"),
        (lambda s: s.by(), "by needs a key"),
        (lambda s: s.by("carrier"), "by names unknown key 'carrier'"),
        (lambda s: s.by(pl.col("x")), "by cannot be computed from the keys"),
        (lambda s: s.where(pl.col("day")), "condition gives Date"),
        (lambda s: s.folds(1), "fold is 1"),
    ],
)
def test_mistakes_are_told(store, year, call, error):
    store.refresh(year, by="day")
    with pytest.raises(ds.DbselectError, match=error):
        call(store)


@pytest.mark.parametrize(
    ("source", "by", "error"),
    [
        ("nowhere", "day", "no file is at 'nowhere'"),
        ("https://bucket/t", "day", "not a local path"),
        (pl.DataFrame({"x": [1.0]}), "day", "by names unknown column 'day'"),
        (pl.DataFrame({"part": [1], "x": [1.0]}), "part", "by names a column 'part'"),
        (pl.DataFrame({"k": [1], "x": ["a"]}), 3, "by is 3"),
        (ds.gram(pl.DataFrame({"x": [1.0, 2.0]})), "x", "source has Gram records"),
    ],
)
def test_sources_are_checked(store, source, by, error):
    with pytest.raises(ds.DbselectError, match=error):
        store.refresh(source, by=by)


def test_a_file_that_is_no_table_is_named(store, tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    with pytest.raises(ds.errors.SourceError, match=r"in the file '.*a\.parquet'"):
        store.refresh(tmp_path, by="day")


def test_a_table_that_is_gone_drops_nothing(any_store, year, tmp_path):
    folder = write(year, tmp_path / "flights")
    any_store.refresh(folder, by="day")
    for path in folder.glob("*/*.parquet"):
        path.unlink()
    with pytest.raises(ds.errors.SourceError, match="no file is at"):
        any_store.refresh(folder)
    with pytest.raises(
        ds.errors.SourceError, match="has 8 parts of it, which a refresh would all drop"
    ):
        any_store.refresh(year.clear())
    same(any_store.total(), ds.gram(year.drop("day")))


def test_a_file_without_rows_is_a_part(any_store, year, tmp_path):
    folder = write(year, tmp_path / "flights")
    year.clear().write_parquet(folder / "none.parquet")
    assert len(any_store.refresh(folder, by="day").added) == 9
    assert any_store.refresh(folder).unchanged == 9
    same(any_store.total(), ds.gram(year.drop("day")))


def test_files_that_are_put_together_meanwhile_are_counted_once(store, year, tmp_path, monkeypatch):
    """Whoever compacts a folder leaves, for a moment, rows twice or not at all."""
    folder = write(year, tmp_path / "flights")
    real, done = file_parts.read_part, []

    def disturbed(frame, reading):
        if not done:
            done.append(True)
            (folder / "all").mkdir()
            year.write_parquet(folder / "all" / "rows.parquet")
            for day in DAYS:
                (folder / f"day={day}" / "rows.parquet").unlink()
        return real(frame, reading)

    monkeypatch.setattr(file_parts, "read_part", disturbed)
    assert store.refresh(folder, by="day").added == ["all/rows.parquet"]
    same(store.total(), ds.gram(year.drop("day")))


def test_a_delta_table_is_its_files_of_one_version(tmp_path, year):
    delta = pytest.importorskip("deltalake", reason="Delta tables need deltalake")
    rows = year.to_arrow(compat_level=pl.CompatLevel.oldest())
    delta.write_deltalake(tmp_path / "lake", rows, partition_by=["day"])
    store = shelf("folder", tmp_path)
    assert len(store.refresh(tmp_path / "lake", by="day").added) == 8
    delta.DeltaTable(tmp_path / "lake").delete(f"day = '{DAYS[2]}'")
    more = rows_of(DAYS[5], 66).to_arrow(compat_level=pl.CompatLevel.oldest())
    delta.write_deltalake(tmp_path / "lake", more, mode="append")
    done = store.refresh(delta.DeltaTable(tmp_path / "lake"))
    assert (len(done.added), len(done.dropped), done.unchanged) == (1, 1, 7)
    now = pl.concat([year.filter(pl.col("day") != DAYS[2]), rows_of(DAYS[5], 66)])
    same(store.total(), ds.gram(now.drop("day")))
    # The file of the day that was taken out is still in the folder.
    assert list(tmp_path.glob(f"lake/day={DAYS[2]}/*.parquet"))


def test_a_file_of_a_delta_table_that_is_lost_is_an_error(tmp_path, year):
    delta = pytest.importorskip("deltalake", reason="Delta tables need deltalake")
    lake = tmp_path / "lake"
    for part in (year[:30], year[30:]):
        rows = part.to_arrow(compat_level=pl.CompatLevel.oldest())
        delta.write_deltalake(lake, rows, mode="append")
    next(lake.glob("*.parquet")).unlink()
    store = ds.GramStore(tmp_path / "stats")
    with pytest.raises(ds.errors.SourceError, match=r"in the file 'part-.*No such file"):
        store.refresh(lake, by="day")
    assert len(store.refresh(lake, by="day", on_error="skip").skipped) == 1


@pytest.mark.parametrize("begun", [False, True])
def test_of_two_versions_of_a_delta_table_one_is_refused(tmp_path, year, begun):
    store, late = shelf("delta", tmp_path), shelf("delta", tmp_path)
    if begun:
        store.refresh(year[:30], by="day")
    before = late._shelf.read()
    store.refresh(year, by="day")
    with pytest.raises(ds.errors.BusyError, match="another process has refreshed"):
        late._shelf.write(before, [], store._shelf.read().frame.clear())
    same(store.total(), ds.gram(year.drop("day")))


def test_what_many_parts_warn_of_is_said_once_to_the_caller(store, year, tmp_path):
    folder = write(year.with_columns(pl.lit(None, pl.Float64).alias("never")), tmp_path / "flights")
    with pytest.warns(ds.errors.SkippedRowsWarning, match="96 of 96 rows are left out") as caught:
        store.refresh(folder, by="day")
    assert [each.filename for each in caught] == [__file__]


@pytest.mark.parametrize("name", ["records-0.parquet", "list-of-things.json", "list-1.json"])
def test_a_folder_of_other_files_is_no_store_and_keeps_them(tmp_path, year, name):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / name).write_text("mine")
    store = ds.GramStore(tmp_path / "own")
    for call in (store.total, lambda: store.refresh(year, by="day")):
        with pytest.raises(
            ds.errors.SourceError, match=f"is no store but has other files, as '{name}'"
        ):
            call()
    assert [path.name for path in (tmp_path / "own").iterdir()] == [name]


def test_a_file_put_into_a_store_stays(tmp_path, year):
    store = shelf("folder", tmp_path)
    store.refresh(year, by="day")
    for name in ("records-0.parquet", "list-of-things.json"):
        (tmp_path / "stats" / name).write_text("mine")
    for seed in range(3):
        store.refresh(pl.concat([year, rows_of(DAYS[0], seed)]))
        assert (tmp_path / "stats" / "records-0.parquet").read_text() == "mine"
    assert (tmp_path / "stats" / "list-of-things.json").exists()


@pytest.mark.parametrize(
    "path", ["https://bucket/stats", "s3://bucket/stats.duckdb", "zz.parquet", "zz.sqlite"]
)
def test_what_is_no_folder_of_this_machine_is_refused(path):
    with pytest.raises(ds.errors.ArgumentError, match=r"path is '.*'; a store is a file of DuckDB"):
        ds.GramStore(path)


@pytest.mark.parametrize("by", ["k", ["k", "d"]])
def test_nan_is_a_key_of_one_part(any_store, by):
    k = [1.0, float("nan"), -float("nan"), None, -0.0, 0.0]
    table = pl.DataFrame({"k": pl.Series(k), "d": [1] * 6, "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    done = any_store.refresh(table, by=by, columns=["x"])
    assert len(done.added) == len(set(done.added)) == 4
    assert None not in done.added
    same(any_store.total(), ds.gram(table.select("x")))
    assert any_store.refresh(table).unchanged == 4
    more = table.with_columns(x=pl.col("x") + pl.col("k").is_nan().fill_null(False))
    assert (any_store.refresh(more).unchanged, any_store.total().rows) == (3, 6)
    same(any_store.total(), ds.gram(more.select("x")))


@pytest.mark.parametrize(
    "dtype", [pl.Datetime("ns"), pl.Datetime("ns", "Europe/Berlin"), pl.Duration("ns"), pl.Time]
)
def test_keys_a_nanosecond_apart_are_parts_of_their_own(tmp_path, dtype):
    table = pl.DataFrame({"k": pl.Series([1, 2, 1002]).cast(dtype), "x": [1.0, 2.0, 4.0]})
    store = shelf("folder", tmp_path)
    assert len(set(store.refresh(table, by="k").added)) == 3
    more = table.with_columns(x=pl.Series([1.0, 2.0, 5.0]))
    assert len(store.refresh(more).changed) == 1
    same(store.total(), ds.gram(more.select("x")))


@pytest.mark.parametrize(
    ("first", "then"),
    [([1], [1.5]), ([True], [2]), ([dt.date(2013, 1, 1)], [dt.datetime(2013, 1, 1, 7)])],
)
def test_keys_are_not_rounded_to_the_type_of_before(store, first, then):
    store.refresh(pl.DataFrame({"k": first, "x": [1.0]}), by="k")
    with pytest.raises(ds.errors.SourceError, match="have values that the types of before"):
        store.refresh(pl.DataFrame({"k": then, "x": [2.0]}))
    assert store.show()["k"].to_list() == first


@pytest.mark.parametrize("by", ["k", "x"])
def test_a_table_that_was_empty_fixes_neither_keys_nor_types(any_store, by):
    table = pl.DataFrame({"k": [2, 1], "x": [1.0, 3.0], "y": [1.0, 2.0]})
    any_store.refresh(table.clear(), by="k")
    any_store.refresh(table, by=by)
    assert any_store.show().schema[by] == table.schema[by]
    assert any_store.window(1, 2).rows == (2 if by == "k" else 1)


def test_what_is_said_otherwise_than_at_first_is_an_error_though_it_is_a_default(store, year):
    store.refresh(year, by="day", null_policy="indicator", max_levels=7)
    assert store.refresh(year).unchanged == 8
    for said in ({"null_policy": "skip"}, {"max_levels": 64}):
        with pytest.raises(ds.errors.ArgumentError, match="but the store was made with"):
            store.refresh(year, **said)


@pytest.mark.parametrize("name", ["version", "rows", "columns", "first"])
def test_a_key_may_have_the_name_of_a_count(store, name):
    store.refresh(pl.DataFrame({name: [5, 6], "x": [1.0, 2.0]}), by=name)
    assert store.show()[name].to_list() == [5, 6]
    assert store.versions().select("first", "last", "records").row(0) == (5, 6, 2)


def test_keys_that_are_none_are_told(store):
    with pytest.raises(ds.errors.ArgumentError, match="it names 'day' twice"):
        store.refresh(pl.DataFrame({"day": [1], "x": [1.0]}), by=["day", "day"])
    with pytest.raises(
        ds.errors.ColumnError, match="'day', of which all values are NULL and of no type"
    ):
        store.refresh(pl.DataFrame({"day": [None], "x": [1.0]}), by="day")


def test_an_empty_cut_is_not_an_empty_store(store, year):
    store.refresh(year, by="day")
    with pytest.raises(ds.errors.DataError, match="the cut is empty"):
        store.where(pl.lit(False)).total()


def test_a_store_is_no_table_of_its_own(tmp_path, year):
    store = shelf("folder", tmp_path)
    store.refresh(year, by="day")
    for source in ("stats", "stats/*.parquet"):
        with pytest.raises(ds.errors.SourceError, match=r"no file (is at|matches)"):
            store.refresh(tmp_path / source)


@pytest.mark.parametrize("source", ["", "**/*.parquet"])
def test_a_store_within_its_source_does_not_read_itself(any_store, tmp_path, year, source):
    year.write_parquet(tmp_path / "rows.parquet")
    assert any_store.refresh(tmp_path / source, by="day").added == ["rows.parquet"]
    assert any_store.refresh(tmp_path / source).unchanged == 1
    same(any_store.total(), ds.gram(year.drop("day")))


@pytest.mark.parametrize("name", ["../outside.parquet", "/etc/passwd", "x.parquet", ""])
def test_a_list_names_no_file_beside_those_of_the_store(tmp_path, year, name):
    store = shelf("folder", tmp_path)
    store.refresh(year, by="day")
    (own,) = (tmp_path / "stats").glob("records-*.parquet")
    (tmp_path / "outside.parquet").write_bytes(own.read_bytes())
    (told,) = (tmp_path / "stats").glob("list-*.json")
    told.write_text(told.read_text().replace(own.name, name))
    with pytest.raises(ds.errors.SourceError, match="which is no file of records of a store"):
        store.total()


@pytest.mark.slow
def test_refreshes_on_many_threads_end(tmp_path):
    """A call of Polars inside of its scan waits for threads that wait for it."""
    rows = pl.DataFrame({"day": range(200_000), "x": range(200_000)})
    rows = rows.with_columns(pl.col("day") % 50)

    def refresh(at: int) -> None:
        ds.GramStore(tmp_path / f"s{at}").refresh(rows.lazy() if at % 2 else rows, by="day")

    threads = [Thread(target=refresh, args=(at,), daemon=True) for at in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not any(each.is_alive() for each in threads)

"""Random cases through the real engines, against exact sums and against each other: `make fuzz`.

``doors.py SECONDS [FIRST]`` draws cases of all families from a first seed on, and
prints how many and what was found; ``doors.py FAMILY SEED`` runs one again. What is
found is mended with a test of its own, and its seed is kept in ``corpus.txt``, which the tests run.
"""

import copy
import json
import random
import shutil
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dbselect as ds

sys.path.insert(0, str(Path(__file__).parent))
import cases
import drawing

from dbselect.record.gram import RECORD_DTYPE

CORPUS = Path(__file__).parent / "corpus.txt"
#: What a door may say of what it does not take.
REFUSALS = (ds.DbselectError, duckdb.Error, pl.exceptions.PolarsError)
#: Share of the sum of what is added up by which a prediction may be off.
ROUNDING = 1e-9


class Stream:
    """An object of which nothing is known but its Arrow C stream."""

    def __init__(self, table: Any) -> None:
        self.__arrow_c_stream__ = table.__arrow_c_stream__


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def packed(frame: pl.DataFrame, weight: str | None) -> str:
    """Return the arguments of `gram` in SQL."""
    fields = ", ".join(f"{quoted(n)} := {quoted(n)}" for n in frame.columns if n != weight)
    return f"struct_pack({fields})" + (f", {quoted(weight)}" if weight else "")


class Doors:
    """Every way into a Gram, on one connection and in one folder."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self.connection, self.folder = connection, folder

    def query(self, frame: pl.DataFrame, sql: str) -> list[Any]:
        """Run a query on the table ``t``."""
        rows = frame.with_row_index("row of all").to_arrow()
        return self.connection.from_arrow(rows).query("t", sql).fetchall()

    def grams(self, frame: pl.DataFrame, weight: str | None) -> dict[str, Callable[[], Any]]:
        """Return what reads a frame, by the name of the door; a record, or a Gram."""
        arrow = frame.to_arrow()
        path = self.folder / "table.parquet"
        places = [i for i, name in enumerate(frame.columns) if name != weight]
        of_weight = None if weight is None else pl.nth(frame.columns.index(weight))
        call = packed(frame, weight)
        parts = f'SELECT gram({call}) AS g FROM t GROUP BY "row of all" % 3'

        def from_file() -> ds.Gram:
            frame.write_parquet(path, row_group_size=7)
            return ds.gram(str(path), weight=weight)

        def in_parts() -> Any:
            plan = ds.io.plan_gram(arrow.schema, weight=weight)
            half = arrow.num_rows // 2
            return plan.finish([plan.partial(arrow[:half]), plan.partial(arrow[half:])])

        return {
            "DataFrame": lambda: ds.gram(frame, weight=weight),
            "LazyFrame": lambda: ds.gram(frame.lazy(), weight=weight),
            "Arrow": lambda: ds.gram(arrow, weight=weight),
            "C stream": lambda: ds.gram(Stream(arrow), weight=weight),
            "Parquet": from_file,
            "relation": lambda: ds.gram(self.connection.from_arrow(arrow), weight=weight),
            "SQL": lambda: self.query(frame, f"SELECT gram({call}) FROM t")[0][0],
            "SQL, merged": lambda: self.query(frame, f"SELECT gram_merge(g) FROM ({parts})")[0][0],
            "expression": lambda: frame.select(
                pl.struct(pl.nth(places)).dbselect.gram(weight=of_weight)
            ).to_series()[0],
            "namespace": lambda: frame.lazy().dbselect.gram(weight=weight).collect()["gram"][0],
            "plan": in_parts,
        }


def tables(draw: random.Random, doors: Doors) -> None:
    """Read one table at every door."""
    table = cases.table(draw)
    for name, call in doors.grams(table.frame, table.weight).items():
        try:
            found = call()
            gram = found if isinstance(found, ds.Gram) else ds.Gram.from_struct(found)
            table.compare(gram)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


def column(records: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"gram": records}, schema={"gram": RECORD_DTYPE})


def altered(draw: random.Random, record: dict[str, Any], fields: list[str]) -> dict[str, Any]:
    """Return a record of which some of these fields are others."""
    odd = [0.0, -1.0, 1e308, 1e-308, 5e-324, float("inf"), float("nan"), 1e16, None]
    counts = [0, -1, 1, 2**63 - 1, None]
    record = {name: list(x) if isinstance(x, list) else x for name, x in record.items()}
    for _ in range(draw.choice([0, 1, 1, 2])):
        field = draw.choice(fields)
        value = record[field]
        if isinstance(value, list) and value and draw.random() < 0.8:
            numbers = counts if field == "missing" else odd
            value[draw.randrange(len(value))] = draw.choice(numbers)
        elif isinstance(value, list):
            record[field] = value[:-1]
        elif field in ("rows", "skipped"):
            record[field] = draw.choice(counts)
        elif field == "weight":
            record[field] = draw.choice(odd)
        else:
            record[field] = draw.choice(["{}", "[", '{"means": {"a": 1}}', None])
    return record


def records(draw: random.Random, doors: Doors) -> None:
    """Ask every door whether records can be searched, and search and merge them."""
    table = cases.table(draw, 12)
    if len(table.columns) < 2:
        return
    sound = ds.gram(table.frame).to_struct()
    target = draw.choice(table.frame.columns)
    fields = [name for name in sound if name != "columns"]
    given = column([altered(draw, sound, fields) for _ in range(3)])
    text = target.replace("'", "''")
    doors.connection.register("records", given.to_arrow())
    try:
        in_sql = [
            reason
            for (reason,) in doors.connection.execute(
                f"SELECT gram_check(gram, '{text}') FROM records"
            ).fetchall()
        ]
        query = f"SELECT anytime_sequence(gram, '{text}') FROM records"
        rows = [row[0] for row in doors.connection.execute(query).fetchall()]
        query = "SELECT gram_merge(gram) FROM records"
        also = _answer(lambda: doors.connection.execute(query).fetchall()[0][0])
    finally:
        doors.connection.unregister("records")
    in_polars = given.select(pl.col("gram").dbselect.check(target)).to_series()
    steps = given.select(pl.col("gram").dbselect.anytime_sequence(target)).to_series()
    merged = _answer(lambda: given.select(pl.col("gram").dbselect.merge()).to_series()[0])
    in_python = [_answer(lambda one=one: ds.anytime_sequence(one, target)) for one in given["gram"]]
    shares = [step["r2"] for found in [*rows, *steps.to_list()] for step in found]
    shares += [share for found in in_python if found is not None for share in found.steps["r2"]]
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares), f"r2 {shares}"
    usable = [reason is None for reason in in_sql]
    said = f"{in_sql}, {in_polars.to_list()}"
    assert usable == in_polars.is_null().to_list(), f"doors differ: {said}"
    assert [len(row) for row in rows] == steps.list.len().to_list(), "lengths differ"
    for found, reason in zip(in_python, in_sql, strict=True):
        # A search looks at the columns that it meets, a check at all together.
        is_farther = reason is not None and "three or more together" in reason
        assert found is None or reason is None or is_farther, (
            f"Python takes what others do not: {said}"
        )
    assert (merged is None) == (also is None), f"one door merges: {said}"


def _answer(call: Callable[[], Any]) -> Any:
    """Return what a door answers, None where it refuses in a sentence."""
    try:
        return call()
    except REFUSALS as error:
        if "internal error" in str(error) or not str(error):
            raise AssertionError(f"no sentence: {error!r}") from error
        return None


def predictions(draw: random.Random, doors: Doors) -> None:
    """Predict the rows of a table by NumPy, a Polars expression and SQL, of any prefix."""
    rows = draw.randint(8, 40)
    called = cases.names(draw, draw.randint(2, 5))
    values = {name: [draw.randint(-50, 50) for _ in range(rows)] for name in called}
    frame = pl.DataFrame(values).cast(pl.Float64)
    sequence = ds.anytime_sequence(frame, called[-1])
    budget = draw.choice([None, 0.0, 1.0, 2.0])
    model = sequence.at(budget)
    gaps = [[None if draw.random() < 0.1 else x for x in values[name]] for name in called]
    other = pl.DataFrame(dict(zip(called, gaps, strict=True)), schema=frame.schema)
    terms = [other[name] * factor for name, factor in model.coefficients.items()]
    expected = np.full(rows, model.intercept)
    size = np.full(rows, abs(model.intercept))
    for term in terms:
        expected = expected + term.to_numpy()
        size = size + abs(term.to_numpy())
    in_sql = _answer(lambda: [p for (p,) in doors.query(other, f"SELECT {model.sql()} FROM t")])
    in_polars = other.select(p=model.expr())["p"].to_list()
    for name, found in {
        "predict": model.predict(other), "expr": in_polars, "sql": in_sql
    }.items():  # fmt: skip
        assert found is not None, f"{name} refuses {called}"
        numbers = np.array(found, dtype=float)
        close = abs(numbers - expected) <= ROUNDING * size
        assert (close | (np.isnan(numbers) & np.isnan(expected))).all(), f"{name} of {called}"


def stored(draw: random.Random, doors: Doors) -> None:
    """Alter the bytes of what is stored: an error, or what was stored."""
    table = cases.table(draw, 20)
    gram = ds.gram(table.frame, weight=table.weight)
    plan = ds.io.plan_gram(table.frame.to_arrow().schema, weight=table.weight)
    path = doors.folder / "stored"
    sequence = _answer(lambda: ds.anytime_sequence(gram, gram.columns[0])) or gram
    kept = draw.choice([gram, sequence, gram.terms])
    form = "json" if kept is gram.terms else draw.choice(["json", "parquet"])
    if draw.random() < 0.25:
        part = plan.partial(table.frame.to_arrow())
        changed = cases.altered_bytes(draw, part)
        found = _answer(lambda: plan.finish([changed]))
        assert changed == part or found is None, "a damaged part is taken"
        return
    getattr(kept, f"write_{form}")(path)
    path.write_bytes(cases.altered_bytes(draw, path.read_bytes()))
    found = _answer(lambda: getattr(type(kept), f"read_{form}")(path))
    assert found is None or plain(found) == plain(kept), f"damaged {form} is taken"


#: What stands in the place of a value in altered JSON.
ODD = [None, True, 0, -1, 0.5, 1e308, "", "x", "\0", [], {}, [None], {"x": None}, 2**70]


def altered_json(draw: random.Random, whole: Any) -> Any:
    """Return plain data in which another value stands at some place, or none; names as often."""
    places: dict[tuple[str, ...], list[tuple[Any, ...]]] = {}

    def note(value: Any, path: tuple[Any, ...]) -> None:
        names = tuple(str(part) for part in path if isinstance(part, str))
        places.setdefault(names, []).append(path)
        if isinstance(value, dict | list):
            for key in value if isinstance(value, dict) else range(len(value)):
                note(value[key], (*path, key))

    note(whole, ())
    path = draw.choice(draw.choice(list(places.values())))
    if not path:
        return draw.choice(ODD)
    changed = copy.deepcopy(whole)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    if draw.random() < 0.1:
        del holder[path[-1]]
    else:
        holder[path[-1]] = draw.choice(ODD)
    return changed


@cache
def kinds() -> dict[str, tuple[Any, pl.DataFrame]]:
    """Return a result of every kind that is stored, and rows that it predicts."""
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(rng.normal(size=(60, 3)), ["a", "b", "y"]).with_columns(
        k=pl.Series(["u", "v", "w"] * 20),
        day=pl.Series(range(60)),
        late=pl.Series([True, False, False] * 20),
    )
    groups = {"a": ["a"], "b": ["b"], "k": ["k"]}
    problem = ds.Problem(frame, "y", groups)
    problem_late = ds.Problem(frame, "late", groups, family="binomial")
    made = {
        "gram": ds.gram(frame, null_policy="mean"),
        "sequence": problem.anytime_sequence(),
        "joint": ds.anytime_sequence(frame, ["y", "day"], groups),
        "lazy": ds.anytime_sequence(frame, "y", groups, gram="lazy"),
        "binomial": ds.anytime_sequence(frame, "late", groups, family="binomial"),
        "classes": ds.anytime_sequence(frame, "k", {"a": ["a"], "b": ["b"]}, family="multinomial"),
        "terms": ds.terms(frame, ["k"], {"a": ("spline", 5)}),
        "model": problem.fit(),
        "selected": problem.anytime_sequence().at(2),
        "glm": problem_late.fit(),
        "path": ds.lasso_path(frame, "y"),
        "folds": problem.cross_validate("anytime_sequence", folds=2),
        "stability": problem.stability("anytime_sequence", max_groups=1, records=4),
    }
    return {name: (one, frame) for name, one in made.items()}


def stored_values(draw: random.Random, doors: Doors) -> None:
    """Alter what is stored and no digest guards: an error, or a result that answers or refuses."""
    name, (kept, frame) = draw.choice(list(kinds().items()))
    told = kept.to_struct()
    odd = altered_json(draw, told)
    path = doors.folder / f"{name}.{draw.choice(['json', 'parquet'])}"
    if path.suffix == ".parquet" and isinstance(odd, dict) and "kind" in odd:
        odd = odd | {"fields": json.dumps(odd.get("fields"))}
    if path.suffix == ".json":
        path.write_text(json.dumps(odd))
    else:
        try:
            rows = draw.choice([pl.DataFrame, pa.Table.from_pylist])([odd])
            pq.write_table(rows if isinstance(rows, pa.Table) else rows.to_arrow(), path)
        except (*REFUSALS, pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError):
            return  # no types have room for it
    found = _answer(lambda: ds.read(path))
    if found is None or isinstance(found, ds.Terms):
        return
    _answer(lambda: repr(found))
    if isinstance(found, ds.Gram):
        _answer(lambda: ds.anytime_sequence(found, "y"))
        return
    if hasattr(found, "predict"):
        _answer(lambda: found.predict(frame))
        _answer(found.sql)


def stores(draw: random.Random, doors: Doors) -> None:
    """Alter the bytes of a store's file: an error, or a store that refreshes to the table."""
    days = pl.DataFrame({"day": [1, 1, 2, 3, 3], "x": [1.0, 2.0, 5.0, 7.0, 0.5]})
    place = doors.folder / f"store{draw.choice(['', '.duckdb', '.delta'])}"
    for left in doors.folder.glob("store*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    ds.GramStore(place).refresh(days, by="day")
    files = sorted(path for path in doors.folder.glob("store*/**/*") if path.is_file())
    file = draw.choice(files or [place])
    before = file.read_bytes()
    file.write_bytes(changed := cases.altered_bytes(draw, before))
    total = _answer(ds.GramStore(place).total)
    assert total is None or changed == before or np.isfinite(total.mean).all()
    if _answer(lambda: ds.GramStore(place).refresh(days, max_dropped=9)) is not None:
        _answer(lambda: repr(ds.GramStore(place).by("day")))


def plain(found: Any) -> Any:
    return found.to_struct()


FAMILIES: dict[str, Callable[[random.Random, Doors], None]] = {
    "tables": tables,
    "records": records,
    "predictions": predictions,
    "stored": stored,
    "values": stored_values,
    "stores": stores,
}


def run(family: str, seed: int, doors: Doors) -> None:
    """Run one case; what it raises is a finding."""
    drawing.run(family, partial(FAMILIES[family], doors=doors), seed)


def corpus() -> list[tuple[str, int]]:
    """Return the families and seeds of what was found before."""
    lines = [line.split() for line in CORPUS.read_text().splitlines() if line[:1] != "#"]
    return [(line[0], int(line[1])) for line in lines]


def main(given: list[str]) -> int:
    """Draw cases, or run one again; 1 if something was found."""
    with ds.connect() as connection, tempfile.TemporaryDirectory() as folder:
        doors = Doors(connection, Path(folder))
        return drawing.main(
            {name: partial(family, doors=doors) for name, family in FAMILIES.items()}, given
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

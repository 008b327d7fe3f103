"""One pass over a file: grams, segments and predictions against a plain sum of the columns."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from measure import Row, peak_megabytes, process, seconds
from mlxtend.feature_selection import SequentialFeatureSelector as MlxtendSelector
from sklearn.feature_selection import SequentialFeatureSelector
from sklearn.linear_model import LinearRegression
from tables import categories, columns, table

import dbselect as ds


def struct(names: list[str]) -> str:
    """Return the SQL of a row of some columns."""
    return "struct_pack(" + ", ".join(f"{name} := {name}" for name in names) + ")"


def duckdb_gram() -> Iterator[Row]:
    """`gram` over Parquet, whole and grouped, and one SQL term per product."""
    with ds.connect() as con:
        for rows, width, bar in ((4_000_000, 50, 1.3), (2_000_000, 200, 1.5)):
            path, names = table(rows, width), columns(width)

            def run(select: str, tail: str = "", path: Path = path) -> Callable[[], object]:
                return lambda: con.execute(f"SELECT {select} FROM '{path}' {tail}").fetchall()

            floor = run(", ".join(f"sum({name})" for name in names))
            gram = run(f"(gram({struct(names)})).rows")
            works = [floor, gram]
            if width == 50:
                works.append(run(f"k, (gram({struct(names)})).rows", "GROUP BY k"))
            base, whole, *grouped = seconds(*works)
            what = f"DuckDB gram, {rows // 10**6}M x {width}"
            yield what, f"{whole:.2f} s, {whole / base:.2f}x of {base:.2f} s", f"<= {bar}x"
            for time in grouped:
                yield (
                    f"{what}, GROUP BY 1000 keys",
                    f"{time:.2f} s, {time / base:.2f}x of {base:.2f} s",
                    "<= 2.5x",
                )
            if width == 50:
                products = [f"sum({a} * {b})" for i, a in enumerate(names) for b in names[: i + 1]]
                terms, whole = seconds(run(", ".join(products)), gram)
                yield (
                    "one SQL term per product, 4M x 50, against gram",
                    f"{terms:.2f} s, {terms / whole:.1f}x slower",
                    ">= 4x",
                )


def polars_gram() -> Iterator[Row]:
    """`ds.gram` on a Parquet path."""
    for rows, width, bar in ((4_000_000, 50, 1.6), (2_000_000, 200, 2.0)):
        path, names = table(rows, width), columns(width)
        sums = pl.scan_parquet(path).select([pl.col(name).sum() for name in names])
        base, gram = seconds(
            lambda sums=sums: sums.collect(engine="streaming"),
            lambda path=path, names=names: ds.gram(path, columns=names),
        )
        what = f"ds.gram of a Parquet path, {rows // 10**6}M x {width}"
        yield what, f"{gram:.2f} s, {gram / base:.2f}x of {base:.2f} s", f"<= {bar}x"


def levels() -> Iterator[Row]:
    """`ds.gram` with categories of 10, 100 and 1000 levels, found in a first pass or known."""
    sizes, names = (10, 100, 1000), columns(20)
    path = categories(4_000_000, 20, sizes)
    frame = pl.scan_parquet(path)
    sums = [pl.col(name).sum() for name in names]
    integers, texts = ([f"{kind}{n}" for n in sizes] for kind in "it")
    floors = {
        "integers": (integers, [pl.col(name).max() for name in integers]),
        "text": (texts, [pl.col(name).str.len_bytes().max() for name in texts]),
    }
    for kind, (fields, reads) in floors.items():
        terms = ds.terms(path, fields)
        base, known, both = seconds(
            lambda reads=reads: frame.select(*sums, *reads).collect(engine="streaming"),
            lambda terms=terms: ds.gram(path, names, terms=terms),
            lambda fields=fields: ds.gram(path, names, categories=fields),
        )
        yield (
            f"ds.gram, 4M x 20 and categories of 10, 100 and 1000 levels, {kind}",
            f"{both:.2f} s, {both / base:.2f}x of {base:.2f} s; "
            f"of known levels {known:.2f} s, {known / base:.2f}x",
            "<= 3x",
        )


def memory() -> Iterator[Row]:
    """Peak resident set of `ds.gram` at four times the rows."""
    code = "import dbselect; dbselect.gram({!r}, columns=['x*'])"
    small, large = (
        float(np.median([peak_megabytes(code.format(str(table(rows, 50)))) for _ in range(3)]))
        for rows in (4_000_000, 16_000_000)
    )
    yield (
        "peak resident set of ds.gram, 16M x 50 against 4M x 50",
        f"{large:.0f} MB against {small:.0f} MB, {large / small:.2f}x",
        "<= 1.1x",
    )


def segments() -> Iterator[Row]:
    """Ten thousand small problems in one query."""
    row = "{'a': a, 'b': b, 'c': c, 'd': d, 'e': e}"
    with ds.connect() as con:
        con.execute(
            "CREATE TABLE s AS SELECT i % 10000 AS k, random() AS a, random() AS b, "
            "random() AS c, random() AS d, random() AS e FROM range(1000000) t(i)"
        )
        grams, whole = seconds(
            lambda: con.execute(f"SELECT k, (gram({row})).rows FROM s GROUP BY k").fetchall(),
            lambda: con.execute(
                f"SELECT k, len(anytime_sequence(gram({row}), 'e')) FROM s GROUP BY k"
            ).fetchall(),
            repeats=3,
        )
    yield (
        "10,000 segments x 5 columns, GROUP BY + anytime_sequence",
        f"{whole:.1f} s, of which gram {grams:.2f} s; "
        f"{(whole - grams) * 100:.0f} us a segment for the search",
        "< 20 s",
    )


#: The whole job of a million segments by door: the table read, the sequences and their status.
SEGMENTS = {
    "SQL": """
import dbselect
row = "{{'x0': x0, 'x1': x1, 'x2': x2, 'x3': x3}}"
dbselect.connect().execute(
    f"CREATE TABLE s AS SELECT k, anytime_sequence(g, 'x0') AS s, gram_check(g, 'x0') AS status "
    f"FROM (SELECT k, gram({{row}}) AS g FROM '{path}' GROUP BY k)"
)""",
    "Python": """
import dbselect
grams = dbselect.gram_by('{path}', ['k'])
dbselect.anytime_sequence_by(grams, 'x0')""",
}
#: One regression a segment, nothing selected, of a tenth of the segments.
REGRESSIONS = {
    "polars-ols": """
import polars as pl, polars_ols
frame = pl.scan_parquet('{path}').filter(pl.col('k') < 100_000).collect()
frame.group_by('k').agg(pl.col('x0').least_squares.ols(
    'x1', 'x2', 'x3', add_intercept=True, mode='coefficients'))""",
    # It ends with an error where a segment has fewer rows than coefficients.
    "polars-ds, segments of 5 rows or more": """
import polars as pl, polars_ds
frame = pl.scan_parquet('{path}').filter(pl.col('k') < 100_000).collect()
frame = frame.filter(pl.len().over('k') >= 5)
frame.group_by('k').agg(polars_ds.lin_reg('x1', 'x2', 'x3', target='x0', add_bias=True))""",
}


def many_segments() -> Iterator[Row]:
    """Solve a million small problems; beside them, the regressions of other packages."""
    path = table(10_000_000, 4, 1_000_000)
    for door, code in SEGMENTS.items():
        time, peak = process(code.format(path=path))
        yield (
            f"1,000,000 segments x 3 features, 10M rows, from Parquet: sequences in {door}",
            f"{time:.0f} s, {time:.0f} us a segment; peak {peak:.0f} MB",
            "< 120 s, < 4096 MB",
        )
    # They may need other versions than ours, so they live in an environment of their own.
    python = os.environ.get("DBSELECT_PEERS")
    for name, code in REGRESSIONS.items() if python else ():
        time, peak = process(code.format(path=path), python)
        yield (
            f"100,000 of these segments: the full regression alone by {name}",
            f"{time:.1f} s, {time * 10:.0f} us a segment; peak {peak:.0f} MB",
            "",
        )


def predictions() -> Iterator[Row]:
    """Rate of `anytime_predict` with one sequence for all rows, and of its full model alone."""
    path, (target, *features) = table(2_000_000, 21), columns(21)
    groups = {f"g{i}": features[5 * i // 2 : 5 * (i + 1) // 2] for i in range(8)}
    frame, row = pl.scan_parquet(path), pl.struct(features)
    with ds.connect() as con:
        con.execute(
            f"CREATE TABLE s AS SELECT anytime_sequence(gram({struct([target, *features])}), "
            f"'{target}', groups := {groups}) AS steps FROM '{path}'"
        )
        sequence = pl.lit(con.sql("FROM s").pl()["steps"])
        model = con.execute("SELECT steps[-1] FROM s").fetchall()[0][0]
        intercept, coefficients = model["intercept"], model["coefficients"].items()
        sql = " + ".join([str(intercept), *(f"{x} * {name}" for name, x in coefficients)])
        expression = intercept + pl.sum_horizontal(x * pl.col(name) for name, x in coefficients)

        def query(value: str) -> Callable[[], object]:
            return lambda: con.execute(f"SELECT sum({value}) FROM '{path}'").fetchall()

        def predict(budget: str) -> Callable[[], object]:
            call = f"anytime_predict((SELECT steps FROM s), {struct(features)}, budget := {budget})"
            return query(f"({call}).prediction")

        def lazy(value: pl.Expr) -> Callable[[], object]:
            return lambda: frame.select(value.sum()).collect(engine="streaming")

        def lazy_predict(budget: pl.Expr | float) -> Callable[[], object]:
            return lazy(sequence.dbselect.predict(row, budget).struct.field("prediction"))

        engines = {
            "DuckDB": [predict("8"), predict("k / 100"), query(sql)],
            "Polars": [lazy_predict(8), lazy_predict(pl.col("k") / 100), lazy(expression)],
        }
        for engine, works in engines.items():
            constant, column, plain = (2 / time for time in seconds(*works))
            yield (
                f"{engine} predictions, 2M x 20 in 8 groups, from Parquet",
                f"{constant:.1f}M rows/s, budget a column {column:.1f}M; "
                f"the full model as an expression {plain:.1f}M",
                ">= 2M rows/s",
            )


def peers() -> Iterator[Row]:
    """Measure the whole job against selectors that hold the rows in memory."""
    path, width, picks = table(200_000, 20), 20, 5
    names = columns(width)
    frame = pl.read_parquet(path)
    features, target = frame.select(names[1:]).to_numpy(), frame["x0"].to_numpy()
    ours, sklearn, mlxtend = seconds(
        lambda: ds.anytime_sequence(ds.gram(path, columns=names), names[0], max_groups=picks),
        lambda: SequentialFeatureSelector(LinearRegression(), n_features_to_select=picks, cv=2).fit(
            features, target
        ),
        lambda: MlxtendSelector(LinearRegression(), k_features=picks, scoring="r2", cv=0).fit(
            features, target
        ),
        repeats=3,
    )
    yield (
        "5 of 19 columns, 200,000 rows: dbselect from the file",
        f"{ours * 1000:.0f} ms",
        "",
    )
    for name, time in (("scikit-learn", sklearn), ("mlxtend", mlxtend)):
        yield (
            f"the same by {name}'s SequentialFeatureSelector, rows in memory",
            f"{time:.1f} s, {time / ours:.0f}x slower",
            "",
        )

"""Fields of entries: the sequence is that of the dense columns, and no dense row is made."""

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.linear_model import orthogonal_mp

import dbselect as ds
from dbselect.errors import ArgumentError, ColumnError, DataError
from dbselect.linear import lazy_gram
from dbselect.sources.wide import wide_rows

ROWS, COLUMNS = 400, 50


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    """Make pieces and batches small, so that there are many of both."""
    monkeypatch.setattr(lazy_gram, "BATCH", 5)
    monkeypatch.setattr(wide_rows, "PIECE_ROWS", 70)


def problem(seed: int = 1) -> tuple[sparse.csr_matrix, pl.DataFrame]:
    """Return entries, and other columns beside them."""
    rng = np.random.default_rng(seed)
    X = sparse.random(ROWS, COLUMNS, density=0.1, format="csr", random_state=seed)
    X.data += 1.0
    z = rng.normal(size=ROWS)
    y = X[:, :10] @ rng.normal(size=10) + z + 1e3 + rng.normal(size=ROWS)
    rest = {"y": y, "z": z, "k": rng.choice(["a", "b"], ROWS), "w": rng.uniform(0, 2, ROWS)}
    return X, pl.DataFrame(rest)


def as_map(X: sparse.csr_matrix, rest: pl.DataFrame) -> pa.Table:
    field = pa.MapArray.from_arrays(X.indptr, X.indices, X.data)
    return rest.to_arrow().append_column("x", field)


def as_list(X: sparse.csr_matrix, rest: pl.DataFrame) -> pl.DataFrame:
    entries = [
        [{"at": int(j), "value": v} for j, v in zip(row.indices, row.data, strict=True)]
        for row in X
    ]
    return rest.with_columns(x=pl.Series(entries))


def dense(X: sparse.csr_matrix, rest: pl.DataFrame) -> pl.DataFrame:
    columns = {f"x[{j}]": column for j, column in enumerate(X.toarray().T)}
    return pl.DataFrame({**rest.to_dict(as_series=True), **columns})


def assert_same(wide: ds.results.WideSequence, table: pl.DataFrame, **options: object) -> None:
    groups = {name: [name] for name in table.columns if name not in ("y", "k", "w")}
    full = ds.anytime_sequence(table, "y", {**groups, "k": ["k"]}, **options)
    assert wide.steps["group"].equals(full.steps["group"])
    np.testing.assert_allclose(wide.r2, full.r2, rtol=1e-10)
    for name, value in full.at().coefficients.items():
        assert wide.at().coefficients[name] == pytest.approx(value, rel=1e-6, abs=1e-10)


def of_map(X, rest, _):
    return as_map(X, rest)


def of_list(X, rest, _):
    return as_list(X, rest).lazy()


def of_file(X, rest, folder):
    pq.write_table(as_map(X, rest), folder / "entries.parquet", row_group_size=90)
    return folder / "entries.parquet"


def of_relation(X, rest, _):
    given = as_map(X, rest)
    return duckdb.connect().from_arrow(given)


@pytest.mark.parametrize("source", [of_map, of_list, of_file, of_relation])
def test_entries_are_the_columns_that_they_stand_for(source, tmp_path):
    X, rest = problem()
    wide = ds.anytime_sequence(
        source(X, rest, tmp_path), "y", weight="w", ridge=0.1, max_groups=30, gram="lazy"
    )
    assert_same(wide, dense(X, rest), weight="w", ridge=0.1, max_groups=30)
    # Entries, z, and k.
    assert wide.n_groups == COLUMNS + 2
    assert wide.scans <= 2 + 30


def test_the_order_is_that_of_scikit_learns_orthogonal_matching_pursuit():
    X, rest = problem(10)
    wide = ds.anytime_sequence(as_map(X, rest.select("y")), "y", rule="omp", gram="lazy")
    Z = X.toarray() - X.toarray().mean(axis=0)
    Z /= np.linalg.norm(Z, axis=0)
    y = rest["y"].to_numpy() - rest["y"].mean()
    held: list[int] = []
    for size in range(1, 13):
        coef = orthogonal_mp(Z, y, n_nonzero_coefs=size)
        held += [column for column in np.flatnonzero(coef) if column not in held]
        assert wide.groups.names[:size] == [f"x[{column}]" for column in held]


def test_a_group_may_have_entries_and_other_columns():
    X, rest = problem(2)
    groups = {"a": ["x[3]", "z"], "b": ["x[0]", "x[1]", "x[2]"], "c": ["x[40]"], "d": ["k", "x[9]"]}
    costs = {"a": 2.0, "b": 3.0, "c": 1.0, "d": 2.5}
    wide = ds.anytime_sequence(as_map(X, rest), "y", groups, costs, gram="lazy")
    full = ds.anytime_sequence(dense(X, rest), "y", groups, costs)
    assert wide.steps["group"].equals(full.steps["group"])
    np.testing.assert_allclose(wide.r2, full.r2, rtol=1e-10)


def test_entries_of_one_number_add_up_and_numbers_not_met_are_no_groups():
    rng = np.random.default_rng(3)
    y = rng.normal(size=50)
    twice = [[{"at": 900, "value": v / 4}, {"at": 900, "value": 3 * v / 4}] for v in y.tolist()]
    wide = ds.anytime_sequence(pl.DataFrame({"y": y, "x": twice}), "y", gram="lazy")
    assert wide.groups.names == ["x[900]"]
    assert wide.r2[-1] == pytest.approx(1.0)
    assert wide.at().coefficients["x[900]"] == pytest.approx(1.0)


def test_rows_without_all_entries_are_left_out():
    X, rest = problem(4)
    broken = as_list(X, rest).with_columns(
        x=pl.when(pl.int_range(pl.len()) % 10 == 0).then(None).otherwise(pl.col("x"))
    )
    wide = ds.anytime_sequence(broken, "y", weight="w", max_groups=12, gram="lazy")
    kept = np.arange(ROWS) % 10 != 0
    assert (wide.gram.skipped, wide.gram.missing) == (ROWS // 10, {"x": ROWS // 10})
    assert_same(wide, dense(X, rest).filter(pl.Series(kept)), weight="w", max_groups=12)
    with pytest.raises(DataError, match="in 40 rows; its entries take null_policy"):
        ds.anytime_sequence(broken, "y", null_policy="mean", gram="lazy")


def by_hand(model: ds.results.Model, X: sparse.csr_matrix, rest: pl.DataFrame) -> np.ndarray:
    found = np.full(X.shape[0], model.intercept)
    for name, value in model.coefficients.items():
        column = rest["z"].to_numpy() if name == "z" else X[:, [int(name[2:-1])]].toarray()[:, 0]
        found += value * column
    return found


@pytest.mark.parametrize("form", [as_map, as_list, dense])
def test_a_model_predicts_from_entries_and_from_columns_of_their_names(form, tmp_path):
    X, rest = problem(5)
    fitted = as_map if form is dense else form
    wide = ds.anytime_sequence(fitted(X, rest.drop("k")), "y", max_groups=6, gram="lazy")
    model, (more, other) = wide.at(), problem(6)
    assert "z" in model.columns
    table, expected = form(more, other), by_hand(model, more, other)
    np.testing.assert_allclose(model.predict(table), expected)
    np.testing.assert_allclose(ds.Terms.from_json(model.terms.to_json()) == model.terms, True)
    nested = None if form is not dense else False
    frame = pl.DataFrame(table)
    found = frame.lazy().select(p=model.expr(nested=nested)).collect()["p"]
    np.testing.assert_allclose(found, expected)
    con = duckdb.connect()
    given = con.from_arrow(frame.to_arrow())  # noqa: F841
    in_sql = con.sql(f"SELECT {model.sql(nested=nested)} FROM given").fetchnumpy()
    np.testing.assert_allclose(next(iter(in_sql.values())), expected)
    path = tmp_path / "found.parquet"
    wide.write_parquet(path)
    np.testing.assert_allclose(ds.results.WideSequence.read_parquet(path).predict(table), expected)


def all_doors(
    model: ds.results.Model, frame: pl.DataFrame, **options: str
) -> list[list[float | None]]:
    con = duckdb.connect()
    given = con.from_arrow(frame.to_arrow())  # noqa: F841
    return [
        [None if np.isnan(value) else value for value in model.predict(frame, **options).round(6)],
        frame.select(p=model.expr(**options).round(6))["p"].to_list(),
        [p for (p,) in con.sql(f"SELECT round({model.sql(**options)}, 6) FROM given").fetchall()],
    ]


def test_entries_that_a_fit_has_not_seen_are_said():
    y = [1.0, 2.0, 3.0, 4.0]
    X = [[{"at": 1, "value": value}, {"at": 2, "value": value**2}] for value in y]
    model = ds.anytime_sequence(
        pl.DataFrame({"y": y, "x": X}), "y", {"x": ["x[1]"]}, gram="lazy"
    ).at()
    rows = [
        [{"at": 1, "value": 7.0}],
        [],
        [{"at": 1, "value": 1.0}, {"at": 1, "value": 4.0}, {"at": 2, "value": None}],
        [{"at": 1, "value": None}],
        None,
        [{"at": 1, "value": 5.0}, {"at": 3, "value": 9.0}],
    ]
    frame = pl.DataFrame({"x": rows})
    known = [7.0, 0.0, 5.0, None, None]
    assert all_doors(model, frame) == [[*known, None]] * 3
    assert all_doors(model, frame, handle_unknown="mean") == [[*known, 5.0]] * 3
    for number in range(3):
        with pytest.raises(Exception, match="entry 3, which the fit has not seen") as raised:
            all_doors_of(model, frame)[number]()
        assert number or raised.type is DataError
    assert all_doors(model, frame[:5], handle_unknown="error") == [known] * 3


def all_doors_of(model: ds.results.Model, frame: pl.DataFrame) -> list:
    con = duckdb.connect().from_arrow(frame.to_arrow())
    return [
        lambda: model.predict(frame, handle_unknown="error"),
        lambda: frame.select(model.expr(handle_unknown="error")),
        lambda: con.project(model.sql(handle_unknown="error")).fetchall(),
    ]


def test_what_is_no_field_of_entries_is_refused_by_a_model_of_one():
    X, rest = problem(7)
    model = ds.anytime_sequence(as_map(X, rest), "y", {"x": ["x[3]"]}, gram="lazy").at()
    with pytest.raises(ArgumentError, match=r"'x' has type Array.*a MAP from whole numbers"):
        model.predict(pl.DataFrame({"x": [[1.0, 2.0]]}, schema={"x": pl.Array(pl.Float64, 2)}))
    with pytest.raises(ColumnError, match="the rows lack column 'x', which"):
        model.predict(rest)
    with pytest.raises(ArgumentError, match="only dialect 'duckdb' reads"):
        model.sql("postgres")


def test_a_sparse_matrix_is_a_table_and_rows_to_predict():
    X, rest = problem(8)
    table = ds.io.sparse_table(X.tocsc(), rest)
    wide = ds.anytime_sequence(table, "y", ridge=0.1, max_groups=9, gram="lazy")
    assert_same(wide, dense(X, rest), ridge=0.1, max_groups=9)
    with pytest.raises(ArgumentError, match=r"the model reads .*'z'.* sparse_table"):
        wide.predict(X)
    alone = ds.io.sparse_table(sparse.csr_array(X), {"y": rest["y"].to_numpy()}, field="w")
    model = ds.anytime_sequence(alone, "y", max_groups=4, gram="lazy").at()
    assert all(name.startswith("w[") for name in model.columns)
    np.testing.assert_allclose(model.predict(X), model.predict(alone))
    wider = sparse.hstack([X, sparse.csr_matrix(np.ones((ROWS, 1)))]).tocsr()
    assert np.isnan(model.predict(wider)).all()
    np.testing.assert_allclose(model.predict(wider, handle_unknown="mean"), model.predict(X))


def test_a_sparse_matrix_needs_a_target_beside_it():
    X, rest = problem(9)
    for wrong, words in [
        (lambda: ds.anytime_sequence(X, "y", gram="lazy"), r"no target beside it; sparse_table"),
        (
            lambda: ds.io.sparse_table(X.toarray(), rest),
            "X is a ndarray; it must be a sparse matrix",
        ),
        (lambda: ds.io.sparse_table(X, rest[:3]), "columns has 3 rows, and X 400"),
        (lambda: ds.io.sparse_table(X, rest, field="z"), "columns has 'z', the name of the field"),
        (lambda: ds.io.sparse_table(X, [1.0]), "columns is a list; it must be a frame"),
        (lambda: ds.io.sparse_table(X, rest, field=3), "field is 3; it must be the name"),
    ]:
        with pytest.raises(ds.DbselectError, match=words):
            wrong()


def many_levels(seed: int) -> pl.DataFrame:
    """Return rows of texts of many levels, one of few, and numbers beside them."""
    rng = np.random.default_rng(seed)
    user, item = rng.integers(0, 1200, 4000), rng.integers(0, 1100, 4000)
    # Every level is there.
    user[:1200], item[-1100:] = np.arange(1200), np.arange(1100)
    z = rng.normal(size=4000)
    y = 3 * (user == 7) + 2 * (item < 3) + z + rng.normal(size=4000) + 50
    frame = pl.DataFrame({"y": y, "z": z, "user": user, "item": item, "w": rng.uniform(0, 2, 4000)})
    return frame.with_columns(
        pl.format("u{}", "user").alias("user"), pl.format("i{}", "item").alias("item")
    )


@pytest.mark.slow
def test_each_of_many_levels_is_a_group_unless_groups_say_otherwise():
    table = many_levels(1)
    terms = ds.terms(table, ["user", "item"], max_levels=2000)
    gram = ds.gram(table, ["y", "z"], "w", terms=terms)
    each = {name: [name] for name in gram.columns if name != "y"}
    full = ds.anytime_sequence(gram, "y", each, max_groups=6)
    wide = ds.anytime_sequence(table, "y", weight="w", max_groups=6, gram="lazy")
    assert wide.steps["group"].equals(full.steps["group"])
    np.testing.assert_allclose(wide.r2, full.r2, rtol=1e-10)
    assert (wide.n_groups, wide.n_columns) == (2301, 2301)
    np.testing.assert_allclose(wide.predict(table), full.predict(table))

    few = {"few": ["user.u7", "user.u8", "z"], "three": ["item.i0", "item.i1", "item.i2"]}
    some = {"user": [f"user.u{j}" for j in range(9, 1200)], **few}
    for groups in (few, some):
        full = ds.anytime_sequence(gram, "y", groups, ridge=0.1)
        wide = ds.anytime_sequence(table, "y", groups, weight="w", ridge=0.1, gram="lazy")
        assert wide.steps["group"].equals(full.steps["group"])
        np.testing.assert_allclose(wide.r2, full.r2, rtol=1e-9)


def test_levels_that_are_not_chosen_count_nothing_and_new_ones_are_said():
    table = many_levels(2).with_columns(
        user=pl.when(pl.int_range(pl.len()) % 100 == 0).then(None).otherwise("user")
    )
    wide = ds.anytime_sequence(
        table.drop("w"), "y", {"u": ["user.u7"], "z": ["z"]}, max_groups=2, gram="lazy"
    )
    assert (wide.gram.skipped, wide.gram.missing) == (40, {"user": 40})
    model = wide.at()
    frame = pl.DataFrame({"z": [1.0] * 4, "user": ["u7", "u8", "new", None]})
    base = model.intercept + model.coefficients["z"]
    known = [base + model.coefficients["user.u7"], base]
    used = table.drop_nulls()
    mean = base + (used["user"] == "u7").mean() * model.coefficients["user.u7"]
    for values, last in (("unavailable", None), ("mean", mean)):
        for found in all_doors(model, frame, handle_unknown=values):
            assert found == [None if v is None else round(v, 6) for v in [*known, last, None]]
    with pytest.raises(ArgumentError, match=r"column 'user' is 'mean'; a text of 1200 levels"):
        ds.anytime_sequence(table, "y", null_policy="mean", gram="lazy")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"at": -1, "value": 1.0}, "number is missing or below 0"),
        ({"at": None, "value": 1.0}, "number is missing or below 0"),
        ({"at": 10**9, "value": 1.0}, "has entry 1000000000; numbers must be below 100000000"),
        ({"at": 1, "value": float("inf")}, "field 'x' has an infinite value"),
    ],
)
def test_entries_that_are_none_are_errors(entry, words):
    frame = pl.DataFrame({"y": [1.0, 2.0], "x": [[{"at": 0, "value": 1.0}], [entry]]})
    with pytest.raises(DataError, match=words):
        ds.anytime_sequence(frame, "y", gram="lazy")


def test_two_fields_of_entries_are_one_too_many():
    X, rest = problem(6)
    table = as_map(X, rest)
    table = table.append_column("more", table["x"])
    with pytest.raises(ArgumentError, match="two fields of entries, 'x' and 'more'"):
        ds.anytime_sequence(table, "y", gram="lazy")

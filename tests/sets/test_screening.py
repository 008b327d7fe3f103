"""Searches among the columns that promise most alone: which these are, and that it is said."""

import duckdb
import numpy as np
import polars as pl
import pytest
from scipy import sparse
from scipy.special import gammaln

import dbselect as ds
from dbselect.doors.cli import main

ROWS, COLUMNS = 300, 40


pytestmark = pytest.mark.usefixtures("small_batches")


def problem(seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, COLUMNS)) + rng.normal(size=(ROWS, 1))
    y = X @ (rng.normal(size=COLUMNS) * (rng.random(COLUMNS) < 0.4)) + rng.normal(size=ROWS)
    return pl.DataFrame({"y": y + 100, **{f"x{j}": X[:, j] for j in range(COLUMNS)}})


def best_alone(table: pl.DataFrame, most: int) -> list[str]:
    names = table.columns[1:]
    found = [abs(np.corrcoef(table["y"], table[name])[0, 1]) for name in names]
    kept = np.argsort(found)[::-1][:most]
    return [names[j] for j in sorted(kept)]


@pytest.mark.parametrize("most", [1, 7, 25])
def test_the_search_is_that_among_the_best_columns(most):
    table = problem(1)
    kept = best_alone(table, most)
    screened = ds.anytime_sequence(table, "y", gram="lazy", screen=most)
    among = ds.anytime_sequence(table.select("y", *kept), "y")
    assert screened.steps["group"].equals(among.steps["group"])
    np.testing.assert_allclose(screened.r2, among.r2, rtol=1e-10)
    np.testing.assert_allclose(screened.predict(table), among.predict(table))
    assert (screened.screened.columns, screened.screened.kept) == (COLUMNS, most)
    assert f"screened to {most} of 40 columns, not exact" in repr(screened)


def test_columns_of_entries_and_of_numbers_are_screened_alike(tmp_path):
    rng = np.random.default_rng(2)
    X = sparse.random(ROWS, COLUMNS, density=0.2, format="csr", random_state=2)
    rest = problem(3).select("y", "x0", "x1", "x2")
    y = X @ rng.normal(size=COLUMNS) + rest["x1"].to_numpy() + rng.normal(size=ROWS)
    rest = rest.with_columns(y=pl.Series(y))
    names = {f"e[{j}]": column for j, column in enumerate(X.toarray().T)}
    dense = pl.DataFrame({**rest.to_dict(as_series=True), **names})
    kept = best_alone(dense, 9)
    pairs = {"pair": ["e[3]", "e[4]"], "both": ["x0", "e[7]"]}
    path = tmp_path / "rows.parquet"
    pl.DataFrame(ds.io.sparse_table(X, rest, field="e")).write_parquet(path)
    for source in (path, duckdb.read_parquet(str(path))):
        screened = ds.anytime_sequence(source, "y", gram="lazy", screen=9)
        among = ds.anytime_sequence(dense.select("y", *kept), "y", {name: [name] for name in kept})
        assert screened.steps["group"].equals(among.steps["group"])
        np.testing.assert_allclose(screened.r2, among.r2, rtol=1e-9)
        np.testing.assert_allclose(screened.predict(path_frame(path)), among.predict(dense))
        all_of_them = ds.anytime_sequence(source, "y", pairs, gram="lazy", screen=4)
        assert all_of_them.screened is None


def path_frame(path) -> pl.DataFrame:
    return pl.read_parquet(path)


def test_a_group_is_as_promising_as_its_best_column_per_cost_and_first_ones_are_kept():
    table = problem(4)
    columns = table.columns[1:]
    groups = {f"g{j}": columns[2 * j : 2 * j + 2] for j in range(20)}
    costs = {name: 1.0 + j % 3 for j, name in enumerate(groups)}
    r = {name: np.corrcoef(table["y"], table[name])[0, 1] ** 2 for name in columns}
    promise = {name: max(r[c] for c in own) / costs[name] for name, own in groups.items()}
    order = sorted(groups, key=lambda name: -promise[name])
    always = [order[-1]]
    kept = {*always, *order[:4]}
    few = {name: own for name, own in groups.items() if name in kept}
    options = {"always": always, "ridge": 0.1}
    screened = ds.anytime_sequence(table, "y", groups, costs, gram="lazy", screen=11, **options)
    among = ds.anytime_sequence(table, "y", few, {name: costs[name] for name in few}, **options)
    assert screened.steps["group"].equals(among.steps["group"])
    assert (screened.screened.kept, screened.n_groups) == (10, 20)
    more = ds.anytime_sequence(
        table, "y", groups, costs, gram="lazy", screen=11, ridge=0.1, resume=screened
    )
    assert more.groups.names == screened.groups.names


def test_criteria_count_the_columns_that_were_left_out():
    table = problem(5)
    screened = ds.anytime_sequence(table, "y", gram="lazy", screen=10, max_groups=6)
    # Chen and Chen (2008), with all columns: BIC and twice the log of the number of models.
    steps = np.arange(7)
    models = gammaln(COLUMNS + 1) - gammaln(steps + 1) - gammaln(COLUMNS - steps + 1)
    extra = screened.criteria()["ebic"] - screened.criteria()["bic"]
    np.testing.assert_allclose(extra, 2 * models, rtol=1e-9)


def test_what_is_nothing_alone_is_left_out_though_it_may_gain_most():
    rng = np.random.default_rng(6)
    a, e, noise = rng.normal(size=(3, 5000))
    # Of no correlation with y, exactly, and all that explains it beside a.
    b = e - a * (a @ (a + e)) / (a @ a + 1e-300)
    y = a + e
    b -= y * (b @ y) / (y @ y)
    table = pl.DataFrame({"y": y, "a": a, "b": b, "c": y + 3 * noise})
    exact = ds.anytime_sequence(table, "y", max_groups=2, gram="lazy")
    screened = ds.anytime_sequence(table, "y", max_groups=2, gram="lazy", screen=2)
    assert exact.groups.names == ["a", "b"]
    assert screened.groups.names == ["a", "c"]
    assert screened.r2[-1] < 0.9 < exact.r2[-1]


def test_it_is_stored_and_on_the_command_line(tmp_path, capsys):
    table, path, out = problem(7), tmp_path / "rows.parquet", tmp_path / "found.parquet"
    table.write_parquet(path)
    assert (
        main(["anytime_sequence", str(path), "--target", "y", "--screen", "8", "--out", str(out)])
        == 0
    )
    found = ds.results.WideSequence.read_parquet(out)
    assert (found.screened.columns, found.screened.kept) == (COLUMNS, 8)
    assert main(["anytime_sequence", str(path), "--target", "y", "--screen", "0"]) == 2
    assert "screen is 0; it must be a whole number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"screen": "many"}, "screen is 'many'; it must be a whole number >= 1"),
        ({"screen": True}, "screen is True"),
        ({"screen": 3, "gram": "full"}, "screen is 3; it needs gram='lazy'"),
        ({"screen": 3, "family": "binomial"}, "gram is 'lazy'; .* family must be 'gaussian'"),
        ({"screen": 1, "always": ["x0", "x1"]}, "groups to take first have 2 columns"),
        ({"screen": 1, "groups": {"a": ["x0", "x1"]}}, "the smallest group has 2 columns"),
    ],
)
def test_screens_that_are_none_are_refused(options, words):
    with pytest.raises(ds.errors.ArgumentError, match=words):
        ds.anytime_sequence(problem(8), "y", **options)

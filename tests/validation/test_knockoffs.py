"""Knockoffs of a record: those of rows, made by their definition, and false discoveries counted."""

from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from scipy.optimize import minimize
from scipy.stats import ortho_group

import dbselect as ds
from dbselect import _native
from dbselect.record.gram import RECORD_DTYPE

#: Standard errors of a mean of draws within which it must lie.
STANDARD_ERRORS = 4.5


def rows_of(seed, rows=40, width=5):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width)) @ (np.eye(width) + 0.4 * rng.normal(size=(width, width)))
    y = x[:, 0] + 0.5 * x[:, 1] + rng.normal(size=rows)
    return x, y


def standardised(values):
    centred = values - values.mean(axis=0)
    return centred / np.linalg.norm(centred, axis=0)


def singles(width):
    return np.arange(width + 1)


def most_entropy(R, starts):
    """Return S."""
    return _native.knockoff_copies(R, np.zeros(len(R)), starts, 10 * len(R), "fixed", 0, 1)[0]


def knockoff_rows(x, S, rng):
    """Return knockoffs of rows of unit length by their definition, on a random basis."""
    R = x.T @ x
    V = 2 * S - S @ np.linalg.solve(R, S)
    values, vectors = np.linalg.eigh(V)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    known, _ = np.linalg.qr(np.column_stack([np.ones(len(x)), x]), mode="complete")
    rest = known[:, x.shape[1] + 1 :]
    turned = ortho_group.rvs(rest.shape[1], random_state=rng)[:, : x.shape[1]]
    return x @ (np.eye(len(R)) - np.linalg.solve(R, S)) + rest @ turned @ root.T


def test_blocks_are_possible_for_rows_made_by_the_definition():
    x, y = (standardised(one) for one in rows_of(0))
    R, starts = x.T @ x, np.array([0, 2, 5])
    S, _ = _native.knockoff_copies(R, x.T @ y, starts, len(x), "fixed", 0, 1)
    copies = knockoff_rows(x, S, np.random.default_rng(1))
    np.testing.assert_allclose(copies.T @ copies, R, atol=1e-12)
    np.testing.assert_allclose(copies.T @ x, R - S, atol=1e-12)
    np.testing.assert_allclose(copies.sum(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("rows", [11, 40])
def test_products_with_the_target_are_distributed_as_those_of_random_bases(rows):
    x, y = (standardised(one) for one in rows_of(2, rows))
    S, drawn = _native.knockoff_copies(x.T @ x, x.T @ y, singles(5), rows, "fixed", 3, 1500)
    rng = np.random.default_rng(3)
    truth = np.array([knockoff_rows(x, S, rng).T @ y for _ in range(1500)])
    error = np.sqrt((truth.var(axis=0) + drawn.var(axis=0)) / 1500)
    assert (np.abs(truth.mean(axis=0) - drawn.mean(axis=0)) < STANDARD_ERRORS * error).all()
    for power in (2, 4):
        one, other = ((each - truth.mean(axis=0)) ** power for each in (truth, drawn))
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / 1500)
        assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < STANDARD_ERRORS * error).all()


def test_single_columns_have_the_most_entropy():
    x, _ = rows_of(4)
    R = np.corrcoef(x.T)
    S = most_entropy(R, singles(5))
    assert (np.diag(np.diagonal(S)) == S).all()

    def less(s):
        sign, value = np.linalg.slogdet(2 * R - np.diag(s))
        return np.inf if sign <= 0 or (s <= 0).any() else -value - np.log(s).sum()

    start = np.full(5, 0.9 * np.linalg.eigvalsh(R)[0])
    best = minimize(less, start, method="Nelder-Mead", options={"xatol": 1e-10, "maxiter": 20_000})
    assert less(np.diagonal(S)) <= best.fun + 1e-7
    np.testing.assert_allclose(np.diagonal(S), best.x, atol=1e-3)


def test_blocks_meet_the_conditions_of_the_optimum_and_leave_it_positive():
    x, _ = rows_of(5, width=7)
    R = np.corrcoef(x.T)
    starts = np.array([0, 2, 3, 7])
    blocks = np.split(np.arange(7), starts[1:-1])
    S = most_entropy(R, starts)
    inverse = np.linalg.inv(2 * R - S)
    for at in blocks:
        own = np.ix_(at, at)
        np.testing.assert_allclose(inverse[own] @ S[own], np.eye(len(at)), atol=1e-4)
    outside = S.copy()
    for at in blocks:
        outside[np.ix_(at, at)] = 0.0
    assert not outside.any()
    both = np.block([[R, R - S], [R - S, R]])
    assert np.linalg.eigvalsh(both)[0] > 0
    np.testing.assert_allclose(most_entropy(np.eye(3), singles(3)), np.eye(3), atol=1e-6)


def test_the_threshold_is_the_least_that_keeps_the_share():
    rng = np.random.default_rng(0)
    for _ in range(50):
        w = rng.permutation(np.arange(1, 31)) * np.where(rng.random(30) < 0.75, 1.0, -1.0)
        within = [t for t in range(1, 31) if (1 + (w <= -t).sum()) <= 0.2 * (w >= t).sum()]
        frequency, _, selected = _native.knockoff_select(w[None], 0.2)
        # With one draw, e-values select what the threshold does.
        assert (selected == (w >= min(within, default=np.inf))).all()
        assert (frequency == selected).all()
    assert not _native.knockoff_select(np.zeros((1, 4)), 0.5)[2].any()


def problem(seed, rows=300, width=30, true=10, size=0.35):
    rng = np.random.default_rng(seed)
    near = 0.5 ** np.abs(np.subtract.outer(range(width), range(width)))
    x = rng.normal(size=(rows, width)) @ np.linalg.cholesky(near).T
    b = np.zeros(width)
    b[rng.permutation(width)[:true]] = rng.choice([-size, size], true)
    y = x @ b + rng.normal(size=rows)
    columns = [*(f"x{j}" for j in range(width)), "y"]
    return ds.gram(np.column_stack([x, y]), columns=columns), {f"x{j}" for j in np.flatnonzero(b)}


def test_strong_groups_are_selected_from_a_record_alone():
    gram, true = problem(0, size=1.0)
    found = ds.knockoffs(gram.to_struct(), "y", q=0.2)
    assert true <= set(found.selected)
    assert found.table["selected"].sum() == len(found.selected)
    # Of the groups without a part in the target about half are behind their copies.
    assert 4 <= (found.table["statistic"] < 0).sum() <= 16
    strongest = found.table["statistic"].to_list()
    assert all(one >= other for one, other in pairwise(strongest[: len(true)]))
    again = ds.knockoffs(gram, "y", q=0.2)
    assert again.table.equals(found.table)
    assert "10 rows" not in repr(found)
    assert "<table" in found._repr_html_()


@pytest.mark.parametrize("method", ["anytime_sequence", "foba", "group_lasso", "step"])
def test_every_method_that_orders_takes_part(method):
    gram, true = problem(1, size=1.0)
    found = ds.knockoffs(gram, "y", q=0.2, search=method)
    assert len(true & set(found.selected)) >= 8


def test_groups_costs_and_dependent_columns():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(400, 20))
    y = x[:, :10].sum(axis=1) + rng.normal(size=400)
    frame = pl.DataFrame({f"x{j}": x[:, j] for j in range(20)} | {"y": y})
    frame = frame.with_columns(twice=2 * pl.col("x0") + 1)
    groups = {f"g{j}": [f"x{2 * j}", f"x{2 * j + 1}"] for j in range(10)} | {"again": ["twice"]}
    costs = {name: 1.0 + at for at, name in enumerate(groups)}
    found = ds.knockoffs(frame, "y", groups, costs, q=0.25)
    assert set(found.selected) >= {f"g{j}" for j in range(5)}
    assert found.aliased == ("twice",)
    assert found.table.filter(group="again")["statistic"].item() == 0.0
    assert dict(found.table.select("group", "cost").iter_rows()) == costs


def test_several_draws_are_joined_by_e_values():
    gram, true = problem(3, size=1.0)
    found = ds.knockoffs(gram, "y", q=0.3, draws=10)
    assert len(true & set(found.selected)) >= 8
    table = found.table.filter("selected")
    assert (table["frequency"] > 0).all()
    least = found.table.height / (0.3 * len(found.selected))
    assert table["e_value"].min() >= least - 1e-9


def test_every_door_gives_the_same():
    gram, _ = problem(4, size=1.0)
    expected = ds.knockoffs(gram, "y", q=0.2, seed=3, search="step").table
    frame = pl.DataFrame({"gram": [gram.to_struct()]}, schema={"gram": RECORD_DTYPE})
    con = ds.connect()
    con.register("grams_", frame.to_arrow())
    con.execute("CREATE TABLE grams AS FROM grams_")
    query = "SELECT knockoffs(gram, 'y', q := 0.2, seed := 3, search := 'step') FROM grams"
    rows = con.execute(query).fetchone()[0]
    asked = pl.col("gram").dbselect.knockoffs("y", q=0.2, seed=3, search="step")
    steps = frame.select(asked).item().to_list()
    for found in (rows, steps):
        assert [one["group"] for one in found] == expected["group"].to_list()
        assert [one["selected"] for one in found] == expected["selected"].to_list()
    few = pl.DataFrame({"gram": [problem(0, rows=20)[0].to_struct()]}, schema=frame.schema)
    assert few.select(asked).item() is None
    with pytest.raises(ds.errors.ArgumentError, match="knockoffs has unknown option 'qq'"):
        pl.col("gram").dbselect.knockoffs("y", qq=0.2)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"q": 0.02}, "of 30 groups none could be selected, as at least 50"),
        ({"q": 0.05, "draws": 2}, "at least 40"),
        ({"always": ["x1"]}, "cannot come before its copy"),
        ({"family": "binomial"}, "records of rows, which hold no rows"),
        ({"search": ds.greedy, "k": 2}, "search is 'greedy'; it must be one of"),
    ],
)
def test_bad_arguments_are_refused(given, error):
    gram, _ = problem(0)
    with pytest.raises(ds.DbselectError, match=error):
        ds.knockoffs(gram, "y", **given)


def test_columns_that_are_all_constant_are_refused():
    frame = pl.DataFrame({"a": [1.0] * 50, "b": [2.0] * 50, "y": np.arange(50.0) ** 2})
    with pytest.raises(ds.errors.DataError, match="every column is constant"):
        ds.knockoffs(frame, "y", q=0.5, draws=1)


def test_nearly_dependent_columns_are_warned_of():
    rng = np.random.default_rng(6)
    x = rng.normal(size=(200, 12))
    x[:, 1] = x[:, 0] + 3e-6 * x[:, 1]
    frame = pl.DataFrame(x, [f"x{j}" for j in range(12)]).with_columns(y=x[:, 3] + x[:, 5])
    frame = frame.with_columns(y=pl.col("y") + rng.normal(size=200))
    with pytest.warns(ds.errors.ConditionWarning, match="condition number"):
        ds.knockoffs(frame, "y", q=0.5)


def test_too_few_rows_are_refused():
    few, _ = problem(0, rows=50)
    with pytest.raises(
        ds.errors.DataError, match="50 rows are too few for 30 columns: 61 are needed; w"
    ):
        ds.knockoffs(few, "y")
    ds.knockoffs(few, "y", kind="second_order")
    fewer, _ = problem(0, rows=31)
    with pytest.raises(ds.DbselectError, match="too few"):
        ds.knockoffs(fewer, "y", kind="second_order")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "power"), [("fixed", 0.9), ("second_order", 0.6)])
def test_false_discoveries_are_bounded_and_true_ones_found(kind, power):
    shares, found = [], []
    for seed in range(40):
        gram, true = problem(seed)
        selected = set(ds.knockoffs(gram, "y", q=0.2, kind=kind, seed=seed).selected)
        shares.append(len(selected - true) / max(len(selected), 1))
        found.append(len(selected & true) / len(true))
    assert np.mean(shares) <= 0.2 + 2 * np.std(shares) / np.sqrt(len(shares))
    assert np.mean(found) >= power


def test_few_rows_a_column_are_noted_of_the_second_order():
    gram, _ = problem(0, rows=200)
    found = ds.knockoffs(gram, "y", q=0.2, kind="second_order")
    assert found.note in repr(found)
    assert "6.7 rows a column" in found.note
    assert "kind 'fixed'" in found.note
    few = ds.knockoffs(problem(0, rows=50)[0], "y", q=0.2, kind="second_order").note
    assert "kind 'fixed'" not in few
    assert ds.knockoffs(gram, "y", q=0.2).note is None
    many = problem(0, rows=600)[0]
    assert ds.knockoffs(many, "y", q=0.2, kind="second_order").note is None

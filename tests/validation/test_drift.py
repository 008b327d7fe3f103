"""Every figure of drift is the one that the rows give: NumPy, statsmodels and refits say so."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from polars.testing import assert_frame_equal
from scipy.stats import multivariate_normal
from sklearn.metrics import r2_score

import dbselect as ds
from dbselect.validation.drift import gaussian_divergence

#: Digits that figures of Grams may lose beside those of rows, of well-conditioned columns.
DIGITS = 1e-12
GROUPS = {"one": ["x"], "two": ["z", "v"], "text": ["c"]}
COSTS = {"one": 1.0, "two": 2.0, "text": 0.5}


def table(seed: int, shift: float, rows: int = 60) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    x, z, v = rng.normal(shift, 1.0 + shift, (3, rows))
    c = rng.choice(["p", "q", "r"], rows)
    y = x + (0.5 + shift) * z - 0.2 * v + (c == "p") + rng.normal(size=rows)
    return pl.DataFrame({"x": x, "z": z + 0.5 * x, "v": v, "c": c, "y": y})


@pytest.fixture(scope="module")
def rows():
    return table(0, 0.0), table(1, 0.4, 90)


@pytest.fixture(scope="module")
def found(rows):
    return ds.drift(*(ds.gram(each) for each in rows), "y", GROUPS, COSTS)


def test_columns_that_change_their_scale_by_much_are_no_infinite_distance():
    """Independent columns of deviations 1 and 1e-6 that swap: the sum of both alone."""
    A, B = np.diag([1.0, 1e-12]), np.diag([1e-12, 1.0])
    spread = sum(0.5 * (ratio - 1 - np.log(ratio)) for ratio in (1e-12, 1e12))
    assert np.allclose(gaussian_divergence(np.zeros(2), A, B), (0.0, spread), rtol=1e-12)


def test_shifts_are_those_of_the_rows(rows, found):
    a, b = (each.select("x", "z", "v", "y").to_numpy() for each in rows)
    told = found.columns.filter(pl.col("column").is_in(["x", "z", "v", "y"]))
    shift = (b.mean(0) - a.mean(0)) / a.std(0)
    assert np.allclose(told["shift"], shift, rtol=DIGITS)
    error = np.sqrt(a.var(0) / len(a) + b.var(0) / len(b))
    assert np.allclose(told["statistic"], (b.mean(0) - a.mean(0)) / error, rtol=DIGITS)
    assert np.allclose(told["deviation_b"], b.std(0), rtol=DIGITS)


def test_correlations_are_those_of_the_rows(rows, found):
    a, b = (np.corrcoef(each.select("x", "z", "v", "y").to_numpy().T) for each in rows)
    names = ["x", "z", "v", "y"]
    for one, other, before, after, change, statistic in found.correlations.iter_rows():
        if {one, other} <= set(names):
            i, j = names.index(one), names.index(other)
            assert np.allclose([before, after, change], [a[i, j], b[i, j], b[i, j] - a[i, j]])
            fisher = (np.arctanh(b[i, j]) - np.arctanh(a[i, j])) / np.sqrt(1 / 57 + 1 / 87)
            assert np.isclose(statistic, fisher, rtol=1e-10)
    assert found.correlations.height == 7 * 6 // 2


def test_divergence_is_the_mean_log_ratio_of_the_densities(rows, found):
    """E_b[ln p_b - ln p_a] needs the moments of b only: its rows have these, exactly."""
    a, b = (each.select("z", "v").to_numpy() for each in rows)
    densities = [multivariate_normal(each.mean(0), np.cov(each.T, bias=True)) for each in (b, a)]
    wanted = np.mean(densities[0].logpdf(b) - densities[1].logpdf(b))
    told = found.groups.filter(pl.col("group") == "two")["divergence"][0]
    assert np.isclose(told, wanted, rtol=1e-10)


@pytest.mark.parametrize(
    ("shift", "A", "B", "wanted"),
    [
        ([0.0], [[2.0]], [[2.0]], (0.0, 0.0)),
        ([3.0], [[4.0]], [[4.0]], (9 / 8, 0.0)),
        ([0.0], [[1.0]], [[4.0]], (0.0, 1.5 - np.log(2))),
        ([0.0], [[0.0]], [[0.0]], (0.0, 0.0)),
        ([1.0], [[0.0]], [[0.0]], (np.inf, 0.0)),
        ([0.0], [[0.0]], [[1.0]], (0.0, np.inf)),
        ([0.0], [[1.0]], [[0.0]], (0.0, np.inf)),
        ([1.0, -1.0], [[1, -1], [-1, 1]], [[1, -1], [-1, 1]], (0.5, 0.0)),
        ([1.0, 1.0], [[1, -1], [-1, 1]], [[1, -1], [-1, 1]], (np.inf, 0.0)),
    ],
)
def test_degenerate_gaussians(shift, A, B, wanted):
    told = gaussian_divergence(np.array(shift), np.array(A, float), np.array(B, float))
    assert np.allclose(told, wanted, atol=1e-14)


def test_coefficients_and_their_errors_are_those_of_refits(rows, found):
    fits = []
    for each in rows:
        X = each.select("x", "z", "v", (pl.col("c") == "p").cast(pl.Float64).alias("p"),
                        (pl.col("c") == "q").cast(pl.Float64).alias("q"))  # fmt: skip
        fits.append(sm.OLS(each["y"].to_numpy(), sm.add_constant(X.to_numpy())).fit())
    told = found.coefficients.filter(pl.col("term").is_in(["x", "z", "v"])).sort("term")
    at = [3, 1, 2]  # v, x, z among the intercept, x, z, v
    one, two = (fit.params[at] for fit in fits)
    errors = np.hypot(fits[0].bse[at], fits[1].bse[at])
    assert np.allclose(told["a"], one, rtol=1e-10)
    assert np.allclose(told["b"], two, rtol=1e-10)
    assert np.allclose(told["change"], np.subtract(two, one), rtol=1e-9)
    assert np.allclose(told["std_error"], errors, rtol=1e-10)


def test_worth_is_r2_score_on_the_other_rows(rows, found):
    a, b = rows
    frames = [each.with_columns((pl.col("c") == k).cast(pl.Float64).alias(f"c.{k}") for k in "pqr")
              for each in (a, b)]  # fmt: skip
    members = {"one": ["x"], "two": ["z", "v"], "text": ["c.p", "c.q", "c.r"]}
    held: list[str] = []
    assert found.worth["group"].to_list()[1:] == found.before.steps["group"].to_list()[1:]
    for step in found.worth.iter_rows(named=True):
        held += members.get(step["group"], [])
        X, Z = (np.column_stack([np.ones(f.height), *(f[name] for name in held)]) for f in frames)
        first, second = (
            np.linalg.lstsq(M, f["y"].to_numpy(), rcond=None)[0]
            for M, f in zip((X, Z), frames, strict=True)
        )
        assert np.isclose(step["r2_a"], r2_score(a["y"], X @ first), rtol=0, atol=DIGITS)
        assert np.isclose(step["r2_b"], r2_score(b["y"], Z @ first), rtol=0, atol=DIGITS)
        assert np.isclose(step["r2_refitted"], r2_score(b["y"], Z @ second), rtol=0, atol=DIGITS)
    assert (found.worth["r2_own"] <= found.worth["r2_own"][-1]).all()
    assert found.worth["spent"][-1] == 3.5


def test_sequences_are_those_of_each(rows, found):
    for end, each in zip("ab", rows, strict=True):
        steps = ds.anytime_sequence(each, "y", GROUPS, COSTS).steps[1:]
        told = found.sequence.sort(f"step_{end}")
        assert told["group"].to_list() == steps["group"].to_list()
        assert np.allclose(told[f"gain_{end}"], steps["gain"], rtol=DIGITS)


def test_new_levels_are_far(rows):
    a, b = rows
    found = ds.drift(a, b.with_columns(c=pl.lit("new")), "y")
    told = dict(found.columns.select("column", "shift").iter_rows())
    assert told["c.new"] == np.inf
    assert found.groups.filter(pl.col("group") == "c")["location"][0] == np.inf


@pytest.mark.parametrize("policy", ["skip", "mean", "indicator"])
def test_windows_of_a_store_drift_as_their_rows_do(tmp_path, policy):
    """Where values are missing, the rows of b get the means of a, as a model of a predicts them."""
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=20 * n) for n in range(5)]
    every = pl.concat([table(n, 0.1 * n, 30).with_columns(day=day) for n, day in enumerate(days)])
    every = every.with_columns(z=pl.when(pl.col("v") < 1.5).then("z"))
    policies = {"x": policy, "z": policy}
    store = ds.GramStore(tmp_path / "stats")
    store.refresh(every, by="day", null_policy=policies)
    first, second = every.filter(pl.col("day") < days[2]), every.filter(pl.col("day") >= days[2])
    a = ds.gram(first.drop("day"), null_policy=policies)
    if policy == "mean":
        b = ds.gram(second.drop("day"), terms=a.terms, null_policy=policies)
    else:
        b = ds.gram(second.drop("day"), null_policy=policies)
    wanted = ds.drift(a, b, "y")
    found = store.drift(("2020-01-01", days[1]), (days[2], None), "y")
    for name in ("columns", "groups", "worth", "coefficients", "sequence"):
        told, true = getattr(found, name), getattr(wanted, name)
        assert told.columns == true.columns
        for column in told.columns:
            if told[column].dtype == pl.Float64:
                one, two = told[column].to_numpy(), true[column].to_numpy()
                assert np.allclose(one, two, rtol=1e-10, atol=DIGITS, equal_nan=True), (
                    name,
                    column,
                )
            else:
                assert told[column].to_list() == true[column].to_list()


def test_mistakes_are_told(rows, tmp_path):
    a, b = rows
    with pytest.raises(ds.errors.RecordError, match="only in the first: \\['v'\\]"):
        ds.drift(a, b.drop("v"), "y")
    with pytest.raises(ds.errors.DataError, match="in b, target 'y' is constant"):
        ds.drift(a, b.with_columns(y=1.0), "y")
    with pytest.raises(ds.errors.ColumnError, match="target"):
        ds.drift(a, b, "why")
    with pytest.raises(ds.errors.ArgumentError, match="rule is 'rf'"):
        ds.drift(a, b, "y", rule="rf")
    store = ds.GramStore(tmp_path / "stats.duckdb")
    store.refresh(a.with_columns(k=pl.int_range(60) % 4), by="k")
    with pytest.raises(ds.errors.ArgumentError, match="no record may be in both"):
        store.drift((0, 2), (2, 3), "y")
    with pytest.raises(ds.errors.ArgumentError, match=r"a is .*; it must be a key, or the first"):
        store.drift((0, 1, 2), 3, "y")
    with pytest.raises(ds.errors.DataError, match="b is 9, where no record has 'k'"):
        store.drift(0, 9, "y")


def test_a_sequence_knows_its_rows_and_what_was_asked(rows):
    a, b = rows
    told = ds.drift(a, b, "y", GROUPS, COSTS, rule="omp")
    seq = ds.anytime_sequence(a, "y", GROUPS, COSTS, rule="omp")
    more = b.with_columns(unused=pl.lit("text"), other=1.0)
    for found in (ds.drift(seq, more), seq.drift(more), ds.drift(seq, ds.gram(b))):
        for table in ("columns", "correlations", "groups", "sequence", "coefficients", "worth"):
            ours, theirs = getattr(found, table), getattr(told, table)
            key = ours.columns[:2] if table == "correlations" else ours.columns[:1]
            if table == "correlations":  # a pair is named in the order of the columns
                assert ours.height == theirs.height
                continue
            assert_frame_equal(ours.sort(key), theirs.sort(key), rel_tol=1e-9, abs_tol=1e-9)
    with pytest.raises(ds.errors.ArgumentError, match="target is 'y'; a sequence has its own"):
        ds.drift(seq, b, "y")
    with pytest.raises(ds.errors.ArgumentError, match=r"a is a GlmSequence.*evaluate\(a, b\)"):
        ds.drift(ds.anytime_sequence(a.with_columns(y=pl.col("y") > 0), "y", family="binomial"), b)

"""Generalised linear models in every DuckDB client: aggregates that keep the rows they are given.

Truth is statsmodels, brute force by it, and Python's own fits, which are of other code.
"""

import warnings
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest
import statsmodels.api as sm
from test_clients import one, raw
from truths import TRUTH

import dbselect as ds
from dbselect.glm.links import family_of
from dbselect.record.formulas import column, translate
from dbselect.record.formulas import sql as algebra_of_sql

FAMILIES = sm.families

SEARCH = "anytime_sequence_glm(t, 'y', 'binomial'"


__all__ = ["raw"]


def stored(con: duckdb.DuckDBPyConnection, table: pl.DataFrame, name: str = "t") -> None:
    con.register("given", table.to_arrow())
    con.execute(f"CREATE OR REPLACE TABLE {name} AS FROM given")
    con.unregister("given")


def features(rows: int = 300) -> tuple[np.random.Generator, pl.DataFrame, Any]:
    """Return numbers, one far from zero, a text, weights, and a linear predictor of them."""
    rng = np.random.default_rng(11)
    a, b, c = rng.normal(size=(3, rows))
    k = rng.choice(["r", "g", "v.w"], rows)
    table = pl.DataFrame({"a": a, "b": b, "c": 1e3 + c, "k": k, "w": rng.integers(1, 4, rows)})
    return rng, table, 0.3 + 0.5 * a - 0.4 * b + 0.2 * c + 0.3 * (k == "r")


def drawn(rng: np.random.Generator, text: str, eta: Any) -> Any:
    """Return a target of a family, by a link that has a mean everywhere."""
    kind, link = text.split("(", maxsplit=1)[0], text.rstrip(")").split("(")[-1].split(", ")[-1]
    if kind == "binomial":
        p = {"log": np.exp(0.2 * eta - 2), "identity": 0.5 + 0.03 * eta}
        return (rng.uniform(size=len(eta)) < p.get(link, 1 / (1 + np.exp(-eta)))).astype(int)
    mean = {
        "identity": 8 + eta, "inverse": 1 / (3 + 0.1 * eta), "sqrt": (4 + 0.3 * eta) ** 2,
        "inverse_squared": (3 + 0.1 * eta) ** -0.5,
    }.get(link, np.exp(0.5 * eta))  # fmt: skip
    if text.startswith(("gamma", "tweedie(2.5")):  # above 0
        return rng.gamma(20, mean / 20)
    match kind:
        case "gaussian":
            return mean + 0.01 * rng.normal(size=len(eta))
        case "poisson" | "tweedie":
            return rng.poisson(mean) * (1.0 if kind == "poisson" else 1.7)
        case "inverse_gaussian":
            return rng.wald(mean, 20)
    return rng.negative_binomial(2, 2 / (2 + mean))


def truth(family: Any, y: Any, design: Any, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sm.GLM(y, design, family=family, **more)
        return model.fit(maxiter=500, tol=1e-15, tol_criterion="params")


@pytest.mark.sample(8)
@pytest.mark.parametrize("text", list(TRUTH))
def test_a_fit_is_that_of_statsmodels(raw, text):
    rng, table, eta = features()
    table = table.with_columns(y=pl.Series(drawn(rng, text, eta)))
    stored(raw, table)
    found = one(raw, f"SELECT fit_glm(t, 'y', '{text}', {{'weight': 'w'}}) FROM t")
    a, b, c = table.select("a", "b", "c").to_numpy().T
    levels = [(table["k"] == level).to_numpy() for level in ("g", "r")]
    design = np.column_stack([np.ones(len(a)), a, b, c - 1e3, *levels]).astype(float)
    w = table["w"].to_numpy().astype(float)
    expected = truth(TRUTH[text], table["y"].to_numpy(), design, var_weights=w)
    names = ["a", "b", "c", "k.g", "k.r"]
    coefficients = [found["coefficients"][name] for name in names]
    assert coefficients == pytest.approx(expected.params[1:], rel=1e-7, abs=1e-8)
    shift = 1e3 * expected.params[3]
    assert found["intercept"] == pytest.approx(expected.params[0] - shift, rel=1e-7)
    assert found["deviance"] == pytest.approx(expected.deviance, rel=1e-10)
    assert found["null_deviance"] == pytest.approx(expected.null_deviance, rel=1e-10)
    # statsmodels counts weights as rows where it estimates a dispersion.
    scale = np.sqrt(found["dispersion"] / expected.scale)
    errors = [found["std_errors"][name] for name in names]
    assert errors == pytest.approx(scale * expected.bse[1:], rel=1e-6)
    free = len(a) - design.shape[1]
    pearson = expected.pearson_chi2 / free
    has_dispersion = expected.scale != 1.0
    assert found["dispersion"] == pytest.approx(pearson if has_dispersion else 1.0, rel=1e-6)
    assert (found["family"], found["aliased"], found["status"]) == (text, ["k.v.w"], "converged")
    assert (found["rows"], found["skipped"], found["note"]) == (len(a), 0, None)


def test_offset_and_exposure_are_added_to_the_predictor(raw):
    rng, table, eta = features()
    x, o = rng.uniform(1, 5, len(table)), 0.1 * rng.normal(size=len(table))
    y = rng.poisson(x * np.exp(0.3 * eta + o))
    stored(raw, table.with_columns(x=pl.Series(x), o=pl.Series(o), y=pl.Series(y)))
    row = "{'y': y, 'a': a, 'b': b, 'x': x, 'o': o}"
    asked = "{'exposure': 'x', 'offset': 'o'}"
    found = one(raw, f"SELECT fit_glm({row}, 'y', 'poisson', {asked}) FROM t")
    design = sm.add_constant(table.select("a", "b").to_numpy())
    expected = truth(FAMILIES.Poisson(), y, design, offset=o, exposure=x)
    assert found["intercept"] == pytest.approx(expected.params[0], rel=1e-8)
    own = [found["coefficients"][name] for name in ("a", "b")]
    assert own == pytest.approx(expected.params[1:], rel=1e-8)
    assert found["null_deviance"] == pytest.approx(expected.null_deviance, rel=1e-10)
    assert [found["coefficients"][name] for name in ("o", "x.log")] == [1.0, 1.0]
    predicted = raw.execute(
        f"""WITH m AS (SELECT fit_glm({row}, 'y', 'poisson', {asked}) AS m FROM t)
        SELECT predict(m, {row}).prediction FROM t, m"""
    ).fetchall()
    assert np.ravel(predicted) == pytest.approx(expected.fittedvalues, rel=1e-8)


def test_ridge_origin_and_columns_are_those_of_python(raw):
    rng, table, eta = features()
    table = table.with_columns(y=pl.Series(drawn(rng, "binomial", eta)))
    stored(raw, table)
    for more in ({"ridge": 0.1}, {"ridge": 0.1, "scale": False}, {"intercept": False}):
        columns = ["b", "k"]
        named = "".join(f", {name} := {value}" for name, value in more.items())
        query = f"SELECT dbselect.fit_glm(t, 'y', 'binomial', columns := {columns}{named}) FROM t"
        found = one(raw, query)
        expected = ds.fit(table, "y", columns, family="binomial", **more)
        assert found["coefficients"] == pytest.approx(expected.coefficients, abs=1e-8)
        assert found["intercept"] == pytest.approx(expected.intercept, abs=1e-8)
        assert found["explained"] == pytest.approx(expected.explained, abs=1e-10)
        assert (not found["std_errors"]) == ("ridge" in more)


def test_a_summary_is_that_of_python(raw):
    rng, table, eta = features()
    table = table.with_columns(y=pl.Series(drawn(rng, "gamma", eta)))
    stored(raw, table)
    asked = "columns := ['a', 'b'], level := 0.9"
    found = one(raw, f"SELECT dbselect.summary_glm(t, 'y', 'gamma', {asked}) FROM t")
    model = ds.fit(table, "y", ["a", "b"], family="gamma")
    expected = model.summary().join(model.intervals(0.9).select("term", "low", "high"), on="term")
    assert list(found[0]) == expected.columns
    for term, row in zip(found, expected.to_dicts(), strict=True):
        assert term["term"] == row.pop("term")
        assert [term[name] for name in row] == pytest.approx(list(row.values()), rel=1e-4, abs=1e-9)


def test_groups_and_filters_keep_their_own_rows(raw):
    rng, table, eta = features(400)
    g = np.arange(400) % 4
    y = drawn(rng, "binomial", eta)
    y[g == 3] = 1
    stored(raw, table.with_columns(g=pl.Series(g), y=pl.Series(y)))
    call = "fit_glm({'y': y, 'a': a, 'k': k}, 'y', 'binomial')"
    found = dict(raw.execute(f"SELECT g, {call} FROM t GROUP BY g").fetchall())
    assert found[3] is None  # one value of the target
    for group in range(3):
        alone = one(raw, f"SELECT {call} FILTER (g = {group}) FROM t")
        assert found[group]["rows"] == alone["rows"] == 100
        assert found[group]["coefficients"] == pytest.approx(alone["coefficients"], rel=1e-12)
        framed = raw.execute(f"SELECT {call} OVER (PARTITION BY g) FROM t QUALIFY g = {group}")
        assert all(row == found[group] for (row,) in framed.fetchmany(2))


def test_null_is_skipped_and_counted_where_it_is_used(raw):
    raw.execute(
        "CREATE TABLE t AS SELECT i % 2 AS y, sin(i) AS x, "
        "CASE WHEN i % 5 > 0 THEN cos(i) END AS z, "
        "CASE WHEN i % 3 > 0 THEN 'a' || i % 4 END AS k, i % 7 AS w FROM range(420) r(i)"
    )
    counts = "m.rows, m.skipped"
    call = "SELECT fit_glm(t, 'y', 'binomial', {{'columns': [{}]}}) AS m FROM t"
    for columns, left_out in (("'x'", 0), ("'x', 'z'", 84), ("'z', 'k'", 84 + 140 - 28)):
        found = raw.execute(f"SELECT {counts} FROM ({call.format(columns)})").fetchall()
        assert found == [(420 - left_out, left_out)]
    call = "SELECT fit_glm(t, 'y', 'binomial', {'columns': ['x'], 'weight': 'w'}) AS m FROM t"
    assert raw.execute(f"SELECT {counts} FROM ({call})").fetchall() == [(360, 60)]


def test_separated_rows_are_told_and_a_ridge_ends_it(raw):
    call = "SELECT fit_glm({{'y': i > 5, 'x': i}}, 'y', 'binomial'{}) FROM range(11) r(i)"
    found = one(raw, call.format(""))
    assert found["status"] == "separated"
    assert "(separation)" in found["note"]
    assert found["std_errors"] == {}
    found = one(raw, call.format(", {'ridge': 0.1}"))
    assert (found["status"], found["note"]) == ("converged", None)
    found = one(raw, call.format(", {'max_iter': 1}"))
    assert found["status"] == "limit"
    assert "max_iter 1 was reached" in found["note"]


def test_two_levels_are_a_target(raw):
    rng, table, eta = features()
    y = np.where(drawn(rng, "binomial", eta) == 1, "yes", "no")
    table = table.with_columns(y=pl.Series(y), n=pl.Series((y == "yes") + 1))
    stored(raw, table)
    for target, more, levels in (
        ("y", "", ["no", "yes"]),
        ("y", ", positive := 'no'", ["yes", "no"]),
        ("n", ", positive := 2", ["1", "2"]),
    ):
        asked = f"columns := ['a', 'b']{more}"
        found = one(raw, f"SELECT dbselect.fit_glm(t, '{target}', 'binomial', {asked}) FROM t")
        sign = -1 if levels[1] == "no" else 1
        expected = ds.fit(table, "y", ["a", "b"], family="binomial").coefficients
        assert found["levels"] == levels
        own = {name: sign * w for name, w in found["coefficients"].items()}
        assert own == pytest.approx(expected, rel=1e-8)


def forward(family: Any, y: Any, groups: dict[str, list[Any]], costs: dict[str, float]) -> Any:
    """Return the order of a forward search by refits, and what each prefix explains."""
    held: list[str] = []
    null = truth(family, y, np.ones((len(y), 1))).deviance
    explained = [0.0]
    while len(held) < len(groups):
        scores = {}
        for name in (name for name in groups if name not in held):
            columns = [column for one in (*held, name) for column in groups[one]]
            deviance = truth(family, y, np.column_stack([np.ones(len(y)), *columns])).deviance
            scores[name] = 1 - deviance / null
        best = max(scores, key=lambda name: (scores[name] - explained[-1]) / costs[name])
        held.append(best)
        explained.append(scores[best])
    return held, explained


@pytest.mark.parametrize("text", ["binomial", "poisson(sqrt)"])
def test_a_search_is_one_by_refits_of_statsmodels(raw, text):
    rng, table, eta = features()
    y = drawn(rng, text, eta)
    table = table.with_columns(y=pl.Series(y))
    stored(raw, table.drop("w"))
    a, b, c = table.select("a", "b", "c").to_numpy().T
    levels = [(table["k"] == level).to_numpy().astype(float) for level in ("g", "r")]
    groups = {"ab": [a, b], "c": [c - 1e3], "k": levels}
    costs = {"ab": 9.0, "c": 1.0, "k": 2.0}
    asked = "groups := {'ab': ['a', 'b'], 'c': 'c', 'k': 'k'}, costs := {'ab': 9, 'c': 1, 'k': 2}"
    call = f"dbselect.anytime_sequence_glm(t, 'y', '{text}', {asked}"
    found = one(raw, f"SELECT {call}) FROM t")
    order, explained = forward(TRUTH[text], y, groups, costs)
    assert [step["group"] for step in found["steps"]] == [None, *order]
    assert [step["explained"] for step in found["steps"]] == pytest.approx(explained, abs=1e-10)
    last = found["predictors"][0]["sequence"][-1]
    whole = one(raw, f"SELECT fit_glm(t, 'y', '{text}') FROM t")
    assert last["coefficients"] == pytest.approx(whole["coefficients"], rel=1e-7)
    short = one(raw, f"SELECT {call}, budget := 3, always := ['k']) FROM t")
    assert [step["group"] for step in short["steps"]] == [None, "k", "c"]
    assert (short["stop"], short["choices"]) == ("BUDGET", ["FORCED", "LIMITED"])


def test_python_reads_a_sequence_of_sql(raw):
    rng, table, eta = features()
    table = table.with_columns(y=pl.Series(np.where(drawn(rng, "binomial", eta) == 1, "u", "v")))
    stored(raw, table)
    asked = "{'costs': {'a': 1, 'b': 2, 'c': 3, 'k': 4}, 'weight': 'w'}"
    call = f"{SEARCH}, {asked})"
    found = one(raw, f"SELECT {call} FROM t")
    sequence = ds.results.GlmSequence.from_struct(found)
    expected = ds.anytime_sequence(
        table, "y", family="binomial", costs={"a": 1, "b": 2, "c": 3, "k": 4}, weight="w"
    )
    assert sequence.steps["group"].to_list() == expected.steps["group"].to_list()
    assert sequence.explained == pytest.approx(expected.explained, abs=1e-9)
    assert sequence.problem == expected.problem
    predicted = raw.execute(
        f"""WITH s AS (SELECT {call} AS s FROM t)
        SELECT dbselect.glm_predict(s, t, budget := 6).prediction FROM t, s"""
    ).fetchall()
    own = expected.at(budget=6.0).predict(table)
    assert np.ravel(predicted) == pytest.approx(np.ravel(own), abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("fit_glm(t, 'z', 'binomial')", "target names unknown column 'z'; there is 'y', 'x', 'k'"),
        ("fit_glm(t, 'y', 'logistic')", "family is 'logistic'; it must be one of .*'binomial'\\?"),
        ("fit_glm(t, 'y', 'multinomial')", "family is 'multinomial'; .* which Python fits"),
        ("fit_glm(t, 'y', 'negative_binomial')", "it needs a dispersion > 0"),
        ("fit_glm(t, 'y', 'binomial', {'ridg': 1})", "unknown option 'ridg'; there is 'ridge'"),
        (f"{SEARCH}, {{'cost': 1}})", "Error: anytime_sequence_glm has unknown option 'cost'"),
        ("fit_glm(t, 'y', 'binomial', {'ridge': -1})", "ridge is -1.0; it must be a number >= 0"),
        ("summary_glm(t, 'y', 'binomial', {'ridge': 1})", "ridge is 1.0; standard errors are"),
        ("fit_glm({'y': y, 'k': k, 'k.l1': x}, 'y', 'binomial')", "would have the name 'k.l1'"),
        ("fit_glm(t, 'y', 'binomial', {'tol': 2})", "tol is 2.0; it must lie between 0 and 1"),
        ("fit_glm(t, 'y', 'binomial', {'columns': ['q']})", "columns names unknown column 'q'"),
        ("fit_glm(t, 'y', 'binomial', {'null_policy': 'mean'})", "null_policy is 'mean'"),
        ("fit_glm(t, 'y', 'binomial', {'weight': 'k'})", "weight 'k' has type text"),
        ("fit_glm(t, 'y', 'binomial', {'exposure': 'x'})", "family 'binomial' has the link logit"),
        ("fit_glm(t, 'x', 'binomial')", "target 'x' has the value 2, and must be 0/1 or boolean"),
        ("fit_glm(t, 'k', 'binomial')", "target 'k' has more than two levels"),
        ("fit_glm(t, 'k', 'poisson')", "target 'k' has type text"),
        ("fit_glm(t, 'y', 'binomial', {'max_bytes': 99})", "99 bytes of max_bytes; ask a sample"),
        ("fit_glm(t, 'y', k)", "target, family and options must be the same in all rows"),
        ("fit_glm(t, NULL, 'binomial')", "target is NULL; it must be the name of a column"),
        ("fit_glm(x, 'y', 'binomial')", "row must be a STRUCT or a table name, not BIGINT"),
        ("fit_glm(t, 'y', 'binomial', ['x'])", "options must be a STRUCT of options by name"),
        (f"{SEARCH}, {{'rule': 'omp'}})", "rule is 'omp'; .* 'fr' alone"),
        (f"{SEARCH}, {{'groups': {{'g': 'q'}}}})", "group 'g' names unknown"),
        (f"{SEARCH}, {{'always': ['q']}})", "always names unknown group"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named_and_the_connection_goes_on(raw, call, message):
    raw.execute(
        "CREATE TABLE t AS SELECT i % 2 AS y, i AS x, 'l' || i % 3 AS k FROM range(60) r(i)"
    )
    with pytest.raises(duckdb.Error, match=message):
        raw.execute(f"SELECT {call} FROM t").fetchall()
    assert one(raw, "SELECT fit_glm(t, 'y', 'binomial').rows FROM t") == 60


def test_an_empty_table_has_no_model(raw):
    raw.execute("CREATE TABLE t AS SELECT 1 AS y, 2.0 AS x LIMIT 0")
    for function in ("fit_glm", "summary_glm", "anytime_sequence_glm"):
        assert one(raw, f"SELECT {function}(t, 'y', 'binomial') FROM t") is None


def test_a_sort_and_a_window_of_one_state_keep_their_rows(raw):
    raw.execute(
        "CREATE TABLE t AS SELECT i % 2 AS y, sin(i) AS x, i // 700 AS g FROM range(2100) r(i)"
    )
    whole = one(raw, "SELECT fit_glm(t, 'y', 'binomial').deviance FROM t")
    ordered = one(raw, "SELECT fit_glm(t, 'y', 'binomial' ORDER BY x).deviance FROM t")
    assert ordered == pytest.approx(whole, rel=1e-12)
    call = "fit_glm({'y': y, 'x': x}, 'y', 'binomial') OVER (PARTITION BY g)"
    framed = raw.execute(f"SELECT g, ({call}).rows FROM t ORDER BY g")
    assert framed.fetchall() == [(g, 700) for g in range(3) for _ in range(700)]


@pytest.mark.parametrize("text", [*TRUTH, "tweedie(1.5, inverse)", "binomial(cauchit)"])
def test_a_mean_is_plain_sql_by_every_link(raw, text):
    """The link alone, far beyond where its mean is bounded, is that of the library and Python's."""
    eta = [-750.0, -101.0, -30.0, -7.0, -1.0, -1e-9, 0.0, 1e-9, 0.3, 1.0, 2.5, 7.0, 30.0, 101.0]
    stored(raw, pl.DataFrame({"x": [*eta, 750.0, None]}))
    model = f"{{'family': '{text}', 'intercept': 0e0, 'coefficients': MAP {{'x': 1e0}}}}"
    sql = one(raw, f"SELECT model_sql({model})")
    found = raw.execute(f"SELECT {sql}, predict({model}, t).prediction, x FROM t").fetchall()
    mean = family_of(text).means([column(("x",))])[0]
    by_python = raw.execute(f"SELECT {translate(mean, algebra_of_sql())} FROM t").fetchall()
    for (*both, x), (other,) in zip(found, by_python, strict=True):
        # Where there is no mean, NULL; next to nothing is left of some.
        numbers = [np.nan if value is None else value for value in (*both, other)]
        # exp(-450) keeps its digits but for those of 450.
        np.testing.assert_allclose(numbers, numbers[1], rtol=1e-12, atol=1e-300, err_msg=str(x))


@pytest.mark.parametrize("text", ["poisson", "binomial(probit)"])
def test_models_and_sequences_of_families_are_plain_sql(raw, text):
    rng, table, eta = features()
    exposure = rng.uniform(0.5, 2.0, len(eta))
    stored(raw, table.with_columns(y=drawn(rng, text, eta), e=exposure))
    with_e = ", {'exposure': 'e'}" if text == "poisson" else ", {'columns': ['a', 'k']}"
    groups = "'groups': {'a': 'a', 'b': 'b', 'c': 'c', 'k': 'k'}"
    costs = f"{{'costs': {{'a': 1, 'b': 1, 'k': 3, 'c': 2}}, {groups}}}"
    raw.execute(f"CREATE TABLE m AS SELECT fit_glm(t, 'y', '{text}'{with_e}) AS m FROM t")
    raw.execute(
        f"CREATE TABLE s AS SELECT anytime_sequence_glm(t, 'y', '{text}', {costs}) AS s FROM t"
    )
    for model, options in [("m", ""), ("s", ""), ("s", ", {'budget': 3}")]:
        sql = one(raw, f"SELECT model_sql({model}{options}) FROM {model}")
        rows = raw.execute(
            f"SELECT {sql}, predict({model}, t{options}).prediction FROM t, {model}"
        ).fetchnumpy()
        plain, own = rows.values()
        np.testing.assert_allclose(plain, own, rtol=1e-12)
        assert np.ptp(own) > 0.01
    both = raw.execute(
        "SELECT predict(s, t, {'budget': 3}) = dbselect.glm_predict(s, t, budget := 3), "
        "predict(s, t, {'budget': 3}).spent <= 3 FROM t, s"
    ).fetchall()
    assert set(both) == {(True, True)}


def test_a_model_of_several_classes_names_what_predicts_it():
    with ds.connect() as con:
        con.execute("CREATE TABLE t AS SELECT i % 3 AS y, sin(i) AS x FROM range(60) r(i)")
        con.execute("CREATE TABLE s AS SELECT anytime_sequence_glm('t', 'y', 'multinomial') AS s")
        for call in ("predict(s, t)", "model_sql(s)"):
            with pytest.raises(duckdb.Error, match=r"several classes.*glm_predict reads there"):
                con.execute(f"SELECT {call} FROM t, s").fetchall()
        shares = one(con, "SELECT glm_predict(s, t).probabilities FROM t, s LIMIT 1")
        assert sum(shares.values()) == pytest.approx(1.0)


def test_on_a_connection_of_python_the_aggregate_has_its_full_name():
    with ds.connect() as con:
        con.execute(
            "CREATE TABLE t AS SELECT i % 2 AS y, sin(i) AS x, cos(i) AS z FROM range(60) r(i)"
        )
        of_table = one(con, "SELECT anytime_sequence_glm('t', 'y', 'binomial')")
        for name in ("dbselect.anytime_sequence_glm", "system.main.anytime_sequence_glm"):
            found = one(con, f"SELECT {name}(t, 'y', 'binomial') FROM t")
            assert list(found) == list(of_table)
            groups = [[step["group"] for step in one_["steps"]] for one_ in (found, of_table)]
            assert groups[0] == groups[1]
        assert one(con, "SELECT fit_glm(t, 'y', 'binomial').rows FROM t") == 60
        pairs = {
            "anytime_sequence_glm": ("{'budget': 5, 'costs': {'x': 1, 'z': 9}}",
                                     "costs := {'x': 1, 'z': 9}, budget := 5"),
            "fit_glm": ("{'Columns': ['x'], 'ridge': 0.1}", "columns := ['x'], ridge := 0.1"),
            "summary_glm": ("{'level': 0.5}", "level := 0.5"),
        }  # fmt: skip
        for name, (options, named) in pairs.items():
            found, other = (
                one(con, f"SELECT dbselect.{name}(t, 'y', 'binomial', {given})::VARCHAR FROM t")
                for given in (options, named)
            )
            assert found == other
        both = "{'level': 0.5}, level := 0.6"
        with pytest.raises(duckdb.Error, match="summary_glm is given level twice"):
            con.execute(f"SELECT dbselect.summary_glm(t, 'y', 'binomial', {both}) FROM t")

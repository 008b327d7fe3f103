"""Prices that are no sums, by enumeration of all sets and a second search that knows them."""

import itertools
from dataclasses import replace

import duckdb
import numpy as np
import polars as pl
import pytest
from problems import Problem, in_passes, random_problem
from reference import Terms, subsets
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

import dbselect as ds

#: What sets may differ by and still be ties, and what the reference rounds by.
TIE = 2e-10
#: Gains that are nearer than this may be ordered either way.
NEAR = 1e-9


def random_terms(rng: np.random.Generator, problem: Problem) -> Terms:
    """Draw conditions that leave every group a set that holds it."""
    names = list(problem.groups)

    def some(least: int, most: int) -> list[str]:
        return rng.choice(names, rng.integers(least, most + 1), replace=False).tolist()

    costs = dict(problem.costs)
    shared = {f"s{n}": (float(rng.integers(1, 7)) / 2, some(2, 4)) for n in range(rng.integers(3))}
    for _, who in shared.values():
        costs |= {name: 0.0 for name in who if rng.random() < 0.3}
    order = rng.permutation(names).tolist()
    needs = {}
    for at, name in enumerate(order):
        if at and rng.random() < 0.3:
            needs[name] = rng.choice(
                order[:at], min(at, rng.integers(1, 3)), replace=False
            ).tolist()
    terms = Terms(costs, shared, needs, (), {})
    companies = {name: terms.company(name, []) for name in names}
    rivals = [some(2, 3) for _ in range(rng.integers(3))]
    one_of = [who for who in rivals if all(len({*who} & {*c}) < 2 for c in companies.values())]
    limits = {}
    for unit in ["ms", "calls"][: rng.integers(3)]:
        use = {name: float(rng.integers(0, 9)) for name in names if rng.random() < 0.8}
        how = "max" if rng.random() < 0.3 else "sum"
        alone = [[use.get(name, 0.0) for name in company] for company in companies.values()]
        least = max(max(used) if how == "max" else sum(used) for used in alone)
        limits[unit] = (use, least + float(rng.integers(0, 9)), how)
    return replace(terms, one_of=one_of, limits=limits)


def fields(terms: Terms) -> dict:
    return {name: value for name, value in vars(terms).items() if value}


@pytest.mark.sample(25)
@pytest.mark.parametrize("seed", range(500))
def test_the_best_set_is_that_of_all_sets(seed):
    rng = np.random.default_rng(seed)
    sizes = (1,) * int(rng.integers(4, 13, 2).min()) + (2, 3)
    ridge = float(rng.choice([0.0, 0.1]))
    problem = random_problem(rng, sizes=sizes, ridge=ridge)
    names, terms = list(problem.groups), random_terms(rng, problem)
    every = subsets(problem.table, problem.groups, terms.costs)
    sets = [[name for name, has in zip(names, held, strict=True) if has] for held in every.held]
    price = np.array([terms.price(held) for held in sets])
    allowed = np.array([terms.allow(held) for held in sets])
    always = terms.company(str(rng.choice(names)), []) if rng.random() < 0.3 else []
    budget = terms.price(always) + rng.uniform(0, 0.8) * price.max()
    allowed &= [set(always) <= set(held) for held in sets]
    allowed &= price <= budget * (1 + 1e-12)
    most = every.explained[allowed].max()
    found = ds.best_within(
        problem.gram, "y", budget, problem.names, always=always[-1:], ridge=ridge,
        **fields(terms),
    )  # fmt: skip
    assert found.how.proven
    assert found.explained == pytest.approx(most, abs=TIE + every.error)
    assert terms.allow(found.groups)
    assert set(always) <= set(found.groups)
    assert found.spent == pytest.approx(terms.price(found.groups))
    tied = allowed & (every.explained >= most - TIE)
    assert found.spent == pytest.approx(price[tied].min(), abs=1e-6)
    near = ds.near_best(
        problem.gram, "y", budget, problem.names, within=0.05, limit=20_000, always=always[-1:],
        ridge=ridge, **fields(terms),
    )  # fmt: skip
    listed = {frozenset(groups) for groups in near.table["groups"]}
    error = TIE + every.error
    for held, value in zip(
        itertools.compress(sets, allowed), every.explained[allowed], strict=True
    ):
        if abs(value - 0.95 * most) > error:
            assert (frozenset(held) in listed) == (value > 0.95 * most)


@pytest.mark.parametrize("seed", range(6))
def test_a_break_even_price_is_the_highest_at_which_some_set_with_the_group_wins(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, sizes=(1, 2, 1, 1, 1))
    names, terms = list(problem.groups), random_terms(rng, problem)
    every = subsets(problem.table, problem.groups, terms.costs)
    sets = [[name for name, has in zip(names, held, strict=True) if has] for held in every.held]
    budget = rng.uniform(0.3, 0.8) * terms.price(names)
    found = ds.Problem(problem.gram, "y", problem.names, **fields(terms)).break_even(budget)
    for name, price in found.rows():
        free = replace(terms, costs={**terms.costs, name: 0.0})
        rival, bought = -1.0, []
        for held, value in zip(sets, every.explained, strict=True):
            if name not in held and terms.allow(held) and terms.price(held) <= budget:
                rival = max(rival, value)
        for held, value in zip(sets, every.explained, strict=True):
            left = budget - free.price(held)
            if name in held and terms.allow(held) and left > 0 and value > rival + TIE:
                bought.append(left)
        assert price == pytest.approx(max(bought, default=0.0), abs=1e-6 * budget), name


@pytest.mark.sample(20)
@pytest.mark.parametrize("rule", ["fr", "omp", "omp-unwhitened", "omp-single"])
@pytest.mark.parametrize("seed", range(40))
def test_each_step_takes_the_company_that_gains_most_for_what_it_costs_now(seed, rule):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, sizes=(1, 3, 2, 1, 2, 1))
    terms = random_terms(rng, problem)
    budget = rng.uniform(0.3, 1) * terms.price(list(problem.groups))
    expected = terms.greedy(problem.table, problem.groups, rule, budget)
    found = ds.anytime_sequence(
        problem.gram, "y", problem.names, rule=rule, budget=budget, **fields(terms)
    )
    assert found.steps["group"].to_list()[1:] == [name for name, _ in expected]
    assert found.steps["cost"].to_list()[1:] == pytest.approx([cost for _, cost in expected])
    assert found.spent[-1] == pytest.approx(sum(cost for _, cost in expected))


def test_passes_over_the_rows_take_the_same_steps():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, sizes=(1, 3, 2, 1, 2, 1))
        terms = random_terms(rng, problem)
        asked = (problem.table.frame.drop("w"), "y", problem.names)
        found = in_passes(*asked, family="gaussian", **fields(terms)).steps
        expected = ds.anytime_sequence(*asked, **fields(terms)).steps
        for name in ("group", "cost", "spent"):
            assert found[name].to_list() == pytest.approx(expected[name].to_list()), name


@pytest.mark.sample(8)
@pytest.mark.parametrize("method", ["anytime_sequence", "foba", "floating", "greedy"])
@pytest.mark.parametrize("seed", range(6))
def test_a_lazy_gram_takes_the_same_steps(seed, method):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, sizes=(1, 3, 2, 1, 2, 1))
    terms = random_terms(rng, problem)
    limit = {"k": 3} if method == "greedy" else {"budget": terms.price(list(problem.groups)) / 2}
    frame = problem.table.frame.drop("w")
    lazy, whole = (
        getattr(ds, method)(frame, "y", problem.names, gram=gram, **limit, **fields(terms))
        for gram in ("lazy", "full")
    )
    assert lazy.groups == whole.groups if method == "greedy" else (
        lazy.steps["group"].to_list() == whole.steps["group"].to_list()
    )  # fmt: skip
    np.testing.assert_allclose(lazy.spent, whole.spent)


@pytest.mark.parametrize("method", ["foba", "backward", "floating", "step", "anytime_sequence"])
@pytest.mark.parametrize("seed", range(12))
def test_every_walk_holds_only_what_may_be_bought_and_pays_for_it_once(seed, method):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, sizes=(1, 3, 2, 1, 2, 1))
    terms = random_terms(rng, problem)
    found = getattr(ds, method)(problem.gram, "y", problem.names, **fields(terms))
    held: list[str] = []
    for step in found.steps.iter_rows(named=True):
        before = terms.price(held)
        if step["action"] == "add":
            held.append(step["group"])
        elif step["action"] == "remove":
            held.remove(step["group"])
        assert terms.allow(held)
        assert step["spent"] == pytest.approx(terms.price(held))
        assert step["cost"] == pytest.approx(abs(terms.price(held) - before))


@pytest.mark.sample(10)
@pytest.mark.parametrize("seed", range(100))
def test_no_set_that_may_be_bought_explains_more_than_the_certificate_says(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, sizes=(1, 3, 2, 1, 2, 1))
    terms = random_terms(rng, problem)
    every = subsets(problem.table, problem.groups, terms.costs)
    sets = [list(itertools.compress(problem.groups, held)) for held in every.held]
    allowed = np.array([terms.allow(held) for held in sets])
    price = np.array([terms.price(held) for held in sets])
    found = ds.anytime_sequence(problem.gram, "y", problem.names, **fields(terms))
    budgets = np.linspace(0, price.max(), 9)
    for budget, bound in zip(budgets, found.certificate(budgets)["bound"], strict=True):
        assert bound >= every.explained[allowed & (price <= budget)].max() - TIE - every.error


@pytest.mark.parametrize("seed", range(8))
def test_a_choice_of_k_groups_may_be_bought(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, sizes=(1, 3, 2, 1, 2, 1))
    terms = random_terms(rng, problem)
    for k, budget in itertools.product((1, 3, 6), (None, 6.0)):
        for method in ("exchange", "greedy"):
            call = getattr(ds, method)
            found = call(problem.gram, "y", problem.names, k=k, budget=budget, **fields(terms))
            assert terms.allow(found.groups)
            assert len(found.groups) <= k
            assert budget is None or terms.price(found.groups) <= budget + TIE
            assert found.spent == pytest.approx(terms.price(found.groups))


@pytest.mark.parametrize("method", ["greedy", "exchange", "top_k", "anytime_sequence", "backward"])
@pytest.mark.parametrize("of", ["gram", "rows", "score"])
def test_a_model_spends_what_its_groups_cost_together(of, method):
    rng = np.random.default_rng(5)
    frame = pl.DataFrame(rng.normal(size=(60, 4)), schema=list("abcd"))
    y = frame.to_numpy() @ [1.0, 2.0, 3.0, 0.1] + rng.normal(size=60)
    rows = frame.with_columns(y=pl.Series(y > 0 if of == "rows" else y))
    terms = Terms(dict.fromkeys("abcd", 1.0), {"set-up": (3.0, list("abc"))}, {}, (), {})
    score = ds.objectives.Score.of(LinearRegression(), frame, y)
    source = {"gram": ds.gram(rows) if of == "gram" else None, "rows": rows, "score": score}[of]
    family = {"family": "binomial"} if of == "rows" else {}
    target = () if of == "score" else ("y",)
    problem = ds.Problem(source, *target, **family, **fields(replace(terms, costs={})))
    options = {} if method in ("anytime_sequence", "backward") else {"k": 2}
    found = getattr(problem, method)(**options)
    model = found.at() if hasattr(found, "steps") else found
    assert model.spent == terms.price(model.groups)


def bought(terms: Terms, rule: str, order: list[str], budget: float, there, share) -> tuple:
    """Buy for one row by the definition; return what is bought, and what of it arrives."""
    names, tried, got = list(terms.costs), [], []
    whole = {name: terms.company(name, []) for name in names}
    while True:
        lost = {*tried} - {*got}
        rates = {}
        for name in names:
            new = [*tried, *terms.company(name, tried)]
            price = terms.price(new) - terms.price(tried)
            if (name not in tried and terms.allow(new) and terms.price(new) <= budget + TIE
                    and not lost & {*whole[name]}):  # fmt: skip
                gain = share([*got, *terms.company(name, got)]) - share(got)
                rates[name] = gain / max(price, 1e-12)
        if rule == "next_group":
            can = [name for name, rate in rates.items() if rate > NEAR]
            one = max(can, key=rates.__getitem__, default=None)
            one = one and terms.company(one, tried)[0]
        else:
            at = order.index(tried[-1]) + 1 if tried else 0
            left = order[at:] if rule == "pattern" else order[at : at + 1]
            stops = rule == "prefix" and bool(lost)
            one = next((name for name in left if name in rates and not stops), None)
        if one is None:
            return tried, got
        tried.append(one)
        got += [one] if {*whole[one]} <= {name for name, has in there.items() if has} else []


@pytest.mark.sample(12)
@pytest.mark.parametrize("seed", range(60))
def test_rows_buy_and_pay_what_prices_say_of_all_that_they_bought(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng, sizes=(1,) * 5)
    terms, names = random_terms(rng, problem), list(problem.groups)
    every = subsets(problem.table, problem.groups, terms.costs)
    shares = {tuple(held): value for held, value in zip(every.held, every.explained, strict=True)}

    def share(held: list[str]) -> float:
        return shares[tuple(name in held for name in names)]

    asked = ds.Problem(problem.gram, "y", problem.names, **fields(terms))
    order = asked.anytime_sequence().steps["group"].to_list()[1:]
    rows, failing = problem.table.frame, dict.fromkeys(names, 0.3)
    there = np.random.default_rng(seed).random((rows.height, 5)) >= 0.3
    budget = rng.uniform(0.4, 1) * terms.price(names)
    found = asked.simulate(rows, budget, failing, seed=seed).table
    for rule in ("prefix", "pattern", "next_group"):
        spent, errors, models = [], [], {}
        for row, has in zip(rows.iter_rows(named=True), there, strict=True):
            tried, got = bought(
                terms, rule, order, budget, dict(zip(names, has, strict=True)), share
            )
            key = tuple(sorted(got))
            if key not in models:
                columns = [column for name in got for column in problem.names[name]]
                models[key] = ds.fit(problem.gram, "y", columns) if got else None
            model, guess = models[key], problem.gram.mean[problem.gram.columns.index("y")]
            if model is not None:
                guess = model.intercept + sum(w * row[x] for x, w in model.coefficients.items())
            spent.append(terms.price(tried))
            errors.append((row["y"] - guess) ** 2)
        one = found.row(by_predicate=pl.col("rule") == rule, named=True)
        assert one["spent"] == pytest.approx(np.mean(spent))
        assert one["mse"] == pytest.approx(np.mean(errors))


def optimum(terms: Terms, cells: np.ndarray, y: np.ndarray, above: float) -> float:
    """Return the best net of all policies on equally likely cells of binary groups."""
    names = list(terms.costs)

    def value(rows: np.ndarray, held: list[str]) -> float:
        nets = [max(y[rows].mean() - above, 0.0)]
        for at, name in enumerate(names):
            new = [*held, name]
            if name in held or not terms.allow(new):
                continue
            parts = [part for level in (0, 1) if len(part := rows[cells[rows, at] == level])]
            nets.append(
                sum(len(part) / len(rows) * value(part, new) for part in parts)
                - (terms.price(new) - terms.price(held))
            )
        return max(nets)

    return value(np.arange(len(y)), [])


def test_buying_by_value_keeps_to_prices_and_is_near_the_best_of_all_policies():
    rng = np.random.default_rng(4)
    earned, possible, names = [], [], list("abcd")
    cells = np.array([*itertools.product((0, 1), repeat=4)])
    for case in range(8):
        y = cells @ rng.normal(size=4)  # the linear model of each pattern is the mean given it
        above = y.mean() + 0.1 * rng.normal()
        terms = Terms(
            dict(zip(names, rng.uniform(0.01, 0.1, size=4).tolist(), strict=True)),
            {"set-up": (0.1, ["a", "b"])}, {"c": ["a"]} if case % 2 else {},
            [["b", "d"]] if case & 2 else [],
            {"ms": (dict(zip(names, [1, 2, 3, 4], strict=True)), 6, "sum")} if case & 4 else {},
        )  # fmt: skip
        frame = pl.DataFrame({**dict(zip(names, cells.T, strict=True)), "y": y})
        problem = ds.Problem(frame, "y", **fields(terms))
        found = problem.simulate(frame, rule="value", accept_above=above)
        best, nets = optimum(terms, cells, y, above), []
        for size in range(5):
            for held in itertools.combinations(names, size):
                if terms.allow(held):
                    at = [names.index(name) for name in held]
                    same = [(cells[:, at] == cell[at]).all(axis=1) for cell in cells]
                    guess = np.array([y[one].mean() for one in same])
                    money = np.where(guess > above, y - above, 0.0).mean()
                    nets.append((money - terms.price(held), [*held]))
        net = dict(found.table.select("rule", "net").rows())
        assert net["best_fixed"] == pytest.approx(max(nets)[0])
        assert sorted(found.best_fixed) == max(nets)[1]
        order = problem.anytime_sequence().steps["group"].to_list()[1:]
        assert net["everything"] == pytest.approx(next(n for n, g in nets if {*g} == {*order}))
        assert net["value"] <= best + 1e-9
        earned.append(net["value"])
        possible.append(best)
        # What the predictor has one row after another buy, and pay; a failure ends that.
        predictor = problem.predictor()
        for down in ("", "b") if case % 3 == 1 else ():
            spent = []
            for cell in cells.tolist():
                held, has = [], {}
                while True:
                    one = predictor.predict(has, accept_above=above)["next_group"]
                    if one is None or one in held:
                        break
                    held.append(one)
                    assert terms.allow(held)
                    has |= {} if one == down else {one: cell[names.index(one)]}
                spent.append(terms.price(held))
            fails = dict.fromkeys(down, 1.0)
            found = problem.simulate(frame, None, fails, rule="value", accept_above=above).table
            assert found["spent"][0] == pytest.approx(np.mean(spent))
    assert sum(earned) > 0.9 * sum(possible)


def test_what_a_purchase_is_worth_is_that_of_a_set_that_may_be_bought():
    rng = np.random.default_rng(7)
    for _ in range(12):
        problem = random_problem(rng, sizes=(1,) * 4)
        terms, names = random_terms(rng, problem), list(problem.groups)
        every = subsets(problem.table, problem.groups, terms.costs)
        y = problem.table.frame["y"].to_numpy()
        worth, above = 20.0, y.mean() + 0.2 * y.std()
        margin, nets = worth * (y.mean() - above), [0.0]
        for held, value in zip(every.held, every.explained, strict=True):
            groups = [name for name, has in zip(names, held, strict=True) if has]
            s = worth * y.std() * max(value, 1e-12) ** 0.5
            gain = s * norm.pdf(margin / s) + margin * norm.cdf(margin / s) - max(margin, 0.0)
            nets.append(gain - terms.price(groups) if terms.allow(groups) else 0.0)
        predictor = ds.Problem(problem.gram, "y", problem.names, **fields(terms)).predictor()
        found = predictor.predict({}, accept_above=above, worth=worth)["next_value"] or 0.0
        # Greedy chains may miss the best set by little, and never promise more.
        assert 0.9 * max(nets) - 1e-9 <= found <= max(nets) + 1e-9


def test_a_row_of_sql_gives_a_set_up_and_a_limit_by_place():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(rng.normal(size=(40, 4)), schema=list("abcy"))
    told = {"shared": {"s": (2.0, ["a", "b"])}, "limits": {"ms": ({"a": 1, "b": 3}, 3, "sum")}}
    with ds.connect() as con:
        ((found,),) = con.sql("""SELECT [x."group" FOR x IN dbselect.anytime_sequence(
            dbselect.gram(f), 'y', shared := {'s': (2, ['a', 'b'])},
            limits := {'ms': ({'a': 1, 'b': 3}, 3, 'sum')})] FROM frame f""").fetchall()
        for wrong in ("(2, ['a'], 1)", "('a', 2)", "(2, )"):
            with pytest.raises(duckdb.Error, match=r"shared of 's' is|syntax error"):
                con.sql(f"""SELECT dbselect.anytime_sequence(dbselect.gram(f), 'y',
                    shared := {{'s': {wrong}}}) FROM frame f""").fetchall()
    assert found == ds.anytime_sequence(frame, "y", **told).steps["group"].to_list()

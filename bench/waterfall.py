"""Money a row of buying where it may change the decision, beside fixed sets, on rows held out.

``python bench/waterfall.py`` prints the table of docs/jobs/quote-in-300-ms.md in minutes, and how
far the AUC that a record alone implies under normality is from that of its rows. CUBE is that of
Rückstieß, Osendorfer, van der Smagt (2013) as AFABench has it: 8 classes, of which class c has its
three bits in the features c to c + 2 with a deviation of .1; the others are N(.5, .3). Here it has
20 features, as in the paper, and classes 4 to 7 are to be accepted.
"""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from statistics import NormalDist
from typing import Any

import numpy as np
import polars as pl
from sklearn.datasets import load_diabetes
from sklearn.metrics import roc_auc_score

import dbselect as ds

SEEDS = 10
#: Rows of the large tables, half of which are held out.
ROWS = 10_000
#: "fixed" are the groups that earned most on the rows of the fit, "best_fixed" on those held out.
RULES = ("value", "fixed", "best_fixed", "nothing", "everything")


@dataclass(frozen=True)
class Case:
    """A table by seed, what is decided on it, and by what its prices are multiplied."""

    table: Callable[[int], pl.DataFrame]
    target: str
    groups: Mapping[str, list[str]]
    costs: Mapping[str, float]
    stake: Mapping[str, Any]
    scales: tuple[float, ...]
    family: str = "gaussian"


def cube(seed: int) -> pl.DataFrame:
    """Draw CUBE, each feature with its square about the middle."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(8, size=ROWS)
    values = rng.normal(0.5, 0.3, size=(ROWS, 20))
    for bit in range(3):
        values[np.arange(ROWS), classes + bit] = rng.normal((classes >> bit) & 1, 0.1)
    table = {f"x{j}": values[:, j] for j in range(20)}
    squares = {f"q{j}": (values[:, j] - 0.5) ** 2 for j in range(20)}
    return pl.DataFrame({**table, **squares, "y": classes >= 4})


def heart(_: int) -> pl.DataFrame:
    """Return the patients of UCI heart."""
    return ds.io.example("heart")


def diabetes(_: int) -> pl.DataFrame:
    """Return the patients of scikit-learn's diabetes."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    return pl.DataFrame({**dict(zip(PATIENT, X.T, strict=True)), "y": y})


def flights(seed: int) -> pl.DataFrame:
    """Draw some of the flights."""
    return ds.io.example("flights").sample(ROWS, seed=seed)


PATIENT = ("age", "sex", "bmi", "bp", "tc", "ldl", "hdl", "tch", "ltg", "glu")
SERUM = PATIENT[4:]
HEART, FLIGHTS = (ds.io.example_problem(name) for name in ("heart", "flights"))
#: A row rightly accepted earns 1, one wrongly accepted loses 1.
RIGHT = {"payoff": (1, 1)}
#: Where a treatment is worth this many dollars, one is this much.
WRONG = (1 / 3200, 1 / 800, 1 / 200)
CASES = {
    "CUBE": Case(
        cube, "y", {f"x{j}": [f"x{j}"] for j in range(20)}, {f"x{j}": 1.0 for j in range(20)},
        RIGHT, (0.003, 0.01, 0.03),
    ),
    "CUBE, squares": Case(
        cube, "y", {f"x{j}": [f"x{j}", f"q{j}"] for j in range(20)},
        {f"x{j}": 1.0 for j in range(20)}, RIGHT, (0.003, 0.01, 0.03),
    ),
    "heart": Case(
        heart, "disease", HEART.groups, HEART.costs, RIGHT, WRONG,
    ),
    "heart, binomial": Case(
        heart, "disease", HEART.groups, HEART.costs, RIGHT, WRONG, "binomial",
    ),
    "diabetes": Case(
        diabetes, "y", {name: [name] for name in PATIENT},
        {name: 5.0 if name in SERUM else 1.0 for name in PATIENT},
        {"accept_above": 150.0}, (0.1, 0.5, 2.0),
    ),
    "flights": Case(
        flights, "arr_delay", FLIGHTS.groups, FLIGHTS.costs,
        {"accept_above": 0.0, "worth": -1.0}, (0.01, 0.03, 0.1),
    ),
}  # fmt: skip


def halves(table: pl.DataFrame, seed: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Divide rows at random."""
    shuffled = table.sample(fraction=1.0, shuffle=True, seed=seed)
    return shuffled[: table.height // 2], shuffled[table.height // 2 :]


def earned(case: Case, scale: float, seed: int) -> dict[str, float]:
    """Return the net of each rule on the held-out half, and what is promised of the first."""
    train, test = halves(case.table(seed), seed)
    costs = {name: scale * cost for name, cost in case.costs.items()}
    problem = ds.Problem(train, case.target, case.groups, costs, family=case.family)
    found = problem.simulate(test, rule="value", **case.stake)
    net = dict(found.table.select("rule", "net").rows())
    # The set that earned most on the rows of the fit.
    names = problem.simulate(train, rule="value", **case.stake).best_fixed
    net["fixed"] = net["nothing"]
    if names:
        groups = {name: case.groups[name] for name in names}
        of = {name: costs[name] for name in names}
        held = problem.replace(groups=groups, costs=of).simulate(test, rule="value", **case.stake)
        net["fixed"] = held.table.filter(rule="everything")["net"].item()
    return net | {"promised": found.table["promised"][0] or np.nan}


def table(cases: Mapping[str, Case]) -> Iterator[str]:
    """Yield a line a case and price: means over seeds, and the first ahead of the second."""
    yield f"| rows | price | {' | '.join(RULES)} | promised | ahead of fixed |"
    for name, case in cases.items():
        for scale in case.scales:
            each = pl.DataFrame([earned(case, scale, seed) for seed in range(SEEDS)])
            means = [f"{each[rule].mean():.3g}" for rule in (*RULES, "promised")]
            ahead = each["value"] - each["fixed"]
            error = ahead.std() / np.sqrt(SEEDS)
            price = f"{scale:.3g}"
            yield f"| {name} | {price} | {' | '.join(means)} | {ahead.mean():.2g} ± {error:.1g} |"


def implied_auc(r2: float, share: float) -> float:
    """Return the AUC of normal predictions that explain a share of the variance of 0 and 1."""
    distance = r2 / (1 - r2) / (2 * share * (1 - share))
    return NormalDist().cdf(float(np.sqrt(max(distance, 0.0))))


def auc() -> Iterator[str]:
    """Yield how far what a record implies is from the AUC of its rows, by number of groups."""
    late = CASES["flights"]
    tables = {
        "CUBE": (CASES["CUBE"], cube(0)),
        "heart": (CASES["heart"], heart(0)),
        "flights": (late, flights(0).with_columns(pl.col("arr_delay") >= 15.0)),
    }
    yield "| rows | groups | AUC | implied |"
    for name, (case, rows) in tables.items():
        whole = rows.drop_nulls()
        order = ds.anytime_sequence(whole, case.target, case.groups)
        y = whole[case.target].to_numpy()
        for step in sorted({1, 2, 4, 6, len(order.r2) - 1} & {*range(len(order.r2))}):
            true = roc_auc_score(y, order.model(step).predict(whole))
            implied = implied_auc(float(order.r2[step]), float(y.mean()))
            yield f"| {name} | {step} | {true:.3f} | {implied:.3f} |"


if __name__ == "__main__":
    warnings.simplefilter("ignore", ds.errors.PromiseWarning)
    asked = sys.argv[1:] or [*CASES]
    for line in chain(auc(), table({name: CASES[name] for name in asked})):
        print(line, flush=True)

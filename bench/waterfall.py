"""Money a row of held-out rows: groups bought row by row, beside fixed sets of groups and a tree.

``python bench/waterfall.py`` prints the table of WATERFALL.md in some minutes.
Each problem is fitted to a random half of its rows and judged on the other, some times; the best
set for all rows and the size of the tree are those that earn most on the rows of the fit.
"""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_predict
from sklearn.tree import DecisionTreeRegressor

import dbselect as ds
from dbselect.errors import PromiseWarning

#: Rows of each half at most.
ROWS = 5_000
#: Leaves of trees.
LEAVES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
RULES = ("value", "set", "tree", "nothing", "everything")


@dataclass(frozen=True)
class Task:
    """A problem with what is at stake in a row, and prices to scale the costs by."""

    name: str
    problem: ds.Problem
    stake: Mapping[str, Any]
    prices: tuple[float, ...]
    #: How often the rows are halved at random.
    halves: int = 10

    def money(self, rows: pl.DataFrame) -> npt.NDArray[np.float64]:
        """Return what each row earns if it is accepted."""
        y = rows[self.problem.targets[0]].cast(pl.Float64).to_numpy()
        if "payoff" in self.stake:
            gain, loss = self.stake["payoff"]
            return np.where(y == 1, gain, loss)
        return np.asarray(self.stake["worth"] * (y - self.stake["accept_above"]))


def cube(rng: np.random.Generator) -> pl.DataFrame:
    """Return CUBE as Zannone et al. (2019) and AFABench describe it, of 10 + 10 columns.

    A row of class k has the three bits of k in columns k to k + 2, with deviation 0.1; everything
    else is noise about 0.5 with deviation 0.3. To accept is to say that k is above 3.
    """
    k = rng.integers(0, 8, size=2 * ROWS)
    x = rng.normal(0.5, 0.3, size=(len(k), 20))
    for bit in range(3):
        x[np.arange(len(k)), k + bit] = (k >> bit & 1) + rng.normal(0.0, 0.1, size=len(k))
    columns = {f"x{j}": x[:, j] for j in range(20)}
    return pl.DataFrame({**columns, "high": (k > 3).astype(int)})


def tasks() -> Iterator[Task]:
    """Yield the problems."""
    rows = cube(np.random.default_rng(0))
    yield Task(
        "CUBE", ds.Problem(rows, "high"), {"payoff": (1.0, -1.0)}, (0.01, 0.03, 0.1), halves=5
    )
    # Dollars; a wrong diagnosis costs as much either way.
    heart = ds.io.example_problem("heart")
    yield Task("heart", heart, {"payoff": (200.0, -200.0)}, (0.1, 0.3, 1.0))
    found = load_diabetes(as_frame=True, scaled=False).frame
    diabetes = pl.DataFrame({name: found[name].to_numpy() for name in found})
    costs = {"age": 0.1, "sex": 0.1, "bmi": 1.0, "bp": 1.0, **{f"s{j}": 3.0 for j in range(1, 7)}}
    problem = ds.Problem(diabetes, "target", costs=costs)
    yield Task("diabetes", problem, {"accept_above": 150.0, "worth": 1.0}, (0.3, 1.0, 3.0))
    groups = {
        "schedule": ["hour_*", "weekday_*"], "carrier": ["carrier"],
        "plane": ["age", "seats", "engines"],
        "weather": ["temperature", "humidity", "wind_speed", "precipitation", "visibility"],
    }  # fmt: skip
    costs = {"schedule": 1.0, "carrier": 2.0, "plane": 8.0, "weather": 25.0}
    flights = ds.io.example("flights").drop_nulls("arr_delay")
    problem = ds.Problem(flights, "arr_delay", groups, costs)
    # Minutes: a transfer is sold if the flight is expected to be in time.
    yield Task("flights", problem, {"accept_above": 10.0, "worth": -1.0}, (0.01, 0.03, 0.1))


class Tree:
    """A tree that asks for groups on the way, of as many leaves as earn most on its rows."""

    def __init__(self, task: Task, problem: ds.Problem, rows: pl.DataFrame) -> None:
        self.task, self.problem, self.predictor = task, problem, problem.predictor()
        groups = self.predictor.groups
        self.costs, self.members = groups.costs, groups.columns
        X, money = self.matrix(rows), task.money(rows)

        def earns(leaves: int) -> float:
            if leaves == 1:
                return max(float(money.mean()), 0.0)
            grown = self.grown(leaves)
            said = cross_val_predict(grown, X, money, cv=5)
            spent = self.spent(grown.fit(X, money), X)
            return float((money * (said > 0)).mean() - spent.mean())

        self.leaves = max(LEAVES, key=earns)
        self.mean = float(money.mean())
        self.tree = self.grown(max(self.leaves, 2)).fit(X, money)

    @staticmethod
    def grown(leaves: int) -> DecisionTreeRegressor:
        """Return a tree without rows."""
        return DecisionTreeRegressor(max_leaf_nodes=leaves, min_samples_leaf=10, random_state=0)

    def matrix(self, rows: pl.DataFrame) -> npt.NDArray[np.float64]:
        """Return the columns of all groups, group by group; levels are 0 and 1."""
        self.owner = np.array([g for g, own in enumerate(self.members.values()) for _ in own])
        wide = rows.with_columns(
            pl.lit(None).alias(name)
            for own in self.members.values() for name in own if name not in rows.columns
            and name.rsplit(".", 1)[0] not in rows.columns
        )  # fmt: skip
        columns = []
        for name in (name for own in self.members.values() for name in own):
            if name in wide.columns:
                columns.append(wide[name].cast(pl.Float64))
            else:
                of, level = name.rsplit(".", 1)
                columns.append((wide[of].cast(pl.String) == level).cast(pl.Float64))
        return np.column_stack([one.fill_null(0.0).to_numpy() for one in columns])

    def spent(self, tree: DecisionTreeRegressor, X: Any) -> npt.NDArray[np.float64]:
        """Return what each row pays: each group on its way, once."""
        feature = tree.tree_.feature
        path = tree.decision_path(X).tocsc()
        asked = np.zeros((len(X), len(self.costs)), dtype=bool)
        for node in np.flatnonzero(feature >= 0):
            asked[path.indices[path.indptr[node] : path.indptr[node + 1]],
                  self.owner[feature[node]]] = True  # fmt: skip
        return np.asarray(asked @ self.costs)

    def net(self, rows: pl.DataFrame) -> float:
        """Return what held-out rows earn above what they pay."""
        X, money = self.matrix(rows), self.task.money(rows)
        if self.leaves == 1:
            return float(money.mean()) if self.mean > 0 else 0.0
        accepted = self.tree.predict(X) > 0
        return float((money * accepted).mean() - self.spent(self.tree, X).mean())


def nets(task: Task, price: float, seed: int) -> tuple[dict[str, float], bool]:
    """Return the money a row of each rule, and whether the rule by value warned."""
    rows = task.problem.source
    drawn = np.random.default_rng(seed).permutation(len(rows))[: 2 * ROWS]
    half = len(drawn) // 2
    fitted, others = rows[drawn[:half]], rows[drawn[half:]]
    known = task.problem.on(fitted).predictor().groups
    costs = dict(zip(known.names, (known.costs * price).tolist(), strict=True))
    problem = task.problem.replace(source=fitted, costs=costs)

    def judged(on: ds.Problem, at: pl.DataFrame) -> Any:
        return on.simulate(at, rule="value", **task.stake)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = judged(problem, others)
    promised = any(issubclass(one.category, PromiseWarning) for one in caught)
    net = dict(found.table.select("rule", "net").rows())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = judged(problem, fitted).best_fixed
        kept = {name: list(known.columns[name]) for name in best}
        only = problem.replace(groups=kept, costs={name: costs[name] for name in best})
        table = judged(only, others).table if best else found.table
    rule = "everything" if best else "nothing"
    net["set"] = dict(table.select("rule", "net").rows())[rule]
    return {**net, "tree": Tree(task, problem, others.clear().vstack(fitted)).net(others)}, promised


def main() -> None:
    """Print the table."""
    print(f"| rows | prices | {' | '.join(RULES)} | value - set | warned |")
    print("|---|" + "---|" * (len(RULES) + 3))
    for task in tasks():
        for price in task.prices:
            runs = [nets(task, price, seed) for seed in range(task.halves)]
            mean = {rule: float(np.mean([net[rule] for net, _ in runs])) for rule in RULES}
            apart = np.array([net["value"] - net["set"] for net, _ in runs])
            error = apart.std(ddof=1) / np.sqrt(task.halves)
            cells = " | ".join(f"{mean[rule]:.3g}" for rule in RULES)
            warned = sum(promised for _, promised in runs)
            print(f"| {task.name} | {price:g} | {cells} | {apart.mean():+.3g} ± {error:.2g} | "
                  f"{warned} of {task.halves} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

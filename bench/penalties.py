"""Penalties of features in boosted trees, beside the order by gain per cost, at equal cost.

    python bench/penalties.py  # ten minutes; writes its table of SCORES.md

Each strength of a penalty is a fit; of the groups that it uses, those are bought by importance that
fit into the budget; folds choose among the strengths, and the plain model judges all on rows held
out. A library that is not installed is left out, and the table says so.
"""

import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import dbselect as ds

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import scores
from reproduce.page import spread, table
from successors import write

#: Groups that our order buys; the penalties get what they cost. Strengths of each penalty.
BOUGHT, STRENGTHS = (2, 4), 13

#: Settings of a model at a strength, from the costs of columns and the target.
Penalty = Callable[[float, np.ndarray, np.ndarray], dict[str, Any]]


def coupled(share: float, costs: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """LightGBM's cost of the first use, as a share of the squares that there are to explain."""
    return {"cegb_tradeoff": share * len(y) * y.var(), "cegb_penalty_feature_coupled": list(costs)}


def first_use(share: float, costs: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """CatBoost's cost of the first use, as a share of the norm of the target."""
    strength = share * np.sqrt(len(y)) * y.std() / costs.max()
    return {"penalties_coefficient": strength, "first_feature_use_penalties": list(costs)}


def shares(power: float, costs: np.ndarray) -> list[float]:
    """Weights of features, by a power of what they cost."""
    return list((costs.min() / costs) ** power)


#: Model by library, and its penalties, with the least and the largest strength.
KINDS: dict[str, tuple[Any, dict[str, tuple[Penalty, np.ndarray]]]] = {}
try:
    from catboost import CatBoostRegressor
except ImportError:
    pass
else:
    plain = CatBoostRegressor(
        iterations=40, depth=4, learning_rate=0.1, thread_count=1, random_seed=0, verbose=False,
        allow_writing_files=False,
    )  # fmt: skip
    KINDS["CatBoost"] = (
        plain,
        {
            "first_feature_use_penalties": (first_use, np.geomspace(1e-3, 3, STRENGTHS)),
            "feature_weights": (
                lambda power, costs, _: {"feature_weights": shares(power, costs)},
                np.linspace(0, 4, STRENGTHS),
            ),
        },
    )
if type(scores.MODEL).__name__ == "LGBMRegressor":
    KINDS["LightGBM"] = (
        clone(scores.MODEL).set_params(importance_type="gain"),
        {
            "cegb_penalty_feature_coupled": (coupled, np.geomspace(1e-5, 1e-1, STRENGTHS)),
            "feature_contri": (
                lambda power, costs, _: {"feature_contri": shares(power, costs)},
                np.linspace(0, 4, STRENGTHS),
            ),
        },
    )


def affordable(data: scores.Data, importances: pd.Series, budget: float) -> list[str]:
    """Return the columns of the groups that a model uses, by importance, within a budget."""
    worth = {name: importances[columns].sum() for name, columns in data.groups.items()}
    bought, spent = [], 0.0
    for name in sorted(worth, key=lambda name: -worth[name]):
        if worth[name] > 0 and spent + data.costs[name] <= budget + 1e-9:
            bought += data.groups[name]
            spent += data.costs[name]
    return bought


def chosen(
    data: scores.Data, model: Any, penalty: Penalty, strengths: np.ndarray, budgets: list[float]
) -> list[list[str]]:
    """Return the columns of the strength that is best by folds, for each budget."""
    X, _, y, _ = scores.split(data)
    cost_of = {name: data.costs[group] for group, own in data.groups.items() for name in own}
    costs = np.array([cost_of[name] for name in X.columns])
    known: dict[frozenset[str], float] = {frozenset(): -np.inf}
    best: list[tuple[float, list[str]]] = [(-np.inf, [])] * len(budgets)
    for strength in strengths:
        fitted = clone(model).set_params(**penalty(float(strength), costs, y)).fit(X, y)
        importances = pd.Series(fitted.feature_importances_, X.columns)
        for at, budget in enumerate(budgets):
            columns = affordable(data, importances, budget)
            if (held := frozenset(columns)) not in known:
                folds = cross_val_score(model, X[columns], y, cv=scores.FOLDS, scoring="r2")
                known[held] = float(folds.mean())
            best[at] = max(best[at], (known[held], columns), key=lambda end: end[0])
    return [columns for _, columns in best]


def held_out(data: scores.Data, model: Any, columns: list[str]) -> float:
    """Return the r2 of the plain model of some columns on the rows that judge."""
    X, T, y, t = scores.split(data)
    return float(clone(model).fit(X[columns], y).score(T[columns], t)) if columns else 0.0


def rows() -> Iterator[dict[str, Any]]:
    """Yield r2 on rows held out: of our order, and of each penalty at its cost."""
    for library, (model, penalties) in KINDS.items():
        differences: dict[str, list[float]] = {name: [] for name in penalties}
        for data in scores.data_sets():
            X, _, y, _ = scores.split(data)
            score = ds.objectives.Score.of(
                model, X, y, cv=scores.FOLDS, scoring="r2", groups=data.groups, costs=data.costs,
                check=False,
            )  # fmt: skip
            seq = ds.anytime_sequence(score, max_groups=max(BOUGHT))
            budgets = [float(seq.spent[min(size, len(seq.spent) - 1)]) for size in BOUGHT]
            bought = {name: chosen(data, model, *penalty, budgets)
                      for name, penalty in penalties.items()}  # fmt: skip
            for at, budget in enumerate(budgets):
                own = held_out(data, model, seq.at(budget=budget).columns)
                row = {"model": library, "data": data.name, "cost": f"{budget:.1f}",
                       "anytime_sequence": f"{own:.4f}"}  # fmt: skip
                for name, sets in bought.items():
                    reached = held_out(data, model, sets[at])
                    differences[name].append(reached - own)
                    row["first use" if "use" in name or "coupled" in name else "weights"] = (
                        f"{reached:.4f}"
                    )
                print(row, flush=True)
                yield row
        for name, values in differences.items():
            won = np.sum(np.array(values) > 1e-9), np.sum(np.array(values) < -1e-9)
            print(f"{library}, {name}: {spread(values)} {np.median(values):+.4f} {won}", flush=True)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    if not KINDS:
        sys.exit("neither LightGBM nor CatBoost is installed")
    write(Path(__file__).with_name("SCORES.md"), "Penalties of features", table(rows()))

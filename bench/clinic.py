"""Heart disease at shared prices: searches that know set-ups, one that does not, and trees.

``python bench/clinic.py`` prints the tables of docs/jobs/clinic.md in seconds; the trees are left
out where pystreed (van der Linden et al. 2023, cost-sensitive trees with group discounts) is not
installed.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import polars as pl

import dbselect as ds

HEART = ds.io.example_problem("heart")
#: Tests made together (Turney 1995): what the first of them pays, once.
SHARED = {
    "blood": (2.10, ["cholesterol", "blood_sugar"]),
    "thallium": (101.90, ["max_heart_rate", "thallium_scan"]),
    "exercise": (86.30, ["exercise_angina", "st_depression", "st_slope"]),
}
BUDGETS = (110, 220, 320)
#: Dollars that a wrong diagnosis costs, either way.
WRONG = (50, 200, 800, 3200)
#: Thresholds of a number that trees may ask about, and their depth.
QUANTILES, DEPTH = (0.2, 0.4, 0.6, 0.8), 3


def own(names: Sequence[str]) -> dict[str, float]:
    """Return what each test costs beside the set-ups that are named."""
    paid = {test: SHARED[name][0] for name in names for test in SHARED[name][1]}
    return {test: round(price - paid.get(test, 0.0), 2) for test, price in HEART.costs.items()}


def sets() -> Iterator[tuple[str, list[float]]]:
    """Yield r2 by budget of each search."""
    for words, names in {
        "summed prices": [], "thallium scan shared": ["thallium"], "all three shared": [*SHARED]
    }.items():  # fmt: skip
        prices = {"costs": own(names), "shared": {name: SHARED[name] for name in names}}
        problem = HEART.replace(**prices)
        best = [problem.best_within(budget) for budget in BUDGETS]
        assert all(one.how.proven for one in best)
        yield f"best set, {words}", [one.r2 for one in best]
        steps = [problem.anytime_sequence(budget=budget) for budget in BUDGETS]
        yield f"order, {words}", [one.r2[-1] for one in steps]


def halves() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the patients of even and of odd number."""
    rows = np.arange(HEART.source.height) % 2 == 0
    return HEART.source.filter(rows), HEART.source.filter(~rows)


def of_sets(wrong: float, *, is_shared: bool) -> float:
    """Return the mean cost of the prefix that costs least on the patients that chose it."""
    fitted, others = halves()
    told = {"costs": own([*SHARED]), "shared": SHARED}
    problem = HEART.on(fitted)
    if is_shared:
        problem = problem.replace(**told)
    # What is paid is the shared price, whatever the search knew.
    found = problem.anytime_sequence().with_costs(told["costs"], shared=SHARED)

    def cost(step: int, patients: pl.DataFrame) -> float:
        ill = found.model(step).predict(patients) > 0.5
        return found.spent[step] + wrong * (ill != patients["disease"].to_numpy()).mean()

    step = min(range(len(found.spent)), key=lambda step: cost(step, fitted))
    return cost(step, others)


def asked(patients: pl.DataFrame, like: pl.DataFrame) -> tuple[np.ndarray, Mapping[str, int]]:
    """Return what a tree may ask, as 0 and 1, and the number of questions of each test."""
    columns, counts = [], {}
    for name in HEART.costs:
        seen, values = like[name], patients[name]
        if seen.dtype == pl.String:
            each = [values == level for level in sorted(seen.unique())]
        else:
            cuts = sorted({seen.cast(pl.Float64).quantile(q) for q in QUANTILES})
            each = [values.cast(pl.Float64) > cut for cut in cuts]
        columns += each
        counts[name] = len(each)
    return np.column_stack([one.to_numpy() for one in columns]).astype(int), counts


def of_tree(wrong: float) -> float:
    """Return the mean cost of the optimal tree, which asks each patient for other tests."""
    from pystreed import CostSpecifier, FeatureCostSpecifier, STreeDCostSensitiveClassifier

    fitted, others = halves()
    X, counts = asked(fitted, fitted)
    set_up = {test: name for name, (_, tests) in SHARED.items() for test in tests}
    alone, beside = HEART.costs, own([*SHARED])
    owners = [name for name, count in counts.items() for _ in range(count)]
    prices = [
        FeatureCostSpecifier(
            alone[name], beside[name], set_up.get(name, name), owners.index(name),
            owners.index(name) + count - 1,
        )
        for name, count in counts.items()
    ]  # fmt: skip
    costs = CostSpecifier([[0.0, wrong], [wrong, 0.0]], prices)
    solved = STreeDCostSensitiveClassifier(max_depth=DEPTH)
    tree = solved.fit(X, fitted["disease"].to_numpy().astype(int), costs).get_tree()

    def cost(row: np.ndarray, is_ill: bool) -> float:
        node, tests = tree, set()
        while node.is_branching_node():
            tests.add(owners[node.feature])
            node = node.right_child if row[node.feature] else node.left_child
        shared = {set_up[test] for test in tests if test in set_up}
        paid = sum(beside[test] for test in tests) + sum(SHARED[name][0] for name in shared)
        return paid + wrong * (node.label != is_ill)

    return float(np.mean(list(map(cost, asked(others, fitted)[0], others["disease"]))))


def main() -> None:
    """Print both tables."""
    print("| r2 | " + " | ".join(f"${budget}" for budget in BUDGETS) + " |\n|---|---|---|---|")
    for name, values in sets():
        print(f"| {name} | " + " | ".join(f"{value:.3f}" for value in values) + " |")
    rows = {
        "set, prices summed in the search": lambda wrong: of_sets(wrong, is_shared=False),
        "set, prices shared": lambda wrong: of_sets(wrong, is_shared=True),
        f"tree of depth {DEPTH} (pystreed)": of_tree,
    }
    print("\n| dollars a patient, if a wrong diagnosis costs | "
          + " | ".join(f"${wrong}" for wrong in WRONG) + " |\n|---|---|---|---|---|")  # fmt: skip
    for name, cost in rows.items():
        try:
            print(f"| {name} | " + " | ".join(f"{cost(wrong):.2f}" for wrong in WRONG) + " |")
        except ImportError as error:
            print(f"left out: {name}: {error}")


if __name__ == "__main__":
    main()

"""Timeliness and stopping costs of sequences that give groups back, against `explained_at`.

Costs are whole numbers, so that what a budget explains is summed up budget by budget.
"""

import random

import numpy as np
import polars as pl

import dbselect as ds


def case(draw: random.Random) -> None:
    rng = np.random.default_rng(draw.getrandbits(32))
    width, rows = draw.randint(2, 8), draw.randint(12, 80)
    X = rng.normal(size=(rows, width)) @ (np.eye(width) + 0.7 * rng.normal(size=(width, width)))
    y = X @ rng.normal(size=width) + rng.normal(size=rows)
    names = [f"x{j}" for j in range(width)]
    costs = {name: float(draw.randint(1, 4)) for name in names}
    frame = pl.DataFrame(X, names).with_columns(y=y)
    method = draw.choice(["backward", "foba", "floating", "step"])
    options = {
        "backward": {"max_steps": draw.randint(1, width)},
        "foba": {"nu": draw.choice([0.5, 0.9])},
        "floating": {},
        "step": {"direction": "both", "penalty": draw.choice([2.0, 6.0, 30.0]), "start": names},
    }[method]
    found = getattr(ds, method)(frame, "y", costs=costs, **options)
    whole = sum(costs.values())
    budgets = np.arange(whole + 1)
    curve = np.array([found.explained_at(budget) for budget in budgets.tolist()])
    if not curve[-1] > 0:
        return
    for fraction in (draw.random(), 1.0):
        enough = curve >= fraction * curve[-1] * (1 - 1e-9)
        cost = float(budgets[enough][0])
        told = found.stopping_cost(fraction)
        assert told == cost, f"{found}: {fraction} costs {told}; it is {cost}"
        area = curve[: int(cost)].sum() / (cost * curve[-1]) if cost else 0.0
        told = found.timeliness(fraction)
        assert abs(told - area) < 1e-9, f"{found}: timeliness {told}; it is {area}"
    row = ds.compare({"found": found}, fraction=1.0).table.row(0, named=True)
    assert abs(row["explained"] - curve[-1]) < 1e-12, f"{found}: {row} ends at {curve[-1]}"

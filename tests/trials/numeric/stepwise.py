"""Stepwise search by AIC, BIC or a price: every move against refits, down to no column at all."""

import math
import random

import numpy as np
import polars as pl
import statsmodels.api as sm

import dbselect as ds

FAMILIES = {"gaussian": None, "binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}
#: Criteria nearer to each other than this are equal: either move will do.
TIE = 1e-4


def case(draw: random.Random) -> None:
    """Search a table, and judge each move by the refits of all that could be made."""
    rng = np.random.default_rng(draw.getrandbits(64))
    rows, columns = draw.choice([30, 60]), draw.randint(1, 5)
    x = rng.normal(size=(rows, columns)) + draw.choice([0.0, 1.0])
    eta = x @ (rng.normal(size=columns) * draw.choice([0.0, 0.5]))
    family, intercept = draw.choice(list(FAMILIES)), draw.random() < 0.5
    y = {
        "gaussian": lambda: eta + rng.normal(size=rows),
        "binomial": lambda: rng.random(rows) < 1 / (1 + np.exp(-eta)),
        "poisson": lambda: rng.poisson(np.exp(np.minimum(eta, 3.0))),
    }[family]() * 1.0  # fmt: skip
    if len(set(y.tolist())) < 2:
        return
    names = [f"x{j}" for j in range(columns)]
    frame = pl.DataFrame(x, schema=names).with_columns(y=y)
    options = {"direction": draw.choice(["both", "backward", "forward"]), "family": family}
    price = draw.choice([2.0, math.log(rows), 0.5, 30.0])
    seq = ds.step(frame, "y", intercept=intercept, penalty=price, **options)

    def value(held: frozenset[str]) -> float:
        design = x[:, [names.index(name) for name in sorted(held)]]
        design = np.column_stack([np.ones(rows), design]) if intercept else design
        left = _deviance(design, y, FAMILIES[family])
        loss = rows * math.log(left / rows) if family == "gaussian" else left
        return loss + price * design.shape[1]

    steps = seq.steps[1:]
    held: frozenset[str] = frozenset()
    start = names if options["direction"] == "backward" and len(steps) else []
    for name in start:
        held |= {name}
    moves = list(steps.select("action", "group").rows())[len(start) :]
    for action, name in [*moves, (None, None)]:
        trials = (
            {("remove", one): held - {one} for one in held}
            if options["direction"] != "forward"
            else {}
        )
        if options["direction"] != "backward":
            trials |= {("add", one): held | {one} for one in names if one not in held}
        values = {move: value(trial) for move, trial in trials.items()} | {
            (None, None): value(held)
        }
        if not len(steps) and options["direction"] == "backward":
            values = {(None, None): value(held)}
        best = min(values, key=values.__getitem__)
        assert values[action, name] < values[best] + TIE, (
            f"{family}, {options}, intercept {intercept}: {action} {name} of {sorted(held)}, "
            f"criterion {values[action, name]:g}, where {best} has {values[best]:g}"
        )
        held = trials.get((action, name), held)


def _deviance(design: np.ndarray, y: np.ndarray, family: object) -> float:
    if family is None:
        coef, *_ = np.linalg.lstsq(design, y)
        return float(((y - design @ coef) ** 2).sum())
    if not design.shape[1]:
        return float(family.deviance(y, family.link.inverse(np.zeros(len(y)))))
    return float(sm.GLM(y, design, family).fit(tol=1e-12).deviance)

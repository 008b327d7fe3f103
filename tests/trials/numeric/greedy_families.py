"""Rule fr with a family: every step of a search by passes against refits of all candidates."""

import random

import numpy as np
from glm_tables import EVERYWHERE, drawn_table, minimum

import dbselect as ds

#: Share of the null deviance by which a step may fall short of the best one.
SHORT = 1e-5
STEPS = 3


def case(draw: random.Random) -> None:
    """Search a table, and fit every candidate of every step from where the step began."""
    table = drawn_table(draw, draw.choice(EVERYWHERE), columns=draw.randint(4, 8), plain=True)
    options = {"rule": "fr", "max_groups": STEPS, **table.options}
    groups = {name: [name] for name in table.columns}
    found = ds.anytime_sequence(table.frame, "y", groups, **options)
    model = table.model([])
    before, _, _ = minimum(model, np.zeros(model.exog.shape[1]))
    held: list[str] = []
    for taken, deviance in found.steps.select("group", "deviance")[1:].rows():
        reached = {}
        for name in set(table.columns).difference(held):
            reached[name] = minimum(table.model([*held, name]), np.append(before, 0.0))
        best = min(reached, key=lambda name: reached[name][1])
        short = (deviance - reached[best][1]) / found.deviance[0]
        assert short < SHORT, (
            f"{table.family}: step {len(held) + 1} takes {taken} and leaves {deviance:g}, where "
            f"{best} leaves {reached[best][1]:g}, of {found.deviance[0]:g}"
        )
        before = reached[taken][0]
        held.append(taken)

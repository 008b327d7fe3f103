"""Lazy and stochastic evaluation of a score: fewer questions a greedy step.

    draw the groups of the step at random, or take all
    ask those whose last gain is the best, until the best new gain is above every last one

The last gain of a group bounds the next one where gains fall as groups are added (submodularity);
where they rise, a group that others make useful is found late.

Source: Minoux (1978); Mirzasoleiman, Badanidiyuru, Karbasi, Vondrak, Krause (2015), who draw
``J / k log(1 / epsilon)`` groups.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from dbselect.record.gram import Vector

#: Groups of a batch, where an executor does not say how many it asks side by side.
BATCH = 16


class Asked(Protocol):
    """What lazy evaluation needs of a score."""

    held: list[int]

    @property
    def value(self) -> float:
        """Score of the selected groups."""

    def ask(self, sets: Iterable[Sequence[int]]) -> None:
        """Evaluate several sets in one batch."""

    def value_of(self, held: Iterable[int]) -> float:
        """Score of some groups."""


@dataclass(eq=False)
class Lazily:
    """The groups that a step asks about, of one search."""

    costs: Vector  # gains are compared per unit of cost
    lazy: bool  # whether groups wait until their last gain may win
    sample: int | None  # groups drawn at each step; None for all
    batch: int  # groups that are asked side by side
    rng: np.random.Generator
    last: dict[int, float] = field(default_factory=dict)  # worth of each group when last asked

    @classmethod
    def of(cls, options: Mapping[str, Any], costs: Vector, seed: int) -> "Lazily | None":
        """Return the evaluation that the options of a search ask for; None for all groups."""
        lazy, sample, executor = (options.get(name) for name in ("lazy", "sample", "executor"))
        if not lazy and sample is None:
            return None
        batch = 1 if executor is None else getattr(executor, "_max_workers", BATCH)
        return cls(costs, bool(lazy), sample, batch, np.random.default_rng(seed))

    def __call__(self, score: Asked, among: list[int]) -> list[int]:
        """Return the groups of `among` whose gains are known after the step."""
        if self.sample is not None and self.sample < len(among):
            among = sorted(self.rng.choice(among, self.sample, replace=False).tolist())
        if not self.lazy:
            return among
        waiting = sorted(among, key=lambda group: -self.last.get(group, np.inf))
        asked: list[int] = []
        best = -np.inf
        while waiting and self.last.get(waiting[0], np.inf) >= best:
            size = max(self.batch, sum(group not in self.last for group in waiting))
            batch, waiting = waiting[:size], waiting[size:]
            score.ask([score.held, *([*score.held, group] for group in batch)])
            for group in batch:
                self.last[group] = self._worth(score, group)
            best = max(best, *(self.last[group] for group in batch))
            asked += batch
        return asked

    def _worth(self, score: Asked, group: int) -> float:
        """Return the gain per cost; a loss counts more for a dearer group."""
        gain, cost = score.value_of([*score.held, group]) - score.value, float(self.costs[group])
        return gain * cost if gain < 0 else gain / cost

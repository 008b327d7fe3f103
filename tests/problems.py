"""Random problems, and what dbselect makes of them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from reference import Table

import dbselect as ds
from dbselect.methods.anytime import sequence_in_passes
from dbselect.options.names import PROBLEM_FIELDS

EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class Problem:
    table: Table
    groups: dict[str, list[int]]
    costs: dict[str, float]

    @property
    def names(self) -> dict[str, list[str]]:
        return {group: [f"x{j}" for j in columns] for group, columns in self.groups.items()}

    @cached_property
    def gram(self) -> ds.Gram:
        return ds.gram(self.table.frame, weight="w")

    def sequence(self, **options: Any) -> ds.results.Sequence:
        """Return the sequence from the rows to the result."""
        table = self.table
        given = {"costs": self.costs, "ridge": table.ridge, "scale": table.scale} | options
        return ds.anytime_sequence(self.gram, "y", self.names, **given)

    def with_table(self, **changes: Any) -> "Problem":
        return replace(self, table=replace(self.table, **changes))


def random_problem(
    rng: np.random.Generator,
    sizes: tuple[int, ...] = (1, 3, 2, 1, 2, 4),
    rows: int = 40,
    *,
    weighted: bool = False,
    **asked: Any,
) -> Problem:
    """Return correlated columns of unequal units in groups of unequal size and cost."""
    width = sum(sizes)
    Z = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, width)) + rng.normal(size=(rows, width))
    y = Z @ (rng.normal(size=width) * rng.integers(0, 2, width)) + rng.normal(size=rows)
    X = Z * 10.0 ** rng.uniform(-2, 2, width) + rng.normal(size=width)
    row_weight = rng.uniform(0.5, 3, rows) if weighted else None
    members = np.split(rng.permutation(width), np.cumsum(sizes)[:-1])
    costs = rng.integers(1, 9, len(sizes)) / 2
    return Problem(
        Table(X, y + 3, row_weight, **asked),
        {f"g{number}": columns.tolist() for number, columns in enumerate(members)},
        {f"g{number}": float(cost) for number, cost in enumerate(costs)},
    )


def rounding(table: Table) -> float:
    """Bound on relative errors: sums of n and D terms, times the condition of C.

    Scaling columns does not change the errors of a Cholesky factor, so the condition
    is that of C with a unit diagonal, on the directions above the cut-off for rank.
    """
    rows, width = table.X.shape
    C = table.A.T @ table.A + np.diag(table.penalty**2)
    deviation = np.sqrt(np.where(np.diagonal(C) > 0, np.diagonal(C), 1.0))
    values = np.linalg.eigvalsh(C / np.outer(deviation, deviation))
    kept = values[values > 1e-10 * values[-1]]
    return (rows + width**2) * EPS * kept[-1] / kept[0]


def in_passes(
    source: Any,
    target: str,
    groups: Any = None,
    costs: Any = None,
    *,
    family: str = "binomial",
    **options: Any,
) -> ds.results.GlmSequence:
    """Search by passes, for family gaussian too, which `anytime_sequence` takes from a Gram."""
    fields = {name: options.pop(name) for name in list(options) if name in PROBLEM_FIELDS}
    problem = ds.Problem(source, target, groups, costs, family=family, **fields)
    return sequence_in_passes(problem, **options)

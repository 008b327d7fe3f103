"""The result of a search: an ordered choice of groups and the model of every prefix."""

import numbers
from collections.abc import Sequence as Ordered
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.gram import Matrix, Vector
from dbselect.groups import Groups
from dbselect.objectives.linear import Linear

#: A gain below this share of the target's variance is rounding, not explanation.
ROUNDING_GAIN = 1e-14
#: Slack for sums of costs, so that three costs of 0.1 fit a budget of 0.3.
BUDGET_SLACK = 1e-12


class Stop(Enum):
    """Why a sequence ended."""

    EXHAUSTED = "every group is in the sequence"
    BUDGET = "no other group fits the budget"
    STEPS = "max_groups was reached"


@dataclass(frozen=True)
class Step:
    """One group added (or removed), as the search saw it.

    Parameters
    ----------
    action : ``"add"`` or ``"remove"``
    group : number of the group
    score : what the rule maximised
    gain : change of `explained`
    explained : share of the target's variance explained after the step
    """

    action: str
    group: int
    score: float
    gain: float
    explained: float


@dataclass(frozen=True)
class Model:
    """A linear model on the groups of one prefix.

    Parameters
    ----------
    target : the column that is predicted
    intercept : in the target's unit
    coefficients : column -> coefficient, in the table's units; aliased columns have 0
    groups : groups held, in the order taken
    spent : summed cost of these groups
    explained : share of the target's variance explained by the penalised objective
    r2 : 1 - RSS/TSS on the rows of the Gram; equals `explained` at ridge 0
    aliased : columns that depend linearly on columns before them
    """

    target: str
    intercept: float
    coefficients: dict[str, float]
    groups: list[str]
    spent: float
    explained: float
    r2: float
    aliased: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """The columns of the groups held."""
        return list(self.coefficients)


@dataclass(frozen=True, eq=False)
class Sequence:
    """Groups in the order in which they buy prediction, with a model for each prefix.

    Step 0 is the model without features; its intercept is the target's mean.

    Parameters
    ----------
    target : the column that is predicted
    groups : Groups, their columns and costs
    columns : D feature columns, in the order of `coef`
    records : the steps 1, 2, ...
    spent : shape (steps + 1,), summed cost of the groups held
    explained, r2, intercept : shape (steps + 1,)
    coef : shape (steps + 1, D), in the table's units
    aliased : columns that depend linearly on columns before them
    stop : why the search ended
    condition : estimated condition number of the selected columns' correlations

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> seq = ds.anytime_sequence(table, "y")
    >>> seq.steps["group"].to_list(), seq.steps["r2"].round(3).to_list()
    ([None, 'a', 'b'], [0.0, 0.952, 1.0])
    >>> model = seq.at(budget=1.5)
    >>> model.groups, model.spent, round(model.coefficients["a"], 3), round(model.intercept, 3)
    (['a'], 1.0, 2.0, 0.5)
    """

    target: str
    groups: Groups
    columns: list[str]
    records: list[Step]
    spent: Vector
    explained: Vector
    r2: Vector
    intercept: Vector
    coef: Matrix
    aliased: tuple[str, ...]
    stop: Stop
    condition: float

    def __repr__(self) -> str:
        order = ", ".join(
            ("" if step.action == "add" else "-") + self.groups.names[step.group]
            for step in self.records
        )
        return (
            f"Sequence({self.target} ~ {order or 'nothing'}; r2 {self.r2[-1]:.4f}, "
            f"spent {self.spent[-1]:g}; {self.stop.value})"
        )

    @property
    def unused(self) -> tuple[str, ...]:
        """Columns that lie in no group."""
        return self.groups.unused

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row a step: step, action, group, cost, spent, score, gain, explained, r2, useful."""
        names = self.groups.names
        return pl.DataFrame(
            {
                "step": np.arange(len(self.spent)),
                "action": ["start"] + [step.action for step in self.records],
                "group": [None] + [names[step.group] for step in self.records],
                "cost": [0.0] + [float(self.groups.costs[step.group]) for step in self.records],
                "spent": self.spent,
                "score": [None] + [step.score for step in self.records],
                "gain": [0.0] + [step.gain for step in self.records],
                "explained": self.explained,
                "r2": self.r2,
                "useful": self.useful,
            },
            schema=STEP_DTYPES,
        )

    @property
    def useful(self) -> npt.NDArray[np.bool_]:
        """Whether each step changed what is explained; shape (steps + 1,)."""
        gains = np.array([np.inf] + [abs(step.gain) for step in self.records])
        return np.asarray(gains > ROUNDING_GAIN)

    @cached_property
    def positions(self) -> list[npt.NDArray[np.intp]]:
        """Where the columns of each group stand in `columns`."""
        numbers = {name: i for i, name in enumerate(self.columns)}
        members = self.groups.columns.values()
        return [np.array([numbers[name] for name in names], dtype=np.intp) for names in members]

    def held(self, step: int) -> list[int]:
        """Return the numbers of the groups held after a step, in the order taken."""
        held: dict[int, None] = {}
        for record in self.records[:step]:
            if record.action == "add":
                held[record.group] = None
            else:
                del held[record.group]
        return list(held)

    def at(self, budget: float | None = None) -> Model:
        """Return the model of the longest prefix within a budget.

        Parameters
        ----------
        budget : >= 0, in the unit of cost; None = no limit

        Raises
        ------
        ArgumentError : `budget` is negative or not a number
        """
        check_budget(budget)
        step = max(k for k, spent in enumerate(self.spent) if fits(spent, budget))
        held = self.held(step)
        at = [int(j) for group in held for j in self.positions[group]]
        coefficients = {self.columns[j]: float(self.coef[step, j]) for j in at}
        return Model(
            target=self.target,
            intercept=float(self.intercept[step]),
            coefficients=coefficients,
            groups=[self.groups.names[group] for group in held],
            spent=float(self.spent[step]),
            explained=float(self.explained[step]),
            r2=float(self.r2[step]),
            aliased=tuple(name for name in self.aliased if name in coefficients),
        )


STEP_DTYPES = {
    "step": pl.Int64,
    "action": pl.String,
    "group": pl.String,
    "cost": pl.Float64,
    "spent": pl.Float64,
    "score": pl.Float64,
    "gain": pl.Float64,
    "explained": pl.Float64,
    "r2": pl.Float64,
    "useful": pl.Boolean,
}


def build(
    problem: Linear,
    *,
    target: str,
    groups: Groups,
    columns: list[str],
    records: list[Step],
    coef: Matrix,
    aliased: Ordered[int],
    stop: Stop,
    condition: float,
) -> Sequence:
    """Return the sequence of some steps, in the table's units.

    With ``w`` on unit-variance columns, RSS/TSS = 1 - z'z - w' diag(ridge) w.

    Parameters
    ----------
    columns : D names, in the order of the problem
    coef : shape (steps + 1, D), w of every prefix on unit-variance columns
    aliased : column numbers
    """
    cost = [groups.costs[step.group] * (1 if step.action == "add" else -1) for step in records]
    explained = np.array([0.0] + [step.explained for step in records])
    own = coef * (problem.target_spread / problem.spread)
    return Sequence(
        target=target,
        groups=groups,
        columns=columns,
        records=records,
        spent=np.concatenate([[0.0], np.cumsum(cost)]),
        explained=explained,
        r2=explained + coef**2 @ problem.ridge,
        intercept=problem.target_mean - own @ problem.mean,
        coef=own,
        aliased=tuple(columns[j] for j in aliased),
        stop=stop,
        condition=condition,
    )


def check_budget(budget: float | None) -> None:
    """Refuse a budget that is not a number >= 0."""
    if budget is not None and not (isinstance(budget, numbers.Real) and budget >= 0):
        raise ArgumentError(f"budget is {budget!r}; it must be a number >= 0, or None for no limit")


def fits(spent: float, budget: float | None) -> bool:
    """Whether a cost lies within a budget, up to the rounding of a sum of costs."""
    return budget is None or bool(spent <= budget * (1.0 + BUDGET_SLACK))

"""What a search writes down: the groups it took or gave back, and why it ended."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbselect.errors import ArgumentError
from dbselect.record.gram import Vector, dtype_of
from dbselect.record.groups import Groups

#: A gain below this share of the target's variance is rounding, not explanation.
ROUNDING_GAIN = 1e-14
#: Slack for sums of costs, so that three costs of 0.1 fit a budget of 0.3.
BUDGET_SLACK = 1e-12


class Stop(Enum):
    """Why a sequence ended; a model that fits any target is the end, whatever else was left."""

    EXHAUSTED = "every group is in the sequence"
    BUDGET = "no other group fits the budget"
    MAX_GROUPS = "max_groups was reached"
    MAX_STEPS = "max_steps was reached"
    THRESHOLD = "no other group gains enough"
    PATH = "no other group enters the path"
    EMPTY = "no group is left to remove"
    INTERRUPTED = "the search was interrupted"
    NOISE = "no other group gains more than its standard error"
    QUERIES = "max_queries was reached"
    TIME = "time_limit was reached"
    FAILED = "a query failed"
    SATURATED = "it has as many coefficients as rows, which fit any target"


class Ended(Exception):  # noqa: N818 - no error: the steps made so far stand
    """Ends a search from within a question to its objective."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.value)
        self.stop = stop


class Choice(Enum):
    """Among which groups a step chose."""

    FREE = "all that were left"
    LIMITED = "those within the budget, or the cost limit of the rule"
    CHEAPEST = "the cheapest, as none was within the cost limit of the rule"
    FORCED = "the one named by the caller"


@dataclass(frozen=True)
class Step:
    """One group added (or removed), as the search saw it."""

    action: str  # ``"add"`` or ``"remove"``
    group: int  # number of the group
    score: float  # what the rule maximised
    gain: float  # change of `explained`
    explained: float  # share of the target's variance explained after the step
    choice: Choice = Choice.FREE  # among which groups it was chosen


Found = TypeVar("Found")
#: Takes every step of a search, as soon as it is made.
Record = Callable[[Step], None]

#: A step with its model, in Arrow: the form of a sequence in SQL, Polars and files. The first
#: step has the terms of all, as JSON: how the columns of the table became those of the models.
STEP_TYPE = pa.struct(
    [
        ("step", pa.int64()),
        ("action", pa.string()),
        ("group", pa.string()),
        ("cost", pa.float64()),
        ("spent", pa.float64()),
        ("score", pa.float64()),
        ("gain", pa.float64()),
        ("explained", pa.float64()),
        ("r2", pa.float64()),
        ("useful", pa.bool_()),
        ("intercept", pa.float64()),
        ("coefficients", pa.map_(pa.string(), pa.float64())),
        ("terms", pa.string()),
    ]
)
#: What a step has of its model.
MODEL_FIELDS = ("intercept", "coefficients", "terms")

#: A step without its model, in Polars.
STEP_DTYPES = {
    field.name: dtype_of(field.type) for field in STEP_TYPE if field.name not in MODEL_FIELDS
}
#: A sequence, a list of steps with their models, in Polars.
SEQUENCE_DTYPE = dtype_of(pa.list_(STEP_TYPE))


def uninterrupted(found: Found) -> Found:
    """Return a sequence, or raise the interrupt (Ctrl-C) that ended its search early."""
    if getattr(found, "stop", None) is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return found


def held_after(steps: Iterable[Step]) -> list[int]:
    """Return the numbers of the groups held after some steps, in the order taken."""
    held: dict[int, None] = {}
    for step in steps:
        if step.action == "add":
            held[step.group] = None
        else:
            del held[step.group]
    return list(held)


def spent_after(steps: Sequence[Step], groups: Groups) -> Vector:
    """Return the summed cost of the groups held after each step, that of none first."""
    if groups.brings:  # a search among these gives nothing back
        held = [step.group for step in steps]
        return np.array([groups.spent(held[:at]) for at in range(len(held) + 1)])
    change = np.zeros((1 + len(steps), len(groups.costs)))
    for row, step in zip(change[1:], steps, strict=True):
        row[step.group] = 1.0 if step.action == "add" else -1.0
    if (change >= 0).all():
        return np.cumsum(change @ groups.costs)
    # Differences of sums would leave rounding where nothing is held.
    return np.asarray(np.cumsum(change, axis=0) @ groups.costs)


def fits(spent: float, budget: float | None) -> bool:
    """Whether a cost lies within a budget, up to the rounding of a sum of costs."""
    return budget is None or bool(spent <= budget * (1.0 + BUDGET_SLACK))


def within(spent: Vector, limit: float | None) -> npt.NDArray[np.bool_]:
    """Return which of some costs lie within a limit, as `fits`; shape (J,)."""
    if limit is None:
        return np.ones(len(spent), dtype=bool)
    return np.asarray(spent <= limit * (1.0 + BUDGET_SLACK))


def is_useful(gain: float) -> bool:
    """Whether a change of what is explained is above rounding."""
    return bool(np.abs(gain) > ROUNDING_GAIN)


def name_of(step: Step, groups: Groups) -> str:
    """Return the group of a step, with a minus if it was given back."""
    return ("" if step.action == "add" else "-") + groups.names[step.group]


def longest_within(spent: Vector, budget: float | None) -> int:
    """Return the longest prefix within a budget; where all is given back, after all is held."""
    steps = np.flatnonzero(within(spent, budget))
    return int(steps[-1] if spent[-1] > 0 else steps[steps >= spent.argmax()][0])


def serving_order(spent: Vector) -> list[int]:
    """Return the steps as they are tried for a row: longest first, else from all groups on."""
    if len(spent) > 1 and spent[-1] <= 0:
        return list(range(int(spent.argmax()), len(spent)))
    return list(range(len(spent) - 1, -1, -1))


def next_group(step: int, spent: Vector, groups: Sequence[str | None]) -> str | None:
    """Return the group to compute after a prefix: added next, or else last given back."""
    grows = np.concatenate([[False], np.diff(spent) > 0])
    order = serving_order(spent)
    if step > 0 and not grows[step] and len(order) > 1 and order[0] < order[1]:
        return groups[step]
    later = np.flatnonzero(grows[step + 1 :])
    return groups[step + 1 + int(later[0])] if later.size else None


def best_of_size(
    steps: Sequence[Step], spent: Vector, explained: Vector, budget: float | None, size: int
) -> int:
    """Return the step of `size` groups within a budget that explains most; else ArgumentError."""
    sizes = np.cumsum([0, *(1 if step.action == "add" else -1 for step in steps)])
    within = [step for step, cost in enumerate(spent) if fits(cost, budget)]
    found = [step for step in within if sizes[step] == size]
    if not found:
        there = sorted({int(sizes[step]) for step in within})
        raise ArgumentError(f"size is {size!r}; there are models with {there} groups")
    return max(found, key=lambda step: explained[step])

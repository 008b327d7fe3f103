"""Steps of a search: groups added or removed, and why it stopped."""

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
from dbselect.record.prices import BUDGET_SLACK

#: A gain below this share of the target's variance is rounding error.
ROUNDING_GAIN = 1e-14


class Stop(Enum):
    """Why a sequence ended; `SATURATED` takes precedence over the other reasons."""

    EXHAUSTED = "every group that may be bought is in the sequence"
    BUDGET = "no other group fits the budget, or a limit"
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
    """Ends a search from within an evaluation of its objective."""

    def __init__(self, stop: Stop) -> None:
        super().__init__(stop.value)
        self.stop = stop


class Choice(Enum):
    """The candidates among which a step chose."""

    FREE = "all that were left"
    LIMITED = "those within the budget, or the cost limit of the rule"
    CHEAPEST = "the cheapest, as none was within the cost limit of the rule"
    FORCED = "the one named by the caller"


@dataclass(frozen=True)
class Step:
    """One group added or removed, with its score and gain."""

    action: str  # ``"add"`` or ``"remove"``
    group: int  # number of the group
    score: float  # what the rule maximised
    gain: float  # change of `explained`
    explained: float  # share of the target's variance explained after the step
    choice: Choice = Choice.FREE  # the candidates


Result = TypeVar("Result")
#: Callback for each step of a search, as soon as it is made.
Record = Callable[[Step], None]

#: A step with its model, in Arrow: the form of a sequence in SQL, Polars and files. The first
#: step holds the terms of the whole sequence, as JSON.
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
#: Fields of a step that describe its model.
MODEL_FIELDS = ("intercept", "coefficients", "terms")

#: A step without its model, in Polars.
STEP_DTYPES = {
    field.name: dtype_of(field.type) for field in STEP_TYPE if field.name not in MODEL_FIELDS
}
#: A sequence, a list of steps with their models, in Polars.
SEQUENCE_DTYPE = dtype_of(pa.list_(STEP_TYPE))


def uninterrupted(sequence: Result) -> Result:
    """Return a sequence; raise KeyboardInterrupt if Ctrl-C ended its search early."""
    if getattr(sequence, "stop", None) is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return sequence


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
    """Return the total cost of the groups held after each step; entry 0 is before any step."""
    if not groups.prices.are_sums:
        held = [held_after(steps[:at]) for at in range(len(steps) + 1)]
        return np.array([groups.spent(groups_held) for groups_held in held])
    change = np.zeros((1 + len(steps), len(groups.costs)))
    for row, step in zip(change[1:], steps, strict=True):
        row[step.group] = 1.0 if step.action == "add" else -1.0
    if (change >= 0).all():
        return np.cumsum(change @ groups.costs)
    # Differences of sums would leave rounding error where no group is held.
    return np.asarray(np.cumsum(change, axis=0) @ groups.costs)


def paid_by(steps: Sequence[Step], groups: Groups) -> list[float]:
    """Return what each step paid or gave back; entry 0 is before any step."""
    if groups.prices.are_sums:
        return [0.0, *(float(groups.costs[step.group]) for step in steps)]
    held = [held_after(steps[:at]) for at in range(len(steps) + 1)]
    pairs = zip(steps, held, held[1:], strict=False)
    own = [
        groups.prices.own(step.group, before if step.action == "add" else after)
        for step, before, after in pairs
    ]
    return [0.0, *own]


def fits(spent: float, budget: float | None) -> bool:
    """Whether a cost lies within a budget, up to the rounding of a sum of costs."""
    return budget is None or bool(spent <= budget * (1.0 + BUDGET_SLACK))


def within(spent: Vector, limit: float | None) -> npt.NDArray[np.bool_]:
    """Return which costs lie within a limit, as `fits`; shape (J,)."""
    if limit is None:
        return np.ones(len(spent), dtype=bool)
    return np.asarray(spent <= limit * (1.0 + BUDGET_SLACK))


def is_useful(gain: float) -> bool:
    """Whether a gain is above rounding error."""
    return bool(np.abs(gain) > ROUNDING_GAIN)


def name_of(step: Step, groups: Groups) -> str:
    """Return the group of a step, with a minus if it was removed."""
    return ("" if step.action == "add" else "-") + groups.names[step.group]


def longest_within(spent: Vector, budget: float | None) -> int:
    """Return the longest prefix within a budget; if all groups are removed, after the maximum."""
    steps = np.flatnonzero(within(spent, budget))
    return int(steps[-1] if spent[-1] > 0 else steps[steps >= spent.argmax()][0])


def serving_order(spent: Vector) -> list[int]:
    """Return the steps in the order to try for a row: from the largest model to the smallest."""
    if len(spent) > 1 and spent[-1] <= 0:
        return list(range(int(spent.argmax()), len(spent)))
    return list(range(len(spent) - 1, -1, -1))


def next_group(step: int, spent: Vector, groups: Sequence[str | None]) -> str | None:
    """Return the group to compute after a prefix: the next added, or the last removed."""
    grows = np.concatenate([[False], np.diff(spent) > 0])
    order = serving_order(spent)
    if step > 0 and not grows[step] and len(order) > 1 and order[0] < order[1]:
        return groups[step]
    later = np.flatnonzero(grows[step + 1 :])
    return groups[step + 1 + int(later[0])] if later.size else None


def best_of_size(
    steps: Sequence[Step], spent: Vector, explained: Vector, budget: float | None, size: int
) -> int:
    """Return the best step with `size` groups within a budget; ArgumentError if none."""
    sizes = np.cumsum([0, *(1 if step.action == "add" else -1 for step in steps)])
    within = [step for step, cost in enumerate(spent) if fits(cost, budget)]
    matching = [step for step in within if sizes[step] == size]
    if not matching:
        available = sorted({int(sizes[step]) for step in within})
        raise ArgumentError(f"size is {size!r}; there are models with {available} groups")
    return max(matching, key=lambda step: explained[step])

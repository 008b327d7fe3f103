"""What is at stake in a row: which predictions are accepted, and what that earns."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError, shown
from dbselect.options.kinds import FINITE, PAYOFF, STAKE
from dbselect.record.gram import Vector


def stake_of(
    accept_above: float | None, worth: float | None, payoff: tuple[float, float] | None
) -> dict[str, Any]:
    """Check what is at stake in a row; return what is given of it."""
    FINITE.or_none().check("accept_above", accept_above)
    STAKE.or_none().check("worth", worth)
    PAYOFF.or_none().check("payoff", payoff)
    given = {"accept_above": accept_above, "worth": worth}
    given = {name: float(value) for name, value in given.items() if value is not None}
    if payoff is None:
        return given
    if given:
        raise ArgumentError(
            f"payoff is {shown(payoff)}, beside {next(iter(given))}; give one or the other"
        )
    return {"payoff": tuple(float(amount) for amount in payoff)}


@dataclass(frozen=True)
class Stake:
    """Rows are accepted if ``worth (prediction - above)`` > 0, and earn that of the target."""

    worth: float
    above: float

    @classmethod
    def of(
        cls,
        accept_above: float = 0.0,
        worth: float = 1.0,
        payoff: tuple[float, float] | None = None,
    ) -> "Stake":
        """Return the stake of the arguments, a loss with or without its sign."""
        if payoff is None:
            return cls(worth, accept_above)
        gain, loss = payoff
        loss = math.copysign(loss, 1.0 if gain < 0 else -1.0)
        return cls(gain - loss, -loss / (gain - loss))

    def of_rows(self, values: Any) -> Any:
        """Return what predictions promise, or what targets earn."""
        return self.worth * (values - self.above)

    def earned(self, prediction: Vector, target: Vector) -> Vector:
        """Return what rows earn if those are accepted of which more than 0 is predicted."""
        return np.where(self.of_rows(prediction) > 0, self.of_rows(target), 0.0)

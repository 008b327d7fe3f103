"""A measurement beside its base, and its line on a page."""

import math
from dataclasses import dataclass

HEADER = "| what | ratio | measured | base | to reach | note |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class Row:
    """A measurement and its base, of one run and in one unit.

    Parameters
    ----------
    what : what is measured
    value : seconds, or megabytes by `unit`; None if it was skipped, and `note` says why
    base, of : what `value` is divided by, and its name
    most : greatest ratio that is good enough
    limit : greatest value that is good enough
    """

    what: str
    value: float | None
    base: float | None = None
    of: str = ""
    unit: str = "s"
    most: float | None = None
    limit: float | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return None if self.value is None or self.base is None else self.value / self.base

    def line(self) -> str:
        """Return the row of a table in Markdown."""
        base = "" if self.base is None else f"{quantity(self.base, self.unit)}, {self.of}"
        cells = (
            self.what,
            "" if self.ratio is None else f"{digits(self.ratio)}x",
            "" if self.value is None else quantity(self.value, self.unit),
            base,
            self._to_reach(),
            self.note,
        )
        return f"| {' | '.join(cells)} |"

    def _to_reach(self) -> str:
        bars = []
        if self.most is not None:
            bars.append((self.ratio, self.most, f"<= {self.most:g}x"))
        if self.limit is not None:
            bars.append((self.value, self.limit, f"<= {self.limit:g} {self.unit}"))
        return ", ".join(
            f"{bar}: missed" if reached is not None and reached > most else bar
            for reached, most, bar in bars
        )


def skipped(what: str, reason: str) -> Row:
    """Return the row of a measurement that this machine cannot make."""
    return Row(what, None, note=f"skipped: {reason}")


def digits(number: float) -> str:
    """Write a number with three digits, more before the point."""
    places = 2 - math.floor(math.log10(abs(number))) if number else 0
    return f"{number:,.{max(0, places)}f}"


def quantity(number: float, unit: str) -> str:
    """Write a number and its unit, of less than 0.1 s as milliseconds."""
    if unit == "s" and 0 < number < 0.1:
        return f"{digits(1e3 * number)} ms"
    return f"{digits(number)} {unit}"

"""Terms of a predictor with coefficient 1: an offset, and the logarithm of an exposure."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from dbselect.record.bases import Log
from dbselect.record.formulas import Formula, choose, log, nothing, total
from dbselect.record.terms import Terms


@dataclass(frozen=True)
class Offset:
    """Columns that are added to a predictor with coefficient 1."""

    offset: str | None = None  # added as it is
    exposure: str | None = None  # of which the logarithm is added, > 0

    @property
    def named(self) -> dict[str, str]:
        """Each column and the option that names it."""
        both = {"offset": self.offset, "exposure": self.exposure}
        return {name: option for option, name in both.items() if name is not None}

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.named)

    @property
    def coefficients(self) -> dict[str, float]:
        """Coefficients of the columns that a prediction reads."""
        of_exposure = [] if self.exposure is None else Log(self.exposure).names
        return dict.fromkeys([*(n for n in self.names if n == self.offset), *of_exposure], 1.0)

    def with_log(self, terms: Terms) -> Terms:
        """Return terms with the logarithm of the exposure added."""
        if self.exposure is None:
            return terms
        return replace(terms, bases=(*terms.bases, Log(self.exposure)))

    def without_log(self, terms: Terms) -> Terms:
        """Return terms without the logarithm of the exposure."""
        return replace(
            terms,
            bases=tuple(
                basis
                for basis in terms.bases
                if not (isinstance(basis, Log) and basis.column == self.exposure)
            ),
        )

    def formula(
        self, column: Callable[[str, str], Formula], *, is_checked: bool = True
    ) -> Formula | None:
        """Return the sum of the terms, or None; an unchecked exposure that is not > 0 adds 0."""
        parts = []
        if self.offset is not None:
            parts.append(column(self.offset, "offset"))
        if self.exposure is not None:
            x = column(self.exposure, "exposure")
            parts.append(choose(x, log(choose(x, x, 1.0)), nothing() if is_checked else x * 0.0))
        return total(parts) if parts else None

"""What models and sequences of a family have in common: the problem, the rows, the passes."""

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.glm.named import family_of, kind_of_family
from dbselect.glm.offset import Offset
from dbselect.linear import information
from dbselect.record.gram import Vector
from dbselect.record.terms import Terms
from dbselect.results.call import Answer, Call


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OfFamily(Answer):
    """A result of a family: one target, and what is added to its predictor."""

    family: str
    classes: tuple[Any, ...]
    levels: tuple[Any, ...] = ()
    rows: int
    skipped: int
    rows_searched: int | None = None
    rows_read: int
    bytes_read: int
    terms: Terms = field(default_factory=Terms)
    call: Call

    @property
    def _common(self) -> dict[str, Any]:
        """These fields, for another result of the same rows."""
        return {one.name: getattr(self, one.name) for one in fields(OfFamily)}

    @property
    def _has_likelihood(self) -> bool:
        """Whether the deviance determines the likelihood."""
        is_gaussian = kind_of_family(self.family) == "gaussian"
        return is_gaussian or not family_of(self.family, self.classes).has_dispersion

    def _loss(self, rows: int, deviance: Vector, null_deviance: float) -> Vector:
        """Return -2 log-likelihood of models on the same rows, up to what these all share."""
        if kind_of_family(self.family) == "gaussian":
            left = np.maximum(deviance / null_deviance, information.SMALLEST_SHARE)
            return information.gaussian_loss(rows, left * null_deviance)
        if not self._has_likelihood:
            raise ArgumentError(
                f"family is {self.family!r}; there is no likelihood to compare, because the "
                "deviance does not determine the dispersion: choose by held-out rows, with "
                "cross_validate"
            )
        return deviance

    @property
    def target(self) -> str:
        """The column that is predicted."""
        return self.problem.targets[0]

    @property
    def offset(self) -> str | None:
        """Column that is added to the predictor."""
        return self.problem.offset

    @property
    def exposure(self) -> str | None:
        """Column whose logarithm is added to the predictor."""
        return self.problem.exposure

    @property
    def offsets(self) -> Offset:
        """What is added to every predictor."""
        return Offset(self.offset, self.exposure)

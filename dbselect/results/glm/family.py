"""What models and sequences of a family take from the problem beside what all results do."""

from typing import TYPE_CHECKING, Any

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.glm.named import family_of, kind_of_family
from dbselect.glm.offset import Offset
from dbselect.linear import information
from dbselect.record.gram import Vector
from dbselect.results.call import Answer


class OfFamily(Answer):
    """A result of a family: one target, and what is added to its predictor."""

    # To a type checker a property, which results have as a field.
    if TYPE_CHECKING:

        @property
        def family(self) -> str:
            """The family, its link or number in brackets."""

        @property
        def classes(self) -> tuple[Any, ...]:
            """Of a multinomial target, in their order."""

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

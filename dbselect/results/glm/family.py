"""What models and sequences of a family take from the problem beside what all results do."""

from dbselect.glm.offset import Offset
from dbselect.results.call import Answer


class OfFamily(Answer):
    """A result of a family: one target, and what is added to its predictor."""

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

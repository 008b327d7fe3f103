"""What the searches that add and remove groups by their gains take, whatever their moves."""

from dataclasses import dataclass

from dbselect.errors import ArgumentError
from dbselect.glm.named import check_family_name
from dbselect.methods.options import Options
from dbselect.methods.types import FamilyName, GroupNames, NullPolicy
from dbselect.record.checks import (
    check_budget,
    check_count,
    check_flag,
    check_names,
    check_ridge,
)
from dbselect.record.policies import check_policies


@dataclass(frozen=True, kw_only=True)
class StepwiseOptions(Options):
    """The options of `backward`, `foba` and `floating` alike."""

    max_steps: int | None = None
    ridge: float = 0.0
    intercept: bool = True
    budget: float | None = None
    always: GroupNames = ()
    family: FamilyName = "gaussian"
    null_policy: NullPolicy = "skip"

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        check_count("max_steps", self.max_steps)
        check_ridge(self.ridge)
        check_flag("intercept", self.intercept)
        check_budget(self.budget)
        check_names("always", self.always)
        check_family_name(self.family)
        check_policies(self.null_policy)
        if self.family != StepwiseOptions.family and self.null_policy != "skip":
            raise ArgumentError(
                f"null_policy is {self.null_policy!r}; family {self.family!r} takes 'skip'"
            )

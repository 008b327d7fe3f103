"""What calls of generalised linear models take: one record for each call, with what all share."""

import numbers
from dataclasses import dataclass
from typing import Any, ClassVar

from dbselect.errors import ArgumentError
from dbselect.glm.named import check_family_name, kind_of_family
from dbselect.methods.options import Options
from dbselect.methods.types import FamilyName, GlmRuleName, GroupNames, Level
from dbselect.record.checks import (
    check_budget,
    check_choice,
    check_column,
    check_count,
    check_names,
    check_ridge,
    check_scale,
)
from dbselect.record.terms import Terms
from dbselect.selection.criteria import rules_of_glm

#: Share of the null deviance that the next step of a fit would explain, below which it is
#: the last. It moves predictors by some 1e-5 (1e-4), Newton's method errs by the square of
#: that and the deviance by less; a sequence goes on from there anyway.
FIT_TOL, STEP_TOL = 1e-10, 1e-8
#: Passes after which a fit gives up; eight are many.
MAX_ITER = 25


@dataclass(frozen=True, kw_only=True)
class GlmOptions(Options):
    """What every call that makes generalised linear models takes."""

    family: FamilyName
    ridge: float = 0.0
    weight: str | None = None
    offset: str | None = None
    positive: Level | None = None

    def __post_init__(self) -> None:
        """Refuse options that no table could make right."""
        super().__post_init__()
        check_family_name(self.family)
        check_ridge(self.ridge)
        check_column("weight", self.weight)
        check_column("offset", self.offset)
        if self.offset is not None and self.family == "multinomial":
            raise ArgumentError(
                f"offset is {self.offset!r}; added to all classes it would change nothing"
            )
        _check_positive(self.positive, self.family)


@dataclass(frozen=True, kw_only=True)
class FitGlmOptions(GlmOptions):
    """The options of `fit_glm`."""

    method: ClassVar[str] = "fit_glm"

    family: FamilyName = "binomial"
    max_iter: int = MAX_ITER
    tol: float = FIT_TOL
    terms: Terms | None = None

    def __post_init__(self) -> None:
        """Refuse options that no table could make right."""
        super().__post_init__()
        _check_ends(self.max_iter, self.tol)
        if not isinstance(self.terms, Terms | None):
            raise ArgumentError(
                f"terms is a {type(self.terms).__name__}; it must come from ds.terms"
            )


@dataclass(frozen=True, kw_only=True)
class AnytimeGlmOptions(GlmOptions):
    """The options of `anytime_sequence` with a family that needs passes."""

    method: ClassVar[str] = "anytime_sequence_glm"

    rule: GlmRuleName = "fr"
    scale: bool = True
    budget: float | None = None
    max_groups: int | None = None
    always: GroupNames = ()
    max_iter: int = MAX_ITER
    tol: float = STEP_TOL

    def __post_init__(self) -> None:
        """Refuse options that no table could make right."""
        super().__post_init__()
        check_choice("rule", self.rule, rules_of_glm())
        check_scale(self.scale)
        check_budget(self.budget)
        check_count("max_groups", self.max_groups)
        check_names("always", self.always)
        _check_ends(self.max_iter, self.tol)


def _check_positive(positive: Any, family: str) -> None:
    """Refuse a level that the family has no use for, or that is none."""
    if positive is None:
        return
    if kind_of_family(family) != "binomial":
        raise ArgumentError(
            f"positive is {positive!r}; only family 'binomial' has a level that counts as 1"
        )
    if not isinstance(positive, str | bool | numbers.Real):
        raise ArgumentError(f"positive is {positive!r}; it must be a text, True, False or a number")


def _check_ends(max_iter: Any, tol: Any) -> None:
    """Refuse what could not end a fit."""
    if max_iter is None:
        raise ArgumentError("max_iter is None; it must be a whole number >= 1")
    check_count("max_iter", max_iter)
    if not (isinstance(tol, numbers.Real) and 0 < float(tol) < 1):
        raise ArgumentError(f"tol is {tol!r}; it must be a number above 0 and below 1")

"""Checks of combinations of problem fields."""

from collections.abc import Mapping
from typing import Any

from dbselect.errors import ArgumentError, shown
from dbselect.families import Family
from dbselect.glm.named import family_of
from dbselect.record.policies import check_policies, refuse_em

#: Error for a list of responses.
ONE_TARGET = "it must be one column here; lists of responses are for anytime_sequence and sght"


def check_combination(family: Family, fields: Mapping[str, Any]) -> None:
    """Refuse fields that do not fit the family or each other, with the reason."""
    check_policies(fields["null_policy"])
    if not (family.is_linear and fields["offset"] is None and fields["gram"] != "lazy"):
        refuse_em(
            fields["null_policy"],
            "EM completes the whole Gram of a linear model: family must be 'gaussian', without "
            "offset, and gram not 'lazy'",
        )
    if not (family.is_linear and fields["offset"] is None):
        require_single_target(fields["target"])
    offset, exposure, positive = fields["offset"], fields["exposure"], fields["positive"]
    if family.has_classes and offset is not None:
        raise ArgumentError(
            f"offset is {offset!r}; added to the predictors of all classes it changes nothing"
        )
    if exposure is not None and family.link != "log":
        raise ArgumentError(
            f"exposure is {exposure!r}; its logarithm is added where the link is log, and family "
            f"'{family}' has the link {family.link}"
        )
    if positive is not None and family.name != "binomial":
        raise ArgumentError(
            f"positive is {shown(positive)}; only family 'binomial' has a level that counts as 1"
        )
    if not (fields["intercept"] or family.has_classes or family_of(str(family)).at_zero):
        raise ArgumentError(
            "intercept is False; the model without columns has the predictor 0 then, at which "
            f"family '{family}' has no mean"
        )
    if fields["gram"] == "lazy":
        _check_lazy(family, fields)


def _check_lazy(family: Family, fields: Mapping[str, Any]) -> None:
    if not (family.is_linear and fields["offset"] is None):
        raise ArgumentError(
            "gram is 'lazy'; rows of the Gram are those of a linear model: family must be "
            "'gaussian', without offset"
        )
    if not fields["intercept"]:
        raise ArgumentError("intercept is False; gram='lazy' reads rows of centred columns")
    if isinstance(fields["target"], list | tuple):
        raise ArgumentError(
            f"target is {shown(fields['target'])}; it must be one column here, as gram='lazy' "
            "reads rows for one response"
        )


def require_single_target(target: Any) -> None:
    """Refuse a list of responses, and name the methods that take one."""
    if isinstance(target, list | tuple):
        raise ArgumentError(f"target is {shown(list(target))}; {ONE_TARGET}")

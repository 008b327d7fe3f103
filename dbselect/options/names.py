"""The names that options may have."""

from typing import Literal

#: The rules of `selection.criteria.RULES`.
RuleName = Literal[
    "fr", "score", "omp", "omp-information", "omp-unwhitened", "omp-single", "doubling"
]
#: Those without a cost limit, which FoBa and generalised linear models have.
ForwardName = Literal["fr", "score", "omp", "omp-information", "omp-unwhitened", "omp-single"]
#: What makes a selected group the least useful one: `selection.removal.USEFULNESS`.
BackwardName = Literal["loss", "coefficient"]
#: Families of linear and generalised linear models.
FamilyName = Literal[
    "gaussian", "gaussian(log)", "gaussian(inverse)", "binomial", "binomial(probit)",
    "binomial(cloglog)", "binomial(loglog)", "binomial(cauchit)", "binomial(log)",
    "binomial(identity)", "poisson", "poisson(identity)", "poisson(sqrt)", "gamma",
    "gamma(identity)", "gamma(inverse)", "inverse_gaussian", "inverse_gaussian(identity)",
    "inverse_gaussian(inverse)", "inverse_gaussian(inverse_squared)", "negative_binomial",
    "multinomial",
]  # fmt: skip
#: Information criteria of `step`.
CriterionName = Literal["aic", "bic"]
#: Information criteria of `linear.information.SIGNS`, which choose a penalty.
PathCriterionName = Literal["aic", "bic", "ebic", "gic", "cp", "adjusted_r2"]
#: Which moves `step` makes.
DirectionName = Literal["both", "forward", "backward"]
#: Variants of the descent of SGHT.
VariantName = Literal["ista", "ista-l", "fista"]
#: Where a descent starts.
StartName = Literal["ridge", "zero"]
#: Which candidate of a cross-validation is taken.
ChoiceName = Literal["one_standard_error", "best"]
#: How rows are drawn anew.
DrawName = Literal["poisson", "halves"]
#: What knockoffs assume.
KnockoffName = Literal["fixed", "second_order"]
#: Methods that order groups.
OrderingName = Literal["anytime_sequence", "foba", "group_lasso", "step"]
#: What happens to rows whose key a looked-up table lacks.
UnmatchedName = Literal["indicator", "skip", "error"]
#: Whether the whole Gram matrix is made, or rows of it are read when asked for.
GramName = Literal["auto", "full", "lazy"]
#: Fields of a problem beside source, target, groups and costs.
PROBLEM_FIELDS = (
    "family", "weight", "offset", "exposure", "positive", "intercept", "ridge", "scale",
    "null_policy", "always", "rows", "seed", "gram", "terms",
)  # fmt: skip

"""Names that options take as values."""

from typing import Literal

#: The rules of `selection.criteria.RULES`.
RuleName = Literal[
    "fr", "score", "omp", "omp-information", "omp-unwhitened", "omp-single", "doubling"
]
#: Rules without a cost limit, for FoBa and generalised linear models.
ForwardName = Literal["fr", "score", "omp", "omp-information", "omp-unwhitened", "omp-single"]
#: Measures by which a group is the least useful: `selection.moves.USEFULNESS`.
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
#: Information criteria of `linear.information.SIGNS`, to choose a penalty.
PathCriterionName = Literal["aic", "bic", "ebic", "gic", "cp", "adjusted_r2"]
#: Moves of `step`.
DirectionName = Literal["both", "forward", "backward"]
#: Variants of the descent of SGHT.
VariantName = Literal["ista", "ista-l", "fista"]
#: Start of a descent.
StartName = Literal["ridge", "zero"]
#: Choice among the candidates of a cross-validation.
ChoiceName = Literal["one_standard_error", "best"]
#: What is maximised over several records.
ShareName = Literal["worst", "mean"]
#: What a worth is of.
Per = Literal["explained", "rmse"]
#: How rows are resampled.
DrawName = Literal["poisson", "halves"]
#: Assumptions of knockoffs.
KnockoffName = Literal["fixed", "second_order"]
#: Methods that order groups.
OrderingName = Literal["anytime_sequence", "foba", "group_lasso", "step"]
#: How rows are handled whose key a joined table lacks.
UnmatchedName = Literal["indicator", "skip", "error"]
#: Whether the whole Gram matrix is computed, or rows of it on demand.
GramName = Literal["auto", "full", "lazy"]
#: Fields of a problem besides source, target, groups and costs.
PROBLEM_FIELDS = (
    "family", "weight", "offset", "exposure", "positive", "intercept", "ridge", "scale",
    "null_policy", "always", "rows", "seed", "gram", "terms", "shared", "needs", "one_of",
    "limits",
)  # fmt: skip

"""The names that options take; nothing is loaded, so that a command line can list them at once."""

from typing import Literal

#: The rules of `selection.criteria.RULES`.
RuleName = Literal[
    "fr", "score", "omp", "omp-information", "omp-unwhitened", "omp-single", "doubling"
]
#: Those that a generalised linear model has.
GlmRuleName = Literal["fr", "score", "omp", "omp-information", "omp-unwhitened", "omp-single"]
#: Those of a forward step of FoBa.
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
#: Those that need the rows again and again; `glm_family` has those with a number besides.
GlmFamilyName = Literal[
    "gaussian(log)", "gaussian(inverse)", "binomial", "binomial(probit)",
    "binomial(cloglog)", "binomial(loglog)", "binomial(cauchit)", "binomial(log)",
    "binomial(identity)", "poisson", "poisson(identity)", "poisson(sqrt)", "gamma",
    "gamma(identity)", "gamma(inverse)", "inverse_gaussian", "inverse_gaussian(identity)",
    "inverse_gaussian(inverse)", "inverse_gaussian(inverse_squared)", "negative_binomial",
    "multinomial",
]  # fmt: skip

"""Sets of groups of a family, each a projection of the fit on all groups.

The fit on some columns S solves ``sum of x_S (mu(eta) - mu(eta_S)) = 0``, but for factors that are
functions of x_S; eta is that on all. By the mean value theorem, about, ``mu(a) - mu(b) = (a - b)
sqrt(mu'(a) mu'(b))``: least squares of eta with weights sqrt(mu'(eta)), which of some columns is
one solve of the Gram of eta, as of a linear model. Exact for normal columns and a log link.

Source: Lawless, Singhal (1978), Biometrics 34, who screen the subsets of a model by one step from
the fit on all, with weights mu'(eta).
"""

from typing import TYPE_CHECKING, cast

import polars as pl

from dbselect.errors import ArgumentError
from dbselect.glm.named import family_of
from dbselect.record import formulas
from dbselect.record.formulas import translate
from dbselect.record.gram import Gram
from dbselect.record.inputs import inputs_of
from dbselect.search.table import patterns_read, table_of
from dbselect.sources.engines.remote_frames import brought_here
from dbselect.sources.read import gram as read_gram

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem
    from dbselect.results.glm.model import GlmModel

_WEIGHT = "__dbselect_weight"
#: Of the linear predictor, for the slope of its mean: half of the digits are enough of a weight.
STEP = 1e-5


def projected_gram(problem: "Problem") -> Gram:
    """Return the weighted Gram of the linear predictor on all groups, named as the target.

    The passes of a fit, and one more with the rows in memory. ArgumentError for several classes, an
    offset or an exposure.
    """
    if problem.offset is not None or problem.exposure is not None:
        raise ArgumentError("approximate is True; one step takes neither offset nor exposure")
    full = cast("GlmModel", problem.fit())
    if full.classes:
        raise ArgumentError(
            f"approximate is True and family is {full.family!r}; one step is of one predictor"
        )
    target = full.target
    inputs = inputs_of(full.columns, full.terms)
    eta = full._predictors[0].formula(inputs, "unavailable")
    above, below = (family_of(full.family).means([eta + h])[0] for h in (STEP, -STEP))
    slope, value = (translate(one, formulas.polars()) for one in (above - below, eta))
    w = (slope / (2 * STEP)).abs().sqrt()
    if problem.weight is not None:
        w = w * pl.col(problem.weight)
    table = table_of(problem, patterns_read(problem))
    frame = brought_here(table, table.schema.names)
    fields = dict.fromkeys(str(one.path[0]) for one in inputs)
    known = frame.filter(pl.col(target).is_not_null())
    rows = known.select(*fields, value.alias(target), w.alias(_WEIGHT))
    return read_gram(rows, weight=_WEIGHT, null_policy=problem.null_policy, terms=problem.terms)

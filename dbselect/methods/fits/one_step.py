"""Sets of groups of a family, each one step of Newton's method from the fit on all groups.

Near the coefficients of that fit the log-likelihood is quadratic: least squares of the working
response ``z = eta + (y - mu) / mu'`` with weights W. Of some columns the minimum is one solve of
the Gram of z, so that a family is answered as a linear model is.

Source: McCullagh, Nelder (1989), section 2.5; Lawless, Singhal (1978), Biometrics 34, who screen
the subsets of a model so.
"""

from typing import TYPE_CHECKING, cast

import polars as pl
import pyarrow as pa

from dbselect.errors import ArgumentError
from dbselect.glm.named import family_of
from dbselect.record import formulas
from dbselect.record.formulas import column, equals, translate
from dbselect.record.gram import Gram
from dbselect.record.inputs import inputs_of
from dbselect.search.table import patterns_read, table_of
from dbselect.sources.read import gram as read_gram

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem
    from dbselect.results.glm.model import GlmModel

_WEIGHT = "__dbselect_weight"


def working_gram(problem: "Problem") -> Gram:
    """Return the Gram of the working response at the fit on all groups, named as the target.

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
    y = equals((target,), full.levels[1]) if full.levels else column((target,))
    ((weight, rest),) = family_of(full.family).row([eta], [y]).pairs
    z, w = (translate(one, formulas.polars()) for one in (eta + rest, weight))
    if problem.weight is not None:
        w = w * pl.col(problem.weight)
    table = table_of(problem, patterns_read(problem))
    frame = pl.DataFrame(pa.Table.from_batches(table.batches(table.schema.names), table.schema))
    fields = dict.fromkeys(str(one.path[0]) for one in inputs)
    rows = frame.select(*fields, z.alias(target), w.alias(_WEIGHT))
    return read_gram(rows, weight=_WEIGHT, null_policy=problem.null_policy, terms=problem.terms)

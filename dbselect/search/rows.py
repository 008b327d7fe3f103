"""Search of a generalised linear model on rows in memory, by exact refits in batches.

A larger table is sampled for the search, and the selected groups are refitted to all rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect._arrow import empty_table
from dbselect.errors import SampleWarning, SourceError, warn_caller
from dbselect.glm.held_rows import HeldRows
from dbselect.glm.newton import GlmFit, extended, solved, start
from dbselect.glm.passes import Data, responses
from dbselect.glm.refits import InMemory
from dbselect.glm.state import GlmState
from dbselect.linear.blas import SMALL
from dbselect.linear.problem import Index
from dbselect.objectives.contract import check_unselected
from dbselect.record.formulas import translate
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups, costs_of, groups_of, numbers_of
from dbselect.record.policies import row_counts
from dbselect.record.steps import Step, Stop, held_after
from dbselect.results.call import Call
from dbselect.results.glm.build import prefix_of, warn_of_fit
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.search.passes import (
    FIT_TOL,
    Columns,
    FamilySearch,
    begun,
    criterion_near,
    family_table,
    groups_in,
    model_of_groups,
    passes_of,
)
from dbselect.search.table import referenced_columns
from dbselect.selection.criteria import RULES, Criterion, OnGlm
from dbselect.sources.open import open_table
from dbselect.sources.passes import Passes, algebra_of
from dbselect.sources.request import Table
from dbselect.sources.sampling.drawn import Sample, sample
from dbselect.spec.spec import Spec

#: Most numbers in memory, rows times columns: 268 MB. A search refits all groups at each step,
#: and a refit on so many numbers takes some seconds.
MOST_NUMBERS = 2**25
#: Columns assumed for a text column before its levels are read.
TEXT_COLUMNS = 16


@dataclass(frozen=True, eq=False)
class Whole:
    """The whole table of a search on a sample of its rows."""

    problem: Spec
    passes: Passes  # over all rows
    # number of rows drawn, and of all rows
    searched: int
    of: int


class GlmObjective(GlmState):
    """Deviance explained by groups of columns, on rows in memory.

    An `objectives.contract.Objective` for every search: candidates are the groups, by number;
    the value is the share of the null deviance explained, less the ridge penalty. Gains and
    losses are those of exact refits. `Problem.objective` makes one.

    Parameters
    ----------
    refits : fits sets of groups
    fit : the null model
    call : the call that results record
    data : the rows after their first pass
    about : the groups
    whole : the whole table, if `data` is a sample of its rows

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> y = [0, 1, 0, 1, 0, 1, 1, 0]
    >>> table = pl.DataFrame({"a": [0, 1] * 4, "b": [0, 0, 1, 1] * 2, "y": y})
    >>> objective = ds.Problem(table, "y", family="binomial").objective()
    >>> objective.gains().round(3).tolist()
    [0.189, 0.0]
    >>> round(objective.add(0), 3), objective.model().groups
    (0.189, ['a'])
    """

    def __init__(
        self,
        refits: InMemory,
        fit: GlmFit,
        call: Call,
        data: Data,
        about: Groups,
        whole: Whole | None = None,
    ) -> None:
        super().__init__(refits, fit)
        self.call = call
        self.data = data
        self.about = about
        self.whole = whole

    def __repr__(self) -> str:
        rows = row_counts(self.data.rows, self.data.skipped)
        if self.whole is not None:
            rows = f"{self.data.rows} of {self.whole.of} rows"
        return (
            f"GlmObjective({self.data.roles.family.name}, {self.data.roles.target} ~ "
            f"{self.size} groups; {rows}, value {self.value:.4f})"
        )

    @property
    def groups(self) -> list[str]:
        """Names of the candidates."""
        return self.about.names

    @property
    def rows(self) -> int:
        """Number of rows in memory, without those with missing values."""
        return self.data.rows

    @property
    def passes(self) -> int:
        """Number of passes over the table so far."""
        return self.data.passes.count

    def model(self) -> GlmModel:
        """Return the model on the selected groups, fitted to all rows of the table.

        Warns
        -----
        ConditionWarning : the columns are so nearly dependent that their coefficients keep
            fewer than six digits
        """
        if self.whole is None:
            warn_of_fit(self.data, self.fit)
            return model_of_groups(self.call, self.data, self.about, self.refits.problem, self.fit)
        (fit,), data, settled = refitted(self.whole, self.about, [self.held])
        warn_of_fit(data, fit)
        searched = self.whole.searched
        return model_of_groups(self.call, data, self.about, settled, fit, rows_searched=searched)


@dataclass(eq=False)
class RowSearch(FamilySearch):
    """A generalised linear model on rows in memory."""

    state: GlmObjective

    @property
    def is_small(self) -> bool:
        """Whether products are so small that one BLAS thread is fastest."""
        return self.state.rows * len(self.groups.members) <= SMALL

    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return the criterion that a rule maximises per unit of cost."""
        if RULES[rule].on_glm is OnGlm.REFITS:
            return GlmObjective.gains
        return lambda state: criterion_near(state.refits.problem, state.fit, RULES[rule])

    @property
    def data(self) -> Data:
        """The rows in memory."""
        return self.state.data

    def kept(self) -> Any:
        """Return the fit without its matrices; None if it is refitted to all rows at the end."""
        return None if self.state.whole else super().kept()

    def sequence(self, rule: str, steps: list[Step], kept: list[Any], stop: Stop) -> GlmSequence:
        """Build the sequence of the steps, fitted to all rows."""
        whole = self.state.whole
        if whole is None:
            return super().sequence(rule, steps, kept, stop)
        sets = [held_after(steps[:end]) for end in range(len(steps) + 1)]
        fits, data, _ = refitted(whole, self.groups, sets)
        explained = [fit.explained for fit in fits]
        steps = [
            replace(step, gain=after - before, explained=after)
            for step, before, after in zip(steps, explained, explained[1:], strict=False)
        ]
        kept = [prefix_of(data, fit) for fit in fits]
        return self.fitted(data, fits[-1], rule, steps, kept, stop, whole.searched)

    def model(self, state: GlmObjective) -> GlmModel:
        """Return the model on the selected groups of a state, fitted to all rows."""
        return state.model()


def row_search(problem: Spec, call: Call) -> RowSearch:
    """Set up a search on all rows, on a sample with a SampleWarning, or on an objective."""
    source = problem.source
    if not isinstance(source, GlmObjective):
        state = objective_of(problem, call)
        return RowSearch(call, state.about, numbers_of(problem.always, state.about), state)
    check_unselected("objective", source)
    state, groups = source.copy(), source.about
    state.call = call
    if problem.costs is not None or problem.told:
        costs = costs_of(groups.names, problem.costs, problem.told)
        state.about = groups = replace(groups, costs=costs, told=problem.told)
    return RowSearch(call, groups, numbers_of(problem.always, groups), state)


def objective_of(problem: Spec, call: Call) -> GlmObjective:
    """Return the objective of a problem, on rows in memory."""
    columns = referenced_columns(problem)
    table = family_table(problem, columns)
    # Check columns and groups before a row is read.
    checked = passes_of(
        problem, open_table(empty_table(table.schema), None), columns, Columns(problem.terms)
    )
    groups_of(
        checked.taken, problem.groups, problem.costs, problem.targets[0], checked.terms,
        told=problem.told,
    )  # fmt: skip
    drawn = _drawn(problem, table, checked)
    whole, made = None, None
    if len(drawn.table) < drawn.of:
        whole = _whole(problem, table, columns, drawn)
        made = Columns(whole.passes.terms, whole.passes.names)
    passes = passes_of(problem, open_table(drawn.table, None), columns, made)
    groups = groups_in(problem, passes)
    data, settled, null = begun(problem, passes, groups, FIT_TOL)
    # The passes so far were over rows in memory; the table was read once.
    passes.count, passes.rows_read, passes.bytes_read = 1, drawn.of, drawn.bytes_read
    in_memory = _rows(drawn.table.combine_chunks().to_batches()[0], data, problem.weight)
    return GlmObjective(InMemory(settled, in_memory), null, call, data, groups, whole)


def _drawn(problem: Spec, table: Table, checked: Passes) -> Sample:
    """Read all rows, or a sample of as many as memory has room for."""
    apart = [problem.targets[0], problem.weight, problem.offset, problem.exposure]
    texts = {category.column for category in checked.terms.categories}
    width = sum(TEXT_COLUMNS if name in texts else 1 for name in checked.taken)
    most = max(MOST_NUMBERS // max(width, 1), 1)
    return sample(table, checked.fields([name for name in apart if name]), most, problem.seed)


def _whole(problem: Spec, table: Table, columns: Sequence[str] | None, drawn: Sample) -> Whole:
    """Return the whole table and warn of the sample; SourceError if it can be read only once."""
    searched = len(drawn.table)
    if not table.again:
        raise SourceError(
            f"source has {drawn.of:,} rows, of which {searched:,} are held, and is a stream that "
            "can be read only once; write it to Parquet, or give rows="
        )
    warn_caller(
        f"the search looks at {searched:,} of {drawn.of:,} rows, drawn by seed "
        f"{problem.seed}, because more do not fit into memory; coefficients are "
        "fitted to all rows. rows= draws fewer for both; anytime_sequence searches "
        "all",
        SampleWarning,
    )
    return Whole(problem, passes_of(problem, table, columns), searched, drawn.of)


def refitted(
    whole: Whole,
    groups: Groups,
    sets: Sequence[Sequence[int]],
    members: Sequence[Index] | None = None,
) -> tuple[list[GlmFit], Data, Any]:
    """Fit several sets of groups to all rows, in the same passes."""
    with whole.passes.shown():
        data, settled, null = begun(whole.problem, whole.passes, groups, FIT_TOL)
        if members is not None:
            settled = replace(settled, members=members)
            null = start(settled, null.point, null.model)
        fits = solved([extended(settled, null, held) for held in sets], data.read)
    return fits, data, settled


def _rows(batch: pa.RecordBatch, data: Data, weight: str | None) -> HeldRows:
    """Return the usable rows, with columns scaled to unit variance."""
    passes, roles = data.passes, data.roles
    algebra = algebra_of(batch)

    def values(name: str) -> Vector:
        return np.asarray(translate(passes.column(name), algebra))

    X = np.stack([values(name) for name in roles.members])
    y = np.stack([translate(formula, algebra) for formula in responses(passes, roles)])
    weights = np.ones(batch.num_rows) if weight is None else values(weight)
    offset_formula = roles.offsets.formula(passes.column)
    offset = np.zeros(batch.num_rows)
    if offset_formula is not None:
        offset = np.asarray(translate(offset_formula, algebra))
    used = ~np.isnan(np.vstack([X, y, weights, offset])).any(axis=0) & (weights > 0)
    X = X[:, used] - data.mean[:, None]
    X /= data.spread[:, None]
    X[data.constant] = 0.0
    share = weights[used] / weights[used].sum()
    return HeldRows(
        roles.family, X, y[:, used], share, offset[used], data.weight, roles.has_intercept
    )

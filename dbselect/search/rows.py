"""A search of a generalised linear model on rows in memory: exact refits, many side by side.

Of a larger table some rows are drawn, and what the search finds is fitted again to all rows.
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
from dbselect.search.family import FIT_TOL, Made, begun, family_table, groups_in, passes_of
from dbselect.search.passes import FamilySearch, model_of_groups
from dbselect.search.table import referenced_columns
from dbselect.selection.criteria import RULES, Criterion, OnGlm
from dbselect.selection.on_glm import criterion_near
from dbselect.sources.open import open_table
from dbselect.sources.passes import Passes, algebra_of
from dbselect.sources.request import Table
from dbselect.sources.sampling.sample import Sample, sample
from dbselect.spec.spec import Spec

#: Numbers held in memory, rows times columns: 268 MB. A search refits all groups at every step,
#: and a refit of as many numbers takes some seconds.
MOST_NUMBERS = 2**25
#: Columns that a text counts as before its levels are known.
TEXT_COLUMNS = 16


@dataclass(frozen=True, eq=False)
class Whole:
    """The table that a search looked at some rows of."""

    problem: Spec  # what is asked
    passes: Passes  # over all rows
    # searched, of: rows drawn, and rows of the table
    searched: int
    of: int


class GlmObjective(GlmState):
    """How much deviance groups of columns explain, on rows in memory.

    An `objectives.contract.Objective` for every search: candidates are the groups, by number;
    the value is the share of the null deviance explained, less what the ridge takes. Gains and
    losses are those of exact refits. `Problem.objective` makes one.

    Parameters
    ----------
    refits : makes the fits
    fit : of the model without columns
    call : what is asked
    data : the rows after their first pass
    about : the groups
    whole : the table, where only some of its rows are held

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
        """Rows that are held, those without a missing value."""
        return self.data.rows

    @property
    def passes(self) -> int:
        """Times that the table was read so far."""
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
        """Whether products are of few numbers."""
        return self.state.rows * len(self.groups.members) <= SMALL

    def criterion(self, rule: str, budget: float | None = None) -> Criterion:
        """Return what a rule maximises per unit of cost."""
        if RULES[rule].on_glm is OnGlm.REFITS:
            return GlmObjective.gains
        return lambda state: criterion_near(state.refits.problem, state.fit, RULES[rule])

    @property
    def data(self) -> Data:
        """The rows that are held."""
        return self.state.data

    def kept(self) -> Any:
        """Return what is kept of the fit: of all rows nothing, as it is fitted to them anew."""
        return None if self.state.whole else super().kept()

    def sequence(self, rule: str, steps: list[Step], kept: list[Any], stop: Stop) -> GlmSequence:
        """Return the sequence of some steps, fitted to all rows."""
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
    """Read rows into memory, all or, with a SampleWarning, some; or take an objective's."""
    source = problem.source
    if not isinstance(source, GlmObjective):
        state = objective_of(problem, call)
        return RowSearch(call, state.about, numbers_of(problem.always, state.about), state)
    check_unselected("objective", source)
    state, groups = source.copy(), source.about
    state.call = call
    if problem.costs is not None:
        state.about = groups = replace(groups, costs=costs_of(groups.names, problem.costs))
    return RowSearch(call, groups, numbers_of(problem.always, groups), state)


def objective_of(problem: Spec, call: Call) -> GlmObjective:
    """Return the objective of a problem, on rows in memory."""
    named = referenced_columns(problem)
    table = family_table(problem, named)
    # Errors in columns and groups are raised before a row is read.
    head = passes_of(
        problem, open_table(empty_table(table.schema), None), named, Made(problem.terms)
    )
    groups_of(head.taken, problem.groups, problem.costs, problem.targets[0], head.terms)
    taken = _taken(problem, table, head)
    whole, made = None, None
    if len(taken.table) < taken.of:
        whole = _whole(problem, table, named, taken)
        made = Made(whole.passes.terms, whole.passes.names)
    held = passes_of(problem, open_table(taken.table, None), named, made)
    groups = groups_in(problem, held)
    data, settled, null = begun(problem, held, groups, FIT_TOL)
    # What was read of the rows held was in memory: the table was read once.
    held.count, held.rows_read, held.bytes_read = 1, taken.of, taken.bytes_read
    in_memory = _rows(taken.table.combine_chunks().to_batches()[0], data, problem.weight)
    return GlmObjective(InMemory(settled, in_memory), null, call, data, groups, whole)


def _taken(problem: Spec, table: Table, head: Passes) -> Sample:
    """Read the rows to hold: all, or as many as memory has room for."""
    apart = [problem.targets[0], problem.weight, problem.offset, problem.exposure]
    texts = {one.column for one in head.terms.categories}
    width = sum(TEXT_COLUMNS if name in texts else 1 for name in head.taken)
    most = max(MOST_NUMBERS // max(width, 1), 1)
    return sample(table, head.fields([name for name in apart if name]), most, problem.seed)


def _whole(problem: Spec, table: Table, named: Sequence[str] | None, taken: Sample) -> Whole:
    """Return the table whose rows are too many to hold; SourceError if it can be read only once."""
    searched = len(taken.table)
    if not table.again:
        raise SourceError(
            f"source has {taken.of:,} rows, of which {searched:,} are held, and is a stream that "
            "can be read only once; write it to Parquet, or give rows="
        )
    warn_caller(
        f"the search looks at {searched:,} of {taken.of:,} rows, drawn by seed "
        f"{problem.seed}, because more do not fit into memory; coefficients are "
        "fitted to all rows. rows= draws fewer for both; anytime_sequence searches "
        "all",
        SampleWarning,
    )
    return Whole(problem, passes_of(problem, table, named), searched, taken.of)


def refitted(
    whole: Whole,
    groups: Groups,
    sets: Sequence[Sequence[int]],
    members: Sequence[Index] | None = None,
) -> tuple[list[GlmFit], Data, Any]:
    """Fit several sets of groups to all rows, side by side in the same passes."""
    with whole.passes.shown():
        data, settled, null = begun(whole.problem, whole.passes, groups, FIT_TOL)
        if members is not None:
            settled = replace(settled, members=members)
            null = start(settled, null.point, null.model)
        fits = solved([extended(settled, null, held) for held in sets], data.read)
    return fits, data, settled


def _rows(batch: pa.RecordBatch, data: Data, weight: str | None) -> HeldRows:
    """Return the rows that can be used, on unit-variance columns."""
    passes, roles = data.passes, data.roles
    algebra = algebra_of(batch)

    def of(name: str) -> Vector:
        return np.asarray(translate(passes.column(name), algebra))

    X = np.stack([of(name) for name in roles.members])
    y = np.stack([translate(one, algebra) for one in responses(passes, roles)])
    weights = np.ones(batch.num_rows) if weight is None else of(weight)
    added = roles.offsets.formula(passes.column)
    offset = np.zeros(batch.num_rows)
    if added is not None:
        offset = np.asarray(translate(added, algebra))
    used = ~np.isnan(np.vstack([X, y, weights, offset])).any(axis=0) & (weights > 0)
    X = X[:, used] - data.mean[:, None]
    X /= data.spread[:, None]
    X[data.constant] = 0.0
    share = weights[used] / weights[used].sum()
    return HeldRows(
        roles.family, X, y[:, used], share, offset[used], data.weight, roles.has_intercept
    )

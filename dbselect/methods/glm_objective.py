"""What DASH, FoBa and SGHT ask of a generalised linear model: its objective, on some rows."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dbselect.errors import ArgumentError
from dbselect.formulas import translate
from dbselect.glm.newton import GlmFit
from dbselect.glm.passes import Data, first_pass, responses
from dbselect.glm.refits import InMemory
from dbselect.glm.rows import HeldRows
from dbselect.glm.state import ByPasses, GlmState
from dbselect.methods.family_options import FIT_TOL, MAX_ITER, STEP_TOL, GlmOptions
from dbselect.methods.family_table import opened, refuse_records, roles_of
from dbselect.methods.fit_glm import problem_of
from dbselect.methods.setup import named_in, numbers_of, refuse_several
from dbselect.methods.types import (
    Costs,
    FamilyName,
    GroupColumns,
    GroupNames,
    Level,
    TableSource,
)
from dbselect.record.checks import check_column, check_count
from dbselect.record.gram import Vector
from dbselect.record.groups import Groups, costs_of, groups_of
from dbselect.record.steps import Record, Step, Stop, name_of
from dbselect.results.glm.build import (
    Prefix,
    aliased_of,
    model_of,
    prefix_of,
    sequence_of,
    warn_of_fit,
)
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.selection.criteria import RULES, Criterion, OnGlm
from dbselect.selection.on_glm import criterion_near
from dbselect.sources.open import open_table
from dbselect.sources.passes import algebra_of
from dbselect.sources.request import check_seed
from dbselect.sources.sample import sample
from dbselect.sources.turns import Callback, turns

#: Rows of the table that are held in memory: of 50 columns they are 4 MB. A column without
#: any effect gains some 1e-4 of the deviance by chance, and a share of half the deviance has
#: a standard deviation of 0.01 (flights that are late, by their late departure).
SAMPLE_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class ObjectiveData:
    """What an objective is of.

    Parameters
    ----------
    data : the table, or the sample, after its first pass
    groups : Groups
    ridge : on unit-variance columns
    of : rows of the whole table; None where all are used, by passes
    """

    data: Data
    groups: Groups
    ridge: float
    of: int | None


class GlmObjective(GlmState):
    """How much deviance groups of columns explain: an objective for every search.

    Candidates are the groups, by number; the value is the share of the null deviance
    explained, less what the ridge takes. Gains and losses are those of exact refits.
    `glm_objective` makes one.

    Parameters
    ----------
    refits : who makes the fits
    fit : of the model without columns
    about : what it is of

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> y = [0, 1, 0, 1, 0, 1, 1, 0]
    >>> table = pl.DataFrame({"a": [0, 1] * 4, "b": [0, 0, 1, 1] * 2, "y": y})
    >>> objective = ds.glm_objective(table, "y")
    >>> objective.gains().round(3).tolist()
    [0.189, 0.0]
    >>> round(objective.add(0), 3), objective.model().groups
    (0.189, ['a'])
    """

    def __init__(self, refits: ByPasses, fit: GlmFit, about: ObjectiveData) -> None:
        super().__init__(refits, fit)
        self.about = about

    def __repr__(self) -> str:
        data, of = self.about.data, self.about.of
        rows = f"{data.rows} rows by passes" if of is None else f"{data.rows} of {of} rows"
        return (
            f"GlmObjective({data.roles.family.name}, {data.roles.target} ~ {self.size} groups; "
            f"{rows}, value {self.value:.4f})"
        )

    @property
    def groups(self) -> list[str]:
        """Names of the candidates."""
        return self.about.groups.names

    @property
    def rows(self) -> int:
        """Rows that count: those of the sample without a missing value."""
        return self.about.data.rows

    @property
    def passes(self) -> int:
        """Times that the table was read so far."""
        return self.about.data.passes.count

    def aliased(self) -> list[str]:
        """Return the selected columns that depend linearly on others."""
        return list(aliased_of(self.about.data, self.fit))

    def model(self) -> GlmModel:
        """Return the model on the selected groups, as the rows of the objective fit it.

        Warns
        -----
        ConditionWarning : the columns are so nearly dependent that their coefficients keep
            fewer than six digits
        """
        groups = self.about.groups
        warn_of_fit(self.fit)
        return model_of(
            self.about.data,
            self.refits.problem,
            self.fit,
            [groups.members[j] for j in self.refits.problem.columns(self.held).tolist()],
            GlmModel,
            groups=[groups.names[group] for group in self.held],
            spent=float(groups.costs[self.held].sum()),
        )


@dataclass(frozen=True, kw_only=True)
class ObjectiveOptions(GlmOptions):
    """The options of `glm_objective`."""

    method: ClassVar[str] = "glm_objective"

    family: FamilyName = "binomial"
    rows: int | None = SAMPLE_ROWS
    seed: int = 0
    key: str | None = None

    def __post_init__(self) -> None:
        """Refuse options that no table could make right."""
        super().__post_init__()
        check_count("rows", self.rows)
        check_seed(self.seed)
        check_column("key", self.key)


def glm_objective(
    source: TableSource,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    family: FamilyName = ObjectiveOptions.family,
    rows: int | None = ObjectiveOptions.rows,
    seed: int = ObjectiveOptions.seed,
    key: str | None = ObjectiveOptions.key,
    ridge: float = ObjectiveOptions.ridge,
    weight: str | None = ObjectiveOptions.weight,
    offset: str | None = ObjectiveOptions.offset,
    positive: Level | None = ObjectiveOptions.positive,
) -> GlmObjective:
    """Return how much deviance groups of columns explain, for `dash`, `foba`, `sght` and others.

    It takes the place of table and target there. Its rows are some of the table, chosen by
    a seeded hash in one pass and held in memory; or all, and each answer takes passes.

    Parameters
    ----------
    source : a table that `gram` reads; with ``rows=None`` no stream that can be read only
        once
    target : column to predict, as in `fit_glm`
    groups : name -> columns or globs; default: every top-level field but the target
    costs : name -> cost > 0, in any one unit; default: 1 each
    family : as in `fit_glm`
    rows : >= 1, rows to hold in memory, of which those with a missing value are left out;
        all if the table has no more; None = all rows, by passes
    seed : of the hash that decides, 0 to 2^63 - 1
    key : field whose value decides whether a row is held, so that rows of equal keys stay
        together; default: where the row stands in the table. Needed for the same rows each
        time where the engine gives rows in no certain order
    ridge : >= 0, lambda on unit-variance columns; the intercept is not penalised
    weight, offset, positive : as in `fit_glm`

    Returns
    -------
    GlmObjective without selected groups

    Raises
    ------
    ArgumentError : rows, seed, family, ridge, offset or positive out of range
    SourceError, ColumnError, GroupError, DataError : as `fit_glm` and `anytime_sequence`

    Notes
    -----
    Memory 8 n D bytes for n rows held. Gains of J groups of s columns with k columns
    selected take some five steps of O(n (k + s) J), and what is selected O(n k^2) a step
    and O(n D^2) at its end. By passes, gains take some four passes with a Gram for each
    group, and losses likewise.
    Levels of text columns are those of the rows held.
    Where some columns separate rows, a gain is what some steps towards infinity
    explain. A ridge > 0 avoids that.

    References
    ----------
    Qian, Singer (2019), section 3.1 and appendix I.2; Hu, Grubb, Bagnell,
    Hebert (2016), appendix B.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> y = [0, 1, 0, 1, 0, 1, 1, 0]
    >>> table = pl.DataFrame({"a": [0, 1] * 4, "b": [0, 0, 1, 1] * 2, "y": y})
    >>> objective = ds.glm_objective(table, "y")
    >>> objective
    GlmObjective(binomial, y ~ 2 groups; 8 of 8 rows, value 0.0000)
    >>> ds.dash(objective, k=1).model.groups
    ['a']
    """
    refuse_several(target)
    options = ObjectiveOptions(
        family=family, rows=rows, seed=seed, key=key, ridge=ridge, weight=weight, offset=offset,
        positive=positive,
    )  # fmt: skip
    refuse_records(source)
    named = named_in(groups, source)

    def read(table: Any, of: int | None = None) -> ObjectiveData:
        """Make the first pass."""
        passes = opened(table, target, named, options)
        found = groups_of(passes.names, groups, costs, target, passes.terms)
        data = first_pass(passes, roles_of(passes, target, options, found.members))
        found = replace(found, unused=(*found.unused, *passes.unread))
        return ObjectiveData(data, found, options.ridge, of)

    if rows is None:
        about = read(source)
        problem, null = problem_of(about.data, about.groups, about.ridge, True, MAX_ITER, STEP_TOL)
        return GlmObjective(ByPasses(problem, about.data.read), null, about)
    table = open_table(source, named)
    head = opened(table.schema.empty_table(), target, named, options)
    groups_of(head.taken, groups, costs, target, head.terms)
    apart = [name for name in (target, weight, offset) if name is not None]
    taken = sample(table, head.fields(apart), rows, key, seed)
    about = read(taken.table, taken.of)
    problem, null = problem_of(about.data, about.groups, about.ridge, True, MAX_ITER, FIT_TOL)
    # What was read of the sample was in memory: the table was read once.
    passes = about.data.passes
    passes.count, passes.rows_read, passes.bytes_read = 1, taken.of, taken.bytes_read
    in_memory = _rows(taken.table.combine_chunks().to_batches()[0], about.data, weight)
    return GlmObjective(InMemory(problem, in_memory), null, about)


@dataclass(frozen=True)
class ObjectiveSetup:
    """A search on an objective, in the place of a `LinearSetup` on a Gram.

    Parameters
    ----------
    state : without selected groups; changed in place
    groups : Groups
    ridge : on unit-variance columns
    first : numbers of the groups of ``always``
    """

    state: GlmObjective
    groups: Groups
    ridge: float
    first: list[int]

    def criterion(self, rule: str) -> Criterion:
        """Return what a rule maximises per unit of cost."""
        if RULES[rule].on_glm is OnGlm.REFITS:
            return GlmObjective.gains
        return lambda state: criterion_near(state.refits.problem, state.fit, RULES[rule])

    def dependent(self) -> list[str]:
        """Return the selected columns that depend linearly on others."""
        return self.state.aliased()

    def check_held(self) -> None:
        """Do nothing: a likelihood is of rows that are there, and fits tell what depends."""

    def recorded(
        self, rule: str, run: Callable[[Record], Stop], callback: Callback | None = None
    ) -> GlmSequence:
        """Run a search and keep every step with its fit.

        Parameters
        ----------
        rule : name of the result
        run : the search, which writes down its steps
        callback : who is told of each
        """
        state, data = self.state, self.state.about.data
        empty = prefix_of(data, state.fit)
        taken: list[tuple[Step, Prefix]] = []
        with turns(None, "steps", callback) as turn:

            def record(step: Step) -> None:
                taken.append((step, prefix_of(data, state.fit)))
                turn(name_of(step, self.groups), step.explained)

            try:
                stop = run(record)
            except KeyboardInterrupt:
                # As in `anytime_sequence`: the step under way is lost, and the last one stands.
                stop = Stop.INTERRUPTED
        warn_of_fit(state.fit)
        return sequence_of(data, state.fit, self.groups, rule, self.ridge, True, empty, taken, stop)


def objective_setup(
    objective: Any, costs: Costs | None, always: GroupNames, **given: Any
) -> ObjectiveSetup:
    """Return a search on an objective, which itself does not change.

    Parameters
    ----------
    costs : in the place of those of the objective
    always : groups to take first
    given : what an objective has itself

    Raises
    ------
    As `data_of_objective`, and GroupError for costs and `always`
    """
    about = data_of_objective(objective, **given)
    groups = about.groups
    own = objective.copy()
    if costs is not None:
        groups = replace(groups, costs=costs_of(groups.names, costs))
        own.about = replace(about, groups=groups)
    return ObjectiveSetup(own, groups, about.ridge, numbers_of(always, groups))


def data_of_objective(objective: Any, **given: Any) -> ObjectiveData:
    """Return what an objective is of, which a call without a target got.

    Raises
    ------
    ArgumentError : it is none, some groups are selected, or something is given that it has
    """
    if not isinstance(objective, GlmObjective):
        raise ArgumentError(
            f"target is None; a {type(objective).__name__} needs the name of a column to predict"
        )
    for name, value in given.items():
        unset = value is None or (value in (0.0, "skip") and not isinstance(value, bool))
        if not unset:
            raise ArgumentError(f"{name} is {value!r}; it is for tables, an objective has its own")
    if objective.held:
        raise ArgumentError(
            f"objective has {len(objective.held)} candidates selected; it must have none"
        )
    return objective.about


def _rows(batch: pa.RecordBatch, data: Data, weight: str | None) -> HeldRows:
    """Return the rows that can be used, on unit-variance columns."""
    passes, roles = data.passes, data.roles
    algebra = algebra_of(batch)

    def of(name: str) -> Vector:
        return np.asarray(translate(passes.column(name), algebra))

    X = np.stack([of(name) for name in roles.members])
    y = np.stack([translate(one, algebra) for one in responses(passes, roles)])
    weights = np.ones(batch.num_rows) if weight is None else of(weight)
    offset = np.zeros(batch.num_rows) if roles.offset is None else of(roles.offset)
    used = ~np.isnan(np.vstack([X, y, weights, offset])).any(axis=0) & (weights > 0)
    X = X[:, used] - data.mean[:, None]
    X /= data.spread[:, None]
    X[data.constant] = 0.0
    share = weights[used] / weights[used].sum()
    return HeldRows(roles.family, X, y[:, used], share, offset[used], data.weight)

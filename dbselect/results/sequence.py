"""The result of a search for one response: an order of groups and a linear model of each prefix."""

from collections.abc import Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect.linear import information
from dbselect.linear.inference import FittedRows, check_read
from dbselect.linear.information import step_tests
from dbselect.linear.problem import Linear, linear
from dbselect.linear.state import LinearState
from dbselect.record.dependences import shares_of
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.record.policies import clip_share, row_counts
from dbselect.record.steps import Step, Stop, spent_after
from dbselect.record.terms import Terms
from dbselect.results import store
from dbselect.results.call import Call
from dbselect.results.fields import reads
from dbselect.results.model import Model, constrained_model
from dbselect.results.prefixes import Prefixes


@dataclass(frozen=True, eq=False, repr=False)
class Sequence(Prefixes[Model]):
    """Groups in selection order, with a linear model for each prefix.

    Step 0 is the model without features; its intercept is the target's mean. `Prefixes` documents
    what all sequences share.

    Parameters
    ----------
    gram : Gram that was searched; for models through the origin with raw moments and means of 0
    target : the column that is predicted
    groups : Groups, their columns and costs
    rule : name of the rule, or of the method
    records : the steps 1, 2, ...
    spent : shape (steps + 1,), summed cost of the groups held
    explained, r2, intercept : shape (steps + 1,)
    coef : shape (steps + 1, D), in the table's units
    aliased : columns that depend linearly on columns before them
    stop : why the search ended
    condition : estimated condition number of the selected columns' correlations
    call : the problem, without rows, and the method. For models through the origin explained and
        r2 are shares of the sum of squares of the target about 0

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> seq = ds.anytime_sequence(table, "y")
    >>> seq.steps["group"].to_list(), seq.steps["r2"].round(3).to_list()
    ([None, 'a', 'b'], [0.0, 0.952, 1.0])
    >>> model = seq.at(budget=1.5)
    >>> model.groups, model.spent, round(model.coefficients["a"], 3), round(model.intercept, 3)
    (['a'], 1.0, 2.0, 0.5)
    """

    gram: Gram
    target: str
    groups: Groups
    rule: str
    records: list[Step]
    spent: Vector
    explained: Vector
    r2: Vector
    intercept: Vector
    coef: Matrix
    aliased: tuple[str, ...]
    stop: Stop
    condition: float
    call: Call = field(kw_only=True)

    _RECORD_TYPE: ClassVar[pa.StructType] = store.SEQUENCE_TYPE
    _WHAT: ClassVar[str] = "a sequence"

    @property
    def _summary(self) -> tuple[str, str]:
        return self.target, f"r2 {self.r2[-1]:.4f}"

    @property
    def _used(self) -> str:
        return row_counts(self.gram.rows, self.gram.skipped) + self.terms.completed

    @cached_property
    def linear(self) -> Linear:
        """The linear problem on unit-variance columns."""
        return linear(self.gram, self.target, self.columns, self.ridge, self.scale)

    @cached_property
    def terms(self) -> Terms:
        """How the columns of the table became those of the sequence, with the shares of levels."""
        return self.gram.terms.with_shares(self._shares())

    def _shares(self) -> dict[str, float]:
        """Return the share of each level in the rows of the search, by column."""
        return shares_of(self.gram)

    def model(self, step: int) -> Model:
        """Return the model after a step, as `Prefixes.model`."""
        return replace(self._at_step(step), fit=self._fitted_rows(step))

    def _at_step(self, step: int) -> Model:
        groups = self.held(step)
        coefficients = {self.columns[j]: float(self.coef[step, j]) for j in self.columns_held(step)}
        return Model(
            target=self.target,
            intercept=float(self.intercept[step]),
            coefficients=coefficients,
            groups=[self.groups.names[group] for group in groups],
            spent=float(self.spent[step]),
            explained=float(self.explained[step]),
            r2=float(self.r2[step]),
            aliased=tuple(name for name in self.aliased if name in coefficients),
            rows=self.gram.rows,
            skipped=self.gram.skipped,
            terms=self.terms.of(coefficients),
            call=self.call,
        )

    def _signed(self, step: int, signs: Mapping[str, str]) -> Model:
        plain, problem = self.model(step), self.problem
        if not plain.columns:
            return plain
        return constrained_model(
            self.gram, self.target, plain.columns, self.call, groups=plain.groups,
            spent=plain.spent, signs=signs, ridge=problem.ridge, scale=problem.scale,
            intercept=problem.intercept,
        )  # fmt: skip

    def _swaps(self, group: int, held: list[int]) -> list[tuple[int, int, float]]:
        state = self._state()
        if held:
            state.add_all(held)
        explained, swaps = state.explained, []
        for out in [group] if group in held else held:
            rest = [other for other in held if other != out]
            state = self._state()
            if rest:
                state.add_all(rest)
            ahead = state.explained + state.gains() - explained
            inside = [group] if group not in held else range(len(ahead))
            swaps += [(out, into, float(ahead[into])) for into in inside if into not in held]
        return swaps

    def _state(self) -> LinearState:
        """Return the state of the search before any group is added."""
        return LinearState(self.linear, self.positions)

    def _fitted_rows(self, step: int) -> FittedRows:
        return FittedRows(self.gram, self.ridge, self._was_chosen(step), self.problem.intercept)

    def _fits(self) -> information.Fits:
        """Return the fit of each prefix, for information criteria."""
        check_read(self.gram)
        return information.fits_of(
            self.gram,
            self.target,
            self._state(),
            self.records,
            self.r2,
            self.problem.intercept,
        )

    def _criteria(self, gamma: float, penalty: float | None) -> pl.DataFrame:
        return information.criteria(self._fits(), gamma, penalty)

    def _step_tests(self, kind: Literal["f", "lr"]) -> pl.DataFrame:
        FittedRows(self.gram, self.ridge).check_least_squares()
        return step_tests(self._fits(), self.steps, kind)

    def _quadratic(self, what: str) -> Linear:
        return self.linear

    def to_struct(self) -> dict[str, Any]:
        """Return the sequence as plain Python data, the Gram of its columns included."""
        return store.sequence_record(self)

    @classmethod
    def from_struct(cls, record: Any) -> "Sequence":
        """Read a record of `to_struct`, as `Prefixes.from_struct`."""
        return cls(**store.sequence_parts(record))


def build(
    gram: Gram,
    problem: Linear,
    *,
    call: Call,
    target: str,
    groups: Groups,
    rule: str,
    records: list[Step],
    coef: Matrix,
    aliased: Ordered[int],
    stop: Stop,
    condition: float,
    spent: Vector | None = None,
) -> Sequence:
    """Build the sequence from its steps, with coefficients in the table's units.

    `coef`, shape (steps + 1, D), is w on unit-variance columns, r2 = z'z + w' diag(ridge) w;
    `spent` is computed if it is None.
    """
    explained = np.array([0.0] + [step.explained for step in records])
    in_table_units = coef * (problem.target_spread / problem.spread)
    members = groups.members
    return Sequence(
        gram=gram,
        target=target,
        groups=groups,
        rule=rule,
        records=records,
        spent=spent_after(records, groups) if spent is None else spent,
        explained=explained,
        r2=clip_share(explained + (coef**2 @ problem.ridge if problem.ridge.any() else 0.0)),
        intercept=problem.target_mean - in_table_units @ problem.mean,
        coef=in_table_units,
        aliased=tuple(members[j] for j in aliased),
        stop=stop,
        condition=condition,
        call=call,
    )


reads("Sequence", Sequence.from_struct)

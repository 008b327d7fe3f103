"""Sequences for several responses: one order of groups, with a model of each response."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from dbselect.linear import information
from dbselect.linear.problem import Linear, linear, shares
from dbselect.pages.html import listed
from dbselect.record.gram import Gram, Vector
from dbselect.record.groups import Groups
from dbselect.record.policies import clip_share
from dbselect.record.steps import Step, Stop
from dbselect.record.terms import Terms
from dbselect.results import store
from dbselect.results.call import Call, Of
from dbselect.results.fitted import tables_under
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.model import JointModel
from dbselect.results.prefixes import Prefixes
from dbselect.results.sequence import Sequence


@dataclass(frozen=True, eq=False, repr=False)
class JointSequence(Prefixes[JointModel]):
    """Groups in selection order, with linear models of several responses for each prefix.

    The objective is the sum over the responses, each of unit variance: `explained` is the
    mean of their explained shares. With ``scale=False`` responses are not scaled: they are
    weighted by their variances.

    Parameters
    ----------
    rule : name of the rule
    responses : response -> its Sequence, with the same steps; in these, `score` is that of
        all responses, while `gain`, `explained` and `r2` are those of the response

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, -1, 1, -1], [1, 1, -1, -1]
    >>> table = pl.DataFrame({"a": a, "b": b, "y": a, "z": [2 * i + j for i, j in zip(a, b)]})
    >>> seq = ds.anytime_sequence(table, ["y", "z"])
    >>> seq.steps["group"].to_list(), seq.steps["r2"].round(6).to_list()
    ([None, 'a', 'b'], [0.0, 0.9, 1.0])
    >>> seq.responses["z"].r2.round(6).tolist()
    [0.0, 0.8, 1.0]
    >>> {name: round(w["a"], 6) for name, w in seq.at(budget=1.0).coefficients.items()}
    {'y': 1.0, 'z': 2.0}
    """

    rule: str
    responses: dict[str, Sequence]

    _RECORD_TYPE: ClassVar[pa.StructType] = store.JOINT_TYPE
    _WHAT: ClassVar[str] = "a joint sequence"

    @property
    def _summary(self) -> tuple[str, str]:
        return listed(list(self.responses)), f"r2 {self.r2[-1]:.4f}"

    @property
    def _first(self) -> Sequence:
        """The first sequence, for fields that are the same in all."""
        return next(iter(self.responses.values()))

    gram = Of[Gram]("_first", "Gram that was searched.")
    terms = Of[Terms]("_first", "How the columns of the table became those of the sequence.")
    groups = Of[Groups]("_first", "Groups, their columns and costs.")
    aliased = Of[tuple[str, ...]]("_first", "Columns that depend linearly on columns before them.")
    spent = Of[Vector]("_first", "Summed cost of the groups held; shape (steps + 1,).")
    stop = Of[Stop]("_first", "Why the search ended.")
    condition = Of[float](
        "_first", "Estimated condition number of the selected columns' correlations."
    )
    call = Of[Call]("_first", "The problem, without its rows, and the method with its options.")
    _used = Of[str]("_first", "The numbers of rows used and left out, as text.")

    @cached_property
    def share(self) -> Vector:
        """Weights of the responses, which sum to 1; shape (K,)."""
        at = [self.gram.position(name, "target") for name in self.responses]
        return shares(np.diagonal(self.gram.comoment)[at], self._first.scale)

    @cached_property
    def explained(self) -> Vector:
        """Share of the responses' variance explained; shape (steps + 1,)."""
        return clip_share(self._weighted([seq.explained for seq in self.responses.values()]))

    @cached_property
    def r2(self) -> Vector:
        """1 - RSS/TSS of the responses, weighted by `share`; shape (steps + 1,)."""
        return clip_share(self._weighted([seq.r2 for seq in self.responses.values()]))

    @cached_property
    def records(self) -> list[Step]:
        """The steps 1, 2, ...; gain and explained are those of all responses."""
        records = [seq.records for seq in self.responses.values()]
        gains = self._weighted([[step.gain for step in steps] for steps in records])
        return [
            replace(step, gain=float(gain), explained=float(explained))
            for step, gain, explained in zip(records[0], gains, self.explained[1:], strict=True)
        ]

    def _extra_step_columns(self) -> list[pl.Series]:
        r2 = by_response({name: seq.r2 for name, seq in self.responses.items()})
        return [r2.alias("r2_each")]

    def _weighted(self, values: Any) -> Vector:
        return np.asarray(self.share @ np.array(values))

    @cached_property
    def linear(self) -> Linear:
        """The linear problem of all responses on unit-variance columns."""
        return linear(self.gram, list(self.responses), self.columns, self.ridge, self.scale)

    def model(self, step: int) -> JointModel:
        """Return the model after a step, as `Prefixes.model`."""
        models = {name: seq.model(step) for name, seq in self.responses.items()}
        return JointModel(models, self.share)

    def _at_step(self, step: int) -> JointModel:
        models = {name: seq._at_step(step) for name, seq in self.responses.items()}
        return JointModel(models, self.share)

    def _criteria(self, gamma: float, penalty: float | None) -> pl.DataFrame:
        fits = [seq._fits() for seq in self.responses.values()]
        return information.joint_criteria(fits, self.share, gamma, penalty)

    def _step_tests(self, kind: Literal["f", "lr"]) -> pl.DataFrame:
        tests = {name: seq._step_tests(kind) for name, seq in self.responses.items()}
        return tables_under("response", tests)

    def _priced(self, groups: Groups, spent: Vector, call: Call) -> "JointSequence":
        responses = {name: seq._priced(groups, spent, call) for name, seq in self.responses.items()}
        return replace(self, rule=f"{self.rule}, at other costs", responses=responses)

    def _quadratic(self, what: str) -> Linear:
        return self.linear

    def to_struct(self) -> dict[str, Any]:
        """Return the sequence as plain Python data, the Gram of its columns included."""
        return store.joint_record(self.rule, self.responses.values())

    @classmethod
    def from_struct(cls, record: Any) -> "JointSequence":
        """Read a record of `to_struct`, as `Prefixes.from_struct`."""
        rule, responses = store.joint_parts(record)
        return cls(rule, {parts["target"]: Sequence(**parts) for parts in responses})


def by_response(values: Mapping[str, npt.ArrayLike]) -> pl.Series:
    """Return a column of structs with a field for each response; values of shape (n,)."""
    return pl.DataFrame(dict(values)).to_struct()


#: The models of every prefix of a search, of any family; a score has a `ScoreSequence`.
AnySequence = Sequence | JointSequence | GlmSequence

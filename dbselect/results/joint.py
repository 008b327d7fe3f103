"""A search for several responses at once: one order of groups, models of each response."""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Ordered
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect.linear.problem import Linear, linear, shares
from dbselect.record import files
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.groups import Groups
from dbselect.record.steps import Stop, is_useful
from dbselect.results import store
from dbselect.results.joint_model import JointModel
from dbselect.results.predict import is_frame
from dbselect.results.sequence import Guarantee, Sequence, certified


@dataclass(frozen=True, eq=False)
class JointSequence(files.Stored):
    """Groups in the order in which they buy prediction of several responses.

    The objective is the sum over the responses, each of unit variance: `explained` is the
    mean of what is explained of each. With ``scale=False`` responses are taken as they
    are: they count by their variances.

    Parameters
    ----------
    rule : name of the rule
    responses : response -> its models, as a Sequence of the same steps; there `score` is
        that of all responses, `gain`, `explained` and `r2` are its own

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
    >>> {name: round(own["a"], 6) for name, own in seq.at(budget=1.0).coefficients.items()}
    {'y': 1.0, 'z': 2.0}
    """

    rule: str
    responses: dict[str, Sequence]

    def __repr__(self) -> str:
        order = ", ".join(self.groups.names[step.group] for step in self._first.records)
        return (
            f"JointSequence({', '.join(self.responses)} ~ {order or 'nothing'}; "
            f"r2 {self.r2[-1]:.4f}, spent {self.spent[-1]:g}; {self.stop.value})"
        )

    @property
    def _first(self) -> Sequence:
        """One of the sequences, for what is the same in all."""
        return next(iter(self.responses.values()))

    @property
    def gram(self) -> Gram:
        """Gram that was searched."""
        return self._first.gram

    @property
    def groups(self) -> Groups:
        """Groups, their columns and costs."""
        return self._first.groups

    @property
    def columns(self) -> list[str]:
        """D columns of the groups."""
        return self._first.columns

    @property
    def unused(self) -> tuple[str, ...]:
        """Columns that lie in no group."""
        return self._first.unused

    @property
    def aliased(self) -> tuple[str, ...]:
        """Columns that depend linearly on columns before them."""
        return self._first.aliased

    @property
    def spent(self) -> Vector:
        """Summed cost of the groups held; shape (steps + 1,)."""
        return self._first.spent

    @property
    def stop(self) -> Stop:
        """Why the search ended."""
        return self._first.stop

    @property
    def condition(self) -> float:
        """Estimated condition number of the selected columns' correlations."""
        return self._first.condition

    @property
    def doubling_capable(self) -> bool:
        """Whether every step had a group that met the cost limit of rule ``doubling``."""
        return self._first.doubling_capable

    @cached_property
    def share(self) -> Vector:
        """What each response counts, 1 in all; shape (K,)."""
        at = [self.gram.position(name, "target") for name in self.responses]
        return shares(np.diagonal(self.gram.comoment)[at], self._first.scale)

    @cached_property
    def explained(self) -> Vector:
        """Share of the responses' variance explained; shape (steps + 1,)."""
        return self._in_all([own.explained for own in self.responses.values()])

    @cached_property
    def r2(self) -> Vector:
        """1 - RSS/TSS of the responses, each counted by its share; shape (steps + 1,)."""
        return self._in_all([own.r2 for own in self.responses.values()])

    @cached_property
    def steps(self) -> pl.DataFrame:
        """One row a step, as `Sequence.steps`, and ``r2_each``: a struct, response -> r2."""
        gains = [[step.gain for step in own.records] for own in self.responses.values()]
        gain = [0.0, *self._in_all(gains)]
        return self._first.steps.with_columns(
            gain=np.array(gain),
            explained=self.explained,
            r2=self.r2,
            useful=pl.Series([True, *(is_useful(each) for each in gain[1:])]),
            r2_each=by_response({name: own.r2 for name, own in self.responses.items()}),
        )

    def _in_all(self, values: Any) -> Vector:
        return np.asarray(self.share @ np.array(values))

    @cached_property
    def problem(self) -> Linear:
        """The problem of all responses on unit-variance columns."""
        first = self._first
        return linear(self.gram, list(self.responses), self.columns, first.ridge, first.scale)

    def at(self, budget: float | None = None) -> JointModel:
        """Return the models of the longest prefix within a budget.

        Parameters
        ----------
        budget : >= 0, in the unit of cost, which is spent once for all responses; None =
            no limit

        Raises
        ------
        ArgumentError : `budget` is negative or not a number
        """
        models = {name: own.at(budget) for name, own in self.responses.items()}
        return JointModel(models, self.share)

    def expr(self, budget: float | None = None, *, nested: bool = True) -> pl.Expr:
        """Return the predictions of ``at(budget)`` as a Polars expression (`JointModel.expr`)."""
        return self.at(budget).expr(nested=nested)

    def sql(
        self, budget: float | None = None, dialect: str = "duckdb", *, nested: bool = True
    ) -> str:
        """Return the predictions of ``at(budget)`` as an SQL expression (`JointModel.sql`)."""
        return self.at(budget).sql(dialect, nested=nested)

    def predict(
        self,
        X: npt.ArrayLike,
        columns: Ordered[str] | None = None,
        budget: float | None = None,
    ) -> Matrix:
        """Return the predictions of ``at(budget)``, shape (n, K).

        Parameters
        ----------
        X, columns, budget : as in `Sequence.predict`
        """
        names = self.columns if columns is None and not is_frame(X) else columns
        return self.at(budget).predict(X, names)

    def with_costs(self, costs: Mapping[str, float]) -> "JointSequence":
        """Return the same steps at other costs, as `Sequence.with_costs`.

        Raises
        ------
        GroupError : a cost is missing, surplus or not a number > 0
        """
        others = {name: own.with_costs(costs) for name, own in self.responses.items()}
        return replace(self, rule=f"{self.rule}, at other costs", responses=others)

    def guarantee(self, cost: float | None = None) -> Guarantee:
        """Return how near to the best the greedy rule must come, as `Sequence.guarantee`.

        It holds of the responses together: K responses are one, ``vec(Y)``, on the columns
        ``I_K x X``, whose Gram has the eigenvalues of that of X. It holds of none alone.

        Parameters
        ----------
        cost : as in `Sequence.guarantee`

        Raises
        ------
        ArgumentError : the rule has no such theorem, or `cost` is not a number > 0
        """
        return replace(self._first, rule=self.rule).guarantee(cost)

    def certificate(self, budgets: Iterable[float] | None = None) -> pl.DataFrame:
        """Return bounds on what the best groups can explain, as `Sequence.certificate`.

        Parameters
        ----------
        budgets : in the unit of cost; default: what each step spent

        Raises
        ------
        ArgumentError : `budgets` is no list; a budget is negative or not a number

        Notes
        -----
        Those of ``responses[name].certificate()`` hold of one response alone.
        """
        records = self._first.records
        return certified(self.problem, self.groups, records, self.spent, self.explained, budgets)

    def to_struct(self) -> dict[str, Any]:
        """Return the sequence as plain Python data, the Gram of its columns included."""
        return store.joint_to_struct(self.rule, self.responses.values())

    @classmethod
    def from_struct(cls, record: Any) -> "JointSequence":
        """Read what `to_struct` gave: a mapping, or an Arrow struct scalar.

        Raises
        ------
        RecordError : a field is missing or of another kind
        """
        rule, responses = store.joint_parts(record)
        return cls(rule, {own["target"]: Sequence(**own) for own in responses})

    def write_parquet(self, path: str | Path) -> None:
        """Write a Parquet file of one row.

        Its column ``responses`` lists structs, of which ``target`` is the response and
        ``sequence`` the list of steps that `anytime_predict` takes in SQL.
        """
        files.write_parquet(store.joint_to_arrow(self.to_struct()), path)

    @classmethod
    def read_parquet(cls, path: str | Path) -> "JointSequence":
        """Read what `write_parquet` wrote.

        Raises
        ------
        SourceError : there is no such file, or it holds something else
        """
        fields = store.JOINT_FIELDS
        return cls.from_struct(files.read_row(path, fields, "a joint sequence"))


def by_response(values: Mapping[str, npt.ArrayLike]) -> pl.Series:
    """Return a column of structs with a value for each response.

    Parameters
    ----------
    values : response -> shape (n,)
    """
    return pl.DataFrame(dict(values)).to_struct()

"""What a result answers: the problem, without its rows, and the method with its options."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from dbselect._lazy import load
from dbselect.errors import RecordError
from dbselect.record.terms import Terms

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem

#: Options that are no part of the answer.
APART = ("callback", "executor", "resume")


@dataclass(frozen=True)
class Call:
    """A method of a problem and its options, which another source can be asked as well.

    Parameters
    ----------
    problem : without its rows
    method : name of the method
    options : those that are not at their defaults, by name
    of_gram : whether the source was a Gram, whose columns and terms the table lacks

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> call = ds.foba(table, "y", epsilon=0.1).call
    >>> call.method, call.options, call.problem
    ('foba', {'epsilon': 0.1}, Problem(y ~ all columns; without rows))
    >>> call.on(table.head(3)).steps["group"].to_list()
    [None, 'a']
    """

    problem: "Problem"
    method: str
    options: Mapping[str, Any] = field(default_factory=dict)
    of_gram: bool = False

    @classmethod
    def of(
        cls, problem: "Problem", method: str, options: Mapping[str, Any], of_gram: bool
    ) -> "Call":
        """Return the call of a method, without rows."""
        kept = {name: value for name, value in options.items() if name not in APART}
        return cls(problem.without_rows(), method, kept, of_gram)

    def on(self, source: Any, **options: Any) -> Any:
        """Return the answer of another source, with some options changed."""
        method = getattr(self.problem.on(source), self.method)
        return method(**{**self.options, **options})

    def to_json(self) -> str:
        """Return the call as JSON, for files."""
        problem = self.problem
        fields: dict[str, Any] = {"target": problem.target, **problem.changed()}
        for name, write in (("family", str), ("terms", Terms.to_struct)):
            if name in fields:
                fields[name] = write(fields[name])
        fields |= {"groups": problem.groups, "costs": _costs(problem.costs)}
        source: Any = problem.source
        if hasattr(source, "stored"):
            fields["source"] = source.stored()  # a score is no table
        asked = {"method": self.method, "options": dict(self.options), "of_gram": self.of_gram}
        return json.dumps({"problem": fields, **asked}, default=_plain)

    @classmethod
    def from_json(cls, text: Any) -> "Call":
        """Read what `to_json` wrote.

        Raises
        ------
        RecordError : the text is no such call
        """
        try:
            found = json.loads(text)
            fields = dict(found["problem"])
            if isinstance(fields["costs"], list):
                fields["costs"] = pl.Series(fields["costs"], dtype=pl.Float64)
            if "terms" in fields:
                fields["terms"] = Terms.from_struct(fields["terms"])
            score = fields.pop("source", None)
            source = score and load("objectives.score", "Score").of_file(score)
            problem = load("problem.problem", "Problem")(source, **fields)
            return cls(
                problem, str(found["method"]), dict(found["options"]), bool(found["of_gram"])
            )
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RecordError(f"the problem of the record is damaged: {error}") from error


class Answer:
    """A result of a call, and what it takes from the problem that it answers."""

    if TYPE_CHECKING:  # a field of results

        @property
        def call(self) -> Call:
            """The problem, without its rows, and the method with its options."""

    @property
    def problem(self) -> "Problem":
        """What is asked about the data, without its rows."""
        return self.call.problem

    @property
    def ridge(self) -> float:
        """Penalty, >= 0."""
        return self.problem.ridge

    @property
    def scale(self) -> bool:
        """Whether the penalty is on unit-variance columns."""
        return self.problem.scale

    @property
    def has_intercept(self) -> bool:
        """False where models go through the origin."""
        return self.problem.intercept


def _costs(costs: Any) -> Any:
    return costs.to_list() if isinstance(costs, pl.Series) else costs


def _plain(value: Any) -> Any:
    """Return a value of NumPy or another library as JSON takes it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "__iter__"):
        return list(value)
    return repr(value)

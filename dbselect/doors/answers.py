"""What a method answers for each Gram record of a column, in Arrow, for DuckDB and Polars alike."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from dbselect.methods.answer_types import TYPES
from dbselect.methods.fits.by import ANSWERED, answers_of
from dbselect.methods.records import has_labels, result_of
from dbselect.methods.sequences.by import searched
from dbselect.options.methods import OF_RECORDS
from dbselect.problem.problem import Problem
from dbselect.problem.records import of_records
from dbselect.record.gram import Gram, check_type
from dbselect.results.store import write_sequences
from dbselect.search.compiled import METHODS as COMPILED


@dataclass(frozen=True)
class RecordCall:
    """A method to run on records, parsed and checked before the first record.

    Parameters
    ----------
    problem : without rows
    method : name of the method
    options : of the method, those that are not at their defaults
    """

    problem: Problem
    method: str
    options: Mapping[str, Any]

    @classmethod
    def of(cls, method: str, target: Any, given: Mapping[str, Any]) -> "RecordCall":
        """Read what a door was given, by name.

        Raises
        ------
        ArgumentError : an option is unknown, not allowed, or needs rows
        """
        problem, options = of_records(method, target, given)
        return cls(problem, method, options)

    @property
    def type(self) -> pa.DataType:
        """The type of an answer."""
        return TYPES[OF_RECORDS[self.method].returns]

    def answers(self, records: pa.Array) -> pa.Array:
        """Return an answer for each record; an unusable one gives NULL, or an empty list."""
        returns = OF_RECORDS[self.method].returns
        if self.method in COMPILED:
            found = searched(records, self.problem, self.method, self.options)
            return found.field("sequence")
        if self.method in ANSWERED and has_labels(self.problem):
            found = answers_of(records, self.problem, self.method, self.options)
            return found.field("found")
        check_type(records)
        target = self.problem.targets[0]
        each = (result_of(self._ask, record, target) for record in records)
        return _WRITERS[returns](each)

    def _ask(self, gram: Gram) -> Any:
        return getattr(self.problem.on(gram), self.method)(**self.options)


def _model(found: Any) -> dict[str, Any]:
    return {
        "columns": found.columns,
        "groups": found.groups,
        "intercept": found.intercept,
        "coefficients": list(found.coefficients.items()),
        "explained": found.explained,
        "r2": found.r2,
        "spent": found.spent,
        "terms": found.model.terms.to_json(),
    }


def _proof(found: Any) -> dict[str, Any]:
    proof = found.proof
    return {**_model(found), "bound": proof.bound, "gap": proof.gap, "proven": proof.proven}


def _writer(returns: str, write: Callable[[Any], Any]) -> Callable[[Iterable[Any]], pa.Array]:
    """Return what writes the answers of a kind in Arrow, NULL for an absent one."""

    def written(each: Iterable[Any]) -> pa.Array:
        return pa.array([None if one is None else write(one) for one in each], TYPES[returns])

    return written


_WRITERS: dict[str, Callable[[Iterable[Any]], pa.Array]] = {
    "sequence": write_sequences,
    "model": _writer("model", _model),
    "proof": _writer("proof", _proof),
    "penalised": _writer("penalised", lambda found: {**_model(found), **asdict(found.shrinkage)}),
    "selection": _writer("selection", lambda found: found.table.to_dicts()),
}


def python_value(value: Any) -> Any:
    """Return an SQL value as the Python value that a method takes."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: python_value(item) for name, item in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {name: python_value(item) for name, item in value}  # a MAP
    return value

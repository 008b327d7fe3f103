"""Polars expressions for the methods that run on a column of Gram records."""

import inspect
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa

from dbselect.methods.records import answer_type, answers_of, by_blocks, searched, statuses
from dbselect.options.option import in_order, option_lines, with_parameters
from dbselect.problem.records import of_records
from dbselect.record.gram import dtype_of
from dbselect.search.compiled import METHODS as COMPILED
from dbselect.spec.methods import OF_RECORDS, Method, places_of


class Searching:
    """Methods of an expression of records, with one result per record; null if unusable."""

    _expr: pl.Expr

    def check(self, target: str) -> pl.Expr:
        """Return the reason why each record has no sequence, as `gram_check` in SQL."""

        def reasons(records: pl.Series) -> pl.Series:
            return by_blocks(records, lambda block: statuses(block, target), pl.String)

        return self._expr.map_batches(reasons, return_dtype=pl.String, is_elementwise=True)

    def _answers(self, method: str, target: Any, arguments: dict[str, Any]) -> pl.Expr:
        """Run a method on each record, many at a time."""
        problem, options = of_records(method, target, arguments)
        dtype = dtype_of(answer_type(method))

        def answer(block: pa.Array) -> pa.Array:
            if method in COMPILED:
                return searched(block, problem, method, options).field("sequence")
            return answers_of(block, problem, method, options).field("found")

        return self._expr.map_batches(
            lambda records: by_blocks(records, answer, dtype),
            return_dtype=dtype, is_elementwise=True,
        )  # fmt: skip


def _method(name: str, method: Method) -> Callable[..., pl.Expr]:
    """Return a method of the namespace, with a signature made from its options."""
    places = places_of(method)
    has_groups = "columns" not in method.first
    options = {key: option for key, option in method.in_engines.items() if key not in places}
    fields = method.fields_in_engines
    kind = inspect.Parameter
    positional = [
        kind(place, kind.POSITIONAL_OR_KEYWORD, default=method.known[place].default)
        for place in places
    ]
    names = ["groups", "costs"] if has_groups else []
    positional += [kind(key, kind.POSITIONAL_OR_KEYWORD, default=None) for key in names]
    keywords = [
        kind(key, kind.KEYWORD_ONLY, default=option.default)
        for key, option in {**options, **fields}.items()
    ]
    leading = [kind(key, kind.POSITIONAL_OR_KEYWORD) for key in ("self", "target")]
    signature = inspect.Signature([*leading, *positional, *keywords], return_annotation=pl.Expr)

    def call(self: Searching, target: str, *values: Any, **options: Any) -> pl.Expr:
        names = [parameter.name for parameter in positional]
        if len(values) > len(names):
            raise TypeError(f"{name} takes {len(names)} arguments after the target")
        placed = dict(zip(names, values, strict=False))
        return self._answers(name, target, {**placed, **options})

    lines = option_lines({place: method.known[place] for place in places} | options | fields)
    groups_line = ["groups, costs : as in Python"] if has_groups else []
    call.__name__, call.__qualname__ = name, f"Searching.{name}"
    setattr(call, "__signature__", signature)  # noqa: B010 - mypy knows no such attribute
    call.__doc__ = with_parameters(
        f"Return for each record what `{name}` of SQL returns.\n",
        in_order(["target : column to predict", *groups_line, *lines], list(signature.parameters)),
    )
    return call


for _name, _entry in OF_RECORDS.items():
    setattr(Searching, _name, _method(_name, _entry))

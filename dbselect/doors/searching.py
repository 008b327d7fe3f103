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
    """Methods of an expression of records, one answer each; null for an unusable one."""

    _expr: pl.Expr

    def check(self, target: str) -> pl.Expr:
        """Return why no sequence can be computed from each record, as `gram_check` in SQL."""

        def reasons(records: pl.Series) -> pl.Series:
            return by_blocks(records, lambda block: statuses(block, target), pl.String)

        return self._expr.map_batches(reasons, return_dtype=pl.String, is_elementwise=True)

    def _asked(self, method: str, target: Any, given: dict[str, Any]) -> pl.Expr:
        """Return the answer of a method for each record, many at a time."""
        problem, options = of_records(method, target, given)
        dtype = dtype_of(answer_type(method))

        def answers(block: pa.Array) -> pa.Array:
            if method in COMPILED:
                return searched(block, problem, method, options).field("sequence")
            return answers_of(block, problem, method, options).field("found")

        return self._expr.map_batches(
            lambda records: by_blocks(records, answers, dtype),
            return_dtype=dtype, is_elementwise=True,
        )  # fmt: skip


def _method(name: str, method: Method) -> Callable[..., pl.Expr]:
    """Return a method of the namespace, with the signature of its options."""
    places = places_of(method)
    has_groups = "columns" not in method.first
    known = {name: one for name, one in method.in_engines.items() if name not in places}
    fields = method.fields_in_engines
    kind = inspect.Parameter
    positional = [
        kind(place, kind.POSITIONAL_OR_KEYWORD, default=method.known[place].default)
        for place in places
    ]
    named = ["groups", "costs"] if has_groups else []
    positional += [kind(one, kind.POSITIONAL_OR_KEYWORD, default=None) for one in named]
    keywords = [
        kind(option, kind.KEYWORD_ONLY, default=one.default)
        for option, one in {**known, **fields}.items()
    ]
    own = [kind("self", kind.POSITIONAL_OR_KEYWORD), kind("target", kind.POSITIONAL_OR_KEYWORD)]
    signature = inspect.Signature([*own, *positional, *keywords], return_annotation=pl.Expr)

    def asked(self: Searching, target: str, *given: Any, **options: Any) -> pl.Expr:
        names = [one.name for one in positional]
        if len(given) > len(names):
            raise TypeError(f"{name} takes {len(names)} arguments after the target")
        placed = dict(zip(names, given, strict=False))
        return self._asked(name, target, {**placed, **options})

    texts = option_lines({one: method.known[one] for one in places} | known | fields)
    groups = ["groups, costs : as in Python"] if has_groups else []
    asked.__name__, asked.__qualname__ = name, f"Searching.{name}"
    setattr(asked, "__signature__", signature)  # noqa: B010 - mypy knows no such attribute
    asked.__doc__ = with_parameters(
        f"Return for each record what `{name}` of SQL returns.\n",
        in_order(["target : column to predict", *groups, *texts], list(signature.parameters)),
    )
    return asked


for _name, _one in OF_RECORDS.items():
    setattr(Searching, _name, _method(_name, _one))

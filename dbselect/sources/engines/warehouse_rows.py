"""Expressions and queries of ibis for the columns of a table, from which `warehouse` sums."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ibis
import numpy as np
import numpy.typing as npt
import polars as pl
from ibis.expr import operations

from dbselect.record.columns import SUFFIX, leaves
from dbselect.record.gram import Vector
from dbselect.sources.engines.expressions import (
    all_of,
    double_of,
    kept_level,
    level_of,
    null_if,
    run,
    run_text,
    stand_in,
    value_of,
    weight_of,
)
from dbselect.sources.request import Request

#: The largest double; a larger value is infinite, which not every engine can test.
LARGEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class Part:
    """A column of numbers, or its indicator."""

    name: str  # of the column of the Gram
    column: int  # position of the column in the request; of an indicator, of its column
    policy: str  # of that column
    is_mark: bool = False  # whether it is the indicator


class Rows:
    """Columns of a table as expressions of ibis, for a request without folds and bases."""

    def __init__(self, table: Any, request: Request) -> None:
        self.table = table
        self.request = request
        self._backend = table.get_backend()
        #: Names of the keys in the results of all queries
        self.keys = [f"by_{at}" for at in range(len(request.by))]
        self._by = dict(zip(self.keys, request.by, strict=True))
        leaf_of = {leaf.name: leaf for leaf in leaves(table.schema().to_pyarrow())}
        self._numbers = [double_of(table, leaf) for leaf in request.columns]
        self._levels = [
            level_of(value_of(table, leaf_of[category.column]))
            for category in request.terms.categories
        ]
        categories = [category.column for category in request.terms.categories]
        names = [*request.names, *categories]
        #: Column of the table -> suffix of the names of its sums in the result of `counts`
        self.labels = {name: f"{at}" for at, name in enumerate(names)}
        values = [*self._numbers, *self._levels]
        self._missing = [self._is_missing(value) for value in values]
        self.weight = None
        needed = [
            ~missing
            for missing, policy in zip(self._missing, request.policies, strict=True)
            if policy in ("skip", "error")
        ]
        if request.weight is not None:
            self.weight = double_of(table, leaf_of[request.weight])
            needed += [~self._is_missing(self.weight), self.weight != 0.0]
        self._used = all_of(needed)

    def _is_missing(self, value: Any) -> Any:
        has_nan = self._backend.has_operation(operations.IsNan) and self._backend.name != "mysql"
        if value.type().is_floating() and has_nan:
            return value.isnull() | value.isnan()
        return value.isnull()

    def parts_of(self, width: int) -> Iterator[range]:
        """Cut the columns so that the result of `counts` fits into one query."""
        size = (width - len(self.keys) - 5) // 5
        total = len(self.labels)
        for start in range(0, max(total, 1), size):
            yield range(start, min(start + size, total))

    def counts(self, columns: Sequence[int]) -> pl.DataFrame:
        """Count rows and missing values and sum the values, by group, of used and unused rows."""
        sums: dict[str, Any] = {
            "rows": self.table.count(),
            "weight": weight_of(self.table, self.weight),
        }
        if self.weight is not None:
            sums |= {"least": self.weight.min(), "most": self.weight.max()}
        for at in columns:
            sums[f"missing_{at}"] = self._missing[at].sum()
            if at >= len(self._numbers):
                continue
            number, missing = self._numbers[at], self._missing[at]
            present = null_if(missing, number)
            weighted = present if self.weight is None else present * self.weight
            sums[f"sum_{at}"] = weighted.sum()
            sums[f"infinite_{at}"] = (present.abs() > LARGEST).sum()
            if self.request.policies[at] == "near":
                sums[f"weight_{at}"] = weight_of(self.table, self.weight, ~missing)
            if self._backend.name == "sqlite":
                # SQLite does not enforce column types, and counts text as 0.
                value = value_of(self.table, self.request.columns[at])
                if not (value.type().is_date() or value.type().is_timestamp()):
                    sums[f"text_{at}"] = value.typeof().isin(["text", "blob"]).sum()
        keys = {key: self.table[name] for key, name in self._by.items()}
        return run(self.table.group_by(**keys, used=self._used).aggregate(**sums))

    def parts(self, gaps: Mapping[str, npt.NDArray[np.int64]]) -> list[Part]:
        """Return the columns of numbers, and indicators of columns with gaps."""
        parts = []
        numbers = zip(self.request.names, self.request.policies, strict=False)
        for at, (name, policy) in enumerate(numbers):
            parts.append(Part(name, at, policy))
            if policy == "near" and gaps[name].any():
                parts.append(Part(name + SUFFIX, at, policy, is_mark=True))
        return parts

    def used(self, parts: Mapping[int, Part], categories: Sequence[int]) -> Any:
        """Return the rows used: keys, weight ``w``, values ``x0``, ..., levels ``level_0``, ..."""
        columns = {key: self.table[name] for key, name in self._by.items()}
        for key, name in enumerate(self._by.values()):
            columns |= stand_in(self.table[name], key)
        if self.weight is not None:
            columns["w"] = self.weight
        for j, part in parts.items():
            number, missing = self._numbers[part.column], self._missing[part.column]
            if part.is_mark:
                columns[f"x{j}"] = ibis.ifelse(missing, 1, 0).cast("float64")
            else:
                is_whole = part.policy in ("skip", "error")
                columns[f"x{j}"] = number if is_whole else null_if(missing, number)
        for at in categories:
            category, value = self.request.terms.categories[at], self._levels[at]
            columns[f"gap_{at}"] = value.isnull()
            columns[f"level_{at}"] = kept_level(value, category)
        return self.table.filter(self._used).select(**columns)

    def codes(self, frame: pl.DataFrame, at: int) -> npt.NDArray[np.int64]:
        """Return the column number of each row's level; a number too large if it has none."""
        category = self.request.terms.categories[at]
        code_of = {level: code for code, level in enumerate(category.levels)}
        beyond = len(category.names)
        # A missing level has the column after all others, if there is one.
        other = len(code_of) if category.rest else beyond + 1
        pairs = zip(frame[f"level_{at}"].to_list(), frame[f"gap_{at}"].to_list(), strict=True)
        codes = [beyond if gap else code_of.get(level, other) for level, gap in pairs]
        return np.array(codes, dtype=np.int64)


class Centred:
    """The rows used, as deviations from the mean of their group, `centres` if there is only one."""

    def __init__(self, rows: Rows, parts: Sequence[Part], centres: Mapping[str, Vector]) -> None:
        self.rows = rows
        self.parts = parts
        self._centres = centres

    def products(self, numbers: Sequence[int], pairs: Sequence[tuple[int, int]]) -> pl.DataFrame:
        """Sum deviations, and products of pairs of these, over each group."""
        table = self._table(numbers)
        joined = [j for j in numbers if self._is_joined(j)]
        weight = "" if self.rows.weight is None else " * {w}"
        sums = {"rows": "COUNT(*)"}
        sums |= {f"centre_{j}": f"MAX({{c{j}}})" for j in joined}
        sums |= {f"sum_{j}": f"SUM({{d{j}}}{weight})" for j in numbers}
        sums |= {f"product_{i}_{j}": f"SUM({{d{i}}} * {{d{j}}}{weight})" for i, j in pairs}
        frame = run_text(table, self.rows.keys, sums)
        fixed = {f"centre_{j}": self._centre(j) for j in numbers if j not in joined}
        return frame.with_columns(pl.lit(value).alias(name) for name, value in fixed.items())

    def by_levels(self, categories: Sequence[int], numbers: Sequence[int]) -> pl.DataFrame:
        """Sum weights and deviations over each level, or pair of levels, of each group."""
        table = self._table(numbers, categories)
        weight = self._weight(table)
        sums = {"rows": table.count(), "weight": self._total(table)}
        sums |= {f"sum_{j}": weight(table[f"d{j}"]).sum() for j in numbers}
        levels = [f"{kind}_{at}" for at in categories for kind in ("level", "gap")]
        return run(table.group_by([*self.rows.keys, *levels]).aggregate(**sums))

    def _total(self, table: Any, where: Any = None) -> Any:
        return weight_of(table, None if self.rows.weight is None else table["w"], where)

    def _weight(self, table: Any) -> Callable[[Any], Any]:
        if self.rows.weight is None:
            return lambda value: value
        return lambda value: value * table["w"]

    def _table(self, numbers: Sequence[int], categories: Sequence[int] = ()) -> Any:
        """Return the rows used with deviations ``d0``, ... and centres ``c0``, ... by group."""
        parts = {j: self.parts[j] for j in numbers}
        table = self.rows.used(parts, categories)
        joined = [j for j in numbers if self._is_joined(j)]
        if joined:
            table = self._with_centres(table, joined)
        deviations = {}
        for j, part in parts.items():
            centre = table[f"c{j}"] if j in joined else ibis.literal(self._centre(j), "float64")
            deviations[f"d{j}"] = _deviation(table[f"x{j}"], centre, part)
        return table.mutate(**deviations)

    def _is_joined(self, j: int) -> bool:
        """Whether the centre differs by group, and is computed and joined by the engine."""
        return bool(self.rows.keys) and not self.parts[j].is_mark

    def _centre(self, j: int) -> float:
        """Return the centre of an indicator, or of a column of the only group."""
        part = self.parts[j]
        return 0.0 if part.is_mark else float(self._centres[part.name][0])

    def _with_centres(self, table: Any, numbers: Sequence[int]) -> Any:
        """Join the means of the groups, which the engine computes in the same query."""
        by = [f"{kind}{at}" for at in range(len(self.rows.keys)) for kind in ("key", "null")]
        weight = self._weight(table)
        means = {}
        for j in numbers:
            value = table[f"x{j}"]
            present = value.notnull() if self.parts[j].policy == "near" else None
            mean = weight(value).sum() / self._total(table, present)
            means[f"c{j}"] = mean.fill_null(0.0)
        centres = table.group_by(by).aggregate(**means)
        centres = centres.rename({f"mean_{name}": name for name in by})
        joined = table.join(centres, [table[name] == centres[f"mean_{name}"] for name in by])
        return joined.drop([f"mean_{name}" for name in by])


def _deviation(value: Any, centre: Any, part: Part) -> Any:
    """Return a value less the centre; a missing value counts as the centre."""
    deviation = value - centre
    if part.is_mark or part.policy in ("skip", "error"):
        return deviation
    return ibis.ifelse(value.isnull(), ibis.literal(0.0, "float64"), deviation)

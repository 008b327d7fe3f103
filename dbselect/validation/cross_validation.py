"""Result of cross-validation: the scores of every candidate, and the choice."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.options.kinds import one_of
from dbselect.pages.charts import MOST_STEPS, Heights, options_beside, step_curves, thinned
from dbselect.pages.html import Glance, InNotebooks
from dbselect.record.gram import Gram
from dbselect.record.steps import uninterrupted
from dbselect.results.fields import StoredFields
from dbselect.results.selected import AnyModel, model_in
from dbselect.spec.methods import METHODS
from dbselect.spec.spec import Spec
from dbselect.validation.grid import answer
from dbselect.validation.held_out import CHOICES, STD_ERROR
from dbselect.validation.scoring.metrics import METRICS


@dataclass(frozen=True, eq=False)
class CrossValidation(StoredFields, InNotebooks):
    """Held-out scores of every candidate: a point of the grid, and a step of its sequence.

    Parameters
    ----------
    problem : the problem, without its rows
    keys : columns that identify the segments
    table : one row per segment and candidate: the keys; point, the number of the point in
        `grid`; its options; step; spent and columns, means over the folds; r2, mse,
        deviance, accuracy, or the requested metrics, and their standard errors, null where the
        family has none; best
        and one_standard_error, true for one row per segment; reason, why scores are missing
    scores : one row per segment, candidate and fold: the keys, point, options, step, fold;
        rows, number of held-out rows; spent, columns, and the scores
    grid : options of each point
    options : options of all points
    method : name of the method, or the user's function of a problem
    sources : for each segment its keys and its data from all folds: a Gram, or with a
        family the table

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": range(40), "b": [1, -1] * 20})
    >>> table = table.with_columns(y=2 * pl.col("a") + (pl.col("a") % 7))
    >>> folds = ds.gram_by(table, fold=5)
    >>> cv = ds.cross_validate(folds, "y", "anytime_sequence", {"ridge": [0.0, 0.1]})
    >>> cv.one_standard_error.select("ridge", "step", "spent").rows()
    [(0.0, 1, 1.0)]
    >>> cv.arguments()
    {'ridge': 0.0, 'max_groups': 1}
    >>> cv.model().columns
    ['a']
    """

    problem: Spec
    keys: list[str]
    table: pl.DataFrame
    scores: pl.DataFrame
    grid: list[dict[str, Any]]
    options: dict[str, Any]
    method: str | Callable[..., Any]
    sources: list[tuple[dict[str, Any], Any]]

    @property
    def target(self) -> str | list[str]:
        """The column to predict, or several."""
        target = self.problem.target
        return target if isinstance(target, str) else list(target or ())

    def __repr__(self) -> str:
        spent = self.one_standard_error["spent"].drop_nulls().to_list()
        least = f"; spent {spent[0]:g} within one standard error" if len(spent) == 1 else ""
        segments = f"{len(self.sources)} segments, " if self.keys else ""
        return (
            f"CrossValidation({self.target}; {self._points}{self.table.height} candidates, "
            f"{segments}{self._rows} rows{least})"
        )

    @property
    def _glance(self) -> Glance:
        choices = [
            self.table.filter(choice).select(
                *self.keys, pl.lit(choice).alias("choice"), *self._varied, "step", "spent",
                "columns", *(f"{name}{end}" for name in self._scored for end in ("", "_std_error")),
            )
            for choice in reversed(CHOICES)
        ]  # fmt: skip
        name = self._measures[0]
        drawn = self.table.filter(pl.col(name).is_not_null())
        curve = None
        if len(self.grid) == 1 and not self.keys and drawn.height > 1:
            curve = (drawn["spent"], drawn[name], f"held-out {name} against what is spent")
        return Glance(pl.concat(choices), curve)

    @property
    def _points(self) -> str:
        return f"{len(self.grid)} points of the grid, " if len(self.grid) > 1 else ""

    @property
    def _varied(self) -> list[str]:
        """The options in the grid."""
        return list(dict.fromkeys(name for point in self.grid for name in point))

    @property
    def _scored(self) -> list[str]:
        """The scores that are defined for the family."""
        return [
            name for name in self._measures if self.table[name].null_count() < self.table.height
        ]

    @property
    def _measures(self) -> list[str]:
        errors = [name for name in self.table.columns if name.endswith(STD_ERROR)]
        return [name.removesuffix(STD_ERROR) for name in errors]

    @property
    def _rows(self) -> int:
        """Number of held-out rows, over all folds and segments."""
        once = self.scores.group_by(*self.keys, "fold").agg(pl.col("rows").max())
        return int(once["rows"].sum())

    @property
    def best(self) -> pl.DataFrame:
        """The candidate with the lowest mse or deviance, or best metric, one row per segment.

        Ties go to the simpler candidate.
        """
        return self.table.filter("best")

    @property
    def one_standard_error(self) -> pl.DataFrame:
        """The simplest candidate within one standard error of the best, one row per segment.

        Simplest: least spent, then fewest columns.
        """
        return self.table.filter("one_standard_error")

    def arguments(self, choice: str = "one_standard_error", **keys: Any) -> dict[str, Any]:
        """Return the arguments of the method for the chosen candidate.

        Pass them to the function of the method after the source and the target.

        Parameters
        ----------
        choice : ``"one_standard_error"`` or ``"best"``
        keys : values of the segment's keys

        Notes
        -----
        For `anytime_sequence` the step is ``max_groups``, or a ``budget`` of 0 for step 0.
        Other sequences have no such option; `model` selects the step for all.

        Raises
        ------
        ArgumentError : an unknown choice, or no such segment
        DataError : the segment has no scores
        """
        row, _ = self._chosen(choice, keys)
        set_fields = {"groups": self.problem.groups, "costs": self.problem.costs}
        fields = {name: value for name, value in set_fields.items() if value is not None}
        fields |= self.problem.changed()
        options = {**fields, **self.options, **self.grid[row["point"]]}
        method_options = METHODS[self.method].known if isinstance(self.method, str) else ()
        if row["step"] is None or "max_groups" not in method_options:
            return options
        return options | ({"max_groups": row["step"]} if row["step"] else {"budget": 0.0})

    def model(self, choice: str = "one_standard_error", **keys: Any) -> AnyModel:
        """Fit the chosen candidate to all folds together.

        Parameters
        ----------
        choice, keys : as in `arguments`

        Raises
        ------
        ArgumentError, DataError : as `arguments`
        """
        row, source = self._chosen(choice, keys)
        if source is None:
            raise ArgumentError(
                "a stored cross-validation has no rows; fit problem.on(table) with `arguments`"
            )
        options = {**self.options, **self.grid[row["point"]]}
        is_gram = isinstance(source, Gram)
        problem = self.problem.on_gram(source) if is_gram else self.problem.on(source)
        result = model_in(uninterrupted(answer(problem, self.method, options)))
        if isinstance(result, AnyModel):
            return result
        model: AnyModel = result.model(min(row["step"], len(result.spent) - 1))
        return model

    def plot(self, measure: str | None = None, **keys: Any) -> Any:
        """Plot the held-out scores against cost.

        Parameters
        ----------
        measure : ``"r2"``, ``"mse"``, ``"deviance"`` or ``"accuracy"``, or a requested
            metric; default: the first
        keys : values of the segment's keys

        Returns
        -------
        Altair chart: a line and a band of one standard error for each point of the grid,
        and both choices. Its ``data`` is the plotted DataFrame, one row per candidate:
        options, step, spent, columns, value, low, high, choice

        Raises
        ------
        ArgumentError : an unknown measure, or no such segment
        DataError : there are no scores of this measure
        EngineError : altair is not installed
        """
        measure = self._measures[0] if measure is None else measure
        one_of(self._measures).check("measure", measure)
        self._segment(keys)
        rows = self._rows_of(keys).filter(pl.col(measure).is_not_null())
        if rows.is_empty():
            raise DataError(f"there are no scores of measure {measure!r}")
        names = [", ".join(f"{k}={v}" for k, v in point.items()) or "all" for point in self.grid]
        half = pl.col(f"{measure}_std_error").fill_null(0.0)
        near = pl.col("one_standard_error")
        frame = rows.select(
            pl.Series("options", names).gather(rows["point"]),
            "step", "spent", "columns", value=measure,
            low=pl.col(measure) - half, high=pl.col(measure) + half,
            choice=pl.when(pl.col("best") & near).then(pl.lit("best, and simplest within an error"))
            .when("best").then(pl.lit("best"))
            .when(near).then(pl.lit("simplest within one standard error")),
        )  # fmt: skip
        notes = [
            f"{self._points}{rows.height} candidates; the band is one standard error of the folds."
        ]
        title = f"{self.target}: {measure} on rows held out" + "".join(
            f", {name} {value}" for name, value in keys.items()
        )
        kind = measure.split("@")[0]
        more = kind not in METRICS or METRICS[kind].more
        heights = Heights("value", f"{measure}, held out", share=measure == "r2", more=more)
        value = ("value", ".5~g", measure)
        tips = ["options:N", value, "step:Q", "spent:Q", "columns:Q", "choice:N"]
        if frame["step"].null_count() == frame.height:
            return options_beside(frame, heights, title, notes, tips)
        parts = frame.partition_by("options", maintain_order=True)
        most = max(2, MOST_STEPS * 3 // len(parts))
        if any(part.height > most for part in parts):
            notes.append(f"Of each line {most} candidates are drawn, spread evenly.")
        frame = pl.concat([thinned(part, most, pl.col("choice").is_not_null()) for part in parts])
        return step_curves(frame, heights, title, notes, line="options", tips=tips)

    def _without_rows(self) -> "CrossValidation":
        grams = [(keys, all_ if isinstance(all_, Gram) else None) for keys, all_ in self.sources]
        return replace(self, sources=grams)

    def _segment(self, keys: Mapping[str, Any]) -> Any:
        """Return the source of a segment: all its folds together."""
        if set(keys) != set(self.keys):
            raise ArgumentError(f"keys are {list(keys)}; they must be {self.keys}")
        sources = [source for segment, source in self.sources if segment == keys]
        if not sources:
            raise ArgumentError(f"there is no segment {dict(keys)}")
        return sources[0]

    def _rows_of(self, keys: Mapping[str, Any]) -> pl.DataFrame:
        of_segment = [pl.col(name).eq_missing(pl.lit(value)) for name, value in keys.items()]
        return self.table.filter(*of_segment)

    def _chosen(self, choice: str, keys: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        one_of(CHOICES).check("choice", choice)
        source, rows = self._segment(keys), self._rows_of(keys)
        chosen = rows.filter(choice)
        if chosen.is_empty():
            raise DataError(rows["reason"][0])
        return chosen.row(0, named=True), source

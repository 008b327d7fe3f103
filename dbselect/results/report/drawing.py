"""The chart of a sequence: its curves as one frame, with captions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from dbselect import _forked
from dbselect.errors import ArgumentError
from dbselect.options.kinds import FLAG
from dbselect.pages.charts import MOST_STEPS, Heights, step_curves, thinned
from dbselect.results.heights import cost_of_height, flat_from, serving_steps

#: Name of the curve whose row has the cost of the dotted line.
PLATEAU = "plateau"
#: Name of the curve on held-out rows.
HELD_OUT = "r2, held out"
#: With more responses, only their mean is drawn.
MOST_RESPONSES = 4
#: Curves that differ by less are drawn once.
SAME_SHARE = 1e-9


def drawn(sequence: Any, bound: bool, held_out: Any) -> Any:
    """Return the chart of `Prefixes.plot`."""
    _forked.check_threads()
    FLAG.check("bound", bound)
    serving = serving_steps(sequence.spent)
    steps = sequence.steps.with_columns(why=pl.Series(_reasons(sequence)))[serving]
    if serving[0] > serving[-1]:
        # A backward step removes the group of the next dearer prefix.
        removed = pl.col("group", "cost").shift(1), -pl.col("gain").shift(1)
        steps = steps.with_columns(*removed)
        captions = [f"From all groups until {sequence.stop.value}. {sequence._used}."]
    else:
        captions = [f"{sequence._summary[1]}, spent {sequence.spent[-1]:g}; {sequence.stop.value}. "
                f"{sequence._used}."]  # fmt: skip
        if len(serving) <= len(sequence.records):
            captions.append("Drawn is what each budget buys, without groups that were given back.")
    kept = thinned(steps)
    if kept.height < steps.height:
        captions.append(f"Of {steps.height - 1} steps {kept.height - 1} are drawn, spread evenly.")
    curves = {sequence._HEIGHT.split(",")[0]: sequence.r2}
    if np.abs(sequence.explained - sequence.r2).max() > SAME_SHARE:
        curves["explained, less the penalty"] = sequence.explained
    responses = getattr(sequence, "responses", {})
    if len(responses) <= MOST_RESPONSES:
        curves |= {f"r2 of {name}": response.r2 for name, response in responses.items()}
    if bound and sequence._is_quadratic:
        budgets = kept["spent"].unique().sort()
        bounds = dict(zip(budgets, sequence.certificate(budgets)["bound"], strict=True))
        curves["bound on any groups"] = np.array(
            [bounds.get(cost, np.nan) for cost in sequence.spent.tolist()]
        )
    parts = [_part(kept, name, values[kept["step"].to_numpy()]) for name, values in curves.items()]
    if held_out is not None:
        parts.append(held_out_curve(held_out, sequence))
        captions.append(
            "The band is one standard error of the folds." if _is_validated(held_out) else ""
        )
    at = flat_from(sequence.spent, sequence.explained)
    spent = cost_of_height(sequence.spent, sequence.explained, at)
    if at < 1:
        captions.append(f"Beyond the dotted line, {1 - at:.0%} of the gain remains.")
        parts.append(pl.DataFrame({"curve": [PLATEAU], "spent": [spent], "why": [f"{at:.0%}"]}))
    frame = pl.concat(parts, how="diagonal")
    is_share = sequence._HEIGHT.startswith("r2")
    height, digits = ("share explained", ".4~%") if is_share else (sequence._HEIGHT, ".5~g")
    tips = [
        "curve:N", ("value", digits, "explained"), "group:N", "step:Q", "cost:Q", "spent:Q",
        ("gain", digits, "gain"), "why:N",
    ]  # fmt: skip
    title = f"{sequence._summary[0]}: {height} for its cost"
    heights = Heights("value", height, share=is_share)
    captions = [caption for caption in captions if caption]
    mark = spent if at < 1 else None
    return step_curves(frame, heights, title, captions, line="curve", tips=tips, mark=mark)


def _part(steps: pl.DataFrame, name: str, values: Any) -> pl.DataFrame:
    return steps.select(
        "step", "group", "cost", "spent", "gain", "why",
        curve=pl.lit(name), value=pl.Series(values, dtype=pl.Float64),
        low=pl.lit(None, pl.Float64), high=pl.lit(None, pl.Float64),
    )  # fmt: skip


def _reasons(sequence: Any) -> list[str]:
    """Return the choice of each step, in words, and for the last one why the search stopped."""
    reasons = ["the model without columns", *(step.choice.value for step in sequence.records)]
    reasons[-1] += f"; then it ended: {sequence.stop.value}"
    return reasons


def _is_validated(held_out: Any) -> bool:
    return hasattr(held_out, "table") and hasattr(held_out, "one_standard_error")


def held_out_curve(held_out: Any, sequence: Any) -> pl.DataFrame:
    """Return the curves to draw beside a sequence: on held-out rows, or of other sequences.

    Cross-validation has a band. ArgumentError for another target, or a sequence without a name.
    """
    if isinstance(held_out, Mapping):
        curves = [
            _curve(other, f"held_out[{name!r}]", sequence).with_columns(curve=pl.lit(name))
            for name, other in held_out.items()
        ]
        return pl.concat(curves, how="diagonal")
    if hasattr(held_out, "records"):
        raise ArgumentError(
            f"held_out is a {type(held_out).__name__}, whose r2 is that of the rows it was "
            "searched on; evaluate(sequence, rows) judges it on other rows, and "
            "held_out={'a name': sequence} draws another sequence beside this one"
        )
    return _curve(held_out, "held_out", sequence)


def _curve(held_out: Any, what: str, sequence: Any) -> pl.DataFrame:
    """Return one curve; `what` names it in errors."""
    targets = getattr(getattr(held_out, "problem", None), "targets", None)
    expected = sequence.problem.targets
    if targets and expected and list(targets) != list(expected):
        raise ArgumentError(
            f"{what} predicts {', '.join(targets)}, and this sequence {', '.join(expected)}; their "
            "shares are of different things"
        )
    table = getattr(held_out, "table", held_out)
    if _is_validated(held_out):
        if held_out.keys or len(held_out.grid) > 1:
            raise ArgumentError(
                f"{what} has {len(held_out.sources)} segments and {len(held_out.grid)} points of "
                "a grid; it must have one of each, or be drawn by its own plot"
            )
        _check_scores(table, what)
        table = table.with_columns(half=pl.col("r2_std_error").fill_null(0.0))
    elif hasattr(held_out, "records"):
        heights = pl.Series("r2", held_out.r2)
        table = held_out.steps.with_columns(heights, half=pl.lit(None, pl.Float64))
    elif isinstance(table, pl.DataFrame):
        _check_scores(table, what)
        table = table.with_columns(half=pl.lit(None, pl.Float64))
    else:
        raise ArgumentError(
            f"{what} is a {type(held_out).__name__}; it must be what cross_validate or evaluate "
            "returns"
        )
    table = thinned(
        table.filter(pl.col("r2").is_not_null(), pl.col("step").is_not_null()), MOST_STEPS
    )
    if table.is_empty():
        raise ArgumentError(f"{what} has no r2 of a step; there is nothing to draw")
    return table.select(
        "step", "spent", curve=pl.lit(HELD_OUT), value="r2",
        low=pl.col("r2") - pl.col("half"), high=pl.col("r2") + pl.col("half"),
    )  # fmt: skip


def _check_scores(table: pl.DataFrame, what: str) -> None:
    """Refuse scores without r2, which is what the curve shows."""
    missing = [name for name in ("step", "spent", "r2") if name not in table.columns]
    if missing:
        raise ArgumentError(
            f"{what} has {', '.join(table.columns)}, and lacks {', '.join(missing)}; it must be "
            "what cross_validate, without metric=, or evaluate returns for a sequence"
        )

"""The model of every step as rows of numbers, for the page's slider."""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import polars as pl

from dbselect.errors import DbselectError, SelectionWarning
from dbselect.record.columns import INTERCEPT
from dbselect.record.steps import BUDGET_SLACK
from dbselect.results.model import JointModel
from dbselect.results.scored import ScoreModel
from dbselect.sources.progress import progress

#: Coefficients on the page; those of steps between are left out where there are more.
MOST_COEFFICIENTS = 300_000
#: Columns of a model up to which its standard errors are asked, which cost their cube at every
#: step; those of the whole model always are.
MOST_TESTED = 150
DIGITS = 10


def steps_of(sequence: Any, held_out: pl.DataFrame | None) -> dict[str, Any]:
    """Return what the slider shows of each step; rows are NULL where they are left out."""
    owner = {column: name for name, own in sequence.groups.columns.items() for column in own}
    terms = [INTERCEPT, *sequence.columns]
    number = {term: at for at, term in enumerate(terms)}
    responses = _responses(sequence.model(0))
    shown = _with_rows(sequence, len(responses) or 1)
    held = {} if held_out is None else {row["step"]: row for row in held_out.rows(named=True)}
    steps: list[dict[str, Any]] = []
    refusal, untested = None, False
    rows, last = sequence.steps.rows(named=True), len(sequence.spent) - 1
    for at, (row, height) in enumerate(zip(_counted(rows), sequence.r2.tolist(), strict=True)):
        model = sequence.model(at)
        table = None
        if at in shown:
            tested = at == last or len(model.columns) <= MOST_TESTED
            has_some = not isinstance(model, ScoreModel)
            if has_some:
                summary, refused = _summary(model) if tested else (_coefficients(model), None)
            else:
                summary, refused = pl.DataFrame(), "a score has no coefficients"
            refusal, untested = refusal or refused, untested or not tested
            table = _rows(summary, number, responses)
        there = held.get(at, {})
        high, value = there.get("high"), there.get("value")
        steps.append(
            {
                "action": row["action"], "group": row["group"], "cost": _short(row["cost"]),
                "spent": _short(row["spent"]), "gain": _short(row["gain"]), "r2": _short(height),
                "held": _short(value), "groups": model.groups, "rows": table,
                "error": None if high is None or value is None else _short(high - value),
            }
        )  # fmt: skip
    return {
        "slack": BUDGET_SLACK,
        "stop": sequence.stop.value,
        "terms": [[term, owner.get(term)] for term in terms],
        "responses": responses,
        "steps": steps,
        "certainty": _certainty(refusal, untested),
    }


def _responses(model: Any) -> list[str]:
    if isinstance(model, JointModel):
        return list(model.responses)
    return [str(one) for one in getattr(model, "classes", ())]


def _with_rows(sequence: Any, several: int) -> set[int]:
    """Return the steps whose coefficients are shown: all, or some spread evenly and the last."""
    counts = [several * len(sequence.columns_held(at)) for at in range(len(sequence.spent))]
    stride = max(1, math.ceil(sum(counts) / MOST_COEFFICIENTS))
    return {at for at in range(len(counts)) if at % stride == 0} | {len(counts) - 1}


def _summary(model: Any) -> tuple[pl.DataFrame, str | None]:
    """Return the table of `summary`, or coefficients alone and why there is no more."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SelectionWarning)
            return model.summary(), None
    except DbselectError as error:
        return _coefficients(model), str(error)


def _coefficients(model: Any) -> pl.DataFrame:
    several = isinstance(next(iter(model.coefficients.values()), None), dict)
    parts = []
    for name, own in model.coefficients.items() if several else [(None, model.coefficients)]:
        first = model.intercept[name] if several else model.intercept
        parts.append(
            pl.DataFrame(
                {
                    "response": [None if name is None else str(name)] * (1 + len(own)),
                    "term": [INTERCEPT, *own],
                    "estimate": [first, *own.values()],
                },
                schema_overrides={"response": pl.String, "estimate": pl.Float64},
            )
        )
    none = pl.lit(None, pl.Float64)
    return pl.concat(parts).with_columns(std_error=none, p_value=none)


def _rows(summary: pl.DataFrame, number: dict[str, int], responses: list[str]) -> list[list[Any]]:
    of = next((name for name in ("response", "class") if name in summary.columns), None)
    labels = [None] * summary.height if of is None else summary[of].cast(pl.String).to_list()
    return [
        [
            number[row["term"]],
            None if label is None else responses.index(label),
            *(_short(row[name]) for name in ("estimate", "std_error", "p_value")),
        ]
        for row, label in zip(summary.rows(named=True), labels, strict=True)
    ]


def _counted(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps, and count them on a terminal."""
    with progress(len(rows), "steps of the report") as bar:
        for row in rows:
            yield row
            bar.update()


def _certainty(refusal: str | None, untested: bool) -> str:
    if refusal is not None:
        return f"No standard errors: {refusal}."
    most = (
        f"Standard errors are given for models of at most {MOST_TESTED} columns, and the whole. "
        if untested
        else ""
    )
    return most + (
        "Standard errors and p-values ignore the selection and are too small. Refit on new rows to "
        "use them."
    )


def _short(value: float | None) -> float | None:
    """Return a number without the digits that nobody reads; None for NULL and NaN."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")

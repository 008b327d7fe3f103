"""The models of all steps as rows of numbers, for the page's slider."""

import math
import warnings
from collections.abc import Iterator
from typing import Any

import polars as pl

from dbselect.errors import DbselectError, PerfectFitWarning, SelectionWarning
from dbselect.record.columns import INTERCEPT
from dbselect.record.prices import BUDGET_SLACK
from dbselect.results.model import JointModel
from dbselect.results.scored import ScoreModel
from dbselect.sources.progress import progress

#: Most coefficients on the page; with more, those of some steps are left out.
MOST_COEFFICIENTS = 300_000
#: Largest number of columns of a model with standard errors, which cost O(D^3) at each step; the
#: last model always has them.
MOST_TESTED = 150
DIGITS = 10


def steps_of(sequence: Any, held_out: pl.DataFrame | None) -> dict[str, Any]:
    """Return the data that the slider shows for each step; rows are NULL if left out."""
    groups = sequence.groups.columns
    owner = {column: name for name, columns in groups.items() for column in columns}
    terms = [INTERCEPT, *sequence.columns]
    number = {term: at for at, term in enumerate(terms)}
    responses = _responses(sequence.model(0))
    shown = _with_rows(sequence, len(responses) or 1)
    scores = {} if held_out is None else {row["step"]: row for row in held_out.rows(named=True)}
    steps: list[dict[str, Any]] = []
    refusal, untested = None, False
    rows, last = sequence.steps.rows(named=True), len(sequence.spent) - 1
    for at, (row, height) in enumerate(zip(_counted(rows), sequence.r2.tolist(), strict=True)):
        model = sequence.model(at)
        table = None
        if at in shown:
            tested = at == last or len(model.columns) <= MOST_TESTED
            if not isinstance(model, ScoreModel):
                summary, reason = _summary(model) if tested else (_coefficients(model), None)
            else:
                summary, reason = pl.DataFrame(), "a score has no coefficients"
            refusal, untested = refusal or reason, untested or not tested
            table = _rows(summary, number, responses)
        score = scores.get(at, {})
        high, value = score.get("high"), score.get("value")
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
    return [str(label) for label in getattr(model, "classes", ())]


def _with_rows(sequence: Any, several: int) -> set[int]:
    """Return the steps whose coefficients are shown: all, or evenly spaced ones and the last."""
    counts = [several * len(sequence.columns_held(at)) for at in range(len(sequence.spent))]
    stride = max(1, math.ceil(sum(counts) / MOST_COEFFICIENTS))
    return {at for at in range(len(counts)) if at % stride == 0} | {len(counts) - 1}


def _summary(model: Any) -> tuple[pl.DataFrame, str | None]:
    """Return the table of `summary`, or the coefficients only and the reason."""
    try:
        with warnings.catch_warnings():
            for category in (SelectionWarning, PerfectFitWarning):
                warnings.simplefilter("ignore", category)
            return model.summary(), None
    except DbselectError as error:
        return _coefficients(model), str(error)


def _coefficients(model: Any) -> pl.DataFrame:
    has_responses = isinstance(next(iter(model.coefficients.values()), None), dict)
    parts = []
    for name, coef in model.coefficients.items() if has_responses else [(None, model.coefficients)]:
        first = model.intercept[name] if has_responses else model.intercept
        parts.append(
            pl.DataFrame(
                {
                    "response": [None if name is None else str(name)] * (1 + len(coef)),
                    "term": [INTERCEPT, *coef],
                    "estimate": [first, *coef.values()],
                },
                schema_overrides={"response": pl.String, "estimate": pl.Float64},
            )
        )
    null = pl.lit(None, pl.Float64)
    return pl.concat(parts).with_columns(std_error=null, p_value=null)


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
    """Yield the steps with a progress bar."""
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
    """Round a number to `DIGITS` significant digits; None for NULL and NaN."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")

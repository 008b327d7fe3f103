"""Calibration, residuals or ROC curve in one pass; nine bytes per row for a target of 0 and 1."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect._lazy import load
from dbselect.pages.report import Section
from dbselect.record.columns import leaf_of, leaves
from dbselect.record.inputs import inputs_as_fitted, single_fields
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel
from dbselect.sources.open import open_table
from dbselect.sources.progress import progress
from dbselect.sources.rows import values

#: Number of bins of predictions, with about equal rows, and of residuals, of equal width.
PREDICTED, RESIDUALS = 20, 40
#: Points of a ROC curve that are drawn.
DRAWN = 200
#: Share of the first batch's residuals in the outer bin on each side.
OUTER = 0.002


@dataclass(eq=False)
class Checked:
    """Sums over bins for one prediction."""

    edges: Any
    residual_edges: Any
    counts: Any
    predicted: Any
    observed: Any
    residuals: Any
    rows: int = 0
    skipped: int = 0
    squares: float = 0.0
    #: Predictions, and whether the target is 1; None for a target other than 0 and 1.
    ranked: list[tuple[Any, Any]] | None = field(default_factory=list)

    def add(self, prediction: Any, target: Any) -> None:
        """Add rows without missing values."""
        if not np.isin(target, (0.0, 1.0)).all():
            self.ranked = None
        if self.ranked is not None:
            self.ranked.append((prediction.copy(), target == 1.0))
        at = np.searchsorted(self.edges, prediction, side="right")
        size = len(self.counts)
        self.counts += np.bincount(at, minlength=size)
        self.predicted += np.bincount(at, prediction, size)
        self.observed += np.bincount(at, target, size)
        residual = target - prediction
        inside = np.clip(residual, self.residual_edges[0], self.residual_edges[-1])
        self.residuals += np.histogram(inside, self.residual_edges)[0]
        self.rows += len(residual)
        self.squares += float(residual @ residual)


def checked_rows(model: Any, source: Any, title: str) -> list[Section]:
    """Return a section for each prediction: charts of calibration and of residuals or ranks."""
    sums: dict[str, Checked] = {}
    without = 0
    for name, predictions, targets in _predictions(model, source):
        complete = np.isfinite(predictions) & np.isfinite(targets)
        if not complete.any():
            without += len(complete)
        else:
            prediction, target = predictions[complete], targets[complete]
            if name not in sums:
                sums[name] = _empty(prediction, target - prediction)
            sums[name].add(prediction, target)
            sums[name].skipped += int((~complete).sum())
    if not sums:
        text = f"No row of the source, of {without:,} read, has all that a prediction needs."
        return [Section(title, [text])]
    title = f"{title}: {{}}" if len(sums) > 1 else title
    skipped = without // len(sums)
    return [_section(title.format(name), name, checked, skipped) for name, checked in sums.items()]


def _empty(prediction: Any, residual: Any) -> Checked:
    edges = np.unique(np.quantile(prediction, np.linspace(0, 1, PREDICTED + 1)[1:-1]))
    low, high = np.quantile(residual, [OUTER, 1 - OUTER])
    bins = np.linspace(low, high if high > low else low + 1.0, RESIDUALS + 1)
    counts, predicted, observed = np.zeros((3, len(edges) + 1))
    return Checked(edges, bins, counts, predicted, observed, np.zeros(RESIDUALS))


def _predictions(model: Any, source: Any) -> Iterator[tuple[str, Any, Any]]:
    table = open_table(source, None)
    leaf_by_name = {leaf.name: leaf for leaf in leaves(table.schema)}
    targets = list(model.responses) if isinstance(model, JointModel) else [model.target]
    offsets = model.offsets.names if isinstance(model, GlmModel) else []
    inputs = [part.source for part in single_fields(*inputs_as_fitted(model.columns, model.terms))]
    marked = [x.removesuffix(".missing") if x not in leaf_by_name else x for x in inputs]
    needed = {x: leaf_of(x, leaf_by_name, "source") for x in [*targets, *offsets, *marked]}
    fields = list(dict.fromkeys(leaf.field for leaf in needed.values()))
    with closing(table.batches(fields)) as batches, progress(table.rows) as bar:
        for batch in batches:
            if batch.num_rows:
                frame = pl.DataFrame(pa.Table.from_batches([batch]))
                predicted = model.predict(frame)
                if isinstance(model, GlmModel) and (model.classes or model.levels):
                    labels = model.classes or model.levels[1:]
                    columns = predicted.reshape(batch.num_rows, -1).T
                    for label, column in zip(labels, columns, strict=True):
                        is_label = (frame[model.target] == label).cast(pl.Float64)
                        yield str(label), column, is_label.to_numpy()
                else:
                    columns = np.asarray(predicted).reshape(batch.num_rows, -1)
                    rows = batch.to_struct_array()
                    for k, name in enumerate(targets):
                        yield name, columns[:, k], np.asarray(values(rows, needed[name].path))
            bar.update(batch.num_rows)


def _section(title: str, name: str, checked: Checked, skipped: int) -> Section:
    filled = checked.counts > 0
    predicted = checked.predicted[filled] / checked.counts[filled]
    observed = checked.observed[filled] / checked.counts[filled]
    error = float(np.sqrt(checked.squares / checked.rows))
    worst = float(np.abs(predicted - observed).max())
    calibration = (
        f"Calibration: mean of {name} against mean prediction, in {filled.sum()} bins of the "
        f"prediction. On the line both are equal; they differ by at most {worst:.3g}."
    )
    ranked = _ranked(checked, name)
    text, chart = ranked or _residuals(checked, name)
    fit = f"root mean squared error {error:.3g}"
    if ranked is not None:
        fit = f"Brier score {error**2:.3g}"
    return Section(
        title,
        [
            f"{checked.rows:,} rows, {fit}; "
            f"{checked.skipped + skipped:,} rows are left out because a value is missing.",
            text,
            calibration,
        ],
        [
            chart,
            _chart(
                "points", predicted, observed, "mean prediction", f"mean of {name}", calibration
            ),
        ],
    )


def _ranked(checked: Checked, name: str) -> tuple[str, dict[str, Any]] | None:
    """Return the AUC as text and the ROC curve; None unless the target has both 0 and 1."""
    score, positive = (
        np.concatenate(parts) for parts in zip(*(checked.ranked or [([], [])]), strict=True)
    )
    ones = int(positive.sum())
    if not 0 < ones < len(positive):
        return None
    auc = load("validation.scoring.metrics", "auc")(score, positive * 1.0, np.ones(len(score)))
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    ends = ends[np.unique(np.linspace(0, len(ends) - 1, DRAWN).astype(int))]
    hits = np.cumsum(positive[order])[ends]
    true, false = hits / ones, (ends + 1 - hits) / (len(positive) - ones)
    text = (
        f"AUC {auc:.3f}: the probability that a row with {name} is ranked above one without; 0.5 "
        "is guessing. The ROC curve has it as its area."
    )
    x, y = np.append(0.0, false), np.append(0.0, true)
    return text, _chart("line", x, y, "false positive rate", "true positive rate", text)


def _residuals(checked: Checked, name: str) -> tuple[str, dict[str, Any]]:
    shares = checked.residuals / checked.rows
    low = float(shares[checked.residual_edges[1:] <= 0].sum())
    text = (
        f"Residuals: {name} less prediction, from {checked.residual_edges[0]:.3g} to "
        f"{checked.residual_edges[-1]:.3g}; the outer bars hold all beyond. {low:.0%} lie below 0."
    )
    edges = checked.residual_edges
    return text, _chart("bars", edges, shares, f"{name} less prediction", "share of rows", text)


def _chart(kind: str, x: Any, y: Any, across: str, up: str, words: str) -> dict[str, Any]:
    return {"kind": kind, "x": x.tolist(), "y": y.tolist(), "titles": [across, up], "words": words}

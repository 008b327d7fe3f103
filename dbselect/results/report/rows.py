"""Calibration, residuals or ROC curve, in one pass; nine bytes a row for a target of 0 and 1."""

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

#: Bins of predictions, of about as many rows each, and bins of residuals, of equal width.
PREDICTED, RESIDUALS = 20, 40
#: Points of a ROC curve that are drawn.
DRAWN = 200
#: Residuals of the first batch that lie in the outer bins, on each side.
OUTER = 0.002


@dataclass(eq=False)
class Checked:
    """Sums over bins of one prediction."""

    edges: Any
    residual_edges: Any
    counts: Any
    predicted: Any
    observed: Any
    residuals: Any
    rows: int = 0
    skipped: int = 0
    squares: float = 0.0
    #: Predictions, and whether the target is 1; None where it is a number like others.
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
    """Return the pictures of calibration and of residuals or ranks, one section a prediction."""
    found: dict[str, Checked] = {}
    waiting = 0
    for name, every_prediction, every_target in _predictions(model, source):
        there = np.isfinite(every_prediction) & np.isfinite(every_target)
        if not there.any():
            waiting += len(there)
        else:
            prediction, target = every_prediction[there], every_target[there]
            if name not in found:
                found[name] = _empty(prediction, target - prediction)
            found[name].add(prediction, target)
            found[name].skipped += int((~there).sum())
    if not found:
        told = f"No row of the source, of {waiting:,} read, has all that a prediction needs."
        return [Section(title, [told])]
    own = f"{title}: {{}}" if len(found) > 1 else title
    return [
        _section(own.format(name), name, one, waiting // len(found)) for name, one in found.items()
    ]


def _empty(prediction: Any, residual: Any) -> Checked:
    edges = np.unique(np.quantile(prediction, np.linspace(0, 1, PREDICTED + 1)[1:-1]))
    low, high = np.quantile(residual, [OUTER, 1 - OUTER])
    bins = np.linspace(low, high if high > low else low + 1.0, RESIDUALS + 1)
    counts, predicted, observed = np.zeros((3, len(edges) + 1))
    return Checked(edges, bins, counts, predicted, observed, np.zeros(RESIDUALS))


def _predictions(model: Any, source: Any) -> Iterator[tuple[str, Any, Any]]:
    table = open_table(source, None)
    known = {leaf.name: leaf for leaf in leaves(table.schema)}
    targets = list(model.responses) if isinstance(model, JointModel) else [model.target]
    offsets = model.offsets.names if isinstance(model, GlmModel) else []
    inputs = [one.source for one in single_fields(*inputs_as_fitted(model.columns, model.terms))]
    marked = [name.removesuffix(".missing") if name not in known else name for name in inputs]
    wanted = {name: leaf_of(name, known, "source") for name in [*targets, *offsets, *marked]}
    fields = list(dict.fromkeys(leaf.field for leaf in wanted.values()))
    with closing(table.batches(fields)) as batches, progress(table.rows) as bar:
        for batch in batches:
            if batch.num_rows:
                frame = pl.DataFrame(pa.Table.from_batches([batch]))
                predicted = model.predict(frame)
                if isinstance(model, GlmModel) and (model.classes or model.levels):
                    each = predicted.reshape(batch.num_rows, -1).T
                    for one, own in zip(model.classes or model.levels[1:], each, strict=True):
                        there = (frame[model.target] == one).cast(pl.Float64)
                        yield str(one), own, there.to_numpy()
                else:
                    columns = np.asarray(predicted).reshape(batch.num_rows, -1)
                    rows = batch.to_struct_array()
                    for k, name in enumerate(targets):
                        yield name, columns[:, k], np.asarray(values(rows, wanted[name].path))
            bar.update(batch.num_rows)


def _section(title: str, name: str, found: Checked, waiting: int) -> Section:
    there = found.counts > 0
    predicted = found.predicted[there] / found.counts[there]
    observed = found.observed[there] / found.counts[there]
    error = float(np.sqrt(found.squares / found.rows))
    worst = float(np.abs(predicted - observed).max())
    calibration = (
        f"Calibration: mean of {name} against mean prediction, in {there.sum()} bins of the "
        f"prediction. On the line both are equal; they differ by at most {worst:.3g}."
    )
    ranked = _ranked(found, name)
    told, other = ranked or _residuals(found, name)
    judged = f"root mean squared error {error:.3g}"
    if ranked is not None:
        judged = f"Brier score {error**2:.3g}"
    return Section(
        title,
        [
            f"{found.rows:,} rows, {judged}; "
            f"{found.skipped + waiting:,} rows are left out because a value is missing.",
            told,
            calibration,
        ],
        [
            other,
            _chart(
                "points", predicted, observed, "mean prediction", f"mean of {name}", calibration
            ),
        ],
    )


def _ranked(found: Checked, name: str) -> tuple[str, dict[str, Any]] | None:
    """Return the AUC in words and the ROC curve; None of a target that is not 0 and 1 both."""
    score, positive = (
        np.concatenate(parts) for parts in zip(*(found.ranked or [([], [])]), strict=True)
    )
    ones = int(positive.sum())
    if not 0 < ones < len(positive):
        return None
    auc = load("validation.scoring.ranks", "auc")(score, positive * 1.0, np.ones(len(score)))
    order = np.argsort(-score, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(score[order]) != 0, True))
    ends = ends[np.unique(np.linspace(0, len(ends) - 1, DRAWN).astype(int))]
    hits = np.cumsum(positive[order])[ends]
    true, false = hits / ones, (ends + 1 - hits) / (len(positive) - ones)
    told = (
        f"AUC {auc:.3f}: the probability that a row with {name} is ranked above one without; 0.5 "
        "is guessing. The ROC curve has it as its area."
    )
    x, y = np.append(0.0, false), np.append(0.0, true)
    return told, _chart("line", x, y, "false positive rate", "true positive rate", told)


def _residuals(found: Checked, name: str) -> tuple[str, dict[str, Any]]:
    shares = found.residuals / found.rows
    left = float(shares[found.residual_edges[1:] <= 0].sum())
    told = (
        f"Residuals: {name} less prediction, from {found.residual_edges[0]:.3g} to "
        f"{found.residual_edges[-1]:.3g}; the outer bars hold all beyond. {left:.0%} lie below 0."
    )
    edges = found.residual_edges
    return told, _chart("bars", edges, shares, f"{name} less prediction", "share of rows", told)


def _chart(kind: str, x: Any, y: Any, across: str, up: str, words: str) -> dict[str, Any]:
    return {"kind": kind, "x": x.tolist(), "y": y.tolist(), "titles": [across, up], "words": words}

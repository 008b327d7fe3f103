"""Residuals and calibration of a model, from one pass over the rows of a table.

Sums over bins of predictions and of residuals are all that is kept. The bins come of the first
batch, so that nothing need be known beforehand; the outer ones take what lies beyond.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from dbselect.pages.chart import bar_chart, point_chart
from dbselect.pages.report import Section
from dbselect.record.columns import leaf_of, leaves
from dbselect.record.inputs import inputs_as_fitted
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import JointModel
from dbselect.sources.open import open_table, progress
from dbselect.sources.rows import values

#: Bins of predictions, of about as many rows each, and bins of residuals, of equal width.
PREDICTED, RESIDUALS = 20, 40
TITLE = "How the whole model does on the rows"
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

    def add(self, prediction: Any, target: Any) -> None:
        """Add rows without missing values."""
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


def checked_rows(model: Any, source: Any) -> list[Section]:
    """Return the pictures of residuals and calibration, one section a prediction.

    Parameters
    ----------
    model : of any family
    source : a table, as in `dbselect.gram`
    """
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
        return [Section(TITLE, [told])]
    return [_section(name, one, waiting // len(found)) for name, one in found.items()]


def _empty(prediction: Any, residual: Any) -> Checked:
    edges = np.unique(np.quantile(prediction, np.linspace(0, 1, PREDICTED + 1)[1:-1]))
    low, high = np.quantile(residual, [OUTER, 1 - OUTER])
    bins = np.linspace(low, high if high > low else low + 1.0, RESIDUALS + 1)
    counts, predicted, observed = np.zeros((3, len(edges) + 1))
    return Checked(edges, bins, counts, predicted, observed, np.zeros(RESIDUALS))


def _predictions(model: Any, source: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what is predicted, the predictions and the target, batch by batch."""
    table = open_table(source, None)
    known = {leaf.name: leaf for leaf in leaves(table.schema)}
    targets = list(model.responses) if isinstance(model, JointModel) else [model.target]
    offsets = model.offsets.names if isinstance(model, GlmModel) else []
    inputs = [one.source for one in inputs_as_fitted(model.columns, model.terms)]
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


def _section(name: str, found: Checked, waiting: int) -> Section:
    there = found.counts > 0
    predicted = found.predicted[there] / found.counts[there]
    observed = found.observed[there] / found.counts[there]
    worst = float(np.abs(predicted - observed).max())
    error = float(np.sqrt(found.squares / found.rows))
    calibration = (
        f"Mean of {name} against mean prediction, in {there.sum()} bins of the prediction; where "
        f"both are equal, points lie on the line. They differ by {worst:.4g} at most."
    )
    shares = found.residuals / found.rows
    left = float(shares[found.residual_edges[1:] <= 0].sum())
    residual = (
        f"Share of rows by {name} less prediction, from {found.residual_edges[0]:.4g} to "
        f"{found.residual_edges[-1]:.4g}, the outer bars with what lies beyond; {left:.0%} lie "
        "below 0."
    )
    return Section(
        f"{TITLE}: {name}",
        [
            f"{found.rows:,} rows, root mean squared error {error:.4g}; "
            f"{found.skipped + waiting:,} rows are left out, as a value is missing.",
            calibration,
            residual,
        ],
        [
            point_chart(predicted, observed, ("mean prediction", f"mean of {name}"), calibration),
            bar_chart(found.residual_edges, shares, f"{name} less prediction", residual),
        ],
    )

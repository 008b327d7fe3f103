"""Compare sequences by timeliness, and with the oracle order of their gains."""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, cast

import numpy as np
import polars as pl

from dbselect import _forked
from dbselect.errors import ArgumentError, shown
from dbselect.options.kinds import POSITIVE
from dbselect.results.heights import (
    Curve,
    curve_table,
    explained_at,
    longest_heights,
    plateau,
    points,
    share_of,
    stopping_cost,
)
from dbselect.results.prediction.arrived import AnytimePredictor
from dbselect.validation.comparison import Comparison, ModelComparison, are_models, compare_models
from dbselect.validation.scoring.evaluate import evaluate
from dbselect.validation.scoring.metrics import requests_of, with_payoff


def oracle(curve: Curve) -> pl.DataFrame:
    """Reorder the groups of a curve by decreasing gain per cost.

    Each group keeps its gain, so that this is an upper bound for any order of these gains.

    Parameters
    ----------
    curve : Sequence of any family, or a DataFrame of `evaluate`

    Returns
    -------
    DataFrame: step, spent, explained, and group if the curve has it

    Raises
    ------
    ArgumentError : the curve removes a group, so that gains do not belong to single groups

    References
    ----------
    Hu, Grubb, Bagnell, Hebert (2016), section 5.2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0.0, 1.0, 2.0], "explained": [0.0, 0.1, 0.9]})
    >>> ds.reference.oracle(curve)["explained"].round(6).to_list()
    [0.0, 0.8, 0.9]
    """
    spent, explained = points(curve)
    cost, gain = np.diff(spent), np.diff(explained)
    if (cost <= 0).any():
        raise ArgumentError(
            "the curve gives groups back; an oracle needs a curve that only adds groups"
        )
    order = np.argsort(-gain / cost, kind="stable")
    table = curve_table(curve)
    groups = {"group": table["group"].gather([0, *(order + 1)])} if "group" in table else {}
    return pl.DataFrame(
        {
            "step": np.arange(len(spent)),
            **groups,
            "spent": spent[0] + np.append(0.0, np.cumsum(cost[order])),
            "explained": explained[0] + np.append(0.0, np.cumsum(gain[order])),
        }
    )


def compare(
    sequences: Mapping[str, Any],
    reference: str | None = None,
    *,
    fraction: float | None = None,
    data: Any = None,
    weight: str | None = None,
    final: float | None = None,
    metric: str | Iterable[str] | None = None,
    payoff: tuple[float, float] | None = None,
    level: float | None = None,
) -> Comparison | ModelComparison:
    """Compare the timeliness of several sequences, or the losses of several models.

    Parameters
    ----------
    sequences : name -> Sequence of any family; AnytimePredictor, which needs `data`; or a
        DataFrame, of `oracle` or some rows of `Simulation.table`. Or name -> Model, GlmModel or
        Selected, all of one target, which need `data`, a table
    reference : the name whose stopping cost cuts all curves, or of the model that the others are
        compared with; default: the first
    fraction : 0 to 1, of the final height; default: the plateau of the reference
    data : other data for the evaluation, as in `evaluate`: a table, or for linear sequences
        a Gram or record; default: the rows of each search
    weight : column of row weights in a table
    final : > 0, the height that areas are divided by: 1 is the target's variance,
        as in the figures of the paper; default: the reference's greatest height, which
        on the rows of its search is the final one
    metric : of models ``"mse"`` (default), ``"mae"``, or ``"log_loss"`` of a target of 0 and 1; of
        sequences metrics of `evaluate`, of the last step of each on the rows of `data`
    payoff : of sequences, as in `evaluate`
    level : of models: level of confidence of the intervals; default: 0.95

    Returns
    -------
    For models ModelComparison: their losses on the rows where all have a prediction, and the
    paired differences from the reference, row by row, with standard errors of independent rows
    (Diebold, Mariano 1995). Rows of the fit favour the larger model: take other rows. Else

    Comparison, whose ``table`` has one row per sequence: name; timeliness; stopping_cost and
    stopping_explained, the cost at which the sequence reaches the fraction on the rows of its
    search, and its height there; explained at the end; fraction; and the metrics. ``plot()``
    draws all curves

    Raises
    ------
    ArgumentError : `sequences` is no mapping or empty, or lacks the reference; `final` is
        not above 0; `data` or `weight` as in `evaluate`

    Notes
    -----
    The stopping cost comes from the rows of the search, as in the paper; with `data` the
    areas and heights are those on the other data. A DataFrame is used as it is. If no sequence
    explains anything before the stopping cost, as when one first group explains all, the curves
    are cut where the longest ends, and heights are divided by the greatest of all.
    Linear sequences explain variance, those through the origin squares about 0, and those with a
    family deviance: their areas are on different scales.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> curve = pl.DataFrame({"spent": [0.0, 1.0, 2.0], "explained": [0.0, 0.1, 0.9]})
    >>> both = ds.compare({"found": curve, "oracle": ds.reference.oracle(curve)}, fraction=1.0)
    >>> both  # 0.1 / 1.8 and 0.8 / 1.8
    Comparison(found, oracle; cut at cost 2; timeliness 0.0556, 0.4444)
    """
    _forked.check_threads()
    if not isinstance(sequences, Mapping):
        raise ArgumentError(
            f"sequences is a {type(sequences).__name__}; it must map names to sequences"
        )
    if not sequences:
        raise ArgumentError("sequences is empty; at least one is needed")
    first = next(iter(sequences)) if reference is None else reference
    if not isinstance(first, Hashable) or first not in sequences:
        raise ArgumentError(f"reference is {shown(first)}; it must be one of {list(sequences)}")
    if are_models(sequences):
        _refuse("sequences, and these are models", fraction=fraction, final=final, payoff=payoff)
        return compare_models(
            sequences, first, data, weight, cast(str, metric or "mse"), level or 0.95
        )
    _refuse("models, and these are sequences", level=level)
    sequences = {name: _curve_of(name, curve, data) for name, curve in sequences.items()}
    if final is not None:
        POSITIVE.check("final", final)
    reached = plateau(sequences[first]) if fraction is None else fraction
    if data is None and weight is not None:
        raise ArgumentError(
            f"weight is {weight!r}; it is of the table in data, and data is missing"
        )
    judged: dict[str, Curve] = dict(sequences)
    if data is not None:
        judged |= {
            name: evaluate(cast(Any, curve), data, weight=weight)
            for name, curve in sequences.items()
            if not isinstance(curve, pl.DataFrame)
        }
    heights = {name: longest_heights(*points(curve)) for name, curve in judged.items()}
    cut = stopping_cost(sequences[first], reached)
    height = float(heights[first][1].max()) if final is None else final
    if not any(share_of(curve, cut, height) for curve in judged.values()):
        cut = max(float(spent[-1]) for spent, _ in heights.values())
        height = max(float(h.max()) for _, h in heights.values()) if final is None else final
    rows = []
    asked = with_payoff(metric, payoff)
    if asked is not None and data is None:
        raise ArgumentError(f"metric is {shown(asked)}; it needs rows, and data is missing")
    for name, curve in sequences.items():
        scores = {} if asked is None else _scores_of(curve, data, weight, asked)
        cost = stopping_cost(curve, reached)
        rows.append(
            {
                "name": name,
                "timeliness": share_of(judged[name], cut, height),
                "stopping_cost": cost,
                "stopping_explained": explained_at(judged[name], cost),
                "explained": float(heights[name][1][-1]),
                "fraction": reached,
                **scores,
            }
        )
    curves = pl.concat([_named(name, curve) for name, curve in judged.items()])
    return Comparison(pl.DataFrame(rows), curves, cut)


def _refuse(why: str, **options: Any) -> None:
    for name, option in options.items():
        if option is not None:
            raise ArgumentError(f"{name} is {option!r}; it is of {why}")


def _curve_of(name: str, curve: Any, data: Any) -> Curve:
    """Return a curve as it is; simulate a predictor row by row on the other data."""
    if not isinstance(curve, AnytimePredictor):
        return cast(Curve, curve)
    if data is None:
        raise ArgumentError(f"'{name}' is a predictor, which buys row by row: give data, a table")
    return evaluate(curve, data).filter(rule="next_group")


def _scores_of(curve: Any, data: Any, weight: str | None, metric: Any) -> dict[str, float | None]:
    """Return the metrics of the last step on other rows; None of a curve, which has no models."""
    if isinstance(curve, pl.DataFrame):
        return dict.fromkeys(request.name for request in requests_of(metric))
    found = evaluate(curve, data, weight=weight, metric=metric)
    return dict(found.table.select(found.metrics).row(-1, named=True))


def _named(name: str, curve: Curve) -> pl.DataFrame:
    """Return the rows of a curve, with its name."""
    table = curve_table(curve)
    group = pl.col("group") if "group" in table.columns else pl.lit(None)
    return table.select(
        pl.lit(name).alias("name"),
        pl.int_range(pl.len()).alias("step"),
        group.cast(pl.String).alias("group"),
        pl.col("spent", "explained").cast(pl.Float64),
    )

"""The report of a sequence: what was asked, what a budget buys, what each group is worth."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError
from dbselect.options.kinds import check_folder
from dbselect.pages.chart import LEFT, RIGHT, WIDTH, Line, cost_chart
from dbselect.pages.html import small_curve
from dbselect.pages.report import Section, page
from dbselect.pages.short import listed
from dbselect.pictures.cost import cost_axis
from dbselect.record.writing import check_place
from dbselect.results.drawing import HELD_OUT, MOST_RESPONSES, SAME_SHARE, held_out_curve
from dbselect.results.report.models import steps_of
from dbselect.results.report.reproduce import code_of
from dbselect.results.report.roles import MOST_GROUPS, worth_of_groups
from dbselect.results.report.rows import checked_rows

#: Segments that the table lists.
MOST_SEGMENTS = 2000


def check_page(path: Any) -> None:
    """Refuse a path at which no page can be written."""
    check_folder("path", path)
    check_place(path)
    if Path(path).suffix.lower() not in ("", ".html", ".htm"):
        raise ArgumentError(f"path is '{path}'; a report is HTML: .html or .htm, or no ending")


def report_page(sequence: Any, source: Any, held_out: Any, segments: Any) -> str:
    """Return the page of `Prefixes.report`.

    Parameters
    ----------
    sequence : of any family
    source, held_out, segments : as of `Prefixes.report`
    """
    listed_segments = None if segments is None else _segments(segments)
    held = None if held_out is None else held_out_curve(held_out)
    axis = cost_axis(pl.DataFrame({"spent": sequence.spent, "r2": sequence.r2}), "r2")
    lines = _lines(sequence, held)
    words = (
        f"{sequence._summary[0]}: share explained against cost. {sequence._summary[1]} at cost "
        f"{sequence.spent[-1]:g}. The first groups: {listed(sequence._order)}."
    )
    about = {"most": axis.most, "constant": axis.constant}
    data = steps_of(sequence, held, about) | {"left": LEFT, "width": WIDTH - LEFT - RIGHT}
    sections = [_rows(sequence), _roles(sequence)]
    if source is not None:
        sections += checked_rows(sequence.at(), source)
    if listed_segments is not None:
        sections.append(listed_segments)
    sections.append(code_of(sequence, source))
    title = f"Which data best predict {sequence._summary[0]} for their cost"
    return page(title, _question(sequence), cost_chart(lines, axis, words), data, sections)


def _question(sequence: Any) -> list[str]:
    groups = sequence.groups
    costs = groups.costs
    penalty = f", ridge {sequence.ridge:g}" if sequence.ridge else ""
    return [
        f"Which groups of columns best predict {sequence._summary[0]} for their cost, and in which "
        f"order? There are {len(costs)} groups of {len(sequence.columns)} columns; a group costs "
        f"{costs.min():g} to {costs.max():g}, {costs.sum():g} in total.",
        f"Found by {sequence.rule}{penalty}. Stopped: {sequence.stop.value}.",
    ]


def _lines(sequence: Any, held: pl.DataFrame | None) -> list[Line]:
    lines = [Line("r2, fitted rows", sequence.spent, sequence.r2)]
    if np.abs(sequence.explained - sequence.r2).max() > SAME_SHARE:
        lines.append(Line("explained, less the penalty", sequence.spent, sequence.explained))
    each = getattr(sequence, "responses", {})
    if len(each) <= MOST_RESPONSES:
        lines += [Line(f"r2 of {name}", own.spent, own.r2) for name, own in each.items()]
    if sequence._is_quadratic:
        budgets = np.unique(sequence.spent)
        bound = sequence.certificate(budgets)["bound"].to_numpy()
        lines.append(Line("bound on any groups", budgets, bound))
    if held is not None:
        band = [None, None] if held["low"].null_count() else [held["low"], held["high"]]
        lines.append(Line(HELD_OUT, held["spent"], held["value"], *band))
    return lines


def _rows(sequence: Any) -> Section:
    """Return which rows were used, which were not, and why."""
    gram = getattr(sequence, "gram", None)
    read = sequence if gram is None else gram
    told = [f"{read.rows:,} rows were used and {read.skipped:,} left out."]
    table = None
    if gram is None:
        told.append("A row is left out where a value is missing, or its weight is 0.")
    elif gram.missing:
        told.append("A row is left out where a value is missing that nothing fills: see the table.")
        table = pl.DataFrame(
            {"column": list(gram.missing), "rows without a value": list(gram.missing.values())}
        ).sort("rows without a value", descending=True)
    if sequence.aliased:
        told.append(f"Linearly dependent, with coefficient 0: {listed(list(sequence.aliased))}.")
    if sequence.unused:
        told.append(f"In no group: {listed(list(sequence.unused))}.")
    return Section("The rows", told, table=table)


def _roles(sequence: Any) -> Section:
    if not sequence._is_quadratic:
        told = [
            "The gains of a group alone and given the rest are available for linear models only; "
            "for this family the gains are those of the steps."
        ]
        taken = sequence.steps.filter(pl.col("group").is_not_null())
        return Section("The groups", told, table=taken.select("step", "group", "cost", "gain"))
    told = [
        "Gains are shares of the variance: alone, and lost without the group when all others are "
        "held. A group is redundant with the one that takes most of its gain; a share of 1 leaves "
        "nothing."
    ]
    if len(sequence.groups.names) > MOST_GROUPS:
        told.append(f"With more than {MOST_GROUPS} groups redundancy is not computed.")
    return Section("What each group is worth", told, table=worth_of_groups(sequence))


def _segments(segments: Any) -> Section:
    """Return the table of what `anytime_sequence_by` found."""
    if not isinstance(segments, pl.DataFrame) or "sequence" not in segments.columns:
        raise ArgumentError(
            f"segments is a {type(segments).__name__}; it must be what anytime_sequence_by returns"
        )
    told = [f"{segments.height:,} segments, each with an order of its own."]
    if segments.height > MOST_SEGMENTS:
        told.append(f"The first {MOST_SEGMENTS:,} are listed.")
    shown = segments.head(MOST_SEGMENTS)
    rows, curves = [], []
    for found in shown["sequence"].to_list():
        steps = found or []
        order = [one["group"] for one in steps if one["group"] is not None]
        last = steps[-1] if steps else {"spent": None, "r2": None}
        rows.append((last["spent"], last["r2"], listed(order, "")))
        spent, r2 = ([one[name] for one in steps] for name in ("spent", "r2"))
        words = f"r2 against cost, up to {last['r2']:.4g}" if steps else ""
        curves.append(small_curve(spent, r2, words) if steps else "")
    told_of = pl.DataFrame(
        rows, schema={"spent": pl.Float64, "r2": pl.Float64, "order": pl.String}, orient="row"
    )
    keys = [name for name in shown.columns if name not in ("sequence", "gram")]
    kept = shown.select(pl.col(keys).cast(pl.String)) if keys else pl.DataFrame()
    return Section(
        "Segments", told, table=pl.concat([kept, told_of], how="horizontal"), curves=curves
    )

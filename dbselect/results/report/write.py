"""Write the report of a sequence: the search, the models by budget, the value of each group."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dbselect import _forked, _native
from dbselect.errors import ArgumentError
from dbselect.linear.problem import TARGET, numbered
from dbselect.linear.state import LinearState, shares_columns
from dbselect.options.conditions import Conditions
from dbselect.options.kinds import POSITIVE, TEXT, check_folder
from dbselect.pages.html import cell_text, listed, small_curve
from dbselect.pages.report import Section, page
from dbselect.record.files import check_place, replacing
from dbselect.record.groups import numbers_of
from dbselect.record.steps import Stop, longest_within
from dbselect.results.glm.model import predicted
from dbselect.results.heights import cost_of_height, flat_from
from dbselect.results.report.drawing import HELD_OUT, MOST_RESPONSES, SAME_SHARE, held_out_curve
from dbselect.results.report.models import steps_of
from dbselect.results.report.reproduce import (
    RULES,
    code_of,
    code_parts,
    module_text,
    page_record,
    search_of,
)
from dbselect.results.report.rows import checked_rows
from dbselect.results.sequence import Sequence

MOST_SEGMENTS = 2000
NO_MODULE = (
    "Costs cannot be edited here: dbselect was installed without its WebAssembly module, which its "
    "wheels have and `make wasm` builds."
)
LOADING = "Costs can be edited once the script within this page runs."


def check_page(path: Any) -> None:
    """Refuse a path to which no page can be written."""
    check_folder("path", path)
    check_place(path)
    if Path(path).suffix.lower() not in ("", ".html", ".htm"):
        raise ArgumentError(f"path is '{path}'; a report is HTML: .html or .htm, or no ending")


def write_report(
    sequence: Any,
    path: Any,
    source: Any,
    *,
    held_out: Any,
    segments: Any,
    title: str | None,
    unit: str,
    worth: float | None,
) -> None:
    """Write the page of `Prefixes.report`."""
    _forked.check_threads()
    check_page(path)
    TEXT.or_none().check("title", title)
    TEXT.check("unit", unit)
    POSITIVE.or_none().check("worth", worth)
    text = _page(sequence, source, held_out, segments, title, unit, worth)
    with replacing(path) as written:
        written.write_text(text, encoding="utf-8")


def _page(
    sequence: Any, source: Any, held_out: Any, segments: Any, title: str | None, unit: str,
    worth: float | None,
) -> str:  # fmt: skip
    listed_segments = None if segments is None else _segments(segments)
    held = None if held_out is None else held_out_curve(held_out, sequence)
    judged = None if held is None else held.filter(curve=HELD_OUT)
    opening = opening_of(sequence, held_out, held)
    search, module = search_of(sequence), module_text()
    notice = search if isinstance(search, str) else LOADING if module else NO_MODULE
    of = "deviance" if hasattr(sequence, "deviance") else "variance"
    data = steps_of(sequence, judged) | {
        "lines": _lines(sequence, held),
        "chosen": opening,
        "best": better_sets(sequence),
        "groups": _groups(sequence),
        "shared": sequence.groups.told.renamed(str).get("shared", {}),
        "ask": search if module and isinstance(search, dict) else None,
        "stops": {stop.name: stop.value for stop in Stop},
        "unit": unit,
        "height": sequence._HEIGHT,
        "titles": {
            "value": sequence._HEIGHT.replace("r2, fitted rows", f"share of {of} explained (r2)"),
            "cost": f"cost{unit and f' in {unit}'}",
        },
        "words": f"{sequence._summary[0]}: share explained against cost. {sequence._summary[1]} at "
        f"cost {sequence.spent[-1]:.3g}. The first groups: {listed(sequence._order)}.",
        "code": code_parts(sequence, source),
    }
    sections = [_rows(sequence), _roles(sequence, worth)]
    if source is not None:
        model = sequence.model(opening["step"])
        checked = f"How the model of step {opening['step']} predicts the rows"
        sections += checked_rows(model, source, checked)
    if listed_segments is not None:
        sections.append(listed_segments)
    sections.append(code_of(sequence, data["code"], opening))
    targets = sequence.problem.targets or [sequence._summary[0]]
    target = predicted(listed(targets), getattr(sequence, "levels", ()))
    best = f"Which data best predict {target} for their cost"
    return page(
        best if title is None else title, _search_text(sequence, unit), data, sections, notice,
        module if data["ask"] else "",
    )  # fmt: skip


def _search_text(sequence: Any, unit: str) -> list[str]:
    costs = sequence.groups.costs
    total = sequence.groups.spent(range(len(costs)))
    suffix = f" {unit}" if unit else ""
    ends = dict.fromkeys(cell_text(float(c), 3) + suffix for c in (costs.min(), costs.max()))
    call = sequence.call
    rule = call.options.get("rule", "fr")
    by = (RULES | {"score": "score test"}).get(rule, rule)
    method = {
        "anytime_sequence": f"Forward selection by {by}",
        "foba": f"Forward selection with removals (FoBa) by {by}",
        "floating": f"Floating selection by {by}",
        "step": f"Stepwise selection by {call.options.get('criterion', 'aic').upper()}",
        "backward": "Backward elimination",
    }.get(call.method) or f"Found by {sequence.rule}"
    ridge = f", ridge {sequence.ridge:g}" if sequence.ridge else ""
    stop = "all groups were added" if sequence.stop is Stop.EXHAUSTED else sequence.stop.value
    return [
        f"{len(costs)} groups of {len(sequence.columns)} columns. Each group costs "
        f"{' to '.join(ends)}; {cell_text(total, 3)}{suffix} in total.",
        *_conditions(sequence.groups.told, suffix),
        f"{method}{ridge}. Stopped: {stop}.",
    ]


def _conditions(told: Conditions, suffix: str) -> list[str]:
    """Return a sentence for each condition on sets of groups."""
    limits = {"sum": "together", "max": "the dearest"}
    return [
        *(f"{name} costs {cell_text(cost, 3)}{suffix}, once, with the first of {listed(groups)}."
          for name, (cost, groups) in told.shared.items()),
        *(f"{name} needs {listed(needs)}." for name, needs in told.needs.items() if needs),
        *(f"At most one of {listed(groups)}." for groups in told.one_of if len(groups) > 1),
        *(f"Limit: {cell_text(limit, 3)} {unit}, {limits[how]}."
          for unit, (_, limit, how) in told.limits.items()),
    ]  # fmt: skip


def _lines(sequence: Any, held: pl.DataFrame | None) -> list[dict[str, Any]]:

    def line(name: str, **values: Any) -> dict[str, Any]:
        return {"name": name, **{key: np.asarray(x).tolist() for key, x in values.items()}}

    lines, spent = [], sequence.spent
    if held is not None:
        for curve in held.partition_by("curve", maintain_order=True):
            columns = ["spent", "value", *([] if curve["low"].null_count() else ["low", "high"])]
            name = str(curve["curve"][0]).replace(HELD_OUT, "held-out rows")
            lines.append(line(name, **curve.select(columns).to_dict()))
    if sequence._is_quadratic:
        budgets = _budgets(sequence.groups.prices.from_below(), float(sequence.spent.max()))
        bound = sequence.certificate(budgets)["bound"].to_numpy()
        bound_line = line("bound: no groups explain more", spent=budgets, value=bound)
        lines.append(bound_line | {"isJoined": True})
    if np.abs(sequence.explained - sequence.r2).max() > SAME_SHARE:
        lines.append(line("explained, less the penalty", spent=spent, value=sequence.explained))
    responses = getattr(sequence, "responses", {})
    if len(responses) <= MOST_RESPONSES:
        lines += [line(name, spent=spent, value=seq.r2) for name, seq in responses.items()]
    return lines


def _budgets(costs: Any, most: float) -> Any:
    """Return the budgets of the bound's curve; it jumps at the costs of groups."""
    least = float(costs.min())
    grids = [np.linspace(0.0, most, 49), np.geomspace(least, max(most, least), 49)]
    budgets = np.unique(np.concatenate([costs, costs * (1.0 - 1e-9), *grids]))
    return budgets[budgets <= most]


def _groups(sequence: Any) -> list[dict[str, Any]]:
    """Return the groups with their costs, in the order of their first steps."""
    names, costs = sequence.groups.names, sequence.groups.costs.tolist()
    taken = [names[step.group] for step in sequence.records if step.action == "add"]
    cost = dict(zip(names, costs, strict=True))
    return [{"name": name, "cost": cost[name]} for name in dict.fromkeys([*taken, *names])]


def _rows(sequence: Any) -> Section:
    gram = getattr(sequence, "gram", None)
    read = sequence if gram is None else gram
    if not hasattr(read, "rows"):
        return Section("The questions", [f"The score was asked about {sequence.queries[-1]} sets."])
    text = [f"{read.rows:,} rows were used and {read.skipped:,} left out."]
    table = None
    if gram is None:
        text.append("A row is left out where a value is missing, or its weight is 0.")
    elif gram.missing:
        text.append("A row is left out where a value is missing that nothing fills: see the table.")
        table = pl.DataFrame(
            {"column": list(gram.missing), "rows without a value": list(gram.missing.values())}
        ).sort("rows without a value", descending=True)
    if sequence.aliased:
        text.append(f"Linearly dependent, with coefficient 0: {listed(list(sequence.aliased))}.")
    if sequence.unused:
        text.append(f"In no group: {listed(list(sequence.unused))}.")
    return Section("The rows", text, table=table)


def _roles(sequence: Any, worth: float | None) -> Section:
    prices = None if worth is None else sequence.break_even(worth)
    if not sequence._is_quadratic:
        text = [
            "The gains of a group alone and given the rest are available for linear models only; "
            "for this family the gains are those of the steps."
        ]
        steps = sequence.steps.filter(pl.col("group").is_not_null())
        steps = steps.select("step", "group", "cost", "gain").sort("gain", descending=True)
        return Section("What each group is worth", text, table=steps)
    text = [
        "Gains are shares of the variance explained: by the group alone, and lost without it when "
        "all others are held. Overlap: the share of this group's gain that is lost once the named "
        "group is in the model."
    ]
    if sequence.groups.told:
        text.append("The cost is that of the group bought first, with what it shares and needs.")
    if len(sequence.groups.names) > MOST_GROUPS:
        text.append(f"With more than {MOST_GROUPS} groups, overlap is not computed.")
    table = worth_of_groups(sequence)
    if prices is not None:
        text.append(
            f"A group pays up to its break-even price, if all of the variance is worth {worth:g}."
        )
        prices = prices.rename({"price": "break-even"})
        table = table.join(prices, "group", "left", maintain_order="left")
    return Section("What each group is worth", text, table=table)


def _segments(segments: Any) -> Section:
    if not isinstance(segments, pl.DataFrame) or "sequence" not in segments.columns:
        raise ArgumentError(
            f"segments is a {type(segments).__name__}; it must be what anytime_sequence_by returns"
        )
    text = [f"{segments.height:,} segments, each with an order of its own."]
    if segments.height > MOST_SEGMENTS:
        text.append(f"The first {MOST_SEGMENTS:,} are listed.")
    listed_rows = segments.head(MOST_SEGMENTS)
    rows, curves = [], []
    for sequence in listed_rows["sequence"].to_list():
        steps = sequence or []
        order = [step["group"] for step in steps if step["group"] is not None]
        last = steps[-1] if steps else {"spent": None, "r2": None}
        rows.append((last["spent"], last["r2"], listed(order, "")))
        spent, r2 = ([step[name] for step in steps] for name in ("spent", "r2"))
        words = f"r2 against cost, up to {last['r2']:.3g}" if steps else ""
        curves.append(small_curve(spent, r2, words) if steps else "")
    summaries = pl.DataFrame(
        rows, schema={"spent": pl.Float64, "r2": pl.Float64, "order": pl.String}, orient="row"
    )
    keys = [name for name in listed_rows.columns if name not in ("sequence", "gram")]
    kept = listed_rows.select(pl.col(keys).cast(pl.String)) if keys else pl.DataFrame()
    return Section(
        "Segments", text, table=pl.concat([kept, summaries], how="horizontal"), curves=curves
    )


#: Largest number of groups for which overlap is computed, which needs J states of one group.
MOST_GROUPS = 300
#: Smaller shares of a group's gain that another group takes are not an overlap.
OVERLAP = 0.1


def worth_of_groups(sequence: Any) -> pl.DataFrame:
    """Return the value of each group in a quadratic problem; O(J D^2), and O(D^3) for all together.

    Gains and losses are shares of variance, without and with all other groups; the overlap is
    the largest share of a group's gain that is lost once another group is in the model. The cost is
    that of buying the group first, with its set-ups and all that it needs.
    """
    groups = sequence.groups
    state = LinearState(sequence.linear, groups.positions)
    alone = np.asarray(state.gains())
    full = state.copy()
    full.add_all(list(range(len(groups.names))))
    losses = np.asarray(full.losses())
    partner, share = _partners(state, alone)
    names, costs = groups.names, groups.prices.offers(()).costs
    overlaps = [(names[number], part) if part >= OVERLAP else (None, None)
                for number, part in zip(partner, share.tolist(), strict=True)]  # fmt: skip
    table = {
        "group": names,
        "cost": costs,
        "columns": [len(columns) for columns in groups.columns.values()],
        "gain alone": alone,
        "gain per cost": alone / costs,
        "lost without it": losses,
        "overlaps with": [name for name, _ in overlaps],
        "overlap": [part for _, part in overlaps],
    }
    types = {"overlaps with": pl.String, "overlap": pl.Float64}
    return pl.DataFrame(table, schema_overrides=types).sort("gain per cost", descending=True)


def _partners(state: LinearState, alone: Any) -> tuple[Any, Any]:
    """Return for each group the other group that takes most of its gain, and the share taken."""
    count = len(alone)
    partner, share = np.zeros(count, dtype=int), np.zeros(count)
    if count > MOST_GROUPS:
        return partner, share
    for other in range(count):
        beside = state.copy()
        beside.add(other)
        taken = 1.0 - np.divide(beside.gains(), alone, out=np.ones(count), where=alone > 0)
        taken[other] = 0.0
        better = taken > share
        partner[better], share[better] = other, taken[better]
    return partner, share


#: Most columns for a search for better sets, and its number of budgets, spread over the costs.
MOST_COLUMNS, BUDGETS = 200, 20
#: Time limit in seconds for one budget; most problems of some 30 groups need less.
SECONDS = 0.1
#: Least share of the variance that a better set explains in addition to the prefix.
BETTER = 5e-4


def opening_of(sequence: Any, held_out: Any, held: pl.DataFrame | None) -> dict[str, Any]:
    """Return the initial step and budget of a page, and why; `held` is the curve of `held_out`."""
    spent = sequence.spent
    step, why = longest_within(spent, None), ""
    if hasattr(held_out, "one_standard_error"):
        (step,) = held_out.one_standard_error["step"].to_list()
        why = "cross-validated choice"
    elif held is not None and HELD_OUT in held["curve"]:
        best = held.sort("value", descending=True, maintain_order=True)
        step, why = best["step"][0], "best on held-out rows"
    else:
        fraction = flat_from(spent, sequence.explained)
        if fraction < 1.0:
            step = longest_within(spent, cost_of_height(spent, sequence.explained, fraction))
            why = f"beyond this, {1.0 - fraction:.0%} of the gain remains"
    step = min(int(step), len(spent) - 1)
    return {"step": step, "budget": float(spent[step]), "why": why}


def better_sets(sequence: Any) -> list[dict[str, Any]]:
    """Return sets that explain more than the prefix within their cost, cheapest first."""
    if type(sequence) is not Sequence or len(sequence.columns) > MOST_COLUMNS:
        return []
    groups, problem, spent = sequence.groups, sequence.problem, sequence.spent
    if shares_columns(groups.positions):
        return []
    _, columns, fields = page_record(sequence)
    record = numbered(sequence.gram, sequence.columns, sequence.target)
    prices, always = groups.prices, numbers_of(problem.always, groups)
    options = {
        "groups": {str(g): names for g, names in enumerate(columns)},
        "costs": {str(g): cost for g, cost in enumerate(groups.costs.tolist())},
        **groups.told.renamed(lambda name: str(groups.names.index(name))),
        "always": list(map(str, always)), "time_limit": SECONDS, **fields,
    }  # fmt: skip
    least = max(prices.spent(always), float(prices.offers(()).costs.min()))
    budgets = np.concatenate([spent, np.linspace(least, spent.max(), BUDGETS)])
    budgets = np.unique(budgets[(budgets >= least) & (budgets < spent.max())])
    if len(budgets) > BUDGETS:
        budgets = budgets[np.linspace(0, len(budgets) - 1, BUDGETS).astype(int)]
    sets: dict[tuple[str, ...], dict[str, Any]] = {}
    for budget in budgets.tolist():
        answer = _native.answers(record, "best_within", TARGET, {**options, "budget": budget})
        if answer.field("status")[0].is_valid:
            break
        best = answer.field("found")[0].as_py()
        names = [groups.names[int(number)] for number in best["groups"]]
        prefix = sequence.r2[longest_within(spent, best["spent"])]
        if best["r2"] > prefix + BETTER:
            sets[tuple(names)] = {"spent": best["spent"], "r2": best["r2"], "groups": names}
    return sorted(sets.values(), key=lambda fields: float(fields["spent"]))

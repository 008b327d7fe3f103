"""What a report opens at, and the sets of groups that are better than a prefix."""

from typing import Any

import numpy as np
import polars as pl

from dbselect import _native
from dbselect.engine.linear_state import shares_columns
from dbselect.linear.problem import TARGET, numbered
from dbselect.record.groups import numbers_of
from dbselect.record.steps import longest_within
from dbselect.results.heights import cost_of_height, flat_from
from dbselect.results.report.what_if import page_record
from dbselect.results.sequence import Sequence

#: Columns up to which better sets are searched for, and budgets at which, spread over the costs.
MOST_COLUMNS, BUDGETS = 200, 20
#: Seconds for one budget; most problems of some 30 groups need less.
SECONDS = 0.1
#: A set is better than a prefix if it explains so much more of the variance.
BETTER = 5e-4


def opening_of(sequence: Any, held_out: Any, held: pl.DataFrame | None) -> dict[str, Any]:
    """Return the step and budget a page opens at, and why; `held` is the curve of `held_out`."""
    spent = sequence.spent
    step, why = longest_within(spent, None), ""
    if hasattr(held_out, "one_standard_error"):
        (step,) = held_out.one_standard_error["step"].to_list()
        why = "cross-validated choice"
    elif held is not None:
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
    """Return sets that explain more than the prefix of their cost, cheapest first."""
    if type(sequence) is not Sequence or len(sequence.columns) > MOST_COLUMNS:
        return []
    groups, problem, spent = sequence.groups, sequence.problem, sequence.spent
    if shares_columns(groups.positions):
        return []
    _, columns, fields = page_record(sequence)
    record = numbered(sequence.gram, sequence.columns, sequence.target)
    always = numbers_of(problem.always, groups)
    asked = {
        "groups": {str(g): own for g, own in enumerate(columns)},
        "costs": {str(g): cost for g, cost in enumerate(groups.costs.tolist())},
        "always": list(map(str, always)), "time_limit": SECONDS, **fields,
    }  # fmt: skip
    least = max(float(groups.costs[always].sum()), float(groups.costs.min()))
    budgets = np.concatenate([spent, np.linspace(least, spent.max(), BUDGETS)])
    budgets = np.unique(budgets[(budgets >= least) & (budgets < spent.max())])
    if len(budgets) > BUDGETS:
        budgets = budgets[np.linspace(0, len(budgets) - 1, BUDGETS).astype(int)]
    sets: dict[tuple[str, ...], dict[str, Any]] = {}
    for budget in budgets.tolist():
        found = _native.answers(record, "best_within", TARGET, {**asked, "budget": budget})
        if found.field("status")[0].is_valid:
            break
        best = found.field("found")[0].as_py()
        names = [groups.names[int(number)] for number in best["groups"]]
        prefix = sequence.r2[longest_within(spent, best["spent"])]
        if best["r2"] > prefix + BETTER:
            sets[tuple(names)] = {"spent": best["spent"], "r2": best["r2"], "groups": names}
    return sorted(sets.values(), key=lambda one: float(one["spent"]))

"""Searches of one Gram by the compiled library."""

import math
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Ordered
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect import _native
from dbselect._arrow import to_numpy
from dbselect.errors import RecordError
from dbselect.linear.condition import warn_of, warn_of_dropped
from dbselect.linear.problem import TARGET, numbered
from dbselect.record.gram import Vector
from dbselect.record.steps import Choice, Step, Stop, held_after
from dbselect.results.joint import JointSequence
from dbselect.results.sequence import Sequence
from dbselect.selection.criteria import RULES
from dbselect.selection.descent import FORWARD_START, OWN_START, Chosen, Descent
from dbselect.sources.progress import Turn

#: Fields of a problem that the library takes; the others are about groups or rows.
_FIELDS = ("ridge", "scale", "intercept", "seed")
#: Stop reasons and choices, in the order of the library's codes.
STOPS = tuple(Stop[name] for name in _native.STOPS)
CHOICES = tuple(Choice)
#: Methods whose walk the library has.
METHODS = ("anytime_sequence", "foba", "backward", "floating", "step")


def compiled_sequence(search: Any, rule: str, turn: Turn) -> Sequence | JointSequence | None:
    """Run a search in the compiled library; None if it lacks the method or the rule.

    Warns of columns that are nearly dependent in the result.
    """
    call, groups, gram = search.call, search.groups, search.gram
    if not _is_for_library(search):
        return None

    def turned(group: int, is_added: bool, explained: float) -> None:
        turn(("" if is_added else "-") + groups.names[group], explained)

    if search.is_joint or groups.brings:
        sequence: Sequence | JointSequence = search.sequence(rule, *_greedy(search, turned))
        return sequence
    number = {name: at for at, name in enumerate(gram.columns)}
    members = np.array([number[name] for name in groups.members], np.intp)
    columns, starts = groups.places
    values = _native.walk(
        gram, number[search.target], members, (columns, np.array(starts, np.intp), groups.costs),
        call.method, _changes(search), turned,
    )  # fmt: skip
    count, stop, condition, first_condition, has_trace, n_aliased = values[:6].tolist()
    n_models, start = int(count), 6 + int(n_aliased)
    end = start + 9 * n_models
    kinds, coef = values[start:end].reshape(9, n_models), values[end:].reshape(n_models, -1)
    # An elimination starts with all groups, and users may take any prefix.
    begins_full = call.method == "backward"
    warn_of(first_condition if begins_full else condition)
    steps = kinds[:6, 1:].T.tolist()
    records = [
        Step("add" if added else "remove", int(group), score, gain, explained, CHOICES[int(choice)])
        for added, group, score, gain, explained, choice in steps
    ]
    if has_trace:
        # The state measures how nearly dependent the columns are.
        begun = sorted({step.group for step in records})
        search.state.add_all(begun if begins_full else held_after(records))
        warn_of_dropped(search.state, groups.members)
    return Sequence(
        gram, search.target, groups, rule, records, explained=kinds[4], spent=kinds[6], r2=kinds[7],
        intercept=kinds[8], coef=coef,
        aliased=tuple(groups.members[int(at)] for at in values[6:start]),
        stop=STOPS[int(stop)], condition=condition, call=call,
    )  # fmt: skip


def _greedy(
    search: Any, turned: Callable[[int, bool, float], None]
) -> tuple[list[Step], list[Any], Stop]:
    """Run a forward search on the state; return its steps, no coefficients, and the stop."""
    groups, options = search.groups, search.call.options
    rule, first = options.get("rule", "fr"), options.get("c_min")
    if RULES[rule].doubling and first is None:
        first = groups.prices.offers([]).costs.min()
    steps, stop, raised = search.state.selection.greedy(
        rule, groups.costs, turned, parts=groups.prices.arrays, told=groups.told_by_number,
        always=search.first, first_cost=first, budget=options.get("budget"),
        max_groups=options.get("max_groups"),
    )  # fmt: skip
    if raised and not isinstance(raised[0], KeyboardInterrupt):
        raise raised[0]
    records = [
        Step("add", int(group), score, gain, min(explained, 1.0), CHOICES[int(choice)])
        for group, score, gain, explained, choice in steps.tolist()
    ]
    return records, [], STOPS[stop]


def compiled_choice(search: Any, turn: Turn) -> tuple[list[int], list[float]]:
    """Return the groups chosen for one response, and notes on the search."""

    def turned(_group: int, _is_added: bool, explained: float) -> None:
        turn(None, None if math.isnan(explained) else explained)

    answer = _answer(*_arguments(search), turned)
    chosen = answer.field("found").field("groups")[0].as_py()
    return list(map(int, chosen)), answer.field("notes")[0].as_py()


def compiled_sets(
    search: Any, watched: Ordered[str], turn: Turn
) -> tuple[list[dict[str, Any]], bool]:
    """Return the sets of `near_best`, with correlations in the order of `watched` columns.

    Then whether doubles tell what every set explains.
    """
    members = search.groups.members
    everything = [*members, *(name for name in watched if name not in members)]
    _, method, target, request = _arguments(search)
    names = [str(everything.index(name)) for name in watched]
    request |= {
        "groups": {str(g): list(map(str, at)) for g, at in enumerate(search.groups.positions)},
        "watch": names or None,
    }
    record = numbered(search.gram, everything, search.target)
    answer = _answer(record, method, target, request, lambda *_: turn(None, None))
    sets = answer.field("found")[0].as_py()
    for one in sets:
        values = dict(one["correlations"])
        one["correlations"] = [values.get(name) for name in names]
    return sets, answer.field("notes")[0].as_py()[1] > 0


def compiled_prices(search: Any, turn: Turn) -> list[tuple[str, float, bool]]:
    """Return for each group its break-even price, and whether that is proven."""
    record, method, target, request = _arguments(search)
    # What these need is not needed without them.
    named = [str(search.groups.number(name, "always")) for name in search.call.problem.always]
    request["always"] = named or None
    answer = _answer(record, method, target, request, lambda *_: turn(None, None))
    rows = answer.field("found")[0].as_py()
    return [(search.groups.names[int(row["group"])], row["price"], row["proven"]) for row in rows]


def _answer(*arguments: Any) -> pa.StructArray:
    """Return the answer for one record; RecordError if the library refuses it."""
    answer = _native.answers(*arguments)
    if (status := answer.field("status")[0]).is_valid:
        raise RecordError(str(status))
    return answer


def compiled_path(
    search: Any, method: str, options: Mapping[str, Any], turn: Callable[..., None]
) -> tuple[dict[str, Any], float]:
    """Return the minima at falling penalties, by name, and the condition of their columns.

    Penalty factors are those of groups, ``"g0"`` on, and of columns, ``"0"`` on.
    """
    record, _, target, request = _arguments(search)
    groups = search.groups
    fields = {name: request[name] for name in _FIELDS if name in request}
    positions = [list(map(str, at.tolist())) for at in groups.positions]
    fields["groups"] = {f"g{g}": columns for g, columns in enumerate(positions)}
    fields["costs"] = {f"g{g}": cost for g, cost in enumerate(groups.costs.tolist())}
    if search.call.method != "group_lasso":
        # group_lasso puts these groups first in its order, and penalises them as it does others.
        fields["always"] = [f"g{g}" for g in search.first]
    answer = _answer(record, method, target, {**fields, **options}, turn)
    path = answer.field("found")
    values = {name: path.field(name)[0] for name in path.type.names}
    preferred = values.pop("preferred").as_py()
    numbers = {name: _numbers(scalar.values) for name, scalar in values.items()}
    return {**numbers, "preferred": preferred}, answer.field("condition")[0].as_py()


def _numbers(values: pa.Array) -> Vector:
    """Return a writable copy of numbers, with NaN for NULL."""
    return np.array(to_numpy(values.fill_null(math.nan) if values.null_count else values))


def compiled_descent(search: Any, limits: tuple[int, int], options: Mapping[str, Any]) -> Descent:
    """Run hard thresholding within the limits on columns and on groups.

    The option `start` is a name, or coefficients by number of the column.
    """
    record, _, target, request = _arguments(search)
    fields = {name: request.get(name) for name in ("groups", "ridge", "scale", "intercept")}
    start = options["start"] if isinstance(options["start"], str) else OWN_START
    width = len(search.groups.members)
    if search.is_joint:
        fields["responses"] = {str(width + k): share for k, share in enumerate(search.linear.share)}
    bounds = dict(zip(("max_columns", "max_groups"), limits, strict=True))
    answer = _answer(record, "sght", target, {**fields, **options, **bounds})
    notes = _numbers(answer.field("notes")[0].values)
    converged, exchanges, polished, is_forward, projections, *counts = notes[:7].tolist()
    aliased, history, x = np.split(notes[7:], np.cumsum(counts).astype(int))
    return Descent(
        x.reshape(-1, width) if search.is_joint else x, history, bool(converged),
        FORWARD_START if is_forward else start,
        None if math.isnan(polished) else polished,
        None if math.isnan(exchanges) else int(exchanges),
        int(projections), _chosen(answer, aliased.astype(int).tolist()),
    )  # fmt: skip


def _chosen(answer: pa.StructArray, aliased: list[int]) -> Chosen:
    """Return the chosen model of an answer."""
    model = {name: scalar.as_py() for name, scalar in answer.field("found")[0].items()}
    return Chosen(
        [int(group) for group in model["groups"]],
        {int(column): value for column, value in model["coefficients"]},
        model["intercept"], model["explained"], model["r2"], aliased,
        answer.field("condition")[0].as_py(),
    )  # fmt: skip


def _is_for_library(search: Any) -> bool:
    call = search.call
    rule = RULES.get(call.options.get("rule", "fr"))
    return call.method in METHODS and rule is not None and rule.compiled


def _arguments(search: Any) -> tuple[pa.StructArray, str, str, dict[str, Any]]:
    """Return the arguments of the library: record, method, target, and the rest by name."""
    call, groups = search.call, search.groups
    # Columns are named by number: no glob and no suffix can match them.
    positions = [at.tolist() for at in groups.positions]
    columns = {str(g): list(map(str, at)) for g, at in enumerate(positions)}
    are_single = positions == [[at] for at in range(len(groups.members))]
    costs = groups.costs.tolist()
    # The library has the same defaults: groups of one column each, costs of 1.
    request = {
        "groups": None if are_single and not search.is_joint else columns,
        "costs": {str(g): cost for g, cost in enumerate(costs)} if {*costs} != {1.0} else None,
        **_changes(search),
    }
    targets = call.problem.targets if search.is_joint else [search.target]
    return numbered(search.gram, groups.members, *targets), call.method, TARGET, request


def _changes(search: Any) -> dict[str, Any]:
    """Return the fields and options that are not at their defaults, with groups by number."""
    call = search.call
    fields = {name: value for name, value in call.problem.changed().items() if name in _FIELDS}
    first = [str(group) for group in search.first] or None
    options = {"always": first, **fields, **search.groups.told_by_number, **call.options}
    if not isinstance(options.get("start"), str | Mapping | None):
        options["start"] = [str(search.groups.number(name, "start")) for name in options["start"]]
    return options

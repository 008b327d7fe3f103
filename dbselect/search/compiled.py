"""One Gram searched by the compiled library."""

import math
from collections.abc import Callable, Mapping
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

#: Fields of a problem that it takes, beside the groups; the others are about rows.
_FIELDS = ("ridge", "scale", "intercept", "seed")
#: Reasons and choices by the library's numbers.
STOPS = tuple(Stop[name] for name in _native.STOPS)
CHOICES = tuple(Choice)
#: Methods that the library has.
METHODS = ("anytime_sequence", "foba", "backward", "floating", "step")


def compiled_sequence(search: Any, rule: str, turn: Turn) -> Sequence | JointSequence | None:
    """Return what the compiled library finds; None where it lacks the method or the rule.

    Warns of columns that are nearly dependent at the end.
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
    found = _native.walk(
        gram, number[search.target], members, (columns, np.array(starts, np.intp), groups.costs),
        call.method, _given(search), turned,
    )  # fmt: skip
    count, stop, condition, begun, has_trace, n_aliased = found[:6].tolist()
    n_models, start = int(count), 6 + int(n_aliased)
    end = start + 9 * n_models
    kinds, coef = found[start:end].reshape(9, n_models), found[end:].reshape(n_models, -1)
    # An elimination begins with all groups, and every prefix may be asked for.
    begins_full = call.method == "backward"
    warn_of(begun if begins_full else condition)
    steps = kinds[:6, 1:].T.tolist()
    records = [
        Step("add" if added else "remove", int(group), score, gain, explained, CHOICES[int(among)])
        for added, group, score, gain, explained, among in steps
    ]
    if has_trace:
        # A state measures how near to dependent they are.
        search.state.add_all(range(len(groups.costs)) if begins_full else held_after(records))
        warn_of_dropped(search.state, groups.members)
    return Sequence(
        gram, search.target, groups, rule, records, explained=kinds[4], spent=kinds[6], r2=kinds[7],
        intercept=kinds[8], coef=coef,
        aliased=tuple(groups.members[int(at)] for at in found[6:start]),
        stop=STOPS[int(stop)], condition=condition, call=call,
    )  # fmt: skip


def _greedy(
    search: Any, turned: Callable[[int, bool, float], None]
) -> tuple[list[Step], list[Any], Stop]:
    """Run a forward search on the state; return its steps, no coefficients, and why it ended."""
    groups, options = search.groups, search.call.options
    rule, first = options.get("rule", "fr"), options.get("c_min")
    if RULES[rule].doubling and first is None:
        first = groups.costs.min()
    steps, stop, raised = search.state.greedy(
        rule, groups.costs, turned, parts=groups.priced if groups.brings else None,
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
    """Return the groups chosen and how, for one response."""

    def turned(_group: int, _is_added: bool, explained: float) -> None:
        turn(None, None if math.isnan(explained) else explained)

    found = _answer(*_asked(search), turned)
    chosen = found.field("found").field("groups")[0].as_py()
    return list(map(int, chosen)), found.field("notes")[0].as_py()


def _answer(*asked: Any) -> pa.StructArray:
    """Return the answer of one record; RecordError if it is refused."""
    found = _native.answers(*asked)
    if (status := found.field("status")[0]).is_valid:
        raise RecordError(str(status))
    return found


def compiled_path(
    search: Any, method: str, options: Mapping[str, Any], turn: Callable[..., None]
) -> tuple[dict[str, Any], float]:
    """Return the minima at falling penalties, by name, and the condition of their columns.

    Penalty factors are those of groups, ``"g0"`` on, and of columns, ``"0"`` on.
    """
    record, _, target, request = _asked(search)
    groups = search.groups
    given = {name: request[name] for name in _FIELDS if name in request}
    positions = [list(map(str, at.tolist())) for at in groups.positions]
    given["groups"] = {f"g{g}": columns for g, columns in enumerate(positions)}
    given["costs"] = {f"g{g}": cost for g, cost in enumerate(groups.costs.tolist())}
    if search.call.method != "group_lasso":
        # Its order has the groups to take first, its penalty does not.
        given["always"] = [f"g{g}" for g in search.first]
    found = _answer(record, method, target, {**given, **options}, turn)
    path = found.field("found")
    values = {name: path.field(name)[0] for name in path.type.names}
    preferred = values.pop("preferred").as_py()
    numbers = {name: _numbers(each.values) for name, each in values.items()}
    return {**numbers, "preferred": preferred}, found.field("condition")[0].as_py()


def _numbers(values: pa.Array) -> Vector:
    """Return numbers in memory of their own, which may be written to; NaN for NULL."""
    return np.array(to_numpy(values.fill_null(math.nan) if values.null_count else values))


def compiled_descent(search: Any, limits: tuple[int, int], options: Mapping[str, Any]) -> Descent:
    """Return where the descent ends within most columns and groups.

    A start is a name, or coefficients of columns by their numbers.
    """
    record, _, target, asked = _asked(search)
    own = {name: asked.get(name) for name in ("groups", "ridge", "scale", "intercept")}
    start = options["start"] if isinstance(options["start"], str) else OWN_START
    width = len(search.groups.members)
    if search.is_joint:
        own["responses"] = {str(width + k): one for k, one in enumerate(search.linear.share)}
    within = dict(zip(("max_columns", "max_groups"), limits, strict=True))
    found = _answer(record, "sght", target, {**own, **options, **within})
    notes = _numbers(found.field("notes")[0].values)
    converged, exchanges, polished, is_forward, projections, *counts = notes[:7].tolist()
    aliased, history, x = np.split(notes[7:], np.cumsum(counts).astype(int))
    return Descent(
        x.reshape(-1, width) if search.is_joint else x, history, bool(converged),
        FORWARD_START if is_forward else start,
        None if math.isnan(polished) else polished,
        None if math.isnan(exchanges) else int(exchanges),
        int(projections), _chosen(found, aliased.astype(int).tolist()),
    )  # fmt: skip


def _chosen(found: pa.StructArray, aliased: list[int]) -> Chosen:
    """Return the model of one answer."""
    model = {name: one.as_py() for name, one in found.field("found")[0].items()}
    return Chosen(
        [int(group) for group in model["groups"]],
        {int(column): value for column, value in model["coefficients"]},
        model["intercept"], model["explained"], model["r2"], aliased,
        found.field("condition")[0].as_py(),
    )  # fmt: skip


def _is_for_library(search: Any) -> bool:
    call = search.call
    rule = RULES.get(call.options.get("rule", "fr"))
    return call.method in METHODS and rule is not None and rule.compiled


def _asked(search: Any) -> tuple[pa.StructArray, str, str, dict[str, Any]]:
    """Return the record of a search, its method, its target, and all else by name."""
    call, groups = search.call, search.groups
    # Numbers are names that no glob and no suffix can mean something by.
    positions = [at.tolist() for at in groups.positions]
    columns = {str(g): list(map(str, at)) for g, at in enumerate(positions)}
    is_each_alone = positions == [[at] for at in range(len(groups.members))]
    costs = groups.costs.tolist()
    # What has its default, as groups of one column each or costs of 1, is left to the library.
    request = {
        "groups": None if is_each_alone and not search.is_joint else columns,
        "costs": {str(g): cost for g, cost in enumerate(costs)} if {*costs} != {1.0} else None,
        **_given(search),
    }
    targets = call.problem.targets if search.is_joint else [search.target]
    return numbered(search.gram, groups.members, *targets), call.method, TARGET, request


def _given(search: Any) -> dict[str, Any]:
    """Return fields and options that are not at their defaults, groups by their numbers."""
    call = search.call
    fields = {name: value for name, value in call.problem.changed().items() if name in _FIELDS}
    first = [str(group) for group in search.first] or None
    given = {"always": first, **fields, **call.options}
    if not isinstance(given.get("start"), str | Mapping | None):
        given["start"] = [str(search.groups.number(name, "start")) for name in given["start"]]
    return given

"""One Gram searched by the compiled library."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dbselect import _native
from dbselect._arrow import to_numpy
from dbselect.linear.condition import warn_of, warn_of_dropped
from dbselect.linear.problem import TARGET, numbered
from dbselect.record.steps import Choice, Step, Stop, held_after
from dbselect.results.sequence import Sequence
from dbselect.selection.criteria import RULES
from dbselect.selection.penalised.descent import FORWARD_START, Descent
from dbselect.sources.progress import Turn

if TYPE_CHECKING:
    from dbselect.search.gram import GramSearch

#: Fields of a problem that it takes, beside the groups; the others are about rows.
_FIELDS = ("ridge", "scale", "intercept", "seed")
#: Reasons and choices as the library numbers them.
STOPS = (
    Stop.EXHAUSTED, Stop.BUDGET, Stop.MAX_GROUPS, Stop.MAX_STEPS, Stop.THRESHOLD, Stop.EMPTY,
    Stop.INTERRUPTED, Stop.SATURATED,
)  # fmt: skip
CHOICES = tuple(Choice)
#: Methods that the library has.
METHODS = ("anytime_sequence", "foba", "backward", "floating", "step")


def compiled_sequence(search: "GramSearch", rule: str, turn: Turn) -> Sequence | None:
    """Return what the compiled library finds; None where Python is to search.

    It searches where the library lacks the method or the rule, as for several responses, or refuses
    the record: the error is then Python's. Warns of columns that are nearly dependent at the end.
    """
    call, groups, gram = search.call, search.groups, search.gram
    if not _is_for_library(search):
        return None

    def turned(group: int, is_added: bool, explained: float) -> None:
        turn(("" if is_added else "-") + groups.names[group], explained)

    number = {name: at for at, name in enumerate(gram.columns)}
    members = np.array([number[name] for name in groups.members], np.intp)
    columns, starts = groups.places
    found = _native.walk(
        gram, number[search.target], members, (columns, np.array(starts, np.intp), groups.costs),
        call.method, _given(search), turned,
    )  # fmt: skip
    if not len(found):
        return None
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


def compiled_choice(search: "GramSearch", turn: Turn) -> tuple[list[int], list[float]] | str:
    """Return the groups chosen and how, for one response; or why the record is refused."""

    def turned(_group: int, _is_added: bool, explained: float) -> None:
        turn(None, None if math.isnan(explained) else explained)

    found = _native.answers(*_asked(search), turned)
    status = found.field("status")[0]
    if status.is_valid:
        return str(status)
    chosen = found.field("found").field("groups")[0].as_py()
    return list(map(int, chosen)), found.field("notes")[0].as_py()


def compiled_descents(
    search: "GramSearch",
    limits: Iterable[tuple[int, int]],
    options: Mapping[str, Any],
    turn: Turn,
) -> list[Descent] | None:
    """Return where descents end within most columns and groups; None if the record is refused."""
    record, _, target, asked = _asked(search)
    own = {name: asked.get(name) for name in ("groups", "ridge", "scale", "intercept")}
    ends = []
    for columns, groups in limits:
        within = {"max_columns": columns, "max_groups": groups}
        found = _native.answers(record, "sght", target, {**own, **options, **within})
        if found.field("status")[0].is_valid:
            return None
        notes = to_numpy(found.field("notes")[0].values)
        converged, exchanges, polished, is_forward, count = notes[:5].tolist()
        history, x = np.split(notes[5:], [int(count)])
        ends.append(
            Descent(
                x, history, bool(converged), FORWARD_START if is_forward else "ridge",
                None if math.isnan(polished) else polished,
                None if math.isnan(exchanges) else int(exchanges),
            )
        )  # fmt: skip
        turn(None, None)
    return ends


def _is_for_library(search: "GramSearch") -> bool:
    call = search.call
    rule = RULES.get(call.options.get("rule", "fr"))
    is_compiled = call.method in METHODS and rule is not None and rule.compiled
    return is_compiled and not (search.is_joint or search.groups.brings)


def _asked(search: "GramSearch") -> tuple[pa.StructArray, str, str, dict[str, Any]]:
    """Return the record of a search, its method, its target, and all else by name."""
    call, groups = search.call, search.groups
    # Numbers are names that no glob and no suffix can mean something by.
    positions = [at.tolist() for at in groups.positions]
    columns = {str(g): list(map(str, at)) for g, at in enumerate(positions)}
    is_each_alone = positions == [[at] for at in range(len(groups.members))]
    costs = groups.costs.tolist()
    # What has its default, as groups of one column each or costs of 1, is left to the library.
    request = {
        "groups": None if is_each_alone else columns,
        "costs": {str(g): cost for g, cost in enumerate(costs)} if {*costs} != {1.0} else None,
        **_given(search),
    }
    return numbered(search.gram, groups.members, search.target), call.method, TARGET, request


def _given(search: "GramSearch") -> dict[str, Any]:
    """Return fields and options that are not at their defaults, groups by their numbers."""
    call = search.call
    fields = {name: value for name, value in call.problem.changed().items() if name in _FIELDS}
    first = [str(group) for group in search.first] or None
    given = {"always": first, **fields, **call.options}
    if given.get("start") is not None:
        given["start"] = [str(search.groups.number(name, "start")) for name in given["start"]]
    return given

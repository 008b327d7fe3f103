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
from dbselect.record.gram import Matrix
from dbselect.record.steps import Choice, Step, Stop, held_after
from dbselect.results.sequence import Sequence, build
from dbselect.selection.criteria import RULES
from dbselect.selection.penalised.descent import FORWARD_START, Descent
from dbselect.sources.progress import Turn

if TYPE_CHECKING:
    from dbselect.search.gram import GramSearch

#: Methods that the library has.
METHODS = ("anytime_sequence", "foba", "backward", "floating", "step")
#: Fields of a problem that it takes, beside the groups; the others are about rows.
_FIELDS = ("ridge", "scale", "intercept", "seed")


def compiled_sequence(search: "GramSearch", rule: str, turn: Turn) -> Sequence | None:
    """Return what the compiled library finds; None where Python is to search.

    It searches where the library lacks the method or the rule, as for several responses, or refuses
    the record: the error is then Python's. Warns of columns that are nearly dependent at the end.
    """
    call, groups, own = search.call, search.groups, search.linear
    if not _is_for_library(search):
        return None

    def turned(group: int, is_added: bool, explained: float) -> None:
        turn(("" if is_added else "-") + groups.names[group], explained)

    found = _native.search(*_asked(search), turned)
    if found.field("status")[0].is_valid:
        return None
    condition = found.field("condition")[0].as_py()
    # An elimination begins with all groups, and every prefix may be asked for.
    begins_full = call.method == "backward"
    warn_of(found.field("begun")[0].as_py() if begins_full else condition)
    aliased = [int(column) for column in found.field("aliased")[0].as_py()]
    records, coef = _steps(found, len(groups.members))
    if found.field("trace")[0].as_py():
        # A state measures how near to dependent they are.
        search.state.add_all(range(len(groups.costs)) if begins_full else held_after(records))
        warn_of_dropped(search.state, groups.members)
    return build(
        search.gram, own, call=call, target=search.target, groups=groups, rule=rule,
        records=records, coef=coef * (own.spread / own.target_spread), aliased=aliased,
        stop=Stop[found.field("stop")[0].as_py()], condition=condition,
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
    fields = {name: value for name, value in call.problem.changed().items() if name in _FIELDS}
    # What has its default, as groups of one column each or costs of 1, is left to the library.
    request = {
        "groups": None if is_each_alone else columns,
        "costs": {str(g): cost for g, cost in enumerate(costs)} if {*costs} != {1.0} else None,
        "always": [str(group) for group in search.first] or None,
        **fields,
        **call.options,
    }
    if request.get("start") is not None:
        request["start"] = [str(groups.number(name, "start")) for name in request["start"]]
    return numbered(search.gram, groups.members, search.target), call.method, TARGET, request


def _steps(found: pa.StructArray, width: int) -> tuple[list[Step], Matrix]:
    """Return the steps of one sequence, and the coefficients after each, in the table's units."""
    steps = found.field("sequence").values
    choices = found.field("choices").values
    among = [Choice[name] for name in choices.dictionary.to_pylist()]
    given = (
        steps.field(name)[1:].to_pylist()
        for name in ("action", "group", "score", "gain", "explained")
    )
    records = [
        Step(action, int(group), score, gain, explained, among[choice])
        for action, group, score, gain, explained, choice in zip(
            *given, choices.indices.to_pylist(), strict=True
        )
    ]
    models = steps.field("coefficients")
    ends = to_numpy(models.offsets)
    columns = to_numpy(models.keys.cast(pa.int64()))
    own = np.zeros((len(steps), width))
    own[np.repeat(np.arange(len(steps)), np.diff(ends)), columns] = to_numpy(models.items)
    return records, own

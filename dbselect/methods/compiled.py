"""One Gram searched by the compiled library, where that is the faster way."""

import numbers
from typing import Any

import numpy as np
import pyarrow as pa

from dbselect import _native
from dbselect.linear.condition import warn_of, warn_of_dropped
from dbselect.methods.options import Options
from dbselect.methods.setup import LinearSetup
from dbselect.record.gram import Gram, Matrix
from dbselect.record.steps import Choice, Step, Stop, held_after
from dbselect.results.sequence import Sequence, build
from dbselect.selection.criteria import RULES

#: Columns up to which one Gram goes to the compiled library. A call takes 0.1 to 0.5 of the time
#: that it takes in Python at 20 to 100 columns, 0.3 at 500, 0.6 at 1,000; from 1,500 on both
#: take about the same (0.7 to 1.2), BLAS may use more cores, and Ctrl-C ends a search in Python.
MOST_COLUMNS = 1000

#: What the library takes of the options of a method; the rest is said of groups and rows.
_OPTIONS = (
    "rule", "backward", "ridge", "scale", "intercept", "budget", "max_groups", "max_steps", "c_min",
    "epsilon", "nu",
)  # fmt: skip


def compiled_sequence(search: Any, name: str, options: Options) -> Sequence | None:
    """Return what the compiled library finds; None where Python is to search.

    Python is where the problem is wide, has several responses or is no linear one, where it
    alone has the rule, and where the library refuses the record: the error is then Python's.

    Parameters
    ----------
    search : a problem that is set up; of a linear one nothing is selected
    name : of the rule or the method, as the result has it
    options : of the method

    Warns
    -----
    ConditionWarning : the columns selected at the end are nearly dependent
    DependenceWarning : a column that is left out as dependent may explain much
    """
    if not isinstance(search, LinearSetup) or not _is_for_library(search, options):
        return None
    groups = search.groups
    # Numbers are names that no glob and no suffix can mean something by.
    columns = {str(g): list(map(str, at.tolist())) for g, at in enumerate(groups.positions)}
    request = {
        "groups": columns,
        "costs": {str(g): float(cost) for g, cost in enumerate(groups.costs)},
        "always": [str(group) for group in search.first],
        **{name: _plain(value) for name, value in options.given().items() if name in _OPTIONS},
    }
    record = _record(search.gram, groups.members, search.target)
    found = _native.search(record, options.method, _TARGET, request)
    if found.field("status")[0].is_valid:
        return None
    condition = found.field("condition")[0].as_py()
    warn_of(condition)
    aliased = [int(column) for column in found.field("aliased")[0].as_py()]
    records, own = _steps(found, len(groups.members))
    if found.field("trace")[0].as_py():
        # How near to dependent they are, a state tells: of backward elimination, of all groups.
        held = held_after(records) if name != "backward" else range(len(groups.costs))
        search.state.add_all(held)
        warn_of_dropped(search.state, groups.members)
    problem = search.problem
    return build(
        search.gram,
        problem,
        target=search.target,
        groups=groups,
        rule=name,
        ridge=search.ridge,
        scale=search.scale,
        records=records,
        coef=own * (problem.spread / problem.target_spread),
        aliased=aliased,
        stop=Stop[found.field("stop")[0].as_py()],
        condition=condition,
        has_intercept=search.intercept,
    )


#: The target's name; those of columns are numbers.
_TARGET = "target"


def _is_for_library(search: LinearSetup, options: Options) -> bool:
    rule = RULES.get(getattr(options, "rule", ""))
    is_compiled = rule is None or rule.compiled
    return is_compiled and not search.is_joint and len(search.groups.members) <= MOST_COLUMNS


def _plain(value: Any) -> Any:
    """Return a number of another library as Python's own."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    return value


def _record(gram: Gram, members: list[str], target: str) -> pa.StructArray:
    """Return the record of some columns, called by their numbers, and the target."""
    number = {name: at for at, name in enumerate(gram.columns)}
    at = np.array([number[name] for name in [*members, target]])
    lower = gram.comoment[np.ix_(at, at)][np.tri(len(at), dtype=bool)]
    fields = {
        "columns": pa.array([*map(str, range(len(members))), _TARGET]),
        "mean": pa.array(gram.mean[at]),
        "mean_low": pa.array(gram.mean_low[at]),
        "comoment": pa.array(lower),
    }
    lists = {
        name: pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
        for name, values in fields.items()
    }
    counts = {
        "rows": pa.array([gram.rows], pa.int64()),
        "skipped": pa.array([gram.skipped], pa.int64()),
        "weight": pa.array([gram.weight], pa.float64()),
    }
    return pa.StructArray.from_arrays([*lists.values(), *counts.values()], names=[*lists, *counts])


def _steps(found: pa.StructArray, width: int) -> tuple[list[Step], Matrix]:
    """Return the steps of one sequence, and the coefficients after each, in the table's units."""
    steps = found.field("sequence").values
    choices = found.field("choices")[0].as_py()
    given = (
        steps.field(name)[1:].to_pylist()
        for name in ("action", "group", "score", "gain", "explained")
    )
    records = [
        Step(action, int(group), score, gain, explained, Choice[choice])
        for action, group, score, gain, explained, choice in zip(*given, choices, strict=True)
    ]
    models = steps.field("coefficients")
    ends = models.offsets.to_numpy()
    columns = models.keys.cast(pa.int64()).to_numpy()
    own = np.zeros((len(steps), width))
    own[np.repeat(np.arange(len(steps)), np.diff(ends)), columns] = models.items.to_numpy()
    return records, own

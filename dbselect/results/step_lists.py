"""The steps of many records, from arrays to Arrow lists, without a Python object a record."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dbselect.linear.problem import Index, Linear
from dbselect.record.groups import Groups
from dbselect.record.rows import at_most_all
from dbselect.record.steps import ROUNDING_GAIN, STEP_TYPE
from dbselect.selection.batched import NONE, Found


def write_found(
    found: Found, problem: Linear, groups: Groups, terms: pa.StringArray
) -> pa.ListArray:
    """Return a list of steps for each record, as `store.write_sequences` does.

    Parameters
    ----------
    found : Found of B records
    problem : Linear of the B problems
    groups : Groups, whose costs count
    terms : of each record, as it has them

    Notes
    -----
    O(T D) time and memory a record, for T steps over D columns.
    """
    taken = _with_start(found.groups, 0)
    there = taken != NONE
    coef = found.coef * (problem.target_spread / problem.spread)
    intercept = problem.target_mean - (coef * problem.mean).sum(axis=1)
    gain = _with_start(found.gain, 0.0)
    explained = at_most_all(np.cumsum(gain, axis=0))
    cost = _with_start(groups.costs[found.groups], 0.0)
    started = np.zeros(there.shape, dtype=bool)
    started[0] = True
    columns = {
        "step": np.broadcast_to(np.arange(len(there))[:, None], there.shape),
        "cost": cost,
        "spent": np.cumsum(cost, axis=0),
        "gain": gain,
        "explained": explained,
        "r2": at_most_all(explained + (found.coef**2 * problem.ridge).sum(axis=1)),
        "useful": started | (np.abs(gain) > ROUNDING_GAIN),
        "intercept": intercept,
    }
    flat = {name: pa.array(_by_record(values, there)) for name, values in columns.items()}
    start = _by_record(started, there)
    flat["action"] = pa.array(["add", "start"]).take(pa.array(start.astype(np.int8)))
    chosen = pa.array(_by_record(taken, there), mask=start)
    flat["group"] = pa.array(groups.names, pa.string()).take(chosen)
    flat["score"] = pa.array(_by_record(_with_start(found.score, 0.0), there), mask=start)
    of_record = np.broadcast_to(np.arange(len(terms)), there.shape)
    flat["terms"] = terms.take(pa.array(_by_record(of_record, there), mask=~start))
    flat["coefficients"] = _maps(found.groups, coef, there, groups)
    arrays = [flat[field.name] for field in STEP_TYPE]
    structs = pa.StructArray.from_arrays(arrays, fields=list(STEP_TYPE))
    return pa.ListArray.from_arrays(_offsets(there.sum(axis=0)), structs)


def _maps(
    taken: Index, coef: npt.NDArray[np.float64], there: npt.NDArray[np.bool_], groups: Groups
) -> pa.MapArray:
    """Return the coefficients of each step, in the order in which the groups were taken."""
    order = _orders(taken, groups.positions)
    sizes = np.array([len(columns) for columns in groups.positions])
    held = np.cumsum(_with_start(np.where(taken == NONE, 0, sizes[taken]), 0), axis=0)
    entries = there[:, None] & (np.arange(len(order))[:, None] < held[:, None])
    values = np.take_along_axis(coef, order[None], axis=1)
    codes = _by_record(np.broadcast_to(order, entries.shape), entries)
    return pa.MapArray.from_arrays(
        _offsets(_by_record(held, there)),
        pa.array(groups.members, pa.string()).take(pa.array(codes)),
        pa.array(_by_record(values, entries)),
    )


def _orders(taken: Index, positions: Sequence[Index]) -> Index:
    """Return the columns of each record in the order taken, the others after; (D, B)."""
    steps = np.full((len(positions), taken.shape[1]), len(taken))
    step, record = np.nonzero(taken != NONE)
    steps[taken[step, record], record] = step
    group = np.repeat(np.arange(len(positions)), [len(columns) for columns in positions])
    # Columns are numbered group by group, so a stable sort keeps their order.
    return np.argsort(steps[group], axis=0, kind="stable")


def _with_start(values: npt.NDArray[Any], start: float) -> npt.NDArray[Any]:
    """Put the row of the model without features first."""
    return np.concatenate([np.full_like(values, start, shape=(1, *values.shape[1:])), values])


def _by_record(values: npt.NDArray[Any], there: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return what is there of an array whose last axis numbers the records, one by one."""
    return np.moveaxis(values, -1, 0)[np.moveaxis(there, -1, 0)]


def _offsets(lengths: npt.NDArray[Any]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())

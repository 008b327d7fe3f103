"""Positions of the entries of each group of a vector."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect.errors import GroupError
from dbselect.linear.problem import Index

#: The group of each entry, or the indices of each group, as a list or by name.
Grouping = npt.ArrayLike | Mapping[str, npt.ArrayLike] | Sequence[npt.ArrayLike]


@dataclass(frozen=True, eq=False)
class Layout:
    """A partition of entries into J groups; entries in no group come after all groups."""

    order: Index | None  # shape (p,), the entries by group, then by index; None if they are sorted
    starts: Index  # shape (J + 1,), start of each group in that order, and the end of the last


def layout_of(groups: Grouping, width: int) -> Layout:
    """Return the positions of the groups; GroupError if groups overlap or do not fit."""
    if isinstance(groups, Mapping):
        members, names = list(groups.values()), [f"'{name}'" for name in groups]
        labels, count = _from_members(members, names, width)
    elif isinstance(groups, list | tuple) and groups and np.ndim(groups[0]):
        labels, count = _from_members(groups, [str(n) for n in range(len(groups))], width)
    else:
        labels, count = _from_labels(groups, width)
    starts = np.append(0, np.cumsum(np.bincount(labels, minlength=count)[:count]))
    if (labels[1:] >= labels[:-1]).all():
        return Layout(None, starts)
    return Layout(np.argsort(labels, kind="stable"), starts)


def _from_labels(groups: Any, width: int) -> tuple[npt.NDArray[Any], int]:
    """Return the group of each entry in as few bytes as it needs, and J."""
    labels = np.asarray(groups)
    if labels.dtype.kind not in "iu" or labels.shape != (width,):
        raise GroupError(
            f"groups has type {labels.dtype} and shape {labels.shape}; it must hold the number "
            f"of a group for each of the {width} entries, or the indices of each group"
        )
    for label in (int(labels.min()), int(labels.max())):
        if not 0 <= label < width:
            raise GroupError(
                f"groups holds {label}; {width} entries lie in groups 0 to {width - 1} at most"
            )
    labels = labels.astype(np.min_scalar_type(label))
    sizes = np.bincount(labels)
    if not sizes.all():
        raise GroupError(
            f"groups has no entry in group {sizes.argmin()}; groups 0 to {label} must have one"
        )
    return labels, len(sizes)


def _from_members(
    members: Sequence[Any], names: Sequence[str], width: int
) -> tuple[npt.NDArray[Any], int]:
    """Return the group of each entry, J for an entry in no group, and J."""
    if not members:
        raise GroupError("there is no group; at least one is needed")
    for name, indices in zip(names, members, strict=True):
        array = np.asarray(indices)
        if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
            raise GroupError(f"group {name} is {indices!r}; it must list at least one index")
        for index in (int(array.min()), int(array.max())):
            if not 0 <= index < width:
                raise GroupError(
                    f"group {name} has index {index}; indices must be 0 to {width - 1}"
                )
    count = len(members)
    at = np.concatenate(members, dtype=np.intp, casting="unsafe")
    owner = np.repeat(np.arange(count), [len(indices) for indices in members])
    labels = np.full(width, count, dtype=np.min_scalar_type(count))
    labels[at] = owner
    clash = np.flatnonzero(labels[at] != owner)
    if clash.size:
        first, second = names[owner[clash[0]]], names[labels[at[clash[0]]]]
        raise GroupError(
            f"entry {at[clash[0]]} lies in group {first} and in group {second}; "
            "an entry belongs to one group"
        )
    if np.count_nonzero(labels < count) < len(at):
        repeated = np.bincount(at).argmax()
        raise GroupError(f"group {names[labels[repeated]]} names entry {repeated} twice")
    return labels, count

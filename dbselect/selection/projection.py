"""Exact projection of a vector onto few nonzeros in few groups, by dynamic programming.

    maximise the sum of v_i^2 over at most s1 entries that lie in at most s2 groups

Inside a group only the largest entries matter: CH(i, t) is the sum of the t largest
squares of group i, and the best value T of the first i groups is::

    T(i, j, k) = max( T(i-1, j, k), max_t T(i-1, j-1, k-t) + CH(i, t) )

The inner maximum is a (max,+) convolution with a concave sequence, so the best source
k - t never falls as k grows: halving the distance between solved k finds all of them in
O(s1 log s1). One table answers every smaller pair of limits.

Departures from the source. A group that takes part with t entries is among the s2 best
groups for that t, else a better one could replace it: other groups are left out of the
table. Squares are whole multiples of a unit, 2^-60 of what can be kept or less, so that
sums are exact, CH is concave to the last digit and ties are ties. The table is filled by the
compiled library (`native/src/search/sets/projection.rs`).

Ties: of equal entries of a group the first is kept; of equal supports the one that takes
the fewest entries from the last group, then from the last but one, and so on.

Source: Xiang, Yang, Ye (2014), section 3, Algorithms 3 and 4.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dbselect import _native
from dbselect.errors import ArgumentError, GroupError
from dbselect.linear.problem import Index
from dbselect.options.kinds import is_whole
from dbselect.record.gram import Vector

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


@dataclass(frozen=True, eq=False)
class SupportTable:
    """The best support for every pair of limits up to `max_columns` and `max_groups`.

    Parameters
    ----------
    value : shape (max_groups + 1, max_columns + 1), the sum of squares kept, exact to
        some 1e-16 of the largest sum for each entry; inf where a float is too small
    width : p, entries of the vector
    entries : shape (n,), entries that some pair of limits can keep, by group, then by
        magnitude
    kept : shape (n,), the vector there
    starts : shape (m,), where each of the m groups that can be kept starts in `entries`
    choices : shape (m, max_groups, max_columns + 1), how many entries a group gives

    Examples
    --------
    >>> import dbselect as ds
    >>> limits = {"max_columns": 3, "max_groups": 2}
    >>> table = ds.reference.sght_table([3.0, 1.0, 2.0, 2.0], [0, 0, 1, 1], **limits)
    >>> table.value[:, 2].tolist()  # two entries in none, one or two groups
    [0.0, 10.0, 13.0]
    >>> table.project(max_columns=2, max_groups=2).tolist()
    [3.0, 0.0, 2.0, 0.0]
    """

    value: Vector
    width: int
    entries: Index
    kept: Vector
    starts: Index
    choices: npt.NDArray[Any]

    def support(self, max_columns: int, max_groups: int) -> Index:
        """Return the entries to keep, in increasing order, at O(m) steps.

        Raises
        ------
        ArgumentError : a limit is below 1 or above that of the table
        """
        return np.sort(self.entries[self._places(max_columns, max_groups)])

    def project(self, max_columns: int, max_groups: int) -> Vector:
        """Return the vector with every entry outside the support set to 0; shape (p,)."""
        places = self._places(max_columns, max_groups)
        projection = np.zeros(self.width)
        projection[self.entries[places]] = self.kept[places]
        return projection

    def _places(self, max_columns: int, max_groups: int) -> Index:
        """Follow the choices back (Algorithm 4)."""
        k = check_limit("max_columns", max_columns, self.value.shape[1] - 1)
        j = check_limit("max_groups", max_groups, self.value.shape[0] - 1)
        places = [np.empty(0, dtype=np.intp)]
        for group in range(len(self.choices) - 1, -1, -1):
            if j == 0:
                break
            taken = int(self.choices[group, j - 1, k])
            if taken:
                places.append(np.arange(self.starts[group], self.starts[group] + taken))
                j, k = j - 1, k - taken
        return np.concatenate(places)


def sght_project(v: npt.ArrayLike, groups: Grouping, max_columns: int, max_groups: int) -> Vector:
    """Return the nearest vector with few nonzeros in few groups.

    Parameters
    ----------
    v : shape (p,), finite
    groups : shape (p,), the group of each entry, 0, 1, ..., J - 1; or the indices of
        each group, as a list or by name; an entry in no group is never kept
    max_columns : s1, most nonzeros, 1 to p
    max_groups : s2, most groups with a nonzero, 1 to J

    Returns
    -------
    shape (p,): v with all but the kept entries set to 0

    Raises
    ------
    ArgumentError : v is not a finite vector; a limit is below 1 or above what exists
    GroupError : groups overlap, are empty or do not fit v

    Notes
    -----
    Ties: of equal entries of a group the first is kept; of equal supports the one that
    takes the fewest entries from the last group, then from the last but one, and so on.
    Where one limit implies the other, O(p) and a sort of what can be kept; else as
    `sght_table`.

    References
    ----------
    Xiang, Yang, Ye (2014), Algorithms 3 and 4.

    Examples
    --------
    >>> import dbselect as ds
    >>> ds.reference.sght_project([3, 1, -2, 2, 2], [0, 0, 1, 1, 1], 3, 1).tolist()
    [0.0, 0.0, -2.0, 2.0, 2.0]
    >>> ds.reference.sght_project([3, 1, -2, 2, 2], {"a": [0, 1], "b": [2, 3, 4]}, 2, 2).tolist()
    [3.0, 0.0, -2.0, 0.0, 0.0]
    """
    return project(*_checked(v, groups, max_columns, max_groups))


def sght_table(
    v: npt.ArrayLike, groups: Grouping, max_columns: int, max_groups: int
) -> SupportTable:
    """Return the projections for every pair of limits up to the two given.

    Parameters
    ----------
    v, groups, max_columns, max_groups : as in `sght_project`

    Returns
    -------
    SupportTable

    Raises
    ------
    ArgumentError : v is not a finite vector; a limit is below 1 or above what exists
    GroupError : groups overlap, are empty or do not fit v

    Notes
    -----
    With m groups that some pair of limits can keep, O(p + m s2 s1 log s1). Memory is
    m s2 s1 numbers of 1, 2 or 4 bytes, as s1 needs, beside some 9 p bytes, or 25 p if
    the entries do not stand group by group.

    References
    ----------
    Xiang, Yang, Ye (2014), Algorithms 3 and 4.

    Examples
    --------
    >>> import dbselect as ds
    >>> limits = {"max_columns": 3, "max_groups": 2}
    >>> table = ds.reference.sght_table([3, 1, -2, 2, 2], [0, 0, 1, 1, 1], **limits)
    >>> table.value.tolist()
    [[0.0, 0.0, 0.0, 0.0], [0.0, 9.0, 10.0, 12.0], [0.0, 9.0, 13.0, 17.0]]
    >>> table.support(max_columns=2, max_groups=1).tolist()
    [0, 1]
    """
    return tabulate(*_checked(v, groups, max_columns, max_groups))


def project(v: Vector, layout: Layout, max_columns: int, max_groups: int) -> Vector:
    """Return the projection of a vector with groups at known positions."""
    return _native.projection(v, layout.order, layout.starts, max_columns, max_groups)


def tabulate(v: Vector, layout: Layout, max_columns: int, max_groups: int) -> SupportTable:
    """Return the table of a vector with groups at known positions (Algorithm 3)."""
    table = _native.support_table(v, layout.order, layout.starts, max_columns, max_groups)
    entries, starts, totals = (
        table[name].values.to_numpy() for name in ("entries", "starts", "totals")
    )
    choices = np.frombuffer(table["choices"].as_buffer(), np.min_scalar_type(max_columns))
    with np.errstate(over="ignore"):
        value = np.ldexp(totals.astype(np.float64), table["power"].as_py())
    return SupportTable(
        value.reshape(max_groups + 1, max_columns + 1),
        len(v),
        entries,
        v[entries],
        starts,
        choices.reshape(len(starts), max_groups, max_columns + 1),
    )


def _checked(
    v: npt.ArrayLike, groups: Grouping, max_columns: int, max_groups: int
) -> tuple[Vector, Layout, int, int]:
    vector = _vector(v)
    layout = layout_of(groups, len(vector))
    return (
        vector,
        layout,
        check_limit("max_columns", max_columns, int(layout.starts[-1])),
        check_limit("max_groups", max_groups, len(layout.starts) - 1),
    )


def _vector(v: npt.ArrayLike) -> Vector:
    """Return v as floats; refuse what is not a finite vector."""
    try:
        vector = np.asarray(v, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"v holds something else than numbers: {error}") from None
    if vector.ndim != 1 or not vector.size:
        raise ArgumentError(f"v has shape {vector.shape}; it must be a vector with an entry")
    infinite = np.flatnonzero(~np.isfinite(vector))
    if infinite.size:
        raise ArgumentError(f"v holds {vector[infinite[0]]} at {infinite[0]}; it must be finite")
    return vector


def check_limit(name: str, limit: Any, most: int) -> int:
    """Return a limit as a number; refuse what is not a whole number from 1 to `most`."""
    if not is_whole(limit) or not 1 <= int(limit) <= most:
        raise ArgumentError(f"{name} is {limit!r}; it must be a whole number from 1 to {most}")
    return int(limit)

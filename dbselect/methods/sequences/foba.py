"""FoBa: forward steps, and backward steps that give groups back."""

from typing import TYPE_CHECKING, Unpack

from dbselect.options.option import shows
from dbselect.options.table import FobaOptions
from dbselect.record.steps import Record, Stop
from dbselect.results.every import AnySequence
from dbselect.search.open import asked, open_search
from dbselect.search.protocol import check_first
from dbselect.selection.foba import Share, foba_search

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem


@shows(FobaOptions)
def foba(problem: "Problem", **options: Unpack[FobaOptions]) -> AnySequence:
    """Add groups greedily, and give back those that later ones made dispensable.

    Forward: the group with the largest gain (or gradient) per cost. Backward: while the
    least useful group's loss is at most nu times the gain of the last step to the
    present number of groups, it is removed.

    Returns
    -------
    Sequence whose steps add and remove; ``at(size=k)`` is the best model of k groups

    Raises
    ------
    ArgumentError, ColumnError, GroupError, DataError, SourceError : as `anytime_sequence`

    Warns
    -----
    SampleWarning : of a family, the rows do not fit into memory, and some are searched
    WideWarning : as `anytime_sequence`

    Notes
    -----
    Beside ``always`` at most 1 / ((1 - nu) epsilon) additions. O(D |S|) a step, and O(D |S|^2)
    at most for the state. Of a family every gain and loss is an exact refit on rows in memory,
    8 n D bytes. Ctrl-C returns the sequence so far.

    References
    ----------
    Zhang (2008), FoBa.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.foba(table, "y").steps["group"].to_list()
    [None, 'a', 'b']
    """
    known, call = asked(problem, "foba", FobaOptions, options)
    search = open_search(problem, call, known, lazy=True)
    check_first(search.groups, search.first, known["budget"])

    def walk(record: Record) -> Stop:
        return foba_search(
            search.state, search.groups, search.criterion(known["rule"]),
            search.usefulness(known["backward"]), record, epsilon=float(known["epsilon"]),
            allowance=Share(float(known["nu"])), budget=known["budget"],
            max_steps=known["max_steps"], always=search.first,
        )  # fmt: skip

    return search.run(f"foba-{known['rule']}", walk, known["callback"])

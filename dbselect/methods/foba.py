"""FoBa and floating search: forward steps, and backward steps that give groups back."""

from typing import Unpack

from dbselect.options.option import shows
from dbselect.record.steps import Record, Stop
from dbselect.results.joint import AnySequence
from dbselect.search.open import asked, open_search
from dbselect.search.protocol import check_first
from dbselect.selection.floating import Beaten
from dbselect.selection.foba import Share, foba_search
from dbselect.spec.options import FloatingOptions, FobaOptions
from dbselect.spec.spec import Spec


@shows(FobaOptions)
def foba(problem: Spec, **options: Unpack[FobaOptions]) -> AnySequence:
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


@shows(FloatingOptions)
def floating(problem: Spec, **options: Unpack[FloatingOptions]) -> AnySequence:
    """Add groups greedily, and go back to fewer where these explain more than ever for the cost.

    After every addition the least useful group is removed, as long as what is left explains more
    than every set before it that cost no more: at costs of 1, than the best set of its size. That
    is sequential floating forward selection (SFFS).

    Returns
    -------
    Sequence whose steps add and remove; ``at(size=k)`` is the best model of k groups; of
    another family a GlmSequence

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : rule, max_groups, max_steps, ridge, budget or family out of range

    Notes
    -----
    `foba` with `nu` near 1 is nearly the same: it gives a group back that loses less than the
    last step to the present size gained, and so forgets what smaller sets reached on other ways.
    mlxtend's ``SequentialFeatureSelector(floating=True)`` also asks that a smaller set explain
    more than the present one, which none does on the rows of the fit: there it is forward
    selection, and this search is at least as good. `exchange` and `best_within` go further.
    A step costs O(D |S|) once the state is updated; in Python, one record at a time.

    References
    ----------
    Pudil, Novovicova, Kittler (1994), Floating search methods in feature selection, Pattern
    Recognition Letters 15.

    Examples
    --------
    c is best alone, and superfluous beside a and b:

    >>> import dbselect as ds
    >>> import polars as pl
    >>> a, b = [1, 2, 3, 4, 5, 6], [3, 1, 4, 1, 5, 9]
    >>> c = [i + j + d for i, j, d in zip(a, b, [0.1, -0.2, 0.1, 0.2, -0.1, -0.1])]
    >>> table = pl.DataFrame({"a": a, "b": b, "c": c, "y": [i + j for i, j in zip(a, b)]})
    >>> seq = ds.floating(table, "y")
    >>> seq.steps.select("action", "group").rows()[1:]
    [('add', 'c'), ('add', 'b'), ('add', 'a'), ('remove', 'c')]
    >>> seq.at(size=2).groups
    ['b', 'a']
    """
    known, call = asked(problem, "floating", FloatingOptions, options)
    search = open_search(problem, call, known, lazy=True)
    check_first(search.groups, search.first, known["budget"], known["max_groups"])

    def walk(record: Record) -> Stop:
        return foba_search(
            search.state, search.groups, search.criterion(known["rule"]),
            search.usefulness("loss"), record, epsilon=0.0,
            allowance=Beaten(search.groups.costs), budget=known["budget"],
            max_groups=known["max_groups"], max_steps=known["max_steps"], always=search.first,
        )  # fmt: skip

    return search.run(f"floating-{known['rule']}", walk, known["callback"])

"""FoBa, floating search and backward elimination: steps that remove groups."""

from typing import Unpack

from dbselect.errors import DataError
from dbselect.objectives.contract import ask_sets
from dbselect.options.option import shows
from dbselect.record.steps import Choice, Record, Step, Stop
from dbselect.results.joint import AnySequence
from dbselect.search.open import asked, open_search
from dbselect.search.protocol import check_first
from dbselect.selection.foba import Beaten, Share, backward_search, foba_search
from dbselect.selection.moves import beginning
from dbselect.spec.options import BackwardOptions, FloatingOptions, FobaOptions
from dbselect.spec.spec import Spec


@shows(FobaOptions)
def foba(problem: Spec, **options: Unpack[FobaOptions]) -> AnySequence:
    """Add groups greedily, and remove those that later groups make superfluous.

    Forward: add the group with the largest gain (or gradient) per cost. Backward: remove the
    least useful group while its loss is at most nu times the gain of the last step to the
    present number of groups.

    Returns
    -------
    Sequence whose steps add and remove; ``at(size=k)`` is the best model of k groups

    Raises
    ------
    ArgumentError, ColumnError, GroupError, DataError, SourceError : as `anytime_sequence`

    Warns
    -----
    SampleWarning : with a family, the rows do not fit into memory, and a sample is searched
    WideWarning : as `anytime_sequence`

    Notes
    -----
    Beside ``always`` at most 1 / ((1 - nu) epsilon) additions. O(D |S|) per step, and O(D |S|^2)
    at most for the state. With a family every gain and loss is an exact refit on rows in memory,
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
    checked, call = asked(problem, "foba", FobaOptions, options)
    search = open_search(problem, call, checked, lazy=True)
    check_first(search.groups, search.first, checked["budget"])

    def walk(record: Record) -> Stop:
        return foba_search(
            search.state, search.groups, search.criterion(checked["rule"]),
            search.usefulness(checked["backward"]), record, epsilon=float(checked["epsilon"]),
            allowance=Share(float(checked["nu"])), budget=checked["budget"],
            max_steps=checked["max_steps"], always=search.first,
        )  # fmt: skip

    return search.run(f"foba-{checked['rule']}", walk, checked["callback"])


@shows(FloatingOptions)
def floating(problem: Spec, **options: Unpack[FloatingOptions]) -> AnySequence:
    """Add groups greedily, and remove groups while that beats all earlier sets of the same cost.

    After every addition the least useful group is removed, as long as the rest explains more
    than every earlier set that cost no more: at costs of 1, than the best set of its size. This
    is sequential floating forward selection (SFFS).

    Returns
    -------
    Sequence whose steps add and remove; ``at(size=k)`` is the best model of k groups; with
    another family a GlmSequence

    Raises
    ------
    ColumnError, GroupError, DataError : as `anytime_sequence`
    ArgumentError : rule, max_groups, max_steps, ridge, budget or family out of range

    Notes
    -----
    `foba` with `nu` near 1 is nearly the same: it removes a group whose loss is below the gain
    of the last step to the present size, and ignores better sets of that size found earlier.
    mlxtend's ``SequentialFeatureSelector(floating=True)`` also requires that a smaller set
    explain more than the present one, which is impossible on the rows of the fit: it is forward
    selection, and this search is at least as good. `exchange` and `best_within` search further.
    A step costs O(D |S|) after the update of the state; in Python, one record at a time.

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
    checked, call = asked(problem, "floating", FloatingOptions, options)
    search = open_search(problem, call, checked, lazy=True)
    check_first(search.groups, search.first, checked["budget"], checked["max_groups"])

    def walk(record: Record) -> Stop:
        return foba_search(
            search.state, search.groups, search.criterion(checked["rule"]),
            search.usefulness("loss"), record, epsilon=0.0,
            allowance=Beaten(search.groups.prices), budget=checked["budget"],
            max_groups=checked["max_groups"], max_steps=checked["max_steps"], always=search.first,
        )  # fmt: skip

    return search.run(f"floating-{checked['rule']}", walk, checked["callback"])


@shows(BackwardOptions)
def backward(problem: Spec, **options: Unpack[BackwardOptions]) -> AnySequence:
    """Start from all groups and repeatedly remove the least useful one.

    Returns
    -------
    Sequence whose steps add every group, in the order given, and then remove them;
    ``at(size=k)`` is the model of k groups; after a complete elimination ``at(budget)`` is
    the largest model within the budget, otherwise the last

    Raises
    ------
    ArgumentError, ColumnError, GroupError, SourceError : as `anytime_sequence`
    DataError : no usable rows, or a constant target; with ``"coefficient"`` columns that
        depend linearly on others, as the levels of a category do, without a ridge

    Warns
    -----
    SampleWarning : as `foba`

    Notes
    -----
    O(D |S|) per step, and O(D |S|^2) at most for the state: O(D^3 J) in all. A group whose
    columns depend on other groups has loss 0 and is removed first; of several the most
    expensive, then the one named first.

    References
    ----------
    Zhang (2008), section 2.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.backward(table, "y").steps.filter(action="remove")["group"].to_list()
    ['b', 'a']
    """
    checked, call = asked(problem, "backward", BackwardOptions, options)
    search = open_search(problem, call, checked)
    check_first(search.groups, search.first, checked["budget"])

    def walk(record: Record) -> Stop:
        state = search.state
        order = beginning(state, search.groups.prices, search.first)
        ask_sets(state, [order[:end] for end in range(1, len(order) + 1)])
        for group in order:
            cost = search.groups.prices.offers(state.held).counted[group]
            gain = state.add(group)
            score = gain / cost
            record(Step("add", group, float(score), gain, state.value, Choice.FORCED))
        # Dependent columns have a well-defined loss, but no unique coefficients.
        names = search.dependent() if checked["backward"] == "coefficient" else []
        if names and not problem.ridge:
            raise DataError(
                f"columns {names} depend linearly on others, so that coefficients are not certain; "
                "take backward 'loss', leave them out, or give a ridge > 0"
            )
        search.check_held()
        return backward_search(
            state, search.groups, search.usefulness(checked["backward"]), record,
            budget=checked["budget"], max_steps=checked["max_steps"], always=search.first,
        )  # fmt: skip

    return search.run("backward", walk, checked["callback"])

"""Backward elimination: from all groups down to none."""

from typing import Unpack

from dbselect.errors import DataError
from dbselect.objectives.contract import ask_sets
from dbselect.options.option import shows
from dbselect.record.steps import Choice, Record, Step, Stop
from dbselect.results.joint import AnySequence
from dbselect.search.open import asked, open_search
from dbselect.search.protocol import check_first
from dbselect.selection.backward import backward_search
from dbselect.selection.moves import beginning
from dbselect.spec.options import BackwardOptions
from dbselect.spec.spec import Spec


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

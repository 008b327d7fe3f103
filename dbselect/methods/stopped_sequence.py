"""A sequence that goes on as long as rows held out are predicted better."""

from typing import Any, Literal

import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.judging.held_out import CHOICES
from dbselect.judging.stopped import StoppedSequence
from dbselect.judging.validation import CrossValidation
from dbselect.methods.anytime import anytime_sequence
from dbselect.methods.cross_validate import cross_validate
from dbselect.methods.grid import check_options
from dbselect.methods.setup import check_target, named_in, policy_but_for
from dbselect.methods.types import Costs, GroupColumns, NullPolicy
from dbselect.record.checks import check_choice, check_count, check_whole
from dbselect.record.gram import Gram
from dbselect.sources.open import open_table
from dbselect.sources.read import gram_by
from dbselect.sources.request import folding_of
from dbselect.sources.target import check_numeric

#: Groups that the first searches take; where that is too few, the next take twice as many.
FIRST_GROUPS = 8


def stopped_sequence(
    source: Any,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    patience: int = 3,
    choice: Literal["one_standard_error", "best"] = "one_standard_error",
    fold: int | None = None,
    key: str | None = None,
    seed: int = 0,
    weight: str | None = None,
    null_policy: NullPolicy = "skip",
    max_groups: int | None = None,
    **options: Any,
) -> StoppedSequence:
    """Order groups until rows held out are predicted no better, and choose the step.

    For each fold the search runs anew on the other folds, and each of its steps is scored on the
    fold, whose rows it has not seen. One search of all rows, scored on parts of them, would have
    seen what it is judged by: its scores only rise. When for `patience` steps the mean score is
    no better than before, the searches end, and that of all rows takes as many steps.

    Parameters
    ----------
    source : folds, as `gram_by` with ``fold`` returns them, or a list of Grams; or a table, with
        `fold`
    target, groups, costs : as in `anytime_sequence`
    patience : steps without a lower mean mse after which the searches end, >= 1
    choice : ``"one_standard_error"``, the simplest step within one standard error of the best,
        or ``"best"``
    fold, key, seed : of a table, as in `gram_by`
    weight, null_policy : of a table, as in `gram`; rows without the target are left out under
        every policy
    max_groups : most groups, whatever the score
    options : of `anytime_sequence` on a Gram: rule, ridge, scale, budget, always, c_min

    Returns
    -------
    StoppedSequence: the sequence of all rows, the scores and the chosen step

    Raises
    ------
    ArgumentError : patience, choice or an option out of range; a family, of which every score
        is passes over the table: `cross_validate` has it; records of several segments
    DataError : fewer than two folds have usable rows, or the target is constant
    ColumnError, GroupError, SourceError : as `cross_validate`

    Notes
    -----
    The score of step k is that of searches for k groups, which may differ from fold to fold: it
    tells how many to take, and what to expect of the search. The model is that of all rows.
    A search of s steps for each fold and for all, each begun anew when there are twice as many:
    at most some four times what the last ones cost. A wide table is so searched to a few steps
    only; `cross_validate` makes every step.

    References
    ----------
    Hastie, Tibshirani, Friedman (2009), The Elements of Statistical Learning, section 7.10,
    whose 7.10.2 is on searches that have seen the rows.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": range(40), "b": [1, -1] * 20})
    >>> table = table.with_columns(y=2 * pl.col("a") + (pl.col("a") % 7))
    >>> found = ds.stopped_sequence(ds.gram_by(table, fold=5), "y", patience=1)
    >>> found.steps.select("group", pl.col("held_out_mse").round(2), "chosen").rows()
    [(None, 587.06, False), ('a', 4.1, True), ('b', 4.31, False)]
    """
    check_target(target)
    check_whole("patience", patience)
    check_choice("choice", choice, CHOICES)
    check_count("max_groups", max_groups)
    if options.get("family", "gaussian") != "gaussian":
        raise ArgumentError(
            f"family is {options['family']!r}; every step of every fold would take passes over "
            "the table: cross_validate(table, ..., fold=, family=) scores them"
        )
    check_options(anytime_sequence, [{}], options)
    folds = _folds(source, target, groups, fold, key, seed, weight, null_policy)
    given = {"groups": groups, "costs": costs, **options}

    def scored(most: int) -> CrossValidation:
        found = cross_validate(folds, target, anytime_sequence, max_groups=most, **given)
        if found.keys:
            raise ArgumentError(
                f"source has segments, by {found.keys}; give the folds of one of them"
            )
        if found.best.is_empty():
            raise DataError(found.table["reason"][0])
        return found

    most = FIRST_GROUPS if max_groups is None else min(FIRST_GROUPS, max_groups)
    while True:
        found = scored(most)
        end = _end(found, patience)
        limit = max_groups is not None and most >= max_groups
        if end is not None or limit or found.table["step"].to_numpy().max() < most:
            break
        most = 2 * most if max_groups is None else min(2 * most, max_groups)
    if end is not None and end < most:
        most = max(end, 1)
        found = scored(most)  # the choice is among the steps up to the end
    whole = found.sources[0][1]
    sequence = anytime_sequence(whole, target, max_groups=most, **given)
    return StoppedSequence(sequence, found, patience, choice)


def _end(found: CrossValidation, patience: int) -> int | None:
    """Return the step by which no other was better for so many; None if there is none."""
    best, since = float("inf"), 0
    for step, mse in found.table.sort("step").select("step", "mse").iter_rows():
        if mse < best:
            best, since = mse, 0
        else:
            since += 1
        if since == patience:
            return int(step)
    return None


def _folds(
    source: Any,
    target: str,
    groups: GroupColumns | None,
    fold: int | None,
    key: str | None,
    seed: int,
    weight: str | None,
    null_policy: NullPolicy,
) -> pl.DataFrame | list[Gram]:
    """Return the records of the folds; those of a table are read once."""
    folding = folding_of(fold, key, seed)
    if folding is None:
        if weight is not None:
            raise ArgumentError(f"weight is {weight!r}; it is of a table, records have theirs")
        if null_policy != "skip":
            raise ArgumentError(f"null_policy is {null_policy!r}; it is of a table")
        found: pl.DataFrame | list[Gram] = source
        return found
    named = named_in(groups, source)
    columns = None if named is None else list(dict.fromkeys([target, *named]))
    table = open_table(source, columns)
    check_numeric(table, [target])
    return gram_by(
        table, columns=columns, weight=weight, fold=folding.k, key=folding.key,
        seed=folding.seed, null_policy=policy_but_for([target], null_policy),
    )  # fmt: skip

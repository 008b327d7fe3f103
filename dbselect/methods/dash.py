"""Choose k groups: by DASH, greedily, by their single gains, or at random."""

import math
from functools import partial
from typing import Any, Unpack

import numpy as np

from dbselect.errors import ArgumentError
from dbselect.methods.choose import choice_of
from dbselect.objectives.contract import Objective, with_added
from dbselect.objectives.diversity import Coverage, coverage_of
from dbselect.options.option import shows
from dbselect.record.groups import Groups
from dbselect.results.selected import Selected
from dbselect.search.compiled import compiled_choice
from dbselect.search.gram import GramSearch, gram_search
from dbselect.search.open import asked
from dbselect.selection.dash import (
    LITERAL,
    PRACTICE,
    DashSettings,
    Limits,
    Run,
    best_guess,
    greedy_choice,
    random_choice,
    top_k_choice,
)
from dbselect.sources.progress import turns
from dbselect.spec.options import BaselineOptions, CoverageOptions, DashOptions, GreedyOptions
from dbselect.spec.spec import Spec


@shows(DashOptions)
def dash(problem: Spec, **options: Unpack[DashOptions]) -> Selected[Any]:
    """Choose k groups in few adaptive rounds, each of which adds a random set of good groups.

    Returns
    -------
    Selected, with the Model on the groups; with a family a GlmModel, for
    other objectives None; its `diagnostics` describe the run

    Raises
    ------
    ArgumentError : k, rounds, samples, epsilon, opt or alpha out of range; an objective
        with selected candidates, or with `groups`, or without names for `costs`;
        `diversity` is no objective over the same candidates
    ColumnError, GroupError, DataError, SourceError : as `anytime_sequence`

    Warns
    -----
    WideWarning : as `anytime_sequence`

    Notes
    -----
    About ``2 rounds`` adaptive rounds, never more than k unless `rounds` or `literal` are given. A
    round is one batch of questions: with an `executor` whose workers suffice, a slow score takes
    as many times the seconds of one answer.
    Guesses of `opt` and `alpha` run in parallel: in the diagnostics `rounds` is the longest
    guess, `queries` counts the distinct queries over all guesses, each `samples` times
    O(D |S| k / rounds) and all gains. On a Gram the exact greedy search is cheap as well; use
    DASH if evaluations of the objective are slow and can run in parallel. There
    is no budget: the thresholds and the guarantee hold for any k candidates. A seed draws the
    same sets in SQL, Polars and Python.

    References
    ----------
    Qian, Singer (2019), Algorithm 1, appendix G.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> model = ds.dash(table, "y", k=1)
    >>> model.groups, round(model.r2, 3)
    (['a'], 0.952)
    """
    checked, call = asked(problem, "dash", DashOptions, options)
    k, rounds = checked["k"], checked["rounds"]
    if rounds is not None and rounds > k:
        raise ArgumentError(f"rounds is {rounds!r}; there are only k = {k} to choose")

    def limits(groups: Groups, first: list[int]) -> Limits:
        if len(first) > k:
            raise ArgumentError(f"always names {len(first)} groups; k allows {k}")
        return Limits(k, tuple(first))

    with turns(None, "rounds", checked["callback"]) as turn:

        def run(start: Objective, limits: Limits) -> Run[Any]:
            ask = DashSettings(
                k, rounds, checked["samples"], checked["epsilon"], checked["opt"], checked["alpha"],
                problem.seed, LITERAL if checked["literal"] else PRACTICE,
            )  # fmt: skip
            first = with_added(start, limits.first)
            return best_guess(first, ask, lambda value: turn(None, value))

        def in_library(search: GramSearch) -> Run[Any]:
            chosen, notes = compiled_choice(search, turn)
            queries, guess, ease, stalled, completed, bound, *history = notes
            return Run(
                with_added(search.state, chosen), history, int(queries), guess, ease,
                int(stalled), int(completed), None if math.isnan(bound) else bound,
            )  # fmt: skip

        return choice_of(problem, call, checked, run, limits, in_library=in_library, lazy=True)


@shows(GreedyOptions)
def greedy(problem: Spec, **options: Unpack[GreedyOptions]) -> Selected[Any]:
    """Choose k groups greedily, by the largest gain each time: k adaptive rounds.

    Returns
    -------
    Selected, as `dash`

    Notes
    -----
    All groups of a step are one batch of questions to a score. `lazy` asks one group after the
    other, or as many as the executor has workers, far fewer in all but in more rounds, which the
    diagnostics count; `sample` draws the groups of each step by the seed.

    References
    ----------
    Minoux (1978), lazy; Mirzasoleiman and others (2015), of a sample.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.greedy(table, "y", k=1).groups
    ['a']
    """
    checked, call = asked(problem, "greedy", GreedyOptions, options)
    with turns(checked["k"], "rounds", checked["callback"]) as turn:
        run = partial(greedy_choice, report=lambda value: turn(None, value))
        return choice_of(problem, call, checked, run, lazy=True, sharing=True)


@shows(BaselineOptions)
def top_k(problem: Spec, **options: Unpack[BaselineOptions]) -> Selected[Any]:
    """Choose the k groups with the largest single gains: one adaptive round.

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.reference.top_k(table, "y", k=1).groups
    ['a']
    """
    checked, call = asked(problem, "top_k", BaselineOptions, options)
    return choice_of(problem, call, checked, top_k_choice, sharing=True)


@shows(BaselineOptions)
def random_k(problem: Spec, **options: Unpack[BaselineOptions]) -> Selected[Any]:
    """Choose k groups at random.

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> len(ds.reference.random_k(table, "y", k=1).groups)
    1
    """
    checked, call = asked(problem, "random_k", BaselineOptions, options)
    run = partial(random_choice, rng=np.random.default_rng(problem.seed))
    return choice_of(problem, call, checked, run, sharing=True)


@shows(CoverageOptions)
def coverage(problem: Spec, **options: Unpack[CoverageOptions]) -> Coverage:
    """Reward groups by the clusters of correlated columns that they cover.

    d(S) = reward times the share of clusters with a column of S. Clusters come from
    average linkage of the absolute correlations, from the Gram alone.

    Returns
    -------
    Coverage, for ``diversity`` of `dash` and its baselines

    Raises
    ------
    ArgumentError : similarity or reward out of range

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3], "b": [1, 2, 4], "c": [0, 5, 0], "y": [1, 2, 3]})
    >>> ds.objectives.coverage(table, "y", reward=1.0).gains().tolist()  # a and b are one cluster
    [0.5, 0.5, 0.5]
    """
    checked, call = asked(problem, "coverage", CoverageOptions, options)
    search = gram_search(problem, call)
    return coverage_of(
        search.linear.G, search.groups.positions, checked["similarity"], checked["reward"]
    )

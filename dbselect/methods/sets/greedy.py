"""k groups greedily, and the baselines of DASH: by their own worth, or at random."""

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from dbselect.methods.sets.choose import choice_of
from dbselect.options.option import shows
from dbselect.options.table import BaselineOptions, GreedyOptions
from dbselect.results.selected import Selected
from dbselect.search.open import asked
from dbselect.selection import dash as sampling
from dbselect.sources.progress import turns

if TYPE_CHECKING:
    from dbselect.problem.problem import Problem


@shows(GreedyOptions)
def greedy(problem: "Problem", **options: Unpack[GreedyOptions]) -> Selected[Any]:
    """Choose k groups, the largest gain each time: k adaptive rounds.

    Returns
    -------
    Selected, as of `dash`

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> table = pl.DataFrame({"a": [1, 2, 3, 4], "b": [1, -1, -1, 1], "y": [3, 4, 6, 9]})
    >>> ds.greedy(table, "y", k=1).groups
    ['a']
    """
    known, call = asked(problem, "greedy", GreedyOptions, options)
    with turns(known["k"], "rounds", known["callback"]) as turn:
        run = partial(sampling.greedy_choice, told=lambda value: turn(None, value))
        return choice_of(problem, call, known, run, lazy=True, sharing=True)


@shows(BaselineOptions)
def top_k(problem: "Problem", **options: Unpack[BaselineOptions]) -> Selected[Any]:
    """Choose the k groups that are best alone: one adaptive round.

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
    known, call = asked(problem, "top_k", BaselineOptions, options)
    return choice_of(problem, call, known, sampling.top_k_choice, sharing=True)


@shows(BaselineOptions)
def random_k(problem: "Problem", **options: Unpack[BaselineOptions]) -> Selected[Any]:
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
    known, call = asked(problem, "random_k", BaselineOptions, options)
    run = partial(sampling.random_choice, rng=np.random.default_rng(problem.seed))
    return choice_of(problem, call, known, run, sharing=True)

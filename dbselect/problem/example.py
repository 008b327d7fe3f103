"""The problems of the example tables."""

from dbselect.problem.problem import Problem
from dbselect.sources.example import example, example_of


def example_problem(name: str = "heart") -> Problem:
    """Return an example table with its target, groups and prices.

    Parameters
    ----------
    name : as `example`

    Raises
    ------
    ArgumentError : there is no such table

    Examples
    --------
    >>> import dbselect as ds
    >>> heart = ds.io.example_problem("heart")
    >>> heart
    Problem(disease ~ 13 groups, costs 1 to 102.9; DataFrame)
    >>> heart.anytime_sequence().at(budget=4.0).groups
    ['chest_pain', 'sex', 'age', 'blood_pressure']
    """
    known = example_of(name)
    return Problem(example(name), known.target, dict(known.groups), dict(known.costs))

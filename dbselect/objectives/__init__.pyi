"""Objectives for searches: for type checkers, and for `__init__.py`."""

from dbselect.objectives.contract import Objective as Objective
from dbselect.objectives.diversity import Coverage as Coverage
from dbselect.objectives.score import Score as Score
from dbselect.problem.calls import coverage as coverage
from dbselect.search.rows import GlmObjective as GlmObjective

__all__ = [
    "Coverage",
    "GlmObjective",
    "Objective",
    "Score",
    "coverage",
]

"""The public names and where they are defined: for type checkers, and for `__init__.py`."""

from dbselect import errors as errors
from dbselect import families as families
from dbselect import io as io
from dbselect import objectives as objectives
from dbselect import results as results
from dbselect.doors.sql import connect as connect
from dbselect.doors.sql import register as register
from dbselect.doors.stored import read as read
from dbselect.errors import DbselectError as DbselectError
from dbselect.methods.design import a_optimal as a_optimal
from dbselect.problem.calls import anytime_sequence as anytime_sequence
from dbselect.problem.calls import backward as backward
from dbselect.problem.calls import best_within as best_within
from dbselect.problem.calls import break_even as break_even
from dbselect.problem.calls import cross_validate as cross_validate
from dbselect.problem.calls import dash as dash
from dbselect.problem.calls import exchange as exchange
from dbselect.problem.calls import fit as fit
from dbselect.problem.calls import floating as floating
from dbselect.problem.calls import foba as foba
from dbselect.problem.calls import greedy as greedy
from dbselect.problem.calls import group_lasso_path as group_lasso_path
from dbselect.problem.calls import knockoffs as knockoffs
from dbselect.problem.calls import lasso_path as lasso_path
from dbselect.problem.calls import near_best as near_best
from dbselect.problem.calls import sght as sght
from dbselect.problem.calls import stability as stability
from dbselect.problem.calls import step as step
from dbselect.problem.problem import Problem as Problem
from dbselect.problem.records import anytime_sequence_by as anytime_sequence_by
from dbselect.problem.records import fit_by as fit_by
from dbselect.problem.several import anytime_tables as anytime_tables
from dbselect.problem.several import drift as drift
from dbselect.record.gram import Gram as Gram
from dbselect.record.terms import Terms as Terms
from dbselect.results.allocation import allocate as allocate
from dbselect.results.prediction.arrived import AnytimePredictor as AnytimePredictor
from dbselect.sources.joins.key_sums import key_sums as key_sums
from dbselect.sources.partial.learn import terms as terms
from dbselect.sources.read import gram as gram
from dbselect.sources.read import gram_by as gram_by
from dbselect.sources.read import patterns as patterns
from dbselect.store.gram_store import GramStore as GramStore
from dbselect.validation.scoring.evaluate import evaluate as evaluate
from dbselect.validation.timeliness import compare as compare

__version__: str

__all__ = [
    "AnytimePredictor",
    "DbselectError",
    "Gram",
    "GramStore",
    "Problem",
    "Terms",
    "a_optimal",
    "allocate",
    "anytime_sequence",
    "anytime_sequence_by",
    "anytime_tables",
    "backward",
    "best_within",
    "break_even",
    "compare",
    "connect",
    "cross_validate",
    "dash",
    "drift",
    "errors",
    "evaluate",
    "exchange",
    "families",
    "fit",
    "fit_by",
    "floating",
    "foba",
    "gram",
    "gram_by",
    "greedy",
    "group_lasso_path",
    "key_sums",
    "knockoffs",
    "lasso_path",
    "near_best",
    "objectives",
    "patterns",
    "read",
    "register",
    "results",
    "sght",
    "stability",
    "step",
    "terms",
]

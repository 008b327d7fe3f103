"""What dbselect offers, and where it stands: for type checkers, and for `__init__.py`."""

from dbselect.doors.sql import connect, register
from dbselect.errors import (
    ArgumentError,
    BusyError,
    ColumnError,
    ConditionWarning,
    ConvergenceWarning,
    DataError,
    DbselectError,
    DependenceWarning,
    DriverWarning,
    EngineError,
    FoldsWarning,
    GroupError,
    LeftOutWarning,
    RecordError,
    SelectionWarning,
    SeparationWarning,
    SkippedRowsWarning,
    SourceError,
    UnknownLevelWarning,
    WideWarning,
)
from dbselect.judging.comparison import Comparison
from dbselect.judging.evaluate import evaluate
from dbselect.judging.measured import Evaluation
from dbselect.judging.stability import Stability
from dbselect.judging.timeliness import (
    compare,
    explained_at,
    oracle,
    plateau,
    stopping_cost,
    timeliness,
)
from dbselect.judging.validation import CrossValidation
from dbselect.methods.anytime import anytime_sequence
from dbselect.methods.anytime_tables import anytime_tables
from dbselect.methods.baselines import greedy, random_k, top_k
from dbselect.methods.best_within import best_within
from dbselect.methods.candidates import Candidate
from dbselect.methods.cost_groups import cost_groups
from dbselect.methods.coverage import coverage
from dbselect.methods.cross_validate import cross_validate
from dbselect.methods.dash import dash
from dbselect.methods.design import Design, a_optimal
from dbselect.methods.drift import Drift, drift
from dbselect.methods.exchange import exchange
from dbselect.methods.fit import fit
from dbselect.methods.fit_glm import fit_glm
from dbselect.methods.foba import backward, foba
from dbselect.methods.foba_epsilon import foba_epsilon
from dbselect.methods.glm_family import glm_family
from dbselect.methods.glm_objective import GlmObjective, glm_objective
from dbselect.methods.group_lasso import group_lasso, group_lasso_path
from dbselect.methods.lasso import lasso_path
from dbselect.methods.many_fits import fit_each
from dbselect.methods.segments import anytime_sequences
from dbselect.methods.sght import sght
from dbselect.methods.sght_path import SghtPath, sght_path
from dbselect.methods.stability import stability
from dbselect.methods.step import step
from dbselect.record.gram import Gram
from dbselect.record.missing import impute_mean
from dbselect.record.terms import Terms
from dbselect.results.glm.model import GlmModel
from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.guarantee import Guarantee
from dbselect.results.joint import JointSequence
from dbselect.results.lasso_paths import GroupLassoPath, LassoPath
from dbselect.results.model import JointModel, Model
from dbselect.results.selected import Selected
from dbselect.results.sequence import Sequence
from dbselect.results.wide import WideSequence
from dbselect.selection.projection import SupportTable, sght_project, sght_table
from dbselect.sources.key_sums import KeySums, key_sums
from dbselect.sources.learn import terms
from dbselect.sources.plan import GramPlan, plan_gram
from dbselect.sources.read import gram, gram_by
from dbselect.sources.resample import resample
from dbselect.sources.sparse_table import sparse_table
from dbselect.sources.svmlight import svmlight_to_parquet
from dbselect.sources.turns import Progress
from dbselect.store.cut import Cut
from dbselect.store.gram_store import GramStore
from dbselect.store.refresh import Refreshed
from dbselect.store.rolling import OverTime, Rolling

__version__: str

__all__ = [
    "ArgumentError",
    "BusyError",
    "Candidate",
    "ColumnError",
    "Comparison",
    "ConditionWarning",
    "ConvergenceWarning",
    "CrossValidation",
    "Cut",
    "DataError",
    "DbselectError",
    "DependenceWarning",
    "Design",
    "Drift",
    "DriverWarning",
    "EngineError",
    "Evaluation",
    "FoldsWarning",
    "GlmModel",
    "GlmObjective",
    "GlmSequence",
    "Gram",
    "GramPlan",
    "GramStore",
    "GroupError",
    "GroupLassoPath",
    "Guarantee",
    "JointModel",
    "JointSequence",
    "KeySums",
    "LassoPath",
    "LeftOutWarning",
    "Model",
    "OverTime",
    "Progress",
    "RecordError",
    "Refreshed",
    "Rolling",
    "Selected",
    "SelectionWarning",
    "SeparationWarning",
    "Sequence",
    "SghtPath",
    "SkippedRowsWarning",
    "SourceError",
    "Stability",
    "SupportTable",
    "Terms",
    "UnknownLevelWarning",
    "WideSequence",
    "WideWarning",
    "a_optimal",
    "anytime_sequence",
    "anytime_sequences",
    "anytime_tables",
    "backward",
    "best_within",
    "compare",
    "connect",
    "cost_groups",
    "coverage",
    "cross_validate",
    "dash",
    "drift",
    "evaluate",
    "exchange",
    "explained_at",
    "fit",
    "fit_each",
    "fit_glm",
    "foba",
    "foba_epsilon",
    "glm_family",
    "glm_objective",
    "gram",
    "gram_by",
    "greedy",
    "group_lasso",
    "group_lasso_path",
    "impute_mean",
    "key_sums",
    "lasso_path",
    "oracle",
    "plan_gram",
    "plateau",
    "random_k",
    "register",
    "resample",
    "sght",
    "sght_path",
    "sght_project",
    "sght_table",
    "sparse_table",
    "stability",
    "step",
    "stopping_cost",
    "svmlight_to_parquet",
    "terms",
    "timeliness",
    "top_k",
]

"""The classes of results and where they are defined: for type checkers, and for `__init__.py`."""

from dbselect.results.allocation import Allocation as Allocation
from dbselect.results.call import Call as Call
from dbselect.results.design import Design as Design
from dbselect.results.glm.model import GlmModel as GlmModel
from dbselect.results.glm.sequence import GlmSequence as GlmSequence
from dbselect.results.guarantee import Guarantee as Guarantee
from dbselect.results.joint import JointSequence as JointSequence
from dbselect.results.model import JointModel as JointModel
from dbselect.results.model import Model as Model
from dbselect.results.penalty_path import GroupLassoPath as GroupLassoPath
from dbselect.results.penalty_path import LassoPath as LassoPath
from dbselect.results.scored import ScoreModel as ScoreModel
from dbselect.results.scored import ScoreSequence as ScoreSequence
from dbselect.results.selected import Selected as Selected
from dbselect.results.sequence import Sequence as Sequence
from dbselect.results.wide import WideSequence as WideSequence
from dbselect.selection.projection import SupportTable as SupportTable
from dbselect.sources.joins.key_sums import KeySums as KeySums
from dbselect.sources.partial.plan import GramPlan as GramPlan
from dbselect.sources.progress import Progress as Progress
from dbselect.store.cut import Cut as Cut
from dbselect.store.refresh import Refreshed as Refreshed
from dbselect.store.rolling import OverTime as OverTime
from dbselect.store.rolling import Rolling as Rolling
from dbselect.validation.cross_validation import CrossValidation as CrossValidation
from dbselect.validation.drift import Drift as Drift
from dbselect.validation.knockoffs import KnockoffSelection as KnockoffSelection
from dbselect.validation.robust import RobustErrors as RobustErrors
from dbselect.validation.scoring.measured import Evaluation as Evaluation
from dbselect.validation.stability import Stability as Stability
from dbselect.validation.stopped_sequence import StoppedSequence as StoppedSequence
from dbselect.validation.timeliness import Comparison as Comparison

__all__ = [
    "Allocation",
    "Call",
    "Comparison",
    "CrossValidation",
    "Cut",
    "Design",
    "Drift",
    "Evaluation",
    "GlmModel",
    "GlmSequence",
    "GramPlan",
    "GroupLassoPath",
    "Guarantee",
    "JointModel",
    "JointSequence",
    "KeySums",
    "KnockoffSelection",
    "LassoPath",
    "Model",
    "OverTime",
    "Progress",
    "Refreshed",
    "RobustErrors",
    "Rolling",
    "ScoreModel",
    "ScoreSequence",
    "Selected",
    "Sequence",
    "Stability",
    "StoppedSequence",
    "SupportTable",
    "WideSequence",
]

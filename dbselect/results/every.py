"""Every kind of sequence, for annotations and checks."""

from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import JointSequence
from dbselect.results.sequence import Sequence

#: The models of every prefix of a search, of any family; a score has a `ScoreSequence`.
AnySequence = Sequence | JointSequence | GlmSequence

"""The coefficients of every prefix of any result, as arrays."""

from typing import Any

import numpy as np

from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import JointSequence
from dbselect.results.model import JointModel
from dbselect.results.sequence import Sequence
from dbselect.validation.scoring.metrics import Numbers


def coefficients_of(found: Any) -> tuple[Numbers, Numbers]:
    """Return intercepts, (M, K), and coefficients, (M, D, K), of M prefixes; K predictors."""
    if isinstance(found, JointSequence | JointModel):
        of_each = zip(*map(coefficients_of, found.responses.values()), strict=True)
        intercept, coef = (np.concatenate(parts, axis=-1) for parts in of_each)
        return intercept, coef
    if isinstance(found, GlmSequence):
        return found.intercept, found.coef
    if isinstance(found, Sequence):
        return found.intercept[:, None], found.coef[:, :, None]
    classes = getattr(found, "classes", ())
    constants = [found.intercept[k] for k in classes] or [found.intercept]
    each = [found.coefficients[k] for k in classes] or [found.coefficients]
    coef = np.array([list(own.values()) for own in each], dtype=np.float64)
    return np.array([constants], dtype=np.float64), coef.T[None]

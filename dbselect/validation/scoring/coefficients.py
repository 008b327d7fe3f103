"""The coefficients of every prefix of any result, as arrays."""

from typing import Any

import numpy as np

from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import JointSequence
from dbselect.results.model import JointModel
from dbselect.results.sequence import Sequence as LinearSequence
from dbselect.validation.scoring.metrics import Numbers


def coefficients_of(found: Any) -> tuple[Numbers, Numbers]:
    """Return intercepts, shape (M, K), and coefficients, (M, D, K), of M prefixes or one model.

    K are the predictors: of several responses or classes one each.
    """
    if isinstance(found, JointSequence | JointModel):
        responses = [coefficients_of(own) for own in found.responses.values()]
        intercept, coef = zip(*responses, strict=True)
        return np.concatenate(intercept, axis=-1), np.concatenate(coef, axis=-1)
    if isinstance(found, GlmSequence):
        return found.intercept, found.coef
    if isinstance(found, LinearSequence):
        return found.intercept[:, None], found.coef[:, :, None]
    classes = getattr(found, "classes", ())
    constants = [found.intercept[k] for k in classes] or [found.intercept]
    each = [found.coefficients[k] for k in classes] or [found.coefficients]
    array = np.array([list(own.values()) for own in each], dtype=np.float64)
    return np.array([constants], dtype=np.float64), array.T[None]

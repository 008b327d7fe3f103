"""Coefficients of every prefix of a result, as arrays."""

from typing import Any

import numpy as np

from dbselect.results.glm.sequence import GlmSequence
from dbselect.results.joint import JointSequence
from dbselect.results.model import JointModel
from dbselect.results.sequence import Sequence
from dbselect.validation.scoring.metrics import Numbers


def coefficients_of(result: Any) -> tuple[Numbers, Numbers]:
    """Return intercepts (M, K) and coefficients (M, D, K) of M prefixes with K predictors."""
    if isinstance(result, JointSequence | JointModel):
        arrays = zip(*map(coefficients_of, result.responses.values()), strict=True)
        intercept, coef = (np.concatenate(parts, axis=-1) for parts in arrays)
        return intercept, coef
    if isinstance(result, GlmSequence):
        return result.intercept, result.coef
    if isinstance(result, Sequence):
        return result.intercept[:, None], result.coef[:, :, None]
    classes = getattr(result, "classes", ())
    constants = [result.intercept[class_] for class_ in classes] or [result.intercept]
    by_class = [result.coefficients[class_] for class_ in classes] or [result.coefficients]
    coef = np.array([list(coefficients.values()) for coefficients in by_class], dtype=np.float64)
    return np.array([constants], dtype=np.float64), coef.T[None]

"""Estimators as plain data, for pickle and for skops, which builds no objects but trusted ones."""

import json
from dataclasses import replace
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from dbselect.results.every import AnySequence
from dbselect.results.glm.sequence import GlmSequence, Precision
from dbselect.results.joint import JointSequence
from dbselect.results.sequence import Sequence

#: What is kept of how sure coefficients are.
_PRECISION = ("degrees", "dispersion", "errors", "centre")


class Portable(BaseEstimator):
    """An estimator whose sequence is pickled as text, and as arrays what the text lacks.

    Its state has numbers, texts and arrays only, so skops needs to trust only the class.
    """

    _KINDS: ClassVar[dict[str, Any]] = {
        one.__name__: one for one in (Sequence, JointSequence, GlmSequence)
    }

    sequence_: AnySequence
    step_: int

    @property
    def model_(self) -> Any:
        """The model of the prefix that was chosen."""
        return self.sequence_.model(self.step_)

    @property
    def groups_(self) -> list[str]:
        """The groups of this prefix, in the order taken."""
        return list(self.model_.groups)

    @property
    def budget_(self) -> float:
        """What this prefix costs."""
        return float(self.sequence_.spent[self.step_])

    def __getstate__(self) -> Any:
        state = dict(super().__getstate__())
        found = state.pop("sequence_", None)
        if found is None:
            return state
        told: dict[str, Any] = {
            "kind": type(found).__name__,
            "record": json.dumps(found.to_struct()),
        }
        if isinstance(found, GlmSequence) and found.precision is not None:
            own = found.precision
            told |= {name: getattr(own, name) for name in _PRECISION}
        return state | {"sequence_": told}

    def __setstate__(self, state: Any) -> None:
        told = state.get("sequence_")
        if told is not None:
            found = self._KINDS[told["kind"]].from_struct(json.loads(told["record"]))
            if "errors" in told:
                own = {name: told[name] for name in _PRECISION}
                found = replace(found, precision=Precision(**own))
            state = {**state, "sequence_": found}
        super().__setstate__(state)

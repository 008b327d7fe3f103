"""The name ``dbselect`` of frames and expressions; `doors.frames` is loaded at its use."""

from functools import partial
from typing import Any

import polars as pl

from dbselect._lazy import load

#: What has the name in Polars -> its methods.
_OWNERS = {
    "lazyframe": "LazyFrameNamespace", "dataframe": "FrameNamespace", "expr": "ExprNamespace",
}  # fmt: skip


def _methods(name: str, owner: Any) -> Any:
    return load("doors.frames", name)(owner)


for _kind, _name in _OWNERS.items():
    getattr(pl.api, f"register_{_kind}_namespace")("dbselect")(partial(_methods, _name))

"""Register the Polars namespaces ``dbselect``; `doors.frames` is loaded on first use."""

from functools import partial
from typing import Any

import polars as pl

from dbselect._lazy import load

#: Kind of Polars object -> class of its methods.
_OWNERS = {
    "lazyframe": "LazyFrameNamespace", "dataframe": "FrameNamespace", "expr": "ExprNamespace",
}  # fmt: skip


def _methods(name: str, owner: Any) -> Any:
    return load("doors.frames", name)(owner)


for _kind, _name in _OWNERS.items():
    getattr(pl.api, f"register_{_kind}_namespace")("dbselect")(partial(_methods, _name))

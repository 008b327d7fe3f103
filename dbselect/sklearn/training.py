"""The rows of a fit, as a Gram, which is cached, or as a frame.

GridSearchCV fits each candidate to a copy of a fold's rows. Grams are cached by the digest of these
rows, which takes less time: a grid of budgets costs one Gram per fold in each process.
"""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs
from scipy.sparse import issparse

from dbselect.record.gram import Gram, Vector
from dbselect.record.terms import Terms
from dbselect.sklearn.inputs import Rows, dense
from dbselect.sources.partial.learn import MAX_LEVELS
from dbselect.sources.partial.learn import terms as learn_terms
from dbselect.sources.read import gram as read_gram

#: Limit on the bytes of cached Grams: some 30 with 1,000 columns, or 3,000 with 100.
MOST_BYTES = 256 * 1024**2
#: Bytes of the dense parts in which a sparse matrix is read.
PART_BYTES = 64 * 1024**2
#: Names that decide what targets and weights are called.
_LIKE_TARGETS = re.compile("_*(y|sample_weight)")
#: Ends of the names of fields that the name of a column may begin with.
_ENDS = re.compile(r"(?=[.[]|$)")


@dataclass(frozen=True, eq=False)
class Training:
    """Rows with targets and weights."""

    X: Rows  # shape (n, d), an array, a sparse matrix in CSR form, or a frame
    y: npt.NDArray[Any]  # shape (n, K)
    weight: Vector | None  # shape (n,), > 0; None = 1 each
    names: list[str]  # d names
    null_policy: str = "indicator"  # policy for missing values
    max_levels: int = MAX_LEVELS  # most levels of a text

    @property
    def targets(self) -> list[str]:
        """K names of the targets, different from those of columns."""
        single = self.y.shape[1] == 1
        return [f"{self._unused_start}y{'' if single else k}" for k in range(self.y.shape[1])]

    @property
    def weight_name(self) -> str | None:
        """Name of the weights."""
        return None if self.weight is None else f"{self._unused_start}sample_weight"

    @property
    def _unused_start(self) -> str:
        """A start of names that no column has."""
        start = ""
        while any(name.startswith((f"{start}y", f"{start}sample_weight")) for name in self.names):
            start += "_"
        return start

    def of(self, rows: npt.NDArray[np.intp]) -> "Training":
        """Return some of the rows."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], weight=weight)

    def only(self, columns: Iterable[str]) -> "Training":
        """Return the fields that columns of the Gram come from; all, where gaps leave rows out."""
        if self.null_policy == "skip":
            return self
        # A field, or what is before a level, an indicator or a nested field.
        heads = {name[: end.start()] for name in columns for end in _ENDS.finditer(name)}
        at = [
            place
            for place, name in enumerate(self.names)
            if name in heads or _LIKE_TARGETS.match(name)
        ] or [0]
        names = [self.names[place] for place in at]
        X = self.X[names] if isinstance(self.X, pl.DataFrame) else self.X[:, at]
        return replace(self, X=X, names=names)

    def gram(self) -> Gram:
        """Return the Gram of the columns, then the targets."""
        return KEPT.get(self._digest(), self._read)

    def means(self) -> dict[str, float]:
        """Return the weighted mean of each column of numbers, without missing values."""
        weight = np.ones(self.X.shape[0]) if self.weight is None else self.weight
        X: Any
        if isinstance(self.X, pl.DataFrame):
            numbers = self.X.select(cs.numeric() | cs.boolean())
            names, X = numbers.columns, numbers.cast(pl.Float64).to_numpy()
        else:
            names, X = self.names, self.X
        if issparse(X):
            absent, X = X.astype(bool), X.copy()
            absent.data = ~np.isfinite(X.data)
            X.data[absent.data] = 0.0
            present = weight.sum() - absent.T @ weight
        else:
            is_finite = np.isfinite(X)
            present, X = is_finite.T @ weight, np.where(is_finite, X, 0.0)
        sums = X.T @ weight
        totals = zip(names, np.asarray(sums), np.asarray(present), strict=True)
        return {name: float(total / count) for name, total, count in totals if count > 0}

    def terms(self) -> Terms | None:
        """Return the terms of texts that have more levels than a problem takes by itself."""
        if self.max_levels == MAX_LEVELS or not isinstance(self.X, pl.DataFrame):
            return None
        texts = self.X.select(cs.string() | cs.categorical()).columns
        return learn_terms(self.X, texts, max_levels=self.max_levels) if texts else None

    def frame(self) -> pl.DataFrame:
        """Return the rows as a frame: columns, targets and the weight."""
        if isinstance(self.X, pl.DataFrame):
            frame = self.X
        else:
            frame = pl.DataFrame(dense(self.X), schema=self.names)
            frame = frame.with_columns(pl.all().fill_nan(None))
        columns = [pl.Series(name, self.y[:, k]) for k, name in enumerate(self.targets)]
        if self.weight is not None:
            columns.append(pl.Series(self.weight_name, self.weight))
        return frame.with_columns(columns)

    def _read(self) -> Gram:
        """Read the Gram; of a sparse matrix by parts, so that only one part is dense at a time."""
        if not issparse(self.X):
            return self._read_part()
        step = max(1, PART_BYTES // (8 * self.X.shape[1]))
        starts = range(0, self.X.shape[0], step)
        parts = (self.of(np.arange(a, min(a + step, self.X.shape[0]))) for a in starts)
        return reduce(add, (part._read_part() for part in parts))

    def _read_part(self) -> Gram:
        return read_gram(
            self.frame(),
            weight=self.weight_name,
            null_policy=self.null_policy,
            max_levels=self.max_levels,
        )

    def _digest(self) -> bytes:
        digest = hashlib.blake2b(
            repr((self.names, self.null_policy, self.max_levels)).encode(), digest_size=16
        )
        for part in (*self._parts(), self.y, self.weight):
            if part is not None:
                is_turned = part.flags.f_contiguous and not part.flags.c_contiguous
                digest.update(f"{part.shape}{part.dtype}{is_turned}".encode())
                flat: Any = np.ascontiguousarray(part.T if is_turned else part)
                digest.update(memoryview(flat).cast("B"))
        return digest.digest()

    def _parts(self) -> Iterable[npt.NDArray[Any]]:
        """Yield arrays that hold the values of X."""
        if issparse(self.X):
            yield from (self.X.data, self.X.indices, self.X.indptr)
        elif isinstance(self.X, pl.DataFrame):
            yield from (column.hash().to_numpy() for column in self.X)
        else:
            yield self.X


class GramCache:
    """A thread-safe cache of the last Grams used, limited in bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._kept: OrderedDict[bytes, Gram] = OrderedDict()
        self._lock = Lock()

    def get(self, key: bytes, make: Callable[[], Gram]) -> Gram:
        """Return the Gram of a key; `make` it if it is not cached."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        gram = make()
        with self._lock:
            self._kept[key] = gram
            while len(self._kept) > 1 and sum(map(_size, self._kept.values())) > self._most:
                self._kept.popitem(last=False)
        return gram

    def clear(self) -> None:
        """Remove all Grams."""
        with self._lock:
            self._kept.clear()


def _size(gram: Gram) -> int:
    return int(gram.comoment.nbytes)


#: The cache of this process.
KEPT = GramCache(MOST_BYTES)

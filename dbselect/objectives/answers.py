"""What a score says of sets of columns: each asked once, one twice to see if it repeats."""

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, as_completed
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from dbselect.errors import ScoreError, ScoreWarning, SourceError, shown, warn_caller
from dbselect.options.kinds import check_folder
from dbselect.record import files
from dbselect.record.gram import Vector
from dbselect.record.steps import Ended, Stop

#: Columns -> a number, or one for each fold; higher is better.
Asked = Callable[[list[str]], Any]

#: Seconds between two writings of the file while a batch is asked.
SAVE_SECONDS = 1.0
#: Answers that differ by less than this share are equal: sums of threads come in any order.
SAME_ANSWER = 1e-6
_FIELDS = {"score": pa.string(), "columns": pa.list_(pa.string()), "answer": pa.list_(pa.float64())}


class Answers:
    """The answers of a score by the set of columns; those under other names stay in the file."""

    def __init__(
        self, score: Asked, name: str, cache: str | Path | None, executor: Any, check: bool
    ) -> None:
        self.score = score
        self.name = name
        self.executor = executor
        self.cache = None if cache is None else Path(cache)
        self.most: int | None = None
        self.end = np.inf
        # Shared by the searches: calls made, and whether one set is still to be asked twice.
        self._calls, self._check = [0], [check]
        self._begun = 0
        self.known: dict[frozenset[str], Vector] = {}
        self._order: dict[frozenset[str], list[str]] = {}
        self._saved = 0.0
        if cache is not None:
            check_folder("cache", cache)
            if Path(cache).exists():
                self._read()

    def within(self, max_queries: int | None, time_limit: float | None, executor: Any) -> Self:
        """Return the same answers for one search, which count its questions and have its limits."""
        found = copy.copy(self)
        found._begun, found.most = self._calls[0], max_queries
        found.end = np.inf if time_limit is None else time.monotonic() + time_limit
        found.executor = executor or self.executor
        return found

    @property
    def queries(self) -> int:
        """Calls of the score, by this search."""
        return self._calls[0] - self._begun

    def take(self, other: "Answers") -> None:
        """Take over the answers of another score of the same columns."""
        for columns, answer in other.known.items():
            if columns not in self.known:
                self._keep(other._order[columns], answer)

    def of_none(self) -> Vector | Exception:
        """Return the answer of no columns, or what came in its place."""
        key = frozenset[str]()
        if key not in self.known:
            self._calls[0] += 1
            answer: Vector | Exception = self._checked(_asked, self.score, [])
            if isinstance(answer, Exception):
                return answer
            self._keep([], answer)
            self._save()
        return self.known[key]

    def ask(self, sets: Iterable[Sequence[str]]) -> None:
        """Ask for sets not known, keep the answers; ScoreError without any, Ended if cut short."""
        new = {frozenset(one): list(one) for one in sets if frozenset(one) not in self.known}
        if not new:
            return
        asked, stop = list(new.values()), None
        if self.most is not None and len(asked) > self.most - self.queries:
            asked, stop = asked[: max(self.most - self.queries, 0)], Stop.QUERIES
        failed: list[tuple[list[str], Exception]] = []
        twice: list[tuple[list[str], Vector]] = []
        try:
            for number, columns, answer in self._answered([*asked, *self._again(asked)]):
                if isinstance(answer, Exception):
                    failed.append((columns, answer))
                elif number >= len(asked):
                    twice.append((columns, answer))
                else:
                    self._keep(columns, answer)
                    self._save(SAVE_SECONDS)
        finally:
            self._save()
        for columns, answer in twice:
            self._compare(columns, answer)
        for columns, error in failed[:1]:
            kind = "" if isinstance(error, ScoreError) else f"{type(error).__name__}: "
            told = f"score of {columns}: {kind}{error}"
            if not any(self.known):  # of no columns at most
                raise ScoreError(told) from error
            warn_caller(f"{told}; the search ends, its answers are kept", ScoreWarning)
            raise Ended(Stop.FAILED)
        if stop is not None:
            raise Ended(stop)

    def _keep(self, columns: list[str], answer: Vector) -> None:
        self.known[frozenset(columns)] = answer
        self._order[frozenset(columns)] = columns

    def _again(self, asked: list[list[str]]) -> list[list[str]]:
        """Return the set to ask a second time, with the first batch: a known one, if there is."""
        sets = [one for one in [*self._order.values(), *asked] if one][:1]
        free = self.most is None or len(asked) < self.most - self.queries
        if not (asked and sets and free and self._check[0]):
            return []
        self._check[0] = False
        return sets

    def _answered(self, sets: list[list[str]]) -> Iterator[tuple[int, list[str], Any]]:
        """Yield number, set and answer, or an error, in the order in which they come."""
        if self.executor is None:
            for number, columns in enumerate(sets):
                if time.monotonic() >= self.end:
                    raise Ended(Stop.TIME)
                self._calls[0] += 1
                answer = self._checked(_asked, self.score, list(columns))
                yield number, columns, answer
                if isinstance(answer, Exception):
                    return
            return
        left = max(self.end - time.monotonic(), 0.0)
        futures: dict[Any, int] = {}
        try:
            for number, columns in enumerate(sets):
                # Dask takes equal calls for one, and a set that is asked twice is two.
                futures[self.executor.submit(_asked, self.score, list(columns), number)] = number
            for future in as_completed(futures, None if np.isinf(left) else left):
                self._calls[0] += not future.cancelled()
                columns = sets[futures[future]]
                answer = self._checked(future.result)
                if isinstance(answer, CancelledError):
                    continue
                yield futures[future], columns, answer
                if isinstance(answer, Exception):
                    _cancel(futures)
        except TimeoutError:
            raise Ended(Stop.TIME) from None
        except Exception as error:  # an executor that is shut down or broken takes no question
            yield -1, sets[len(futures) % len(sets)], error
        finally:
            _cancel(futures)

    def _checked(self, call: Callable[..., Any], *places: Any) -> Any:
        """Return an answer as an array, or the error that came in its place."""
        try:
            given = call(*places)
            answer = np.atleast_1d(np.asarray(given, dtype=np.float64))
        except Exception as error:
            return error
        if answer.ndim > 1 or not answer.size or not np.isfinite(answer).all():
            return ScoreError(f"it is {shown(given)}; it must be a finite number, or one a fold")
        known = next(iter(self.known.values()), answer)
        if len(known) != len(answer):
            return ScoreError(f"it has {len(answer)} folds; that of others has {len(known)}")
        return answer

    def _compare(self, columns: list[str], answer: Vector) -> None:
        known = self.known.get(frozenset(columns), answer)
        first, second = float(known.mean()), float(answer.mean())
        if abs(first - second) > SAME_ANSWER * max(abs(first), abs(second)):
            warn_caller(
                f"score of {sorted(columns)} is {first:.10g}, and {second:.10g} when asked again; "
                "the first answers are kept: fix the folds and the seed (random_state) of the "
                "model, or give another cache",
                ScoreWarning,
            )

    def _read(self) -> list[dict[str, Any]]:
        """Read the answers of the file; return those under other names."""
        table = files.read_parquet(str(self.cache), "answers")
        if table.column_names != list(_FIELDS):
            raise SourceError(f"cache is '{self.cache}', which holds no answers of a score")
        rows = table.to_pylist()
        for row in rows:
            if row["score"] == self.name and frozenset(row["columns"]) not in self.known:
                self._keep(row["columns"], np.array(row["answer"]))
        return [row for row in rows if row["score"] != self.name]

    def _save(self, seconds: float = 0.0) -> None:
        """Write the file, with what others wrote there, if the last time is so long ago."""
        if self.cache is None or time.monotonic() - self._saved < seconds:
            return
        self._saved = time.monotonic()
        try:
            others = self._read() if self.cache.exists() else []
            own = [
                {"score": self.name, "columns": self._order[one], "answer": answer.tolist()}
                for one, answer in self.known.items()
            ]
            table = pa.Table.from_pylist([*others, *own], pa.schema(list(_FIELDS.items())))
            files.write_parquet(table, self.cache)
        except (OSError, SourceError) as error:
            warn_caller(f"cache '{self.cache}' is not written: {error}", ScoreWarning)
            self.cache = None


def _asked(score: Asked, columns: list[str], number: int = 0) -> Any:
    """Ask, in whatever thread or process."""
    del number
    return score(columns)


def _cancel(futures: Iterable[Any]) -> None:
    for future in futures:
        future.cancel()

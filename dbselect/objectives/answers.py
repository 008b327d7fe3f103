"""Answers of a score to sets of columns; each set is evaluated once, one twice as a check.

Lazy and stochastic evaluation ask fewer questions a greedy step (`Lazily`)::

    draw the groups of the step at random, or take all
    ask those whose last gain is the best, until the best new gain is above every last one

The last gain of a group bounds the next one where gains fall as groups are added (submodularity);
where they rise, a group that others make useful is found late.

Source: Minoux (1978); Mirzasoleiman, Badanidiyuru, Karbasi, Vondrak, Krause (2015), who draw
``J / k log(1 / epsilon)`` groups.
"""

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, as_completed
from dataclasses import dataclass, field
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
ScoreFunction = Callable[[list[str]], Any]

#: Seconds between two writes of the file during a batch.
SAVE_SECONDS = 1.0
#: Answers that differ by less than this share are equal: threads add up in any order.
SAME_ANSWER = 1e-6
_FIELDS = {"score": pa.string(), "columns": pa.list_(pa.string()), "answer": pa.list_(pa.float64())}


class Answers:
    """The answers of a score by set of columns; a file may also hold those of other scores."""

    def __init__(
        self, score: ScoreFunction, name: str, cache: str | Path | None, executor: Any, check: bool
    ) -> None:
        self.score = score
        self.name = name
        self.executor = executor
        self.cache = None if cache is None else Path(cache)
        self.most: int | None = None
        self.end = np.inf
        # Shared by the searches: number of calls, and whether the check is still to be made.
        self._calls, self._check = [0], [check]
        self._begun = 0
        self._batches = [0]  # of one search, whose copies share it
        self.known: dict[frozenset[str], Vector] = {}
        self._order: dict[frozenset[str], list[str]] = {}
        self._saved = 0.0
        if cache is not None:
            check_folder("cache", cache)
            if Path(cache).exists():
                self._read()

    def within(self, max_queries: int | None, time_limit: float | None, executor: Any) -> Self:
        """Return the answers for one search, with its limits and its own count of queries."""
        answers = copy.copy(self)
        answers._begun, answers.most = self._calls[0], max_queries
        answers._batches = [0]
        answers.end = np.inf if time_limit is None else time.monotonic() + time_limit
        answers.executor = executor or self.executor
        return answers

    @property
    def queries(self) -> int:
        """Number of calls of the score by this search."""
        return self._calls[0] - self._begun

    @property
    def batches(self) -> int:
        """Number of batches of calls by this search, each of which waited for the one before."""
        return self._batches[0]

    def take(self, other: "Answers") -> None:
        """Copy the answers of another score of the same columns."""
        for columns, answer in other.known.items():
            if columns not in self.known:
                self._keep(other._order[columns], answer)

    def of_none(self) -> Vector | Exception:
        """Return the answer to no columns, or the error in its place."""
        key = frozenset[str]()
        if key not in self.known:
            self._calls[0] += 1
            answer: Vector | Exception = self._checked(_evaluate, self.score, [])
            if isinstance(answer, Exception):
                return answer
            self._keep([], answer)
            self._save()
        return self.known[key]

    def ask(self, sets: Iterable[Sequence[str]]) -> None:
        """Evaluate the new sets; ScoreError if no set has an answer, Ended if cut short."""
        new = {key: list(names) for names in sets if (key := frozenset(names)) not in self.known}
        if not new:
            return
        self._batches[0] += 1
        batch, stop = list(new.values()), None
        if self.most is not None and len(batch) > self.most - self.queries:
            batch, stop = batch[: max(self.most - self.queries, 0)], Stop.QUERIES
        failed: list[tuple[list[str], Exception]] = []
        twice: list[tuple[list[str], Vector]] = []
        try:
            for number, columns, answer in self._answered([*batch, *self._again(batch)]):
                if isinstance(answer, Exception):
                    failed.append((columns, answer))
                elif number >= len(batch):
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
            message = f"score of {columns}: {kind}{error}"
            if not any(self.known):  # at most an answer to no columns
                raise ScoreError(message) from error
            warn_caller(f"{message}; the search ends, its answers are kept", ScoreWarning)
            raise Ended(Stop.FAILED)
        if stop is not None:
            raise Ended(stop)

    def _keep(self, columns: list[str], answer: Vector) -> None:
        self.known[frozenset(columns)] = answer
        self._order[frozenset(columns)] = columns

    def _again(self, batch: list[list[str]]) -> list[list[str]]:
        """Return the set to evaluate twice, with the first batch; one with an answer, if any."""
        sets = [columns for columns in [*self._order.values(), *batch] if columns][:1]
        free = self.most is None or len(batch) < self.most - self.queries
        if not (batch and sets and free and self._check[0]):
            return []
        self._check[0] = False
        return sets

    def _answered(self, sets: list[list[str]]) -> Iterator[tuple[int, list[str], Any]]:
        """Yield the number, the set and its answer or error, in the order of arrival."""
        if self.executor is None:
            for number, columns in enumerate(sets):
                if time.monotonic() >= self.end:
                    raise Ended(Stop.TIME)
                self._calls[0] += 1
                answer = self._checked(_evaluate, self.score, list(columns))
                yield number, columns, answer
                if isinstance(answer, Exception):
                    return
            return
        timeout = max(self.end - time.monotonic(), 0.0)
        futures: dict[Any, int] = {}
        try:
            for number, columns in enumerate(sets):
                # Dask merges equal calls; the number keeps the set that is evaluated twice.
                futures[self.executor.submit(_evaluate, self.score, list(columns), number)] = number
            for future in as_completed(futures, None if np.isinf(timeout) else timeout):
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
        except Exception as error:  # the executor is shut down or broken
            yield -1, sets[len(futures) % len(sets)], error
        finally:
            _cancel(futures)

    def _checked(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return the answer of a call as an array, or its error."""
        try:
            value = call(*arguments)
            answer = np.atleast_1d(np.asarray(value, dtype=np.float64))
        except Exception as error:
            return error
        if answer.ndim > 1 or not answer.size or not np.isfinite(answer).all():
            return ScoreError(f"it is {shown(value)}; it must be a finite number, or one a fold")
        earlier = next(iter(self.known.values()), answer)
        if len(earlier) != len(answer):
            return ScoreError(f"it has {len(answer)} folds; that of others has {len(earlier)}")
        return answer

    def _compare(self, columns: list[str], answer: Vector) -> None:
        earlier = self.known.get(frozenset(columns), answer)
        first, second = float(earlier.mean()), float(answer.mean())
        if abs(first - second) > SAME_ANSWER * max(abs(first), abs(second)):
            warn_caller(
                f"score of {sorted(columns)} is {first:.10g}, and {second:.10g} when asked again; "
                "the first answers are kept: fix the folds and the seed (random_state) of the "
                "model, or give another cache",
                ScoreWarning,
            )

    def _read(self) -> list[dict[str, Any]]:
        """Read the answers in the file; return the rows of other scores."""
        table = files.read_parquet(str(self.cache), "answers")
        if table.column_names != list(_FIELDS):
            raise SourceError(f"cache is '{self.cache}', which holds no answers of a score")
        rows = table.to_pylist()
        for row in rows:
            if row["score"] == self.name and frozenset(row["columns"]) not in self.known:
                self._keep(row["columns"], np.array(row["answer"]))
        return [row for row in rows if row["score"] != self.name]

    def _save(self, seconds: float = 0.0) -> None:
        """Write the file with the rows of other scores, unless it was written within `seconds`."""
        if self.cache is None or time.monotonic() - self._saved < seconds:
            return
        self._saved = time.monotonic()
        try:
            other_rows = self._read() if self.cache.exists() else []
            rows = [
                {"score": self.name, "columns": self._order[key], "answer": answer.tolist()}
                for key, answer in self.known.items()
            ]
            table = pa.Table.from_pylist([*other_rows, *rows], pa.schema(list(_FIELDS.items())))
            files.write_parquet(table, self.cache)
        except (OSError, SourceError) as error:
            warn_caller(f"cache '{self.cache}' is not written: {error}", ScoreWarning)
            self.cache = None


def _evaluate(score: ScoreFunction, columns: list[str], number: int = 0) -> Any:
    """Call the score, in any thread or process."""
    del number
    return score(columns)


def _cancel(futures: Iterable[Any]) -> None:
    for future in futures:
        future.cancel()


#: Groups of a batch, where an executor does not say how many it asks side by side.
BATCH = 16


@dataclass(eq=False)
class Lazily:
    """The groups that a step asks about, of one search."""

    costs: Vector  # gains are compared per unit of cost
    lazy: bool  # whether groups wait until their last gain may win
    sample: int | None  # groups drawn at each step; None for all
    batch: int  # groups that are asked side by side
    rng: np.random.Generator
    last: dict[int, float] = field(default_factory=dict)  # worth of each group when last asked

    @classmethod
    def of(cls, options: Mapping[str, Any], costs: Vector, seed: int) -> "Lazily | None":
        """Return the evaluation that the options of a search ask for; None for all groups."""
        lazy, sample, executor = (options.get(name) for name in ("lazy", "sample", "executor"))
        if not lazy and sample is None:
            return None
        batch = 1 if executor is None else getattr(executor, "_max_workers", BATCH)
        return cls(costs, bool(lazy), sample, batch, np.random.default_rng(seed))

    def __call__(self, score: Any, among: list[int]) -> list[int]:
        """Return the groups of `among` whose gains are known after the step."""
        if self.sample is not None and self.sample < len(among):
            among = sorted(self.rng.choice(among, self.sample, replace=False).tolist())
        if not self.lazy:
            return among
        waiting = sorted(among, key=lambda group: -self.last.get(group, np.inf))
        asked: list[int] = []
        best = -np.inf
        while waiting and self.last.get(waiting[0], np.inf) >= best:
            size = max(self.batch, sum(group not in self.last for group in waiting))
            batch, waiting = waiting[:size], waiting[size:]
            score.ask([score.held, *([*score.held, group] for group in batch)])
            for group in batch:
                self.last[group] = self._worth(score, group)
            best = max(best, *(self.last[group] for group in batch))
            asked += batch
        return asked

    def _worth(self, score: Any, group: int) -> float:
        """Return the gain per cost; a loss counts more for a dearer group."""
        gain: float = score.value_of([*score.held, group]) - score.value
        cost = float(self.costs[group])
        return gain * cost if gain < 0 else gain / cost

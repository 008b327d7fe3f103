"""Order candidate tables for a join to facts by gain per cost, from sums by key."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Unpack, cast

import numpy as np
from tqdm import tqdm

from dbselect.errors import ArgumentError, DataError, GroupError
from dbselect.linear.inference import through_origin
from dbselect.linear.problem import linear, unusable
from dbselect.linear.state import LinearState
from dbselect.methods.candidates import (
    Candidates,
    CandidateTable,
    candidate_of,
    candidates_of,
)
from dbselect.record.columns import numbers_among
from dbselect.record.gram import Gram, Vector
from dbselect.record.groups import Groups, groups_of, numbers_of
from dbselect.record.steps import Choice, Record, Step, Stop, fits, is_useful
from dbselect.results.call import Call
from dbselect.results.sequence import Sequence as AnytimeSequence
from dbselect.search.gram import gram_search
from dbselect.search.open import asked
from dbselect.search.protocol import check_first
from dbselect.search.table import referenced_columns
from dbselect.selection.criteria import RULES
from dbselect.selection.greedy import greedy_search
from dbselect.selection.moves import TIE_SHARE, first_of_the_best
from dbselect.sources.joins.facts import Facts, Fields
from dbselect.sources.joins.left_join import Mask, side_by_side
from dbselect.sources.open import open_table
from dbselect.sources.progress import PROGRESS_DELAY
from dbselect.sources.request import check_numeric
from dbselect.sources.snapshots import one_snapshot
from dbselect.spec.options import TablesOptions
from dbselect.spec.spec import Spec

#: Bytes of candidates' values to keep between steps; the others are read again.
MEMORY = 2**30


@one_snapshot
def anytime_tables(
    problem: Spec, candidates: Candidates, **options: Unpack[TablesOptions]
) -> AnytimeSequence:
    """Order tables by their gain in prediction per cost, without joining them.

    Each step takes the table, or the group of the facts' own columns, with the largest exact
    gain per cost given the model so far. The order is that of `anytime_sequence` on the join of
    all tables, where every table is a group.

    Returns
    -------
    Sequence, whose models predict from facts joined with the tables, each a STRUCT of its
    name; `unused` has the tables that were not selected

    Raises
    ------
    ArgumentError, ColumnError, GroupError, DataError : as `anytime_sequence`; as
        `KeySums.extend`, with the name of the candidate
    SourceError : facts that can be read only once

    Warns
    -----
    LeftOutWarning : as `KeySums.extend`
    ConditionWarning : as `anytime_sequence`

    Notes
    -----
    Reads the facts once for their Gram and once per key; then once for each pair of a key of a
    selected table and a key of tables not yet selected, unless one key has all fields of the
    other; this keeps 16 bytes per row, or per pair of values if these are far fewer. Reads each
    table within the budget once, and again in each later step unless its values are among the
    1 GB that are kept. A step skips tables that could not win even by explaining all of the
    residual. O(K p (d + p)) per table and step: p its columns, d those that the last step added,
    all of them in the first step.

    Stops when no table gains at least `epsilon` and more than rounding. An interrupt
    (Ctrl-C) stops the search with the tables selected so far.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> facts = pl.DataFrame({"shop": [1, 1, 2, 3], "day": [1, 2, 2, 2], "sales": [2, 4, 7, 9]})
    >>> shops = pl.DataFrame({"shop": [1, 2, 3], "area": [10.0, 30.0, 60.0]})
    >>> days = pl.DataFrame({"day": [1, 2], "rain": [1.0, 0.0]})
    >>> tables = {"shops": (shops, "shop", 5.0), "days": (days, "day", 2.0)}
    >>> seq = ds.anytime_tables(facts, "sales", tables)
    >>> seq.steps["group"].to_list(), seq.steps["r2"].round(3).to_list()
    ([None, 'days', 'shops'], [0.0, 0.563, 0.977])
    """
    checked, call = asked(problem, "anytime_tables", TablesOptions, options)
    by_name = candidates_of(candidates)
    clashes = [name for name in problem.groups or () if name in by_name]
    if clashes:
        raise GroupError(f"'{clashes[0]}' is a candidate and a group of the facts; rename one")
    if problem.costs is not None and not problem.groups:
        raise GroupError(
            "costs are those of the groups of the facts, and there are none; give the cost of a "
            "candidate with it: (table, key, cost)"
        )
    table = open_table(problem.source, None)
    check_numeric(table, problem.targets)
    columns = [problem.targets[0], *(referenced_columns(problem) or ())]
    facts = Facts(table, list(dict.fromkeys(columns)), problem.weight)
    offers = [candidate_of(n, one, facts, checked["unmatched"]) for n, one in by_name.items()]
    search = _Search(facts, problem, call, offers, checked)
    search.skip_incomplete()
    stop = search.run()
    return search.sequence(stop)


class _Search:
    """The tables bought so far, and the gains of the others, the offers."""

    def __init__(
        self,
        facts: Facts,
        problem: Spec,
        call: Call,
        offers: Sequence[CandidateTable],
        options: TablesOptions,
    ) -> None:
        self._facts, self._problem, self._call, self._options = facts, problem, call, options
        self._target = problem.targets[0]
        self._offers = {offer.name: offer for offer in offers}
        features = [name for name in facts.base.columns if name != self._target]
        if problem.groups:
            terms = facts.base.terms
            self._own = groups_of(features, problem.groups, problem.costs, self._target, terms)
        else:
            self._own = Groups({}, np.zeros(0))
        self._columns = dict(self._own.columns)
        self._costs = dict(zip(self._own.names, self._own.costs.tolist(), strict=True))
        self._costs |= {offer.name: float(offer.candidate.cost) for offer in offers}
        self._order: list[str] = []
        self._choices: list[Choice] = []
        self._forced = list(problem.always)
        groups = Groups({name: [] for name in self._costs}, np.array([*self._costs.values()]))
        first = numbers_of(self._forced, groups)
        check_first(groups, first, options["budget"], options["max_groups"])

    def skip_incomplete(self) -> None:
        if self._options["unmatched"] != "skip":
            return
        kept: dict[Fields, Mask] = {}
        for offer in self._offers.values():
            if fits(self._costs[offer.name], self._options["budget"]):
                complete = offer.complete(self._facts)
                kept[offer.key] = kept.get(offer.key, complete) & complete
        for key, complete in kept.items():
            self._facts.keep(key, self._facts.by(key).keys.filter(complete))
        self._facts.read_again()

    def run(self) -> Stop:
        """Buy until no table fits or gains enough; return the reason to stop."""
        reason = unusable(self._moments(self._facts.gram), self._target)
        if reason is not None:
            raise DataError(reason)
        try:
            while True:
                stop = self._step()
                if stop is not None:
                    return stop
        except KeyboardInterrupt:
            return Stop.INTERRUPTED

    def _step(self) -> Stop | None:
        limit, spent = self._options["max_groups"], sum(self._costs[name] for name in self._order)
        remaining = [name for name in self._costs if name not in self._order]
        fitting = [
            name for name in remaining if fits(spent + self._costs[name], self._options["budget"])
        ]
        if not remaining:
            return Stop.EXHAUSTED
        if limit is not None and len(self._order) >= limit:
            return Stop.MAX_GROUPS
        if not fitting:
            return Stop.BUDGET
        if self._forced:
            name, choice = self._forced.pop(0), Choice.FORCED
        else:
            gains = self._gains(fitting)
            scores = gains / np.array([self._costs[name] for name in fitting])
            enough = np.array([self._is_enough(gain) for gain in gains])
            if not enough.any():
                return Stop.THRESHOLD
            best = first_of_the_best(scores, enough)
            name = fitting[best]
            choice = Choice.FREE if len(fitting) == len(remaining) else Choice.LIMITED
        self._take(name, [other for other in fitting if other != name])
        self._order.append(name)
        self._choices.append(choice)
        return None

    def _is_enough(self, gain: float) -> bool:
        """Whether a gain is large enough to buy a table, whatever its cost."""
        return is_useful(gain) and gain >= self._options["epsilon"]

    def _take(self, name: str, fitting: Sequence[str]) -> None:
        """Add a group to the model; add the columns of a table to those of the facts."""
        if name not in self._offers:
            return
        offer = self._offers[name]
        offer.read(self._facts, MEMORY)
        assert offer.own is not None
        keys = {self._offers[other].key for other in fitting if other in self._offers} - {offer.key}
        centred = offer.values(self._facts)
        self._facts.add(offer.key, offer.own, offer.cross, centred, keys)
        self._columns[name] = offer.own.columns
        offer.centred = None

    def _gains(self, fitting: Sequence[str]) -> Vector:
        """Return the gain of each group; 0 for groups that cannot be the best one."""
        explained, gains = self._of_columns()
        best = max(
            (gains[name] / self._costs[name] for name in fitting
             if name in gains and self._is_enough(gains[name])), default=0,
        )  # fmt: skip
        held = [name for group in self._order for name in self._columns[group]]
        gram = self._facts.gram.select([self._target, *held])
        positions = numbers_among(gram.columns, self._facts.gram.columns).tolist()
        tables = [self._offers[name] for name in fitting if name in self._offers]
        # Start with the best tables of the last step, so that more of the others can be skipped.
        tables.sort(key=lambda offer: -offer.score)
        room = MEMORY - sum(offer.centred.nbytes for offer in tables if offer.centred is not None)
        for offer in tqdm(tables, unit=" tables", delay=PROGRESS_DELAY, disable=None, leave=False):
            cost = self._costs[offer.name]
            if (1.0 - explained) / cost < best * (1.0 - TIE_SHARE):
                continue
            room = offer.read(self._facts, room)
            gains[offer.name] = self._gain_of(offer, gram, positions)
            offer.score = gains[offer.name] / cost
            if self._is_enough(gains[offer.name]):
                best = max(best, offer.score)
        return np.array([gains.get(name, 0.0) for name in fitting])

    def _of_columns(self) -> tuple[float, dict[str, float]]:
        """Return the explained share, and the gain of each group of columns in the facts' Gram."""
        if not self._columns:
            return 0.0, {}
        groups = Groups(self._columns, np.ones(len(self._columns)))
        state = self._state(self._facts.gram, groups)
        names = groups.names
        for name in self._order:
            state.add(names.index(name))
        gains = RULES["fr"].criterion(state)(state)
        return state.explained, dict(zip(names, gains.tolist(), strict=True))

    def _gain_of(self, offer: CandidateTable, gram: Gram, positions: Sequence[int]) -> float:
        assert offer.own is not None
        joined = side_by_side(gram, offer.own, offer.cross[positions])
        groups = {"held": gram.columns[1:], "table": offer.own.columns}
        groups = {name: columns for name, columns in groups.items() if columns}
        if "table" not in groups:
            return 0.0
        state = self._state(joined, Groups(groups, np.ones(len(groups))))
        if len(groups) > 1:
            state.add(0)
        return float(RULES["fr"].criterion(state)(state)[-1])

    def _state(self, gram: Gram, groups: Groups) -> LinearState:
        ridge, scale, rows = self._problem.ridge, self._problem.scale, self._moments(gram)
        return LinearState(
            linear(rows, self._target, groups.members, ridge, scale), groups.positions
        )

    def _moments(self, gram: Gram) -> Gram:
        return gram if self._problem.intercept else through_origin(gram)

    def sequence(self, stop: Stop) -> AnytimeSequence:
        """Build the sequence of the bought tables by one more search on their joint Gram."""
        columns = {name: self._columns[name] for name in self._costs if name in self._columns}
        if not columns:
            raise self._nothing(stop)
        costs = {name: self._costs[name] for name in columns}
        problem = self._problem.replace(
            source=self._facts.gram, groups=columns, costs=costs, always=self._order, weight=None
        )
        search = gram_search(problem, self._call, adds_only=True)
        unused = tuple(name for name in self._offers if name not in columns)
        search.groups = replace(search.groups, unused=unused)
        choices = iter(self._choices)

        def walk(record: Record) -> Stop:
            def record_choice(step: Step) -> None:
                record(replace(step, choice=next(choices)))

            greedy_search(
                search.state, search.groups, search.criterion("fr"),
                max_groups=len(self._order), always=search.first, record=record_choice,
            )  # fmt: skip
            return stop

        sequence: Any = search.run("fr", walk, None)
        return cast("AnytimeSequence", sequence)

    def _nothing(self, stop: Stop) -> Exception:
        if stop is Stop.BUDGET:
            least = min(self._costs.values())
            return ArgumentError(
                f"budget is {self._options['budget']}; the cheapest candidate costs {least:g}"
            )
        if stop is Stop.THRESHOLD:
            return DataError(
                "nothing was bought, as no candidate gains more than rounding and at least "
                f"epsilon, {self._options['epsilon']:g}"
            )
        return DataError(f"nothing was bought: {stop.value}")

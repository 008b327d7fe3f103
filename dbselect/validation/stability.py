"""Stability selection: how often a method chooses each group on records of rows drawn anew."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import polars as pl

from dbselect.errors import ArgumentError, DataError, shown, warns_once
from dbselect.options.kinds import THRESHOLD
from dbselect.options.option import checked_options, options_of, shows
from dbselect.pages.cells import frequencies_of_sizes
from dbselect.pages.glance import InNotebooks
from dbselect.pages.html import listed
from dbselect.record.gram import Gram
from dbselect.record.groups import Groups, groups_of
from dbselect.record.missing import features_of
from dbselect.record.steps import held_after, uninterrupted
from dbselect.results.fields import StoredFields
from dbselect.results.joint import JointSequence
from dbselect.results.prefixes import Prefixes
from dbselect.results.selected import Selected
from dbselect.search.table import patterns_read, policy_but_for, table_of
from dbselect.sources.progress import turns
from dbselect.sources.sampling.drawn import RECORD
from dbselect.sources.sampling.resample import parts_in, resample
from dbselect.sources.target import check_numeric
from dbselect.spec.fields import METHOD, OF_METHOD
from dbselect.spec.methods import CHOOSING
from dbselect.spec.options import StabilityOptions
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec
from dbselect.validation.grid import MethodOf, answer, check_options, checked_method, name_of_method


@dataclass(frozen=True, eq=False)
class Stability(StoredFields, InNotebooks):
    """How often each group is chosen, and how many false ones may be among the stable.

    Parameters
    ----------
    target : the column that is predicted
    method : the call that chose, by name
    size : groups that each record was to choose; None for what each search ended with
    threshold : share of the records from which on a group is stable
    table : one row a group, the most frequent first: group, cost, frequency, stable
    frequencies : one row a group and size: group, size, frequency among the first so many, of
        the sequences; empty where the method makes none
    chosen : mean number of groups that a record chose, q
    records : those that were searched
    unusable : number of each other record -> why it could not be searched

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> rows = range(300)
    >>> table = pl.DataFrame({"a": [i % 7 for i in rows], "b": [i % 5 for i in rows]})
    >>> table = table.with_columns(c=pl.Series([i * i % 11 for i in rows]))
    >>> table = table.with_columns(y=2 * pl.col("a") + pl.Series([i * i * i % 9 for i in rows]))
    >>> found = ds.stability(table, "y", size=1, records=50)
    >>> found.stable, found.bound()
    (['a'], 0.6666666666666666)
    """

    target: str
    method: str
    size: int | None
    threshold: float
    table: pl.DataFrame
    frequencies: pl.DataFrame
    chosen: float
    records: int
    unusable: Mapping[int, str]

    def __repr__(self) -> str:
        left_out = f", {len(self.unusable)} unusable" if self.unusable else ""
        return (
            f"Stability({self.method}; {listed(self.stable)} in {self.threshold:.0%} of "
            f"{self.records} records{left_out}; at most {self.bound():.2g} false expected)"
        )

    @property
    def stable(self) -> list[str]:
        """The groups at or above the threshold, the most frequent first."""
        return self.table.filter("stable")["group"].to_list()

    def bound(self, threshold: float | None = None) -> float:
        """Return the most false groups that are expected among the stable: q^2 / ((2 t - 1) J).

        Parameters
        ----------
        threshold : t, above 0.5; default: that of this selection

        Raises
        ------
        ArgumentError : the threshold is not above 0.5, or above 1

        Notes
        -----
        Holds where false groups are chosen equally often and the method does no worse than a
        draw (Meinshausen and Buehlmann 2010, theorem 1); of complementary halves without
        either, where false is a group that a half chooses less often than one of J at random
        (Shah and Samworth 2013, theorem 1). J counts all groups.
        """
        share = self.threshold if threshold is None else threshold
        THRESHOLD.check("threshold", share)
        return self.chosen**2 / ((2.0 * share - 1.0) * self.table.height)

    def plot(self, *, most: int = 40) -> Any:
        """Return a picture of how often each group is among the first so many.

        Parameters
        ----------
        most : groups that are drawn, those that are chosen most often

        Returns
        -------
        Chart of altair. Its ``data`` is the DataFrame that is drawn: `frequencies`, and whether
        the group is stable

        Raises
        ------
        ArgumentError : the method makes no sequence, so that there is one size only
        EngineError : altair is not installed
        """
        if self.frequencies.is_empty():
            raise ArgumentError(f"{self.method} makes no sequence; the frequencies are in `table`")
        drawn = self.table.head(most)
        frame = drawn.select("group", "stable").join(
            self.frequencies, on="group", maintain_order="left_right"
        )
        among = "" if self.size is None else f" among the first {self.size}"
        told = [
            f"A row a group. {self.records} records; coloured groups are stable: chosen{among} in "
            f"at least {self.threshold:.0%} of them."
        ]
        if drawn.height < self.table.height:
            told.append(f"The {most} most frequent of {self.table.height} groups.")
        title = f"{self.target}: how often {self.method} chooses each group"
        return frequencies_of_sizes(frame, title, told)


#: What is drawn by default from a source that has no records yet.
DRAWING: dict[str, Any] = {"records": 100, "kind": "halves"}


@shows(StabilityOptions, first=(METHOD, OF_METHOD))
@warns_once
def stability(problem: Spec, method: MethodOf = "anytime_sequence", **options: Any) -> Stability:
    """Search many records of rows drawn anew, and count how often each group is chosen.

    Returns
    -------
    Stability: the frequency of each group, at every size where the method makes sequences; the
    stable ones; and a bound on how many of these are expected to be false

    Raises
    ------
    ArgumentError : an option is unknown, not allowed, or needs rows; every record chooses all
        groups; a Gram, which has no rows to draw
    DataError : no record can be searched
    ColumnError, GroupError, SourceError : as `resample` and the method

    Notes
    -----
    The scan of `resample`, and the method once a record. To keep the bound at v false groups, let
    each record choose ``sqrt((2 threshold - 1) v J)`` of J groups: of 50 at 0.75 five for v = 1.
    Groups that replace each other share their frequency: none of two copies is stable.

    References
    ----------
    Meinshausen, Buehlmann (2010), Stability selection; Shah, Samworth (2013), Variable selection
    with error control: another look at stability selection, for complementary halves.

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> rows = range(300)
    >>> table = pl.DataFrame({"a": [i % 7 for i in rows], "b": [i % 5 for i in rows]})
    >>> table = table.with_columns(c=pl.Series([i * i % 11 for i in rows]))
    >>> table = table.with_columns(y=2 * pl.col("a") + pl.Series([i * i * i % 9 for i in rows]))
    >>> ds.stability(table, "y", size=1, records=50)
    Stability(anytime_sequence; a in 75% of 50 records; at most 0.67 false expected)
    """
    own = {name: options.pop(name) for name in options_of(StabilityOptions) if name in options}
    known = checked_options(StabilityOptions, "stability", own)
    method = checked_method(method, CHOOSING)
    check_options(method, [{}], options)
    refuse(problem, "stability")
    target, size = problem.targets[0], known["size"]
    drawn = _drawn(problem, known)
    grams = {
        number: Gram.from_struct(record)
        for number, record in zip(drawn[RECORD], drawn["gram"].to_arrow(), strict=True)
    }
    if not grams:
        raise DataError("no record has a row")
    every = _groups(next(iter(grams.values())), target, problem)
    found: list[list[list[str]]] = []
    unusable: dict[int, str] = {}
    with turns(len(grams), "records", known["callback"]) as turn:
        for number, gram in grams.items():
            try:
                result = uninterrupted(answer(problem.on_gram(gram), method, options))
                found.append(_choices(result))
            except DataError as error:
                unusable[number] = str(error)
            turn(None, None)
    if not found:
        raise DataError(next(iter(unusable.values())))
    name = name_of_method(method)
    return _counted(found, every, unusable, name, target, size, float(known["threshold"]))


def _drawn(problem: Spec, known: StabilityOptions) -> pl.DataFrame:
    """Return the records that are searched."""
    source = problem.source
    named = cast(Mapping[str, Any], known)
    asked = {name: named[name] for name in ("records", "kind", "key")}
    if isinstance(source, pl.DataFrame) and {RECORD, "gram"} <= set(source.columns):
        read = {name: getattr(problem, name) for name in ("weight", "rows", "terms")}
        policy = {"null_policy": None if problem.null_policy == "skip" else problem.null_policy}
        drawn = {"seed": problem.seed or None}
        for name, value in {**asked, **read, **policy, **drawn}.items():
            if value is not None:
                raise ArgumentError(f"{name} is {shown(value)}; the source has its records already")
        return source.select(RECORD, "gram").drop_nulls()
    drawing = DRAWING | {name: value for name, value in asked.items() if value is not None}
    drawing |= {"seed": problem.seed, "weight": problem.weight}
    if parts_in(source) is not None:
        return resample(cast(Any, source), null_policy=problem.null_policy, **drawing)
    columns = patterns_read(problem)
    table = table_of(problem, columns)
    check_numeric(table, problem.targets)
    policy_read = policy_but_for(problem.targets, problem.null_policy)
    return resample(table, columns, null_policy=policy_read, terms=problem.terms, **drawing)


def _groups(gram: Gram, target: str, problem: Spec) -> Groups:
    gram.position(target, "target")
    features = features_of(gram.columns, [target], gram.terms)
    return groups_of(features, problem.groups, problem.costs, [target], gram.terms)


def _choices(result: Any) -> list[list[str]]:
    """Return what is chosen with at most 1, 2, ... groups, and in the end; else the end alone."""
    if isinstance(result, Selected):
        return [result.groups]
    if not isinstance(result, Prefixes) or isinstance(result, JointSequence):
        raise ArgumentError(
            f"method returns a {type(result).__name__}; it must return a sequence of one response "
            "or a Selected"
        )
    names = result.groups.names
    held = [held_after(result.records[:step]) for step in range(len(result.records) + 1)]
    best: dict[int, int] = {}
    for step, (groups, value) in enumerate(zip(held, result.explained, strict=True)):
        before = best.get(len(groups))
        if before is None or value > result.explained[before]:
            best[len(groups)] = step
    most = max(best)
    sizes = [max(size for size in best if size <= limit) for limit in range(1, most + 1)]
    ways = [held[best[size]] for size in sizes] + [held[-1]]
    return [[names[group] for group in groups] for groups in ways]


def _counted(
    found: list[list[list[str]]],
    every: Groups,
    unusable: dict[int, str],
    name: str,
    target: str,
    size: int | None,
    threshold: float,
) -> Stability:
    """Return the frequencies of what some records chose."""
    most = max(len(choices) - 1 for choices in found)
    if size is not None and not most:
        raise ArgumentError(f"size is {size}; {name} makes no sequence: limit it by its options")

    def at(choices: list[list[str]], limit: int | None) -> list[str]:
        return choices[-1] if limit is None else choices[min(limit, len(choices) - 1) - 1]

    def share(limit: int | None) -> list[float]:
        counts = Counter(group for choices in found for group in at(choices, limit))
        return [counts[group] / len(found) for group in every.names]

    chosen = sum(len(at(choices, size)) for choices in found) / len(found)
    if chosen == len(every.names):
        raise ArgumentError(
            f"every record chooses all {len(every.names)} groups; give size, or limit {name} by "
            "its options"
        )
    table = pl.DataFrame({"group": every.names, "cost": every.costs, "frequency": share(size)})
    table = table.with_columns(stable=pl.col("frequency") >= threshold)
    sizes = [
        pl.DataFrame({"group": every.names, "size": limit, "frequency": share(limit)})
        for limit in range(1, most + 1)
    ]
    nothing = {"group": pl.String, "size": pl.Int64, "frequency": pl.Float64}
    return Stability(
        target=target,
        method=name,
        size=size,
        threshold=threshold,
        table=table.sort("frequency", descending=True, maintain_order=True),
        frequencies=pl.concat([pl.DataFrame(schema=nothing), *sizes], how="vertical_relaxed"),
        chosen=chosen,
        records=len(found),
        unusable=unusable,
    )

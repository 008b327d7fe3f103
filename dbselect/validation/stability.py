"""Stability selection: how often a method selects each group on resampled rows."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import polars as pl

from dbselect.errors import ArgumentError, DataError, shown, warns_once
from dbselect.options.kinds import THRESHOLD
from dbselect.options.option import checked_options, options_of, shows
from dbselect.pages.charts import frequencies_of_sizes
from dbselect.pages.html import InNotebooks, listed
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
from dbselect.sources.request import check_numeric
from dbselect.sources.sampling.drawn import RECORD
from dbselect.sources.sampling.resample import parts_in, resample
from dbselect.spec.fields import METHOD, OF_METHOD
from dbselect.spec.methods import CHOOSING
from dbselect.spec.options import StabilityOptions
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec
from dbselect.validation.grid import MethodOf, answer, check_options, checked_method, name_of_method


@dataclass(frozen=True, eq=False)
class Stability(StoredFields, InNotebooks):
    """Selection frequencies of the groups, and a bound on false selections.

    Parameters
    ----------
    target : the column that is predicted
    method : name of the selection method
    size : number of groups to select on each record; None for the whole result
    threshold : frequency from which on a group is stable
    table : one row per group, the most frequent first: group, cost, frequency, stable
    frequencies : one row per group and size: group, size, frequency among the first `size`
        groups of the sequences; empty if the method returns no sequence
    chosen : mean number of groups selected on a record, q
    records : number of records that were searched
    unusable : number of each other record -> why it could not be searched

    Examples
    --------
    >>> import dbselect as ds
    >>> import polars as pl
    >>> rows = range(300)
    >>> table = pl.DataFrame({"a": [i % 7 for i in rows], "b": [i % 5 for i in rows]})
    >>> table = table.with_columns(c=pl.Series([i * i % 11 for i in rows]))
    >>> table = table.with_columns(y=2 * pl.col("a") + pl.Series([i * i * i % 9 for i in rows]))
    >>> result = ds.stability(table, "y", size=1, records=50)
    >>> result.stable, result.bound()
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
        unusable = f", {len(self.unusable)} unusable" if self.unusable else ""
        return (
            f"Stability({self.method}; {listed(self.stable)} in {self.threshold:.0%} of "
            f"{self.records} records{unusable}; at most {self.bound():.2g} false expected)"
        )

    @property
    def stable(self) -> list[str]:
        """The groups at or above the threshold, the most frequent first."""
        return self.table.filter("stable")["group"].to_list()

    def bound(self, threshold: float | None = None) -> float:
        """Return the bound q^2 / ((2 t - 1) J) on the expected number of false stable groups.

        Parameters
        ----------
        threshold : t, above 0.5; default: that of this selection

        Raises
        ------
        ArgumentError : the threshold is not above 0.5, or above 1

        Notes
        -----
        Holds if false groups are selected equally often and the method is no worse than
        random (Meinshausen and Buehlmann 2010, theorem 1). For complementary halves it needs
        neither, where false is a group that is selected on a half less often than at random
        (Shah and Samworth 2013, theorem 1). J is the number of all groups.
        """
        share = self.threshold if threshold is None else threshold
        THRESHOLD.check("threshold", share)
        return self.chosen**2 / ((2.0 * share - 1.0) * self.table.height)

    def plot(self, *, most: int = 40) -> Any:
        """Plot how often each group is among the first groups, by size.

        Parameters
        ----------
        most : number of groups to plot, the most frequent

        Returns
        -------
        Altair chart. Its ``data`` is the plotted DataFrame: `frequencies`, and whether
        the group is stable

        Raises
        ------
        ArgumentError : the method returns no sequence, so that there is only one size
        EngineError : altair is not installed
        """
        if self.frequencies.is_empty():
            raise ArgumentError(f"{self.method} makes no sequence; the frequencies are in `table`")
        drawn = self.table.head(most)
        frame = drawn.select("group", "stable").join(
            self.frequencies, on="group", maintain_order="left_right"
        )
        among = "" if self.size is None else f" among the first {self.size}"
        notes = [
            f"A row a group. {self.records} records; coloured groups are stable: chosen{among} in "
            f"at least {self.threshold:.0%} of them."
        ]
        if drawn.height < self.table.height:
            notes.append(f"The {most} most frequent of {self.table.height} groups.")
        title = f"{self.target}: how often {self.method} chooses each group"
        return frequencies_of_sizes(frame, title, notes)


#: Default resampling of a source without records.
DRAWING: dict[str, Any] = {"records": 100, "kind": "halves"}


@shows(StabilityOptions, first=(METHOD, OF_METHOD))
@warns_once
def stability(problem: Spec, method: MethodOf = "anytime_sequence", **options: Any) -> Stability:
    """Run a method on many resampled records, and count how often it selects each group.

    Returns
    -------
    Stability: the frequency of each group, at every size if the method returns sequences; the
    stable groups; and a bound on the expected number of false ones among them

    Raises
    ------
    ArgumentError : an option is unknown, not allowed, or needs rows; all groups are selected on
        every record; the source is a Gram, which has no rows to resample
    DataError : no record can be searched
    ColumnError, GroupError, SourceError : as `resample` and the method

    Notes
    -----
    One scan of `resample`, then the method once per record. To bound the expected number of
    false groups by v, set size to ``sqrt((2 threshold - 1) v J)`` of J groups: 5 of 50 at 0.75
    and v = 1. Groups that replace each other share their frequency: of two copies none is stable.

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
    given = {name: options.pop(name) for name in options_of(StabilityOptions) if name in options}
    checked = checked_options(StabilityOptions, "stability", given)
    method = checked_method(method, CHOOSING)
    check_options(method, [{}], options)
    refuse(problem, "stability")
    target, size = problem.targets[0], checked["size"]
    drawn = _drawn(problem, checked)
    grams = {
        number: Gram.from_struct(record)
        for number, record in zip(drawn[RECORD], drawn["gram"].to_arrow(), strict=True)
    }
    if not grams:
        raise DataError("no record has a row")
    groups = _groups(next(iter(grams.values())), target, problem)
    choices: list[list[list[str]]] = []
    unusable: dict[int, str] = {}
    with turns(len(grams), "records", checked["callback"]) as turn:
        for number, gram in grams.items():
            try:
                result = uninterrupted(answer(problem.on_gram(gram), method, options))
                choices.append(_choices(result))
            except DataError as error:
                unusable[number] = str(error)
            turn(None, None)
    if not choices:
        raise DataError(next(iter(unusable.values())))
    name = name_of_method(method)
    return _counted(choices, groups, unusable, name, target, size, float(checked["threshold"]))


def _drawn(problem: Spec, options: StabilityOptions) -> pl.DataFrame:
    """Return the records to search: those of the source, or resampled."""
    source = problem.source
    values = cast("Mapping[str, Any]", options)
    given = {name: values[name] for name in ("records", "kind", "key")}
    if isinstance(source, pl.DataFrame) and {RECORD, "gram"} <= set(source.columns):
        read = {name: getattr(problem, name) for name in ("weight", "rows", "terms")}
        policy = {"null_policy": None if problem.null_policy == "skip" else problem.null_policy}
        seed = {"seed": problem.seed or None}
        for name, value in {**given, **read, **policy, **seed}.items():
            if value is not None:
                raise ArgumentError(f"{name} is {shown(value)}; the source has its records already")
        return source.select(RECORD, "gram").drop_nulls()
    drawing = DRAWING | {name: value for name, value in given.items() if value is not None}
    drawing |= {"seed": problem.seed, "weight": problem.weight}
    if parts_in(source) is not None:
        return resample(cast("Any", source), null_policy=problem.null_policy, **drawing)
    columns = patterns_read(problem)
    table = table_of(problem, columns)
    check_numeric(table, problem.targets)
    policy_read = policy_but_for(problem.targets, problem.null_policy)
    return resample(table, columns, null_policy=policy_read, terms=problem.terms, **drawing)


def _groups(gram: Gram, target: str, problem: Spec) -> Groups:
    gram.position(target, "target")
    features = features_of(gram.columns, [target], gram.terms)
    return groups_of(
        features, problem.groups, problem.costs, [target], gram.terms, told=problem.told
    )


def _choices(result: Any) -> list[list[str]]:
    """Return the best selections of at most 1, 2, ... groups, and the last one."""
    if isinstance(result, Selected):
        return [result.groups]
    if not isinstance(result, Prefixes) or isinstance(result, JointSequence):
        raise ArgumentError(
            f"method returns a {type(result).__name__}; it must return a sequence of one response "
            "or a Selected"
        )
    names = result.groups.names
    groups_after = [held_after(result.records[:step]) for step in range(len(result.records) + 1)]
    best: dict[int, int] = {}
    for step, (numbers, value) in enumerate(zip(groups_after, result.explained, strict=True)):
        earlier = best.get(len(numbers))
        if earlier is None or value > result.explained[earlier]:
            best[len(numbers)] = step
    largest = max(best)
    sizes = [max(size for size in best if size <= limit) for limit in range(1, largest + 1)]
    selections = [groups_after[best[size]] for size in sizes] + [groups_after[-1]]
    return [[names[group] for group in numbers] for numbers in selections]


def _counted(
    choices: list[list[list[str]]],
    groups: Groups,
    unusable: dict[int, str],
    name: str,
    target: str,
    size: int | None,
    threshold: float,
) -> Stability:
    """Count the selections of all records."""
    most = max(len(record) - 1 for record in choices)
    if size is not None and not most:
        raise ArgumentError(f"size is {size}; {name} makes no sequence: limit it by its options")

    def selected(record: list[list[str]], limit: int | None) -> list[str]:
        return record[-1] if limit is None else record[min(limit, len(record) - 1) - 1]

    def share(limit: int | None) -> list[float]:
        counts = Counter(group for record in choices for group in selected(record, limit))
        return [counts[group] / len(choices) for group in groups.names]

    chosen = sum(len(selected(record, size)) for record in choices) / len(choices)
    if chosen == len(groups.names):
        raise ArgumentError(
            f"every record chooses all {len(groups.names)} groups; give size, or limit {name} by "
            "its options"
        )
    table = pl.DataFrame({"group": groups.names, "cost": groups.costs, "frequency": share(size)})
    table = table.with_columns(stable=pl.col("frequency") >= threshold)
    sizes = [
        pl.DataFrame({"group": groups.names, "size": limit, "frequency": share(limit)})
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
        records=len(choices),
        unusable=unusable,
    )

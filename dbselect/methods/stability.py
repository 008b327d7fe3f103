"""Stability selection: a method on many records of rows drawn anew, and what it always finds."""

from collections import Counter
from collections.abc import Callable
from inspect import signature
from typing import Any, cast

import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.judging.stability import Stability, check_threshold
from dbselect.methods.cross_validate import METHODS
from dbselect.methods.grid import check_options
from dbselect.methods.setup import check_target, named_in, policy_but_for
from dbselect.methods.types import Costs, GroupColumns, NullPolicy
from dbselect.record.checks import check_choice, check_count
from dbselect.record.gram import Gram
from dbselect.record.groups import Groups, groups_of
from dbselect.record.missing import features_of
from dbselect.record.steps import held_after
from dbselect.results.joint import JointSequence
from dbselect.results.prefixes import Prefixes
from dbselect.results.selected import Selected
from dbselect.sources.drawn import RECORD, DrawName
from dbselect.sources.open import open_table
from dbselect.sources.resample import parts_in, resample
from dbselect.sources.target import check_numeric
from dbselect.sources.turns import Callback, check_callback, turns

#: Those methods whose results are groups, by name.
CHOOSING = {
    name: call for name, call in METHODS.items() if name not in ("fit", "fit_glm", "group_lasso")
}
#: What a source that has its records already takes no more.
DRAWING: dict[str, Any] = {"records": 100, "kind": "halves", "seed": 0}


def stability(
    source: Any,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    method: str | Callable[..., Any] = "anytime_sequence",
    size: int | None = None,
    threshold: float = 0.75,
    records: int | None = None,
    kind: DrawName | None = None,
    key: str | None = None,
    seed: int | None = None,
    weight: str | None = None,
    null_policy: NullPolicy = "skip",
    callback: Callback | None = None,
    **options: Any,
) -> Stability:
    """Search many records of rows drawn anew, and count how often each group is chosen.

    Parameters
    ----------
    source : table, which is read once; parts of one; or what `resample` returns
    target, groups, costs : as in `anytime_sequence`
    method : ``"anytime_sequence"``, ``"backward"``, ``"best_within"``, ``"dash"``,
        ``"exchange"``, ``"foba"``, ``"greedy"``, ``"random_k"``, ``"sght"``, ``"step"``,
        ``"top_k"``, or a function that takes a Gram, the target, ``groups`` and options and
        returns a sequence or a `Selected`
    size : groups that each record chooses: of a sequence the best prefix of so many, or of
        fewer where it has no other. Default: all that a search ends with
    threshold : share of the records, above 0.5 and at most 1, from which on a group is stable
    records, kind, key, seed : as in `resample`; default: 100 ``"halves"`` of seed 0
    weight, null_policy : as in `gram`; rows without the target are left out under every policy
    callback : is called with a `Progress` after every record; what it raises ends the call
    options : of the method; a ``budget``, ``max_groups`` or ``k`` limits what a record chooses

    Returns
    -------
    Stability: the frequency of each group, at every size where the method makes sequences; the
    stable ones; and a bound on how many of these are expected to be false

    Raises
    ------
    ArgumentError : an option is unknown, not allowed, or needs rows; every record chooses all
        groups; a Gram, whose rows nobody can draw
    DataError : no record can be searched
    ColumnError, GroupError, SourceError : as `resample` and the method

    Notes
    -----
    The scan of `resample`, and the method once a record. To keep the bound at v false groups, let
    each record choose ``sqrt((2 threshold - 1) v J)`` of J groups: of 50 at 0.75 five for v = 1.
    Groups that stand in for each other share their frequency: none of two copies is stable.

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
    check_callback(callback)
    check_target(target)
    check_count("size", size)
    check_threshold(threshold)
    run = _method_of(method)
    check_options(run, [{}], options)
    _check_needed(run, options)
    if options.get("family", "gaussian") != "gaussian":
        raise ArgumentError(
            f"family is {options['family']!r}; the records that are searched hold no rows, so "
            "that it must be 'gaussian'"
        )
    asked = {"records": records, "kind": kind, "seed": seed, "key": key, "weight": weight}
    drawn = _drawn(source, target, groups, asked, null_policy)
    grams = {
        number: Gram.from_struct(record)
        for number, record in zip(drawn[RECORD], drawn["gram"].to_arrow(), strict=True)
    }
    if not grams:
        raise DataError("no record has a row")
    every = _groups(next(iter(grams.values())), target, groups, costs)
    given = {"groups": groups, **options}
    if "costs" in signature(run).parameters:
        given["costs"] = costs
    found: list[list[list[str]]] = []
    unusable: dict[int, str] = {}
    with turns(len(grams), "records", callback) as turn:
        for number, gram in grams.items():
            try:
                found.append(_choices(run(gram, target, **given)))
            except DataError as error:
                unusable[number] = str(error)
            turn(None, None)
    if not found:
        raise DataError(next(iter(unusable.values())))
    return _counted(found, every, unusable, _name(run), target, size, float(threshold))


def _method_of(method: Any) -> Callable[..., Any]:
    if isinstance(method, str) or not callable(method):
        check_choice("method", method, CHOOSING)
        return CHOOSING[method]
    return cast(Callable[..., Any], method)


def _check_needed(run: Callable[..., Any], options: dict[str, Any]) -> None:
    for one in signature(run).parameters.values():
        if one.kind is one.KEYWORD_ONLY and one.default is one.empty and one.name not in options:
            raise ArgumentError(f"{_name(run)} lacks option '{one.name}'; it has no default")


def _name(run: Callable[..., Any]) -> str:
    return str(getattr(run, "__name__", type(run).__name__))


def _drawn(
    source: Any, target: str, groups: Any, asked: dict[str, Any], null_policy: NullPolicy
) -> pl.DataFrame:
    """Return the records that are searched."""
    if isinstance(source, pl.DataFrame) and {RECORD, "gram"} <= set(source.columns):
        for name, value in {**asked, "null_policy": null_policy}.items():
            if value not in (None, "skip"):
                raise ArgumentError(f"{name} is {value!r}; the source has its records already")
        return source.select(RECORD, "gram").drop_nulls()
    drawing = DRAWING | {name: value for name, value in asked.items() if value is not None}
    if parts_in(source) is not None:
        return resample(source, null_policy=null_policy, **drawing)
    named = named_in(groups, source)
    columns = None if named is None else list(dict.fromkeys([target, *named]))
    table = open_table(source, columns)
    check_numeric(table, [target])
    policy = policy_but_for([target], null_policy)
    return resample(table, columns, null_policy=policy, **drawing)


def _groups(gram: Gram, target: str, groups: Any, costs: Any) -> Groups:
    gram.position(target, "target")
    features = features_of(gram.columns, [target], gram.terms)
    return groups_of(features, groups, costs, [target], gram.terms)


def _choices(result: Any) -> list[list[str]]:
    """Return what is chosen with at most 1, 2, ... groups, and last what the search ended with.

    Of what is no sequence there is the last only.
    """
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

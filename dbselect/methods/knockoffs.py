"""Knockoffs: which groups a search prefers to copies that know nothing of the target."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from dbselect.errors import ArgumentError, DataError
from dbselect.judging.knockoffs import KnockoffSelection, e_select, e_values
from dbselect.linear.knockoffs import Knockoffs
from dbselect.methods.cross_validate import METHODS
from dbselect.methods.grid import check_options
from dbselect.methods.options import Options
from dbselect.methods.setup import LinearSetup, prepare
from dbselect.methods.types import Costs, GroupColumns, NullPolicy, Source
from dbselect.record.checks import check_choice, check_column, check_share, check_whole
from dbselect.record.gram import Gram, Vector
from dbselect.record.policies import check_policies
from dbselect.results.joint import JointSequence
from dbselect.results.prefixes import Prefixes
from dbselect.sources.request import check_seed

#: Methods that put groups in an order, by name.
ORDERING = {name: METHODS[name] for name in ("anytime_sequence", "foba", "group_lasso", "step")}
#: What a knockoff is called beside its column or group.
KNOCKOFF = " (knockoff)"


@dataclass(frozen=True, kw_only=True)
class KnockoffOptions(Options):
    """The options of `knockoffs`."""

    method: ClassVar[str] = "knockoffs"

    q: float = 0.1
    search: str | Callable[..., Any] = "anytime_sequence"
    kind: Literal["fixed", "second_order"] = "fixed"
    draws: int = 1
    seed: int = 0
    weight: str | None = None
    null_policy: NullPolicy = "skip"

    def __post_init__(self) -> None:
        """Refuse options that no data could make right."""
        super().__post_init__()
        check_share("q", self.q)
        if not callable(self.search):
            check_choice("search", self.search, ORDERING)
        check_choice("kind", self.kind, ("fixed", "second_order"))
        check_whole("draws", self.draws)
        check_seed(self.seed)
        check_column("weight", self.weight)
        check_policies(self.null_policy)


def knockoffs(
    source: Source,
    target: str,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    q: float = KnockoffOptions.q,
    search: str | Callable[..., Any] = KnockoffOptions.search,
    kind: Literal["fixed", "second_order"] = KnockoffOptions.kind,
    draws: int = KnockoffOptions.draws,
    seed: int = KnockoffOptions.seed,
    weight: str | None = KnockoffOptions.weight,
    null_policy: NullPolicy = KnockoffOptions.null_policy,
    **options: Any,
) -> KnockoffSelection:
    """Select groups with a bound on the share of false ones, from a record alone.

    Each group gets a copy with the same correlations with all others and none of its own with
    the target. A search orders groups and copies; a group that comes long before its copy
    is selected. As many false groups come before their copies as after them, so those that come
    after tell how many false ones to expect.

    Parameters
    ----------
    source : Gram, record or table, as `anytime_sequence` takes it; no row is needed
    target, groups, costs : as in `anytime_sequence`; a copy costs what its group does
    q : in (0, 1), bound on the expected share of false groups among those selected
    search : ``"anytime_sequence"``, ``"foba"``, ``"group_lasso"``, ``"step"``, or a function
        that takes a Gram, the target, ``groups`` and options and returns a sequence
    kind : ``"fixed"``: nothing is assumed of the columns, errors are normal, independent and of
        one variance, and there are at least 2 D + 1 rows of D columns; ``"second_order"``:
        rows are those of normal columns, whatever the errors, with D + 2 rows at least
    draws : times that knockoffs are drawn; of more than one the selection depends less on the
        seed (e-values, of knockoffs at q / 2)
    seed : of the draws, 0 to 2^63 - 1
    weight, null_policy : of a table, as in `anytime_sequence`
    options : of the search; no ``always``

    Returns
    -------
    KnockoffSelection

    Raises
    ------
    ArgumentError : an option out of range, or fewer than 1 / q groups (2 / q with several
        draws), of which none could be selected
    DataError : too few rows, or a target that the columns explain whole
    ColumnError, GroupError : as `anytime_sequence`

    Notes
    -----
    O(D^3) for the copies and a search of 2 D columns a draw. False is a group whose
    coefficients, given all others, are 0. With ``"fixed"`` the bound is exact for linear models of
    the columns as they are, as the products of copies and target are drawn from their distribution
    given the record (the residual of the target, rotated at random). With ``"second_order"``
    it is as near as correlations are to those of the population. Columns that depend on others
    have no copy, and a group of nothing else is never selected. Nearly dependent columns have
    copies near themselves, and no power.

    References
    ----------
    Barber, Candes (2015), Controlling the false discovery rate via knockoffs; Dai, Barber (2016)
    for groups; Candes, Fan, Janson, Lv (2018), Panning for gold; He et al. (2022),
    GhostKnockoff inference; Ren, Barber (2024), Derandomised knockoffs.

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 20))
    >>> y = x[:, :8].sum(axis=1) + rng.normal(size=400)
    >>> gram = ds.gram(np.column_stack([x, y]), columns=[*(f"x{j}" for j in range(20)), "y"])
    >>> sorted(ds.knockoffs(gram, "y", q=0.15).selected)
    ['x0', 'x1', 'x19', 'x2', 'x3', 'x4', 'x5', 'x6', 'x7']
    """
    KnockoffOptions(
        q=q, search=search, kind=kind, draws=draws, seed=seed, weight=weight,
        null_policy=null_policy,
    )  # fmt: skip
    run = _search_of(search)
    check_options(run, [{}], options)
    if options.get("always"):
        raise ArgumentError(
            f"always is {options['always']!r}; a group that is forced cannot come before its copy"
        )
    if options.get("family", "gaussian") != "gaussian":
        raise ArgumentError(
            f"family is {options['family']!r}; copies are made of the record, which has no rows of "
            "a family"
        )
    setup = prepare(source, target, groups, costs, weight=weight, null_policy=null_policy)
    names = setup.groups.names
    each = q if draws == 1 else q / 2.0
    if len(names) < math.ceil(1.0 / each):
        raise ArgumentError(
            f"q is {q:g}; of {len(names)} groups none could be selected, as at least "
            f"{math.ceil(1.0 / each)} must be at once"
        )
    made, columns = _made(setup, kind)
    rng = np.random.default_rng(int(seed))
    draw = made.fixed if kind == "fixed" else made.second_order
    statistics = np.array(
        [_statistic(run, setup, columns, made, draw(rng), options) for _ in range(draws)]
    )
    values = np.array([e_values(row, each) for row in statistics])
    mean = values.mean(axis=0)
    table = pl.DataFrame(
        {
            "group": names,
            "cost": setup.groups.costs,
            "statistic": statistics.mean(axis=0),
            "frequency": (values > 0).mean(axis=0),
            "e_value": mean,
            "selected": e_select(mean, q),
        }
    )
    return KnockoffSelection(
        target=target,
        method=_name(run),
        kind=kind,
        q=float(q),
        draws=int(draws),
        table=table.sort(["e_value", "statistic"], descending=True, maintain_order=True),
        aliased=tuple(setup.dependent()),
        rows=setup.gram.rows,
    )


def _search_of(search: str | Callable[..., Any]) -> Callable[..., Any]:
    return ORDERING[search] if isinstance(search, str) else search


def _name(run: Callable[..., Any]) -> str:
    return str(getattr(run, "__name__", type(run).__name__))


def _made(search: LinearSetup, kind: str) -> tuple[Knockoffs, dict[str, list[int]]]:
    """Return the knockoffs of the independent columns, and which of these each group has."""
    search.state.add_all(range(len(search.groups.names)))
    search.check_held()
    kept = sorted(search.state.support)
    place = {column: at for at, column in enumerate(kept)}
    columns = {
        name: [place[column] for column in at.tolist() if column in place]
        for name, at in zip(search.groups.names, search.groups.positions, strict=True)
    }
    rows, width = search.gram.rows, len(kept)
    least = 2 * width + 1 if kind == "fixed" else width + 2
    if rows < least:
        way = "; with kind 'second_order' less" if kind == "fixed" and rows >= width + 2 else ""
        raise DataError(f"{rows} rows are too few for {width} columns: {least} are needed{way}")
    R = search.problem.G[np.ix_(kept, kept)]
    blocks = [np.array(at, dtype=np.intp) for at in columns.values() if at]
    made = Knockoffs.of(R, search.problem.c[kept], rows, blocks)
    if search.state.explained >= 1.0 - 1e-12:
        raise DataError(f"the columns explain '{search.target}' whole; there are no errors to test")
    return made, columns


def _statistic(
    run: Callable[..., Any],
    search: LinearSetup,
    columns: dict[str, list[int]],
    made: Knockoffs,
    drawn: Vector,
    options: dict[str, Any],
) -> Vector:
    """Return how long before its copy each group comes: W, below 0 where it comes after.

    The first of both counts, from the end of the order: 2 J for the first of all.
    """
    width = len(made.c)
    names = [f"{side}{at}" for side in ("x", "k") for at in range(width)]
    rows = search.gram.rows
    nothing = np.zeros(2 * width + 1)
    comoment = rows * made.correlations(drawn)
    gram = Gram([*names, "y"], rows, 0, float(rows), nothing, comoment)
    asked: dict[str, list[str]] = {}
    costs: dict[str, float] = {}
    for (name, at), cost in zip(columns.items(), search.groups.costs.tolist(), strict=True):
        if at:
            asked[name] = [f"x{column}" for column in at]
            asked[name + KNOCKOFF] = [f"k{column}" for column in at]
            costs[name] = costs[name + KNOCKOFF] = cost
    given = {"groups": asked, **options}
    if "costs" in signature(run).parameters:
        given["costs"] = costs
    found = run(gram, "y", **given)
    if not isinstance(found, Prefixes) or isinstance(found, JointSequence):
        raise ArgumentError(
            f"method returns a {type(found).__name__}; it must return a sequence of one response"
        )
    order = dict.fromkeys(found.groups.names[step.group] for step in found.records)
    left = {name: len(asked) - at for at, name in enumerate(order)}

    def of(name: str) -> float:
        own, copy = left.get(name, 0), left.get(name + KNOCKOFF, 0)
        return float(np.sign(own - copy) * max(own, copy))

    return np.array([of(name) for name in columns])

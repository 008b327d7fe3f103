"""Knockoffs: which groups a search prefers to copies that add nothing about the target."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from dbselect import _native
from dbselect.errors import ArgumentError, DataError, warns_once
from dbselect.options.names import OrderingName
from dbselect.options.option import checked_options, options_of, shows
from dbselect.pages.glance import InNotebooks
from dbselect.pages.html import listed
from dbselect.record.gram import Gram, Matrix, Vector
from dbselect.record.steps import uninterrupted
from dbselect.results.joint import JointSequence
from dbselect.results.prefixes import Prefixes
from dbselect.search.gram import GramSearch, gram_search
from dbselect.search.open import call_of
from dbselect.spec.fields import OF_METHOD
from dbselect.spec.options import KnockoffOptions
from dbselect.spec.refusals import refuse
from dbselect.spec.spec import Spec
from dbselect.validation.grid import MethodOf, answer, check_options, checked_method, name_of_method


@dataclass(frozen=True, eq=False)
class KnockoffSelection(InNotebooks):
    """Groups selected by knockoffs.

    Parameters
    ----------
    target : the column that is predicted
    method : the search that had groups and knockoffs before it, by name
    kind : ``"fixed"`` or ``"second_order"``
    q : bound on the expected share of false groups among those selected
    draws : times that knockoffs were drawn
    table : one row a group, the strongest first: group; cost; statistic, mean over the draws,
        above 0 where the group comes before its knockoff; frequency, share of the draws that
        select it; e_value; selected
    aliased : columns that depend on others and have no knockoff
    rows : of the record
    note : with ``"second_order"`` and fewer than 20 rows a column, how many there are, and what
        finds more; else None

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 20))
    >>> y = x[:, :8].sum(axis=1) + rng.normal(size=400)
    >>> gram = ds.gram(np.column_stack([x, y]), columns=[*(f"x{j}" for j in range(20)), "y"])
    >>> found = ds.knockoffs(gram, "y", q=0.15)
    >>> found
    KnockoffSelection(y by anytime_sequence; x4, x7, x0, x1, x3, x6, x2, x5, ... and 1 more of
    20 groups, q 0.15; 400 rows)
    >>> found.table.select("group", "statistic", "selected").rows()[8:10]
    [('x19', 32.0, True), ('x11', 19.0, False)]
    """

    target: str
    method: str
    kind: str
    q: float
    draws: int
    table: pl.DataFrame
    aliased: tuple[str, ...]
    rows: int
    note: str | None = None

    def __repr__(self) -> str:
        note = "" if self.note is None else f"; {self.note}"
        return (
            f"KnockoffSelection({self.target} by {self.method}; "
            f"{listed(self.selected, 'no group')} of {self.table.height} groups, "
            f"q {self.q:g}; {self.rows} rows{note})"
        )

    @property
    def selected(self) -> list[str]:
        """The groups that are selected, the strongest first."""
        return self.table.filter("selected")["group"].to_list()


#: Rows a column below which ``"second_order"`` finds clearly fewer groups than ``"fixed"``, as its
#: knockoffs vary with the whole target and not with the errors alone. At 7 rows it finds half.
FEW_ROWS = 20
#: What a knockoff is called beside its column or group.
KNOCKOFF = " (knockoff)"


@shows(KnockoffOptions, first=(OF_METHOD,))
@warns_once
def knockoffs(problem: Spec, **options: Any) -> KnockoffSelection:
    """Select groups with a bound on the share of false ones, from a record alone.

    Each group gets a copy with the same correlations with all others and none of its own with
    the target. A search orders groups and copies; a group that comes long before its copy
    is selected. As many false groups come before their copies as after them, so those that come
    after give the number of false ones to expect.

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
    copies near themselves, and no power. ``"second_order"`` finds fewer groups where rows are
    few: of 10 true ones among 30 with 200 rows about half, where ``"fixed"`` finds nine; with 20
    rows a column nearly as many. What is drawn depends on the seed alone, and is the same
    in SQL, Polars and Python.

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
    own = {name: options.pop(name) for name in options_of(KnockoffOptions) if name in options}
    search: MethodOf = own.get("search", "anytime_sequence")
    search = checked_method(search, OrderingName, "search")
    known = checked_options(KnockoffOptions, "knockoffs", {**own, "search": "anytime_sequence"})
    check_options(search, [{}], options)
    if options.get("always"):
        problem = problem.replace(always=options["always"])
    refuse(problem, "knockoffs")
    q, draws, kind = known["q"], known["draws"], known["kind"]
    setup = gram_search(problem, call_of(problem, "knockoffs", {}))
    names = setup.groups.names
    each = q if draws == 1 else q / 2.0
    if len(names) < math.ceil(1.0 / each):
        raise ArgumentError(
            f"q is {q}; of {len(names)} groups none could be selected, as at least "
            f"{math.ceil(1.0 / each)} are always selected together"
        )
    kept, columns = _kept(setup, kind)
    R, c = setup.linear.G[np.ix_(kept, kept)], setup.linear.c[kept]
    starts = np.cumsum([0, *(len(at) for at in columns.values() if at)])
    S, drawn = _native.knockoff_copies(
        R, c, starts, setup.gram.rows, kind, int(problem.seed), draws
    )
    grams = (_correlations(R, S, c, each) for each in drawn)
    statistics = np.array([_statistic(search, setup, columns, each, options) for each in grams])
    frequency, e_value, selected = _native.knockoff_select(statistics, float(q))
    table = pl.DataFrame(
        {
            "group": names,
            "cost": setup.groups.costs,
            "statistic": statistics.mean(axis=0),
            "frequency": frequency,
            "e_value": e_value,
            "selected": selected,
        }
    )
    return KnockoffSelection(
        target=setup.target,
        method=name_of_method(search),
        kind=kind,
        q=float(q),
        draws=int(draws),
        table=table.sort(["e_value", "statistic"], descending=True, maintain_order=True),
        aliased=tuple(setup.dependent()),
        rows=setup.gram.rows,
        note=_note(kind, setup.gram.rows, len(kept)),
    )


def _note(kind: str, rows: int, width: int) -> str | None:
    """Return what to do where second-order knockoffs have few rows for their columns."""
    if kind == "fixed" or rows >= FEW_ROWS * width:
        return None
    fixed = "kind 'fixed', " if rows >= 2 * width + 1 else ""
    return (
        f"{rows / width:.1f} rows a column are few for kind '{kind}', which finds fewer groups "
        f"below {FEW_ROWS}: {fixed}more rows or fewer columns find more"
    )


def _kept(search: GramSearch, kind: str) -> tuple[list[int], dict[str, list[int]]]:
    """Return the independent columns, and which of these each group has."""
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
    if not kept:
        raise DataError("every column is constant, and has no knockoff")
    if search.state.explained >= 1.0 - 1e-12:
        raise DataError(
            f"the columns explain '{search.target}' exactly; there are no errors to test"
        )
    return kept, columns


def _correlations(R: Matrix, S: Matrix, c: Vector, drawn: Vector) -> Matrix:
    """Return those of D columns, knockoffs and target; shape (2 D + 1, 2 D + 1)."""
    ends = np.concatenate([c, drawn])[:, None]
    both = np.block([[R, R - S], [R - S, R]])
    return np.block([[both, ends], [ends.T, np.ones((1, 1))]])


def _statistic(
    method: MethodOf,
    search: GramSearch,
    columns: dict[str, list[int]],
    correlations: Matrix,
    options: Mapping[str, Any],
) -> Vector:
    """Return W, how long before its copy a group comes: 2 J for the first, < 0 if it is after."""
    width = len(correlations) // 2
    names = [f"{side}{at}" for side in ("x", "k") for at in range(width)]
    rows = search.gram.rows
    nothing = np.zeros(2 * width + 1)
    gram = Gram([*names, "y"], rows, 0, float(rows), nothing, rows * correlations)
    asked: dict[str, list[str]] = {}
    costs: dict[str, float] = {}
    for (name, at), cost in zip(columns.items(), search.groups.costs.tolist(), strict=True):
        if at:
            asked[name] = [f"x{column}" for column in at]
            asked[name + KNOCKOFF] = [f"k{column}" for column in at]
            costs[name] = costs[name + KNOCKOFF] = cost
    problem = search.call.problem.replace(
        source=gram, target="y", groups=asked, costs=costs, weight=None, null_policy="skip",
        rows=None, terms=None,
    )  # fmt: skip
    found = uninterrupted(answer(problem, method, options))
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

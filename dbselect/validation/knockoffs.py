"""Knockoffs: select groups that a search prefers to copies without effect on the target."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from dbselect import _forked, _native
from dbselect.errors import ArgumentError, DataError, warns_once
from dbselect.options.names import OrderingName
from dbselect.options.option import checked_options, options_of, shows
from dbselect.pages.html import InNotebooks, listed
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
    method : name of the search over groups and knockoffs
    kind : ``"fixed"`` or ``"second_order"``
    q : bound on the expected share of false groups among those selected
    draws : number of draws of the knockoffs
    table : one row per group, the strongest first: group; cost; statistic, mean over the draws,
        above 0 if the group comes before its knockoff; frequency, share of the draws that
        select it; e_value; selected
    aliased : columns that depend on others and have no knockoff
    rows : number of rows
    note : a warning of low power, with ``"second_order"`` and fewer than 20 rows per column;
        else None

    Examples
    --------
    >>> import dbselect as ds
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(400, 20))
    >>> y = x[:, :8].sum(axis=1) + rng.normal(size=400)
    >>> gram = ds.gram(np.column_stack([x, y]), columns=[*(f"x{j}" for j in range(20)), "y"])
    >>> selection = ds.knockoffs(gram, "y", q=0.15)
    >>> selection
    KnockoffSelection(y by anytime_sequence; x4, x7, x0, x1, x3, x6, x2, x5, ... and 1 more of
    20 groups, q 0.15; 400 rows)
    >>> selection.table.select("group", "statistic", "selected").rows()[8:10]
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
        """The selected groups, the strongest first."""
        return self.table.filter("selected")["group"].to_list()


#: Times the least number of groups that are selected together, below which groups are few.
FEW_GROUPS = 3
#: Rows per column below which ``"second_order"`` finds clearly fewer groups than ``"fixed"``: its
#: knockoffs vary with the whole target, not only with the errors. At 7 rows it finds half.
FEW_ROWS = 20
#: Suffix of the name of a knockoff group.
KNOCKOFF = " (knockoff)"


@shows(KnockoffOptions, first=(OF_METHOD,))
@warns_once
def knockoffs(problem: Spec, **options: Any) -> KnockoffSelection:
    """Select groups with a bound on the false discovery rate, from a Gram alone.

    Each group gets a copy with the same correlations with all other groups, which adds nothing
    about the target given the groups. A search orders groups and copies; a group that comes long
    before its copy is selected. A false group comes before or after its copy with equal
    probability, so the groups after their copies estimate the number of false ones before.

    Returns
    -------
    KnockoffSelection

    Raises
    ------
    ArgumentError : an option out of range, or fewer than 1 / q groups (2 / q with several
        draws), so that none could be selected
    DataError : too few rows, or a target that the columns explain exactly
    ColumnError, GroupError : as `anytime_sequence`

    Notes
    -----
    O(D^3) for the copies, and one search of 2 D columns per draw. A group is false if its
    coefficients, given all other groups, are 0. With ``"fixed"`` the bound is exact for linear
    models with fixed columns: the products of copies and target are drawn from their distribution
    given the Gram (the residual of the target, rotated at random). With ``"second_order"``
    it is as accurate as the correlations are for the population. Columns that depend on others
    have no copy, and a group of only such columns is never selected. Nearly dependent columns
    have copies near themselves, and no power. With few rows ``"second_order"`` finds fewer
    groups: of 10 true ones among 30 with 200 rows about half, where ``"fixed"`` finds nine; with
    20 rows per column nearly as many. The draws depend on the seed alone, and are the same
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
    _forked.check_threads()
    given = {name: options.pop(name) for name in options_of(KnockoffOptions) if name in options}
    search: MethodOf = given.get("search", "anytime_sequence")
    search = checked_method(search, OrderingName, "search")
    checked = checked_options(KnockoffOptions, "knockoffs", {**given, "search": "anytime_sequence"})
    check_options(search, [{}], options)
    if options.get("always"):
        problem = problem.replace(always=options["always"])
    refuse(problem, "knockoffs")
    q, draws, kind = checked["q"], checked["draws"], checked["kind"]
    setup = gram_search(problem, call_of(problem, "knockoffs", {}))
    names = setup.groups.names
    level = q if draws == 1 else q / 2.0
    if len(names) < math.ceil(1.0 / level):
        raise ArgumentError(
            f"q is {q}; of {len(names)} groups none could be selected, as at least "
            f"{math.ceil(1.0 / level)} are always selected together"
        )
    kept, columns = _independent(setup, kind)
    R, c = setup.linear.G[np.ix_(kept, kept)], setup.linear.c[kept]
    starts = np.cumsum([0, *(len(at) for at in columns.values() if at)])
    S, drawn = _native.knockoff_copies(
        R, c, starts, setup.gram.rows, kind, int(problem.seed), draws
    )
    matrices = (_correlations(R, S, c, products) for products in drawn)
    statistics = np.array([_statistic(search, setup, columns, M, options) for M in matrices])
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
        note=_note(kind, setup.gram.rows, len(kept)) or _nothing_selected(selected, level),
    )


def _note(kind: str, rows: int, width: int) -> str | None:
    """Return a warning if second-order knockoffs have few rows for their columns."""
    if kind == "fixed" or rows >= FEW_ROWS * width:
        return None
    fixed = "kind 'fixed', " if rows >= 2 * width + 1 else ""
    return (
        f"{rows / width:.1f} rows a column are few for kind '{kind}', which finds fewer groups "
        f"below {FEW_ROWS}: {fixed}more rows or fewer columns find more"
    )


def _nothing_selected(selected: npt.NDArray[np.bool_], level: float) -> str | None:
    """Return why none of few groups is selected, which says little of them."""
    least, count = math.ceil(1.0 / level), len(selected)
    if selected.any() or count >= FEW_GROUPS * least:
        return None
    return (
        f"at this q at least {least} of the {count} groups are selected, or none: a larger q may "
        "select fewer"
    )


def _independent(search: GramSearch, kind: str) -> tuple[list[int], dict[str, list[int]]]:
    """Return the independent columns, and their positions by group."""
    search.state.add_all(range(len(search.groups.names)))
    search.check_held()
    kept = sorted(search.state.support)
    position_of = {column: members for members, column in enumerate(kept)}
    columns = {
        name: [position_of[column] for column in members.tolist() if column in position_of]
        for name, members in zip(search.groups.names, search.groups.positions, strict=True)
    }
    rows, width = search.gram.rows, len(kept)
    needed = 2 * width + 1 if kind == "fixed" else width + 2
    if rows < needed:
        hint = "; with kind 'second_order' less" if kind == "fixed" and rows >= width + 2 else ""
        raise DataError(f"{rows} rows are too few for {width} columns: {needed} are needed{hint}")
    if not kept:
        raise DataError("every column is constant, and has no knockoff")
    if search.state.explained >= 1.0 - 1e-12:
        raise DataError(
            f"the columns explain '{search.target}' exactly; there are no errors to test"
        )
    return kept, columns


def _correlations(R: Matrix, S: Matrix, c: Vector, drawn: Vector) -> Matrix:
    """Return the correlations of columns, knockoffs and target; shape (2 D + 1, 2 D + 1)."""
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
    """Return W of each group: rank from the end, 2 J for the first; < 0 if the copy is first."""
    width = len(correlations) // 2
    names = [f"{side}{at}" for side in ("x", "k") for at in range(width)]
    rows = search.gram.rows
    nothing = np.zeros(2 * width + 1)
    gram = Gram([*names, "y"], rows, 0, float(rows), nothing, rows * correlations)
    groups: dict[str, list[str]] = {}
    costs: dict[str, float] = {}
    for (name, at), cost in zip(columns.items(), search.groups.costs.tolist(), strict=True):
        if at:
            groups[name] = [f"x{column}" for column in at]
            groups[name + KNOCKOFF] = [f"k{column}" for column in at]
            costs[name] = costs[name + KNOCKOFF] = cost
    problem = search.call.problem.replace(
        source=gram, target="y", groups=groups, costs=costs, weight=None, null_policy="skip",
        rows=None, terms=None,
    )  # fmt: skip
    result = uninterrupted(answer(problem, method, options))
    if not isinstance(result, Prefixes) or isinstance(result, JointSequence):
        raise ArgumentError(
            f"method returns a {type(result).__name__}; it must return a sequence of one response"
        )
    order = dict.fromkeys(result.groups.names[step.group] for step in result.records)
    remaining = {name: len(groups) - at for at, name in enumerate(order)}

    def of(name: str) -> float:
        original, copy = remaining.get(name, 0), remaining.get(name + KNOCKOFF, 0)
        return float(np.sign(original - copy) * max(original, copy))

    return np.array([of(name) for name in columns])

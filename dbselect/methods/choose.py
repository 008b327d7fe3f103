"""Choosing k candidates: what DASH and its baselines have in common."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard, cast

from dbselect.errors import ArgumentError
from dbselect.glm.named import check_family_name
from dbselect.methods.glm_objective import GlmObjective, ObjectiveSetup
from dbselect.methods.open_search import open_search
from dbselect.methods.options import Options
from dbselect.methods.setup import LinearSetup, fitted
from dbselect.methods.types import Costs, FamilyName, GroupColumns, NullPolicy
from dbselect.objectives.contract import Objective
from dbselect.objectives.diversity import Sum
from dbselect.record.checks import check_flag, check_whole
from dbselect.record.groups import Groups
from dbselect.record.policies import check_policies
from dbselect.results.glm.model import GlmModel
from dbselect.results.model import Model
from dbselect.results.selected import Diagnostics, Selected
from dbselect.selection.dash import Limits, Run
from dbselect.sources.types import Source


@dataclass(frozen=True, kw_only=True)
class ChoiceOptions(Options):
    """What every choice of k candidates has."""

    k: int
    family: FamilyName = "gaussian"
    intercept: bool = True
    null_policy: NullPolicy = "skip"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("k", self.k)
        check_family_name(self.family)
        check_flag("intercept", self.intercept)
        check_policies(self.null_policy)

    def limits(self, groups: Groups) -> Limits:
        """Return what limits a choice among groups with names and costs."""
        return Limits(self.k)

    @property
    def named(self) -> dict[str, Any]:
        """What the options say of groups by name, which other candidates have not."""
        return {
            "family": None if self.family == ChoiceOptions.family else self.family,
            "intercept": None if self.intercept else self.intercept,
        }


def choice_of(
    run: Callable[[Any, Limits], Run[Any]],
    options: ChoiceOptions,
    source: Source | GlmObjective | Objective,
    target: str | None,
    groups: GroupColumns | None,
    costs: Costs | None,
    diversity: Objective | None,
) -> Selected[Any]:
    """Run a search for k candidates and return what it chose, with the model if there is one.

    Parameters
    ----------
    run : objective, limits -> Run
    source, target, groups, costs, diversity : as in `dash`
    """
    search: LinearSetup | ObjectiveSetup | None = None
    if target is None and _is_objective(source):
        _check_unselected("objective", source)
    if target is None and _is_objective(source) and not isinstance(source, GlmObjective):
        _check_nameless(source, options, groups=groups, costs=costs)
    else:
        search = open_search(
            cast(Source, source),
            target,
            groups,
            costs,
            family=options.family,
            null_policy=options.null_policy,
            intercept=options.intercept,
        )
    start: Any = source if search is None else search.state
    k = options.k
    if k > start.size:
        raise ArgumentError(f"k is {k!r}; it must be a whole number from 1 to {start.size}")
    limits = Limits(k) if search is None else options.limits(search.groups)
    if diversity is not None:
        _check_diversity(diversity, start)
        start = Sum(start, diversity)
    result = run(start, limits)
    state = result.objective if diversity is None else result.objective.first
    model: Model | GlmModel | None = None
    if isinstance(search, LinearSetup):
        model = Model(**fitted(search, state))
    elif search is not None:
        model = cast(GlmObjective, state).model()
    return Selected(model, tuple(result.objective.held), options.method, _diagnostics(result))


def _diagnostics(result: Run[Any]) -> Diagnostics:
    return Diagnostics(
        value=result.objective.value,
        rounds=len(result.history),
        queries=result.queries,
        history=tuple(result.history),
        opt=result.opt,
        alpha=result.alpha,
        stalled=result.stalled,
        completed=result.completed,
        bound=result.bound,
    )


def _is_objective(thing: object) -> TypeGuard[Objective]:
    return hasattr(thing, "add_all")


def _check_nameless(objective: Any, options: ChoiceOptions, *, groups: Any, costs: Any) -> None:
    """Refuse what needs groups with names, where candidates are numbers."""
    if groups is not None:
        raise ArgumentError("groups are given without a target; an objective has its candidates")
    for name, value in ({"costs": costs} | options.named).items():
        if value is not None:
            raise ArgumentError(
                f"{name} is {value!r}; it is for groups, a {type(objective).__name__} has "
                "candidates without names"
            )


def _check_diversity(diversity: Any, start: Any) -> None:
    if not _is_objective(diversity):
        raise ArgumentError(f"diversity is {diversity!r}; it must be an objective")
    _check_unselected("diversity", diversity)
    if diversity.size != start.size:
        raise ArgumentError(
            f"diversity is over {diversity.size} candidates; there are {start.size}"
        )


def _check_unselected(name: str, objective: Objective) -> None:
    """Refuse an objective that does not begin with the empty set."""
    if objective.held:
        raise ArgumentError(
            f"{name} has {len(objective.held)} candidates selected; it must have none"
        )

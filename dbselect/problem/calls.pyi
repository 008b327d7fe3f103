"""Calls of one line for type checkers and editors; written by release/stub.py."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Unpack

from polars import DataFrame

from dbselect.objectives.diversity import Coverage
from dbselect.record.groups import Costs, GroupColumns
from dbselect.results.glm.model import GlmModel
from dbselect.results.joint import AnySequence
from dbselect.results.model import Model
from dbselect.results.penalty_path import GroupLassoPath, LassoPath
from dbselect.results.selected import Selected
from dbselect.results.sets import NearBest
from dbselect.sources.types import Source
from dbselect.spec import options
from dbselect.spec.fields import ProblemOptions
from dbselect.spec.spec import Target
from dbselect.validation.cross_validation import CrossValidation
from dbselect.validation.grid import MethodOf
from dbselect.validation.knockoffs import KnockoffSelection
from dbselect.validation.stability import Stability

class AnytimeSequenceCall(options.AnytimeOptions, ProblemOptions): ...

def anytime_sequence(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[AnytimeSequenceCall],
) -> AnySequence: ...

class FobaCall(options.FobaOptions, ProblemOptions): ...

def foba(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[FobaCall],
) -> AnySequence: ...

class BackwardCall(options.BackwardOptions, ProblemOptions): ...

def backward(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[BackwardCall],
) -> AnySequence: ...

class FloatingCall(options.FloatingOptions, ProblemOptions): ...

def floating(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[FloatingCall],
) -> AnySequence: ...

class StepCall(options.StepOptions, ProblemOptions): ...

def step(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[StepCall],
) -> AnySequence: ...

class ExchangeCall(options.ExchangeOptions, ProblemOptions): ...

def exchange(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[ExchangeCall],
) -> Selected[Any]: ...

class GreedyCall(options.GreedyOptions, ProblemOptions): ...

def greedy(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[GreedyCall],
) -> Selected[Any]: ...

class DashCall(options.DashOptions, ProblemOptions): ...

def dash(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[DashCall],
) -> Selected[Any]: ...

class SghtCall(options.SghtOptions, ProblemOptions): ...

def sght(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[SghtCall],
) -> Selected[Any]: ...

class LassoPathCall(options.LassoPathOptions, ProblemOptions): ...

def lasso_path(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[LassoPathCall],
) -> LassoPath: ...

class GroupLassoPathCall(options.GroupLassoPathOptions, ProblemOptions): ...

def group_lasso_path(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[GroupLassoPathCall],
) -> GroupLassoPath: ...

class BestWithinCall(options.BestWithinOptions, ProblemOptions): ...

def best_within(
    source: Source,
    target: Target | None = None,
    budget: float | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[BestWithinCall],
) -> Selected[Model]: ...

class BreakEvenCall(options.BreakEvenOptions, ProblemOptions): ...

def break_even(
    source: Source,
    target: Target | None = None,
    budget: float | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[BreakEvenCall],
) -> DataFrame: ...

class NearBestCall(options.NearBestOptions, ProblemOptions): ...

def near_best(
    source: Source,
    target: Target | None = None,
    budget: float | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[NearBestCall],
) -> NearBest: ...

class FitCall(options.FitOptions, ProblemOptions): ...

def fit(
    source: Source,
    target: Target | None = None,
    columns: Sequence[str] | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[FitCall],
) -> Model | GlmModel: ...
def cross_validate(
    source: Source,
    target: Target | None = None,
    method: MethodOf = "anytime_sequence",
    grid: Mapping[str, Iterable[Any]] | Iterable[Mapping[str, Any]] | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Any,
) -> CrossValidation: ...
def stability(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    *,
    method: MethodOf = "anytime_sequence",
    **options: Any,
) -> Stability: ...
def knockoffs(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Any,
) -> KnockoffSelection: ...

class TopKCall(options.BaselineOptions, ProblemOptions): ...

def top_k(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[TopKCall],
) -> Selected[Any]: ...

class RandomKCall(options.BaselineOptions, ProblemOptions): ...

def random_k(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[RandomKCall],
) -> Selected[Any]: ...

class GroupLassoCall(options.GroupLassoOptions, ProblemOptions): ...

def group_lasso(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[GroupLassoCall],
) -> AnySequence: ...

class LassoCall(options.LassoOptions, ProblemOptions): ...

def lasso(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[LassoCall],
) -> Selected[Model]: ...

class SparseGroupLassoCall(options.SparseGroupLassoOptions, ProblemOptions): ...

def sparse_group_lasso(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[SparseGroupLassoCall],
) -> Selected[Model]: ...

class CoverageCall(options.CoverageOptions, ProblemOptions): ...

def coverage(
    source: Source,
    target: Target | None = None,
    groups: GroupColumns | None = None,
    costs: Costs | None = None,
    **options: Unpack[CoverageCall],
) -> Coverage: ...
def of_name(name: str) -> Callable[..., Any]: ...
def without_source(call: Callable[..., Any]) -> str: ...
def apart(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]: ...

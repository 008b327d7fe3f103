"""The papers' baselines and building blocks, and measures of curves."""

from dbselect.methods.sets.cost_groups import cost_groups
from dbselect.problem.building_blocks import (
    foba_epsilon,
    group_lasso,
    lasso,
    random_k,
    sparse_group_lasso,
    top_k,
)
from dbselect.results.heights import explained_at, plateau, stopping_cost, timeliness
from dbselect.selection.penalised.projection import sght_project, sght_table
from dbselect.validation.timeliness import oracle

__all__ = [
    "cost_groups", "explained_at", "foba_epsilon", "group_lasso", "lasso", "oracle",
    "plateau", "random_k", "sght_project", "sght_table", "sparse_group_lasso", "stopping_cost",
    "timeliness", "top_k",
]  # fmt: skip

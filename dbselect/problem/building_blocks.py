"""Calls of one line for baselines of the papers and building blocks of searches."""

from dbselect.problem.calls import once
from dbselect.problem.problem import Problem
from dbselect.spec import options as table

top_k = once(Problem.top_k, table.BaselineOptions)
random_k = once(Problem.random_k, table.BaselineOptions)
group_lasso = once(Problem.group_lasso, table.GroupLassoOptions)
lasso = once(Problem.lasso, table.LassoOptions)
sparse_group_lasso = once(Problem.sparse_group_lasso, table.SparseGroupLassoOptions)
coverage = once(Problem.coverage, table.CoverageOptions)

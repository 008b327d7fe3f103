"""Calls of one line for baselines of the papers and building blocks of searches."""

from dbselect.problem.calls import once
from dbselect.problem.problem import Problem
from dbselect.spec import options

top_k = once(Problem.top_k, options.BaselineOptions)
random_k = once(Problem.random_k, options.BaselineOptions)
group_lasso = once(Problem.group_lasso, options.GroupLassoOptions)
lasso = once(Problem.lasso, options.LassoOptions)
sparse_group_lasso = once(Problem.sparse_group_lasso, options.SparseGroupLassoOptions)
coverage = once(Problem.coverage, options.CoverageOptions)

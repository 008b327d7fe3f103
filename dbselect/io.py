"""Input and output: plans for parts of a table, resampling, other formats, examples."""

from dbselect._log import JsonFormatter
from dbselect.methods.candidates import Candidate
from dbselect.problem.example import example_problem
from dbselect.record.missing import impute_mean
from dbselect.sources.engines.sparse import sparse_table, svmlight_to_parquet
from dbselect.sources.example import example
from dbselect.sources.partial.plan import plan_gram
from dbselect.sources.partial.records_by_pattern import Patterns
from dbselect.sources.sampling.resample import resample

__all__ = [
    "Candidate", "JsonFormatter", "Patterns", "example", "example_problem", "impute_mean",
    "plan_gram", "resample", "sparse_table", "svmlight_to_parquet",
]  # fmt: skip

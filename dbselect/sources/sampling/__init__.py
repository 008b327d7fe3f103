"""Samples of the rows of a table: random samples, folds and bootstrap resamples."""

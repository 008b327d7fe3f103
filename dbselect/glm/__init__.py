"""Generalised linear models, fitted group by group in passes over the rows."""

"""Fits of columns that the caller names, and their diagnostics from a record."""

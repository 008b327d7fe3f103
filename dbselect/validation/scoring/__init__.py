"""Scores of prefixes on rows of a table."""

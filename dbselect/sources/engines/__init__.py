"""Readers of tables, one file per engine."""

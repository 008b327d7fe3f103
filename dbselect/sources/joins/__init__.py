"""Grams of tables joined by keys, computed without the joined table."""

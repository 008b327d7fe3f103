"""A table, wherever it lives, read once into a Gram; one file an engine."""

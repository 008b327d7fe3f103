"""The problem, with all settings of a selection, and the functions that build it."""

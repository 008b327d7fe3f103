"""The one table of options: their names, types, defaults, allowed values and what each does."""

"""Options: names, types, defaults, allowed values and descriptions."""

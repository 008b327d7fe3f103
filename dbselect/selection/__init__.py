"""Which groups, in which order."""

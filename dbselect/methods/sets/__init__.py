"""Methods that choose a set of groups at once."""

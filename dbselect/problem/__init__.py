"""The problem: all that is asked about a table, as one value, and the calls that build it."""

"""Partial sums: what one process sums, and how sums of processes are merged."""

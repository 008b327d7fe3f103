"""Partial sums of single processes, and their merge."""

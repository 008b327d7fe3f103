"""The specification of a problem: its fields, options and valid combinations."""

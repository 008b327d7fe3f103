"""What is asked about a table: the fields of a problem, and which of them go together."""

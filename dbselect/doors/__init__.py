"""The ways in from outside: DuckDB, Polars and the command line."""

"""Entry points besides Python functions: DuckDB, Polars and the command line."""

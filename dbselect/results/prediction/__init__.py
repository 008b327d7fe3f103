"""Predictions of rows: as a Polars expression, as SQL and in memory."""

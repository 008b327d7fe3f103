"""Predictions of rows: as an expression, as SQL text and in memory."""

"""Columns that are made of fields: curves of one, products and transforms of several."""

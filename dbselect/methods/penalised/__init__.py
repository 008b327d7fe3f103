"""Paths of the lasso and its kin, and the models on them."""

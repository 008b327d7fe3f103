"""Results of generalised linear models."""

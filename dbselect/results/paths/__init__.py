"""Models along a falling penalty."""

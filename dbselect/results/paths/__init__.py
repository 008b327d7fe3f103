"""Models along a falling penalty, or at every pair of limits."""

"""Arithmetic of counts, means and comoments."""

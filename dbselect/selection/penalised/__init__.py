"""Penalised least squares and hard thresholding."""

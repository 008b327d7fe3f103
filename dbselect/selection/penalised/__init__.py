"""Hard thresholding and its projection."""

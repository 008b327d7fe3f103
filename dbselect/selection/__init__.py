"""Selection algorithms, one a file: which groups, in which order."""

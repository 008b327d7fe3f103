"""A problem set up to be searched: on its Gram, in passes, on rows in memory, or on a lazy Gram."""

"""A Gram record for each partition of a table, kept, renewed and cut into windows."""

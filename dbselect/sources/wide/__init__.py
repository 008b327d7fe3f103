"""Wide tables: sums over only the columns that a search needs, in passes over the rows."""

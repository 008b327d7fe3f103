"""Wide tables: the sums of the columns a search asks for, in passes over the rows."""

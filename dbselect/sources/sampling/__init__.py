"""Some of the rows of a table: samples, folds and rows drawn with replacement."""

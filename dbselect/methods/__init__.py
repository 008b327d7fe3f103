"""The public calls: from a Gram or a table to a result."""

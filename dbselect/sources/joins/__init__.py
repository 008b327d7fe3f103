"""Tables joined by keys: one Gram of all their columns, no joined table."""

"""Which tables to join to facts, and designs of rows."""

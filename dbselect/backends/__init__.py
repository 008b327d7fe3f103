"""Where the records of a store lie: one kind of place a file, each all or nothing."""

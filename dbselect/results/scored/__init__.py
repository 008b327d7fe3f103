"""Results of searches on a score: the sequence, and what is known of a set."""

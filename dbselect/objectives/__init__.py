"""What a set of groups is worth."""

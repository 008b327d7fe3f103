"""What a search returns: prefixes with their models, selected models, and how they predict."""

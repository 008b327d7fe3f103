"""The waist: Gram records, their columns and groups, and the steps of a search."""

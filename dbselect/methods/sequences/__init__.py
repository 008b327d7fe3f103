"""Methods that order groups, each group a step."""

"""The linear problem on one Gram or many: gains, removals, bounds and inference."""

"""The engines that tables live in: one file reads one engine."""

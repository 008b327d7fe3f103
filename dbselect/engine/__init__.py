"""What the compiled library computes of one linear model."""

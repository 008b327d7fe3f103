"""How good a sequence is, on the rows it was found on and on others."""

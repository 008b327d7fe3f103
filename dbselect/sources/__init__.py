"""Read tables of any engine into Grams, in one pass or several."""

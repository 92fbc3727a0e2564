"""One text becomes another, of a length that the model decides (type 3 of lecture 004)."""

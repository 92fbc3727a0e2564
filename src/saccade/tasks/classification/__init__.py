"""One label for a text (type 2 of lecture 004)."""

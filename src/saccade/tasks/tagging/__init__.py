"""A label for each word (type 1 of lecture 004)."""

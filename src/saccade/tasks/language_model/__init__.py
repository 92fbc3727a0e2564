"""The next word, given those before it."""

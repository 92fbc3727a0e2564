"""Watching attention while it runs, reading what was seen, and editing it."""

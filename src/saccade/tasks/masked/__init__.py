"""The words that are hidden, given all others."""

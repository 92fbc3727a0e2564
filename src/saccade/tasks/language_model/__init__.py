"""Predict the next word from those before it."""

"""Saccade: attention models that you can see through."""

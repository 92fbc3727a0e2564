"""Texts through one small vector, and back."""

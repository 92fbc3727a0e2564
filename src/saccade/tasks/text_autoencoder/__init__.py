"""Compress texts into one small vector, and reconstruct them."""

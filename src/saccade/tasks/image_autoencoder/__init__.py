"""Compress images into one small vector, and reconstruct them."""

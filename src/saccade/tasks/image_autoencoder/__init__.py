"""Images through one small vector, and back."""

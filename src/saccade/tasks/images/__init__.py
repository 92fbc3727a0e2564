"""One label for a picture."""

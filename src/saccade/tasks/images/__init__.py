"""One class for an image."""

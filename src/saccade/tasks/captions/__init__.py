"""A text that describes a picture."""

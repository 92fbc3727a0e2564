"""Watch attention while it runs, read what was seen, and edit it."""

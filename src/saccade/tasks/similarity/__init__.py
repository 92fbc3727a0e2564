"""Compare texts by their vectors; the models come from other libraries."""

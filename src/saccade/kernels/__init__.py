"""Fast forms of what stands elsewhere as an equation."""

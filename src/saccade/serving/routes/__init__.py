"""Our own addresses, one group per file."""

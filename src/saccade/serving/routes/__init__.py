"""Our own API, one group of routes per file."""

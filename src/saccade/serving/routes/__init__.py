"""Saccade's own API, one group of routes per file."""

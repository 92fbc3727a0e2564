"""Predict hidden words from all others."""

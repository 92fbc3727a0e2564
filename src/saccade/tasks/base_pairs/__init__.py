"""Predict which bases of an RNA sequence pair with each other."""

"""Predict where several agents will go, from where they came."""

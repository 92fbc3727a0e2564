"""The language model task: predict each token from those before it, and so continue a text."""

"""Tasks: what is between a person's examples and a model's tensors; model folders, and folders that answer."""

"""Tasks: everything between a user's examples and a model's tensors, plus model folders and how they answer."""

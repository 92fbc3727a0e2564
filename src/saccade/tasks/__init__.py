"""Tasks: everything between a user's examples and a model's tensors, plus model folders and the predictors that open
them."""

"""The base classes of tasks: the task itself, its data, its predictor and its answers."""

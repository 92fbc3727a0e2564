"""What every task shares: the task itself, its data, its predictor and its answers."""

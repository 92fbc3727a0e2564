"""What every task shares: the task itself, its data, what answers with it, and what an answer is."""

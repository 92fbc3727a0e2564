"""Training: experiment, trainer, schedule, checkpoint."""

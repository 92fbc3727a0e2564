"""Training: recipe, run folder, trainer, schedule, checkpoints."""

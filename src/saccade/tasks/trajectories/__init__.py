"""The trajectories task: predict where several agents will go, from where they have been."""

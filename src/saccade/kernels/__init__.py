"""Fast versions of computations that other modules write as equations."""

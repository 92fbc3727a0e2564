"""The HTTP layer: application, guard, connections, refusals."""

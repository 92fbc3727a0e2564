"""The server as HTTP sees it: application, guard, connections, refusals."""

"""The HTTP layer: the application, access control, connections and error responses."""

"""Several processes behind one port: a supervisor that relays connections, and workers that answer them."""

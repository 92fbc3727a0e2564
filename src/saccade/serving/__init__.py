"""Serve models over HTTP, with an API for programs and the studio, a web page that shows how the models attend.

A request names one of the models that the server was started with, never a file. Each model computes in its own threads
(``batching``); all input from outside is checked before it reaches a model (``guard``, ``inputs``, ``limits``).
"""

from saccade.extras import needs_extra

with needs_extra("serving", "The server"):
    from saccade.serving.http.app import create_app
    from saccade.serving.http.guard import is_loopback
    from saccade.serving.http.server import listen, serve
    from saccade.serving.http.tls import tls_context
    from saccade.serving.limits import Limits
    from saccade.serving.models import Models
    from saccade.serving.processes.supervisor import supervise
    from saccade.serving.processes.worker import Settings

__all__ = ["Limits", "Models", "Settings", "create_app", "is_loopback", "listen", "serve", "supervise", "tls_context"]

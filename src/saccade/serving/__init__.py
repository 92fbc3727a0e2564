"""Models over HTTP: an interface for programs, and the studio, a page for people.

A request names a model that the person who started the server chose, never a file. What a model computes is done by one
thread of that model (``batching``); everything that comes from outside is checked before it gets there (``guard``,
``inputs``, ``limits``).
"""

from saccade.extras import needs_extra

with needs_extra("serving", "The server"):
    from saccade.serving.http.app import create_app
    from saccade.serving.http.guard import is_loopback
    from saccade.serving.http.server import listen, serve
    from saccade.serving.limits import Limits
    from saccade.serving.models import Models

__all__ = ["Limits", "Models", "create_app", "is_loopback", "listen", "serve"]

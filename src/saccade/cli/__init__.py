"""The command line. Each command is thin: it reads its options, calls the library and prints."""

from saccade.cli.main import app, main

__all__ = ["app", "main"]

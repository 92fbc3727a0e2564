"""``python -m saccade``: the same as ``saccade``."""

from saccade.cli.main import main

main()

"""``python -m saccade.cli``: the same as ``saccade``."""

from saccade.cli.main import main

main()

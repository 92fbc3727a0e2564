"""Draw docs/pictures/explain.svg: what `saccade explain --row 1` prints."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME

from saccade.lens import EXAMPLES
from saccade.lens.terminal.walkthrough import print_walkthrough

WIDTH = 113  # wide enough for the table of a query in one piece


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False, color_system="standard")
    print_walkthrough(EXAMPLES["projection"].walkthrough(), console, row=1)
    picture = console.export_svg(title="saccade explain --row 1", theme=DEFAULT_TERMINAL_THEME, unique_id="explain")
    # rich loads its font from the web; any font of one width will do.
    picture = re.sub(r"\s*@font-face {.*?}", "", picture, flags=re.DOTALL).replace("Fira Code", "DejaVu Sans Mono")
    Path(__file__).with_name("explain.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()

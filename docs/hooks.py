"""Makes the documentation work offline: formulas become MathML, and a script lets pages opened from disk search."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import get_plugin_logger

_log = get_plugin_logger(__name__)
# What the Markdown extension arithmatex makes of $...$ and $$...$$.
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
#: The script that lets pages opened from disk search; npm installs it (package.json).
_SHIM = Path("node_modules/iframe-worker/shim/index.js")


def on_page_content(content: str, **_: Any) -> str:
    def mathml(found: re.Match[str]) -> str:
        return convert(html.unescape(found[2]), display="block" if found[1] == "div" else "inline")

    return _FORMULA.sub(mathml, content)


def on_post_build(config: MkDocsConfig) -> None:
    shim = Path(config.config_file_path).parent / _SHIM
    if shim.exists():
        shutil.copy(shim, Path(config.site_dir) / config.extra["polyfills"][0])
    else:
        _log.info(f"{_SHIM} is missing (npm ci installs it): search works only over HTTP.")

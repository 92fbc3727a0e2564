"""Split long texts and HTML into sentences for translation. Everything between the sentences stays unchanged."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import NamedTuple

__all__ = ["Segmented", "segment_html", "segment_text"]

#: A sentence ends at its punctuation if white space and a capital, a digit or an opening quote or bracket follow.
#: Each alternative can match at a position in only one way, so that a text of blanks does not take quadratic time.
_BETWEEN = re.compile(
    r"(?<=[.!?…。！？])([\"'”’»)\]]*)((?<!\s)\s+)(?=[\"'“‘«(\[¿¡]*[^\W_a-zß-öø-ÿ])|((?<!\s)[^\S\n]*\n\s*)"
)
#: Elements whose content is not translated.
_VERBATIM = ("script", "style", "code", "pre", "textarea")


class Segmented(NamedTuple):
    """Sentences, and the strings before, between and after them (one more than there are sentences)."""

    sentences: list[str]
    between: list[str]
    is_html: bool = False

    def join(self, translated: Sequence[str]) -> str:
        """Return the text with the sentences replaced by their translations."""
        shown = [html.escape(one, quote=False) for one in translated] if self.is_html else translated
        return "".join(part for pair in zip(self.between, [*shown, ""], strict=True) for part in pair)


def segment_text(text: str) -> Segmented:
    """Split plain text into lines and sentences."""
    parts = _SentenceParts()
    parts.add_text(text)
    return parts.finish(is_html=False)


def segment_html(text: str) -> Segmented:
    """Split the text of HTML into sentences; tags, comments and scripts stay unchanged."""
    reader = _HtmlReader()
    # Whatever begins with "<" and never ends is text. Python's parser would look for the end of each "<" separately,
    # which takes quadratic time.
    end = text.rfind(">") + 1
    reader.feed(text[:end])
    reader.close()
    reader.handle_data(text[end:] if reader.cdata_elem else html.unescape(text[end:]))
    return reader.parts.finish(is_html=True)


class _SentenceParts:
    """Collects sentences and what is between them."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.between: list[str] = [""]

    def add(self, markup: str) -> None:
        self.between[-1] += markup

    def add_text(self, text: str) -> None:
        place = 0
        for found in _BETWEEN.finditer(text):
            if found[3] is None:
                self._add_sentence(text[place : found.end(1)])
                self.add(found[2])
            else:
                self._add_sentence(text[place : found.start()])
                self.add(found[3])
            place = found.end()
        self._add_sentence(text[place:])

    def _add_sentence(self, text: str) -> None:
        sentence = text.strip()
        before, _, after = text.partition(sentence) if sentence else (text, "", "")
        self.add(before)
        if sentence:
            self.sentences.append(sentence)
            self.between.append("")
        self.add(after)

    def finish(self, *, is_html: bool) -> Segmented:
        return Segmented(self.sentences, self.between, is_html)


class _HtmlReader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts = _SentenceParts()
        self._verbatim = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.add(self.get_starttag_text() or "")
        self._verbatim += tag in _VERBATIM

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.parts.add(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        self.parts.add(f"</{tag}>")
        self._verbatim -= tag in _VERBATIM and self._verbatim > 0

    def handle_data(self, data: str) -> None:
        if self._verbatim:
            self.parts.add(data if self.cdata_elem else html.escape(data, quote=False))
        else:
            self.parts.add_text(data)

    def handle_comment(self, data: str) -> None:
        self.parts.add(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self.parts.add(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self.parts.add(f"<?{data}>")

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """Keep ``<![...>`` unchanged; Python's own method raises an AssertionError for names that it does not know."""
        closing = "]]>" if self.rawdata.startswith("<![CDATA[", i) else ">"
        end = self.rawdata.find(closing, i)
        if end < 0:
            return -1
        self.parts.add(self.rawdata[i : end + len(closing)])
        return end + len(closing)

    def unknown_decl(self, data: str) -> None:
        self.parts.add(f"<![{data}]>")

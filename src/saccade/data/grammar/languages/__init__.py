"""The languages of the built-in corpus besides English and French, each with its words and grammar."""

from saccade.data.grammar.languages.chinese import Chinese
from saccade.data.grammar.languages.german import German
from saccade.data.grammar.languages.hindi import Hindi
from saccade.data.grammar.languages.italian import Italian
from saccade.data.grammar.languages.language import Language
from saccade.data.grammar.languages.spanish import Spanish

__all__ = ["LANGUAGES", "Language"]

#: Language code -> language. French is not among them: it is written together with English (`phrase.py`).
LANGUAGES: dict[str, Language] = {
    language.code: language for language in (Spanish(), Italian(), German(), Hindi(), Chinese())
}

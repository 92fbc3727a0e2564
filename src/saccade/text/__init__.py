"""From text to token ids, and from ids to padded batches."""

from saccade.text.batches import pad, plan_batches
from saccade.text.foreign import ForeignTokenizer
from saccade.text.foreign_files import read_foreign, spaced_tokenizer
from saccade.text.kinds import END, KINDS, MASK, PAD, SPECIAL_TOKENS, START, UNKNOWN
from saccade.text.tokenizer import MASK_TEXT, Encoding, Special, Tokenizer
from saccade.text.vocabulary import Vocabulary
from saccade.text.words import split_words

__all__ = [
    "END",
    "KINDS",
    "MASK",
    "MASK_TEXT",
    "PAD",
    "SPECIAL_TOKENS",
    "START",
    "UNKNOWN",
    "Encoding",
    "ForeignTokenizer",
    "Special",
    "Tokenizer",
    "Vocabulary",
    "pad",
    "plan_batches",
    "read_foreign",
    "spaced_tokenizer",
    "split_words",
]

"""Text -> ids -> padded batches."""

from saccade.text.batches import pad, plan_batches
from saccade.text.kinds import END, KINDS, MASK, PAD, SPECIAL_TOKENS, START, UNKNOWN
from saccade.text.tokenizer import Encoding, Tokenizer
from saccade.text.vocabulary import Vocabulary
from saccade.text.words import split_words

__all__ = [
    "END",
    "KINDS",
    "MASK",
    "PAD",
    "SPECIAL_TOKENS",
    "START",
    "UNKNOWN",
    "Encoding",
    "Tokenizer",
    "Vocabulary",
    "pad",
    "plan_batches",
    "split_words",
]

"""Text -> ids -> padded batches."""

from saccade.text.batches import pad, plan_batches
from saccade.text.kinds import END, KINDS, MASK, PAD, SPECIAL_TOKENS, START, UNKNOWN
from saccade.text.tokenizer import Encoding, Tokenizer

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
    "pad",
    "plan_batches",
]

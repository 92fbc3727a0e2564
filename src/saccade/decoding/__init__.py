"""Generate token sequences with a model that steps: beam search (greedy is beam 1) and sampling."""

from saccade.decoding.beam import beam_search
from saccade.decoding.hypothesis import Hypothesis
from saccade.decoding.sample import Draw, draws, filter_logits, sample
from saccade.decoding.sliding import Sliding
from saccade.decoding.stepper import Stepper

__all__ = [
    "Draw",
    "Hypothesis",
    "Sliding",
    "Stepper",
    "beam_search",
    "draws",
    "filter_logits",
    "sample",
]

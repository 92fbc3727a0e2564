"""Generate token sequences, one step at a time, by beam search (greedy search has beam size 1) or sampling."""

from saccade.decoding.beam import beam_search
from saccade.decoding.hypothesis import Hypothesis, LateHypothesis
from saccade.decoding.sample import Draw, draws, filter_logits, sample
from saccade.decoding.sliding import Sliding
from saccade.decoding.stepper import Stepper

__all__ = [
    "Draw",
    "Hypothesis",
    "LateHypothesis",
    "Sliding",
    "Stepper",
    "beam_search",
    "draws",
    "filter_logits",
    "sample",
]

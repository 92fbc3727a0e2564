"""The worked examples of the lectures, as documents for a walkthrough."""

from __future__ import annotations

from saccade.lens.walk.document import WalkDocument

__all__ = ["EXAMPLES"]

#: Self-attention from inputs and three matrices (001); the lecture does not scale.
_PROJECTION = WalkDocument(
    inputs=((1, 0, 1, 0), (0, 2, 0, 2), (1, 1, 1, 1)),
    W_query=((1, 0, 1), (1, 0, 0), (0, 0, 1), (0, 1, 1)),
    W_key=((0, 0, 1), (1, 1, 0), (0, 1, 0), (1, 1, 0)),
    W_value=((0, 2, 0), (0, 3, 0), (1, 0, 3), (1, 1, 0)),
    score="dot",
)

#: Retrieval as soft look-up: each token's query is compared with all keys and returns their values (000).
_RETRIEVAL = WalkDocument(
    queries=((0.3, 1.2, 2.2), (0.1, 6.2, 2.1), (2.1, 2.5, 5.2)),
    keys=((0.4, 1.4, 0.0), (0.2, -1.1, 0.0), (0.3, 1.2, 4.0)),
    values=((2.3, 1.1, 3.5), (3.0, 1.0, 0.5), (-2.2, 4.1, 2.5)),
)

#: The same with a fourth token, which has the key and value of the third (000).
_RETRIEVAL4 = WalkDocument(
    queries=((0.3, 1.2, 2.2), (0.1, 6.2, 2.1), (2.1, 2.5, 5.2), (1.1, 6.6, 4.3)),
    keys=((0.4, 1.4, 0.0), (0.2, -1.1, 0.0), (0.3, 1.2, 4.0), (0.3, 1.2, 4.0)),
    values=((2.3, 1.1, 3.5), (3.0, 1.0, 0.5), (-2.2, 4.1, 2.5), (-2.2, 4.1, 2.5)),
)

#: The dictionary of 000: each word is a vector with a single 1; "Telephone" equals no key, so it finds nothing.
_DICTIONARY = WalkDocument(
    tokens=("Date of birth", "Telephone"),
    source_tokens=("Name", "Address", "Date of birth", "Place of birth"),
    value_names=("Jane Doe", "37 Coronation street B12 9TK", "May 5th 2000", "Hull"),
    queries=((0, 0, 1, 0, 0), (0, 0, 0, 0, 1)),
    keys=((1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 1, 0, 0), (0, 0, 0, 1, 0)),
    values=((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
    weights="lookup",
)

#: The same inputs with 004's additive score, w·tanh(q + k).
_ADDITIVE = _PROJECTION.model_copy(update={"score": "additive", "W_score": ((1.0,), (-0.5,), (0.5,))})

#: Two heads of width 2, side by side and times W_O (003, where there are eight of width 64).
_HEADS = WalkDocument(
    inputs=_PROJECTION.inputs,
    W_query=((1, 0, 1, 0), (1, 0, 0, 1), (0, 0, 1, 1), (0, 1, 1, 0)),
    W_key=((0, 0, 1, 1), (1, 1, 0, 0), (0, 1, 0, 1), (1, 1, 0, 0)),
    W_value=((0, 2, 0, 1), (0, 3, 0, 0), (1, 0, 3, 1), (1, 1, 0, 2)),
    W_output=((1, 0, 0, 1), (0, 1, 0, 0), (0, 0, 1, 0), (1, 0, 0, -1)),
    heads=2,
)

#: A softmax for each channel (004 §5: each score is a vector): as many heads as columns, each of width 1.
_CHANNELS = _PROJECTION.model_copy(update={"heads": 3})

EXAMPLES: dict[str, WalkDocument] = {
    "projection": _PROJECTION,
    "retrieval": _RETRIEVAL,
    "retrieval4": _RETRIEVAL4,
    "dictionary": _DICTIONARY,
    "additive": _ADDITIVE,
    "heads": _HEADS,
    "channels": _CHANNELS,
}

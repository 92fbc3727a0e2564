"""Recurrent sequence-to-sequence networks (lectures 002 and 004), with and without attention.

====================  ==========================================================================================
``attention="none"``  ``s_t = g([y_t; c], s_{t-1})``; c and s_0 come from the last encoder state (Cho 2014)
``"state"``           ``s_{t-1}`` is the query for ``c_t``; ``s_t = g([y_t; c_t], s_{t-1})`` (Bahdanau 2015)
``"output"``          ``s_t = g(y_t, s_{t-1})`` is the query for ``c_t``; the word comes from ``[s_t; c_t]``
                      (lecture 004; Luong 2015). All steps of a known target are computed in one call.
====================  ==========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn

from saccade.attention import KeyValue, Mask, padding
from saccade.kernels.dropout import dropout
from saccade.models.config import Config
from saccade.models.cross_attention import CrossAttention, ScoreName
from saccade.models.layers import TiedLinear, WordEmbedding
from saccade.models.targets import Positions, Seq2Seq, Targets, answer
from saccade.recurrent import CELLS, Recurrent, RecurrentState, reorder

__all__ = ["Memory", "RecurrentConfig", "RecurrentLanguageConfig", "RecurrentLanguageModel", "RecurrentSeq2Seq"]

#: Cells that add the input itself to the state, so the two must have the same width (Jozefowicz 2015).
ADDS_INPUT = ("mut1", "mut2")
#: The description of every ``cell`` setting.
CELL_CHOICE = f"Recurrent cell: {', '.join(CELLS)}"


class RecurrentConfig(Config):
    """The settings of a recurrent encoder and decoder."""

    cell: str = Field("lstm", description=CELL_CHOICE)
    width: int = Field(256, ge=1, description="Width of the decoder's state and of each direction of the encoder")
    embedding_width: int = Field(256, ge=1, description="Width of a word's embedding")
    encoder_layers: int = Field(1, ge=1, description="Number of layers that read the source")
    decoder_layers: int = Field(1, ge=1, description="Number of layers that write the target")
    bidirectional: bool = Field(True, description="Let the encoder read in both directions")
    attention: Literal["none", "state", "output"] = Field(
        "output", description="When the decoder attends: none (never), state (before each step) or output (after it)"
    )
    attention_width: int = Field(256, ge=1, description="Width of the projected queries and keys")
    attention_values: Literal["states", "words"] = Field(
        "states",
        description="What attention retrieves: states (of the encoder, which depend on the whole source) or words "
        "(their embeddings)",
    )
    first_state: Literal["encoder", "zeros"] = Field(
        "encoder",
        description="The decoder's first state: encoder (from the encoder's last state) or zeros (the decoder then "
        "sees the source only through attention)",
    )
    score: ScoreName = Field(
        "additive", description="How queries and keys are compared: dot, scaled_dot, cosine, bilinear, additive or mlp"
    )
    weights: str = Field("softmax", description="How scores become weights: softmax, relu, sparsemax or hard")
    dropout: float = Field(
        0.0, ge=0, lt=1, description="Dropout on embeddings, between layers and before the output layer"
    )
    tied_output: bool = Field(False, description="Use the target embedding as the output layer")

    @model_validator(mode="after")
    def _layers_fit(self) -> RecurrentConfig:
        if self.cell in ADDS_INPUT and self.bidirectional and self.encoder_layers > 1:
            raise ValueError(
                f"{self.cell} needs inputs as wide as its state, so a second layer cannot read both directions"
            )
        if self.attention == "none" and (self.attention_values, self.first_state) != ("states", "encoder"):
            raise ValueError("attention_values and first_state can only be set if attention is not none")
        return self


@dataclass(frozen=True)
class RecurrentSeq2SeqState:
    """What the decoder keeps between steps.

    Without attention, ``context`` is the one vector of the source that the decoder sees in every step.
    """

    recurrent: RecurrentState
    source: KeyValue
    lengths: Int[Tensor, " B"] | None
    mask: Mask | None
    context: Float[Tensor, "B E"]
    position: int = 0


class RecurrentSeq2Seq(Seq2Seq):
    """A recurrent encoder and a recurrent decoder."""

    def __init__(self, config: RecurrentConfig, source_vocabulary: int, target_vocabulary: int) -> None:
        super().__init__()
        self.config = config
        width, words = config.width, config.embedding_width
        self.source = WordEmbedding(source_vocabulary, words, scaled=True)
        self.target = WordEmbedding(target_vocabulary, words, scaled=True)
        self.fit, fitted = _fit(config.cell, words, width)
        self.encoder = Recurrent(
            config.cell, fitted, width, config.encoder_layers, config.bidirectional, dropout=config.dropout
        )
        self.decoder = _Decoder(config, self.encoder.output_width)
        self.output = TiedLinear(
            words, target_vocabulary, bias=True, tied=self.target.weight if config.tied_output else None
        )

    def features(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None, target: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T D"]:
        state = self.start(source, lengths)
        features: Tensor = self.decoder(self._embed(self.target, target), state)
        return features

    def start(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None, max_length: int | None = None
    ) -> RecurrentSeq2SeqState:
        """The state after reading the source, from which `step` writes; ``max_length`` is ignored."""
        words = self._embed(self.source, source)
        states, final = self.encoder(self.fit(words), lengths)
        last = torch.cat([part[0] for part in final[-self.encoder.directions :]], dim=-1)
        return self.decoder.begin(words, states, last, lengths)

    def step(
        self, tokens: Int[Tensor, " B"], state: RecurrentSeq2SeqState
    ) -> tuple[Float[Tensor, "B V"], RecurrentSeq2SeqState]:
        """Read one more token in each row; return the logits of the token after it, and the new state."""
        features, state = self.decoder.step(self._embed(self.target, tokens), state)
        logits: Tensor = self.output(features)
        return logits, state

    def reorder(self, state: RecurrentSeq2SeqState, index: Int[Tensor, "*N"]) -> RecurrentSeq2SeqState:
        index = index.flatten()
        lengths = None if state.lengths is None else state.lengths.index_select(0, index.to(state.lengths.device))
        return replace(
            state,
            recurrent=reorder(state.recurrent, index),
            source=state.source.reorder(index),
            lengths=lengths,
            mask=None if lengths is None else padding(lengths),
            context=state.context.index_select(0, index),
        )

    def _embed(self, words: WordEmbedding, tokens: Tensor) -> Tensor:
        return dropout(words(tokens), self.config.dropout, self.training)


class _Decoder(nn.Module):
    """The recurrent decoder: it turns embedded target words into the inputs of the output layer."""

    def __init__(self, config: RecurrentConfig, source_width: int) -> None:
        super().__init__()
        self.config = config
        width, words = config.width, config.embedding_width
        context_width = words if config.attention_values == "words" else source_width
        input_width = words + (0 if config.attention == "output" else context_width)
        self.fit, fitted = _fit(config.cell, input_width, width)
        self.recurrent = Recurrent(config.cell, fitted, width, config.decoder_layers, dropout=config.dropout)
        self.parts = sum(len(state) for state in self.recurrent.initial(1))
        self.first = nn.Linear(source_width, self.parts * width) if config.first_state == "encoder" else None
        self.cross = None
        if config.attention != "none":
            self.cross = CrossAttention(width, source_width, config.attention_width, config.score, config.weights)
        self.readout = nn.Linear(width + (context_width if self.cross is not None else 0), words)

    def begin(
        self,
        words: Float[Tensor, "B S D"],
        states: Float[Tensor, "B S E"],
        last: Float[Tensor, "B E"],
        lengths: Int[Tensor, " B"] | None,
    ) -> RecurrentSeq2SeqState:
        """The first state: s_0 and the context come from the encoder's last state, the keys from all its states."""
        recurrent = self.recurrent.initial(len(last))
        if self.first is not None:
            parts = iter(torch.tanh(self.first(last)).chunk(self.parts, dim=-1))
            recurrent = tuple(tuple(next(parts) for _ in state) for state in recurrent)
        fetched = words if self.config.attention_values == "words" else states
        source = KeyValue(states, states) if self.cross is None else self.cross.project(states, fetched)
        mask = None if lengths is None else padding(lengths)
        return RecurrentSeq2SeqState(recurrent, source, lengths, mask, context=last)

    def forward(self, words: Float[Tensor, "B T D"], state: RecurrentSeq2SeqState) -> Float[Tensor, "B T D"]:
        """Compute all steps of a known target."""
        if self.config.attention == "state":  # the context of each step depends on the step before it
            features = []
            every = self.recurrent.truncate
            for t in range(words.shape[1]):
                if every is not None and t > 0 and t % every == 0:
                    cut = tuple(tuple(part.detach() for part in parts) for parts in state.recurrent)
                    state = replace(state, recurrent=cut)
                feature, state = self.step(words[:, t], state)
                features.append(feature)
            return torch.stack(features, dim=1)
        if self.config.attention == "none":
            context = state.context.unsqueeze(1).expand(-1, words.shape[1], -1)
            words = torch.cat([words, context], dim=-1)
        outputs, _ = self.recurrent(self.fit(words), None, state.recurrent)
        if self.cross is None:
            return self._read(outputs, None)
        return self._read(outputs, self.cross(outputs, state.source, mask=state.mask))

    def step(self, word: Float[Tensor, "B D"], state: RecurrentSeq2SeqState) -> tuple[Tensor, RecurrentSeq2SeqState]:
        context = state.context
        if self.config.attention == "state":
            context = self._attend(state.recurrent[-1][0], state)
        if self.config.attention != "output":
            word = torch.cat([word, context], dim=-1)
        output, recurrent = self.recurrent.step(self.fit(word), state.recurrent)
        if self.config.attention == "output":
            context = self._attend(output, state)
        features = self._read(output, None if self.cross is None else context)
        return features, replace(state, recurrent=recurrent, position=state.position + 1)

    def _attend(self, query: Float[Tensor, "B D"], state: RecurrentSeq2SeqState) -> Float[Tensor, "B E"]:
        assert self.cross is not None
        context: Tensor = self.cross(query.unsqueeze(1), state.source, mask=state.mask, first_row=state.position)
        return context.squeeze(1)

    def _read(self, output: Tensor, context: Tensor | None) -> Tensor:
        """Combine the state with its context in a feed-forward layer (lecture 004)."""
        joined = output if context is None else torch.cat([output, context], dim=-1)
        return dropout(torch.tanh(self.readout(joined)), self.config.dropout, self.training)


@dataclass
class Memory:
    """A network's state at the end of the last windows of its texts (lecture 002, truncated back-propagation).

    The next windows start from this state, but gradients do not flow back through it. Row n of a batch continues row n
    of the previous batch if its window starts where that window ended; otherwise it starts from zeros.
    """

    state: RecurrentState | None = None
    ends: Int[Tensor, " B"] | None = None

    def at(self, starts: Int[Tensor, " B"]) -> RecurrentState | None:
        """Return the state from which to read windows that start at these positions; None for the initial state."""
        if self.state is None or self.ends is None or self.ends.shape != starts.shape:
            return None
        continued = (self.ends == starts).to(self.state[0][0].device).unsqueeze(1)
        return tuple(tuple(torch.where(continued, part, 0.0) for part in parts) for parts in self.state)

    def keep(self, state: RecurrentState, ends: Int[Tensor, " B"]) -> None:
        self.state = tuple(tuple(part.detach().clone() for part in parts) for parts in state)
        self.ends = ends.cpu()


class RecurrentLanguageConfig(RecurrentConfig):
    """The settings of a recurrent language model."""

    unused = frozenset(RecurrentConfig.model_fields) - {
        *("cell", "width", "embedding_width", "decoder_layers", "dropout", "tied_output")
    }

    width: int = Field(256, ge=1, description="Width of the state")
    decoder_layers: int = Field(1, ge=1, description="Number of layers")
    tied_output: bool = Field(False, description="Use the embedding as the output layer")


class RecurrentLanguageModel(nn.Module):
    """A recurrent network that predicts the next token: a decoder without an encoder."""

    def __init__(self, config: RecurrentConfig, vocabulary: int) -> None:
        super().__init__()
        self.config = config
        self.input = WordEmbedding(vocabulary, config.embedding_width, scaled=True)
        self.fit, fitted = _fit(config.cell, config.embedding_width, config.width)
        self.decoder = Recurrent(config.cell, fitted, config.width, config.decoder_layers, dropout=config.dropout)
        self.readout = nn.Linear(config.width, config.embedding_width)
        tied = self.input.weight if config.tied_output else None
        self.output = TiedLinear(config.embedding_width, vocabulary, bias=True, tied=tied)

    def features(self, tokens: Int[Tensor, "B N"]) -> Float[Tensor, "B N D"]:
        """A vector for each token, from which the next token is predicted; it depends on the tokens up to this one."""
        outputs, _ = self.decoder(self._embed(tokens))
        return self._read(outputs)

    def forward(
        self,
        tokens: Int[Tensor, "B N"],
        *,
        targets: Targets | None = None,
        at: Positions | None = None,
        memory: Memory | None = None,
        starts: Int[Tensor, " B"] | None = None,
    ) -> Tensor:
        """Logits (B, N, V) of the token after each position, or only at the positions ``at``.

        If ``targets`` are given, the loss of these tokens instead. With a ``memory``, the rows are windows that start
        at the positions ``starts`` of their text, and continue the windows that the memory comes from.
        """
        if memory is None or starts is None:
            return answer(self.output, self.features(tokens), targets, at)
        outputs, state = self.decoder(self._embed(tokens), None, memory.at(starts))
        memory.keep(state, starts + tokens.shape[1])
        return answer(self.output, self._read(outputs), targets, at)

    def start(self, prompt: Int[Tensor, "B N"], max_length: int | None = None) -> RecurrentState:
        """The state after reading the prompt, which may be empty."""
        if not prompt.shape[1]:
            return self.decoder.initial(len(prompt))
        state: RecurrentState = self.decoder(self._embed(prompt))[1]
        return state

    def step(self, tokens: Int[Tensor, " B"], state: RecurrentState) -> tuple[Float[Tensor, "B V"], RecurrentState]:
        output, state = self.decoder.step(self._embed(tokens), state)
        logits: Tensor = self.output(self._read(output))
        return logits, state

    def reorder(self, state: RecurrentState, index: Int[Tensor, "*N"]) -> RecurrentState:
        return reorder(state, index.flatten())

    def _embed(self, tokens: Tensor) -> Tensor:
        words: Tensor = self.fit(dropout(self.input(tokens), self.config.dropout, self.training))
        return words

    def _read(self, output: Tensor) -> Tensor:
        return dropout(torch.tanh(self.readout(output)), self.config.dropout, self.training)


def _fit(cell: str, input_width: int, width: int) -> tuple[nn.Module, int]:
    """A layer that brings the input to a width that the cell accepts, and that width."""
    if cell in ADDS_INPUT and input_width != width:
        return nn.Linear(input_width, width), width
    return nn.Identity(), input_width

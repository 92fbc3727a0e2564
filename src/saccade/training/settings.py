"""How a model is trained: the ``[training]`` table of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from saccade.models import Config

__all__ = ["TrainingSettings"]


class TrainingSettings(Config):
    """Every key with its meaning; ``saccade new`` writes the same as comments into a recipe."""

    steps: int = Field(2000, ge=1)  # updates; fixed, never scheduled by the clock
    batch_tokens: int = Field(4096, ge=1)  # padded tokens in a batch, on the longer side
    accumulate: int = Field(1, ge=1)  # batches that share one update
    lr: float = Field(1e-3, gt=0)  # the highest learning rate
    schedule: Literal["inverse_sqrt", "cosine", "constant"] = "cosine"  # of the rate, after the warm-up
    lr_end: float = Field(0.0, ge=0, le=1)  # share of lr that the schedule falls towards
    warmup: int = Field(200, ge=0)  # updates until lr is reached
    weight_decay: float = Field(0.0, ge=0)  # of matrices; never of biases and norms
    beta1: float = Field(0.9, ge=0, lt=1)  # of AdamW: how slowly the mean of gradients moves
    beta2: float = Field(0.98, ge=0, lt=1)  # and that of their squares
    clip: float = Field(1.0, ge=0)  # largest norm of the gradient; 0 does not clip
    label_smoothing: float = Field(0.1, ge=0, lt=1)  # share of the target given to all other tokens
    guided_alignment: float = Field(0.0, ge=0)  # weight of a loss that draws attention towards gold links
    precision: Literal["fp32", "bf16"] = "fp32"  # of matrix products; weights are always fp32
    validate_every: int = Field(500, ge=1)  # updates between validations; each also saves a checkpoint
    validation_sentences: int = Field(500, ge=1)  # translated at a validation; the loss is on all
    patience: int = Field(0, ge=0)  # validations without a better score before stopping; 0 never stops early
    final: Literal["last", "best", "average", "ema"] = "best"  # which weights become the model
    average: int = Field(5, ge=1)  # last validations whose weights are averaged, with final = "average"
    ema: float = Field(0.999, gt=0, lt=1)  # share of the old in the moving average, with final = "ema"
    keep: int = Field(3, ge=1)  # checkpoints kept
    log_every: int = Field(50, ge=1)  # updates between lines of metrics.jsonl
    tensorboard: bool = False  # also write event files for TensorBoard, an extra package
    seed: int = Field(1, ge=0, lt=2**32)  # of weights, order and dropout

    @model_validator(mode="after")
    def _consistent(self) -> TrainingSettings:
        if self.warmup >= self.steps:
            raise ValueError(f"warmup = {self.warmup} leaves nothing of {self.steps} steps")
        return self

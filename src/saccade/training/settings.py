"""How a model is trained: the ``[training]`` table of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from saccade.models import Config

__all__ = ["TrainingSettings"]


class TrainingSettings(Config):
    """How the model is trained."""

    steps: int = Field(2000, ge=1, description="Updates; a fixed number, independent of the clock")
    batch_tokens: int = Field(4096, ge=1, description="Tokens in a batch, padding included, on the longer side")
    accumulate: int = Field(1, ge=1, description="Batches that share one update")
    lr: float = Field(1e-3, gt=0, description="Highest learning rate")
    schedule: Literal["inverse_sqrt", "cosine", "constant"] = Field(
        "cosine", description="How the learning rate falls after the warm-up: inverse_sqrt, cosine or constant"
    )
    lr_end: float = Field(0.0, ge=0, le=1, description="Share of lr that the schedule falls to")
    warmup: int = Field(200, ge=0, description="Updates until lr is reached")
    weight_decay: float = Field(0.0, ge=0, description="Weight decay of matrices; biases and norms are never decayed")
    beta1: float = Field(0.9, ge=0, lt=1, description="AdamW: how slowly the mean gradient changes")
    beta2: float = Field(0.98, ge=0, lt=1, description="AdamW: how slowly the mean squared gradient changes")
    clip: float = Field(1.0, ge=0, description="Largest norm of the gradient; 0 does not clip")
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="Share of the target probability spread over all other tokens"
    )
    guided_alignment: float = Field(
        0.0, ge=0, description="Weight of a loss that draws attention towards gold alignments"
    )
    precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="Precision of matrix products: fp32 or bf16; weights are always fp32"
    )
    validate_every: int = Field(500, ge=1, description="Updates between validations; each also saves a checkpoint")
    validation_sentences: int = Field(
        500,
        ge=1,
        description="Examples that each validation scores, drawn once, if scoring takes a search",
    )
    patience: int = Field(
        0, ge=0, description="Validations without a better score before stopping early; 0 never stops early"
    )
    final: Literal["last", "best", "average", "ema"] = Field(
        "best", description="Which weights become the model: last, best, average or ema"
    )
    average: int = Field(5, ge=1, description='Last validations whose weights are averaged, with final = "average"')
    ema: float = Field(
        0.999, gt=0, lt=1, description='Share of the old weights in the moving average, with final = "ema"'
    )
    keep: int = Field(3, ge=1, description="Checkpoints kept")
    log_every: int = Field(50, ge=1, description="Updates between lines of metrics.jsonl")
    tensorboard: bool = Field(False, description="Also write event files for TensorBoard, which needs an extra package")
    seed: int = Field(1, ge=0, lt=2**32, description="Random seed for weights, order and dropout")

    @model_validator(mode="after")
    def _consistent(self) -> TrainingSettings:
        if self.warmup >= self.steps:
            raise ValueError(f"warmup = {self.warmup} leaves nothing of {self.steps} steps")
        return self

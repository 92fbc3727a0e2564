"""How a model is trained: what the ``[training]`` tables of all tasks share.

Each task has its own table, a subclass of ``TrainingSettings``, with the settings of its loss, the unit that limits its
batches, and how many examples a validation decodes, if it decodes any.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from saccade.errors import OptionError
from saccade.models import Config

__all__ = ["ImageTraining", "SearchTraining", "TextTraining", "TrainingSettings"]

#: Keys of earlier versions, and their names now.
RENAMED = {"validation_sentences": "validation_sample"}
#: Keys that only some tasks have, and the key to use instead in other tasks.
REPLACEMENTS = {
    **RENAMED,
    "validation_sample": None,
    "batch_tokens": "batch_images",
    "batch_images": "batch_tokens",
    "label_smoothing": None,
    "guided_alignment": None,
    "truncate": None,
}


class TrainingSettings(Config):
    """How the model is trained."""

    #: The key that limits the size of a batch, in the task's unit of length.
    batch_key: ClassVar[str]

    steps: int = Field(2000, ge=1, description="Updates; a fixed number, independent of the clock")
    minutes: float | None = Field(
        None, gt=0, description="Stop after this many minutes, even if updates are left, and keep the best model"
    )
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
    precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="Precision of matrix products: fp32 or bf16; weights are always fp32"
    )
    validate_every: int = Field(500, ge=1, description="Updates between validations; each also saves a checkpoint")
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
            raise ValueError(f"warmup = {self.warmup} must be less than steps = {self.steps}")
        return self

    @classmethod
    def read(cls, values: dict[str, Any], where: str) -> Self:
        """Read a table; for a key of another task, the error says what to use instead."""
        for key in values:
            if key in REPLACEMENTS and key not in cls.model_fields:
                instead = REPLACEMENTS[key] if REPLACEMENTS[key] in cls.model_fields else None
                if key in RENAMED and instead is not None:
                    raise OptionError(f"{where}: {key} is now {instead}.")
                advice = "leave it out" if instead is None else f"use {instead}"
                raise OptionError(f"{where}: {key} does not apply to this task; {advice}.")
        return super().read(values, where)

    @property
    def batch_size(self) -> int:
        """The largest padded size of a batch, in the task's unit."""
        size: int = getattr(self, self.batch_key)
        return size


class TextTraining(TrainingSettings):
    """How the model is trained; a batch is counted in tokens."""

    batch_key = "batch_tokens"

    batch_tokens: int = Field(4096, ge=1, description="Tokens in a batch, padding included, on the longer side")
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Share of the target probability spread over all other tokens or labels"
    )


class SearchTraining(TextTraining):
    """How the model is trained; a validation writes texts, which is slow, so it takes a sample."""

    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="Share of the target probability spread over all other tokens"
    )
    validation_sample: int = Field(500, ge=1, description="Examples that each validation scores, drawn once")


class ImageTraining(TrainingSettings):
    """How the model is trained; a batch is counted in images."""

    batch_key = "batch_images"

    batch_images: int = Field(64, ge=1, description="Images in a batch")

"""The settings that the ``[training]`` tables of all tasks share.

Each task has its own table, a subclass of ``TrainingSettings``, which adds the settings of its loss, the unit in which
its batches are measured, and for tasks whose validation is slow, the number of examples that it scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, cast

from pydantic import Field, model_validator

from saccade.errors import OptionError
from saccade.models import Config
from saccade.models.low_rank import PROJECTIONS, Projection
from saccade.tasks.registry import TASKS

__all__ = ["ImageTraining", "SearchTraining", "TextTraining", "TrainingSettings"]


class TrainingSettings(Config):
    """How the model is trained."""

    #: The key that sets the size of a batch: ``batch_`` and what it counts, such as tokens.
    batch_key: ClassVar[str]
    #: Keys that earlier versions used, and their current names.
    renamed: ClassVar[Mapping[str, str]] = {}

    steps: int = Field(2000, ge=1, description="Number of updates")
    minutes: float | None = Field(
        None,
        gt=0,
        description="Stop after this many minutes, even if not all updates are done, and keep the best model",
    )
    threads: int | None = Field(
        None, ge=1, description="Maximum number of processor threads to train with; by default, one for each core"
    )
    accumulate: int = Field(1, ge=1, description="Number of batches whose gradients are added up for one update")
    lr: float = Field(1e-3, gt=0, description="Highest learning rate")
    schedule: Literal["inverse_sqrt", "cosine", "constant"] = Field(
        "cosine", description="How the learning rate falls after the warm-up: inverse_sqrt, cosine or constant"
    )
    lr_end: float = Field(0.0, ge=0, le=1, description="Final learning rate, as a fraction of lr")
    warmup: int = Field(200, ge=0, description="Number of updates over which the learning rate rises to lr")
    weight_decay: float = Field(0.0, ge=0, description="Weight decay of matrices; biases and norms are never decayed")
    beta1: float = Field(0.9, ge=0, lt=1, description="AdamW: decay of the mean gradient")
    beta2: float = Field(0.98, ge=0, lt=1, description="AdamW: decay of the mean squared gradient")
    frozen: tuple[str, ...] = Field(
        (), description='Parts whose weights are not trained, by name, such as "input" or "encoder.0"'
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Learning rate of each block, as a fraction of the rate of the block above it; the embeddings "
        "have the lowest rate",
    )
    lora_rank: int = Field(
        0,
        ge=0,
        description="LoRA: if above 0, keep the weights of the --init model fixed and train added matrices "
        "of this rank",
    )
    lora_on: tuple[Projection, ...] = Field(
        PROJECTIONS,
        description="LoRA: the layers to add matrices to: query, key_value, output, inner and outer (feed-forward)",
    )
    lora_saved: Literal["merged", "apart"] = Field(
        "merged", description="LoRA: merge the matrices into the weights of the saved model, or save them separately"
    )
    clip: float = Field(1.0, ge=0, description="Clip the gradient to this norm; 0 never clips")
    precision: Literal["fp32", "bf16"] = Field(
        "fp32", description="Precision of matrix products: fp32 or bf16; weights are always fp32"
    )
    validate_every: int = Field(
        500, ge=1, description="Updates between validations; each validation also saves a checkpoint"
    )
    patience: int = Field(
        0, ge=0, description="Stop after this many validations without a better score; 0 never stops early"
    )
    final: Literal["last", "best", "average", "ema"] = Field(
        "best", description="Which weights are saved as the model: last, best, average or ema (moving average)"
    )
    average: int = Field(
        5, ge=1, description='With final = "average": number of the latest validations whose weights are averaged'
    )
    ema: float = Field(
        0.999, gt=0, lt=1, description='With final = "ema": how much of the old average each update keeps'
    )
    keep: int = Field(3, ge=1, description="Number of checkpoints to keep")
    log_every: int = Field(50, ge=1, description="Updates between lines in metrics.jsonl")
    tensorboard: bool = Field(
        False, description="Also write event files for TensorBoard (install saccade[tensorboard])"
    )
    seed: int = Field(1, ge=0, lt=2**32, description="Random seed for weights, order and dropout")

    @model_validator(mode="after")
    def _check_warmup(self) -> TrainingSettings:
        if self.warmup >= self.steps:
            raise ValueError(f"warmup = {self.warmup} must be less than steps = {self.steps}")
        return self

    @classmethod
    def read(cls, values: dict[str, Any], where: str) -> Self:
        """Read a table. The error for a key that only other tasks have says what to use instead."""
        for key in values.keys() - cls.model_fields.keys():
            if key in cls.renamed:
                raise OptionError(f"{where}: {key} is now called {cls.renamed[key]}.")
            tables = [cast(type[TrainingSettings], entry.task.tables["training"]) for entry in TASKS.values()]
            if any(key in (*table.model_fields, *table.renamed) for table in tables):
                advice = f"use {cls.batch_key}" if key.startswith("batch_") else "leave it out"
                raise OptionError(f"{where}: {key} does not apply to this task; {advice}.")
        return super().read(values, where)

    @property
    def batch_size(self) -> int:
        """The maximum size of a batch, padding included, in tokens, images or whatever else the task counts."""
        size: int = getattr(self, self.batch_key)
        return size


class TextTraining(TrainingSettings):
    """How the model is trained; the size of a batch is in tokens."""

    batch_key = "batch_tokens"

    batch_tokens: int = Field(
        4096,
        ge=1,
        description="Maximum number of tokens in a batch, including padding; for pairs, the longer side counts",
    )
    label_smoothing: float = Field(
        0.0, ge=0, lt=1, description="Fraction of the target probability spread over all other tokens or labels"
    )


class SearchTraining(TextTraining):
    """How the model is trained; generating texts is slow, so validation uses only a sample."""

    renamed: ClassVar[Mapping[str, str]] = {"validation_sentences": "validation_sample"}

    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="Fraction of the target probability spread over all other tokens"
    )
    validation_sample: int = Field(
        500, ge=1, description="Number of examples that each validation scores; they are always the same"
    )


class ImageTraining(TrainingSettings):
    """How the model is trained; the batch size is counted in images."""

    batch_key = "batch_images"

    batch_images: int = Field(64, ge=1, description="Number of images in a batch")

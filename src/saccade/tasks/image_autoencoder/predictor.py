"""Reconstruct images with a trained autoencoder, and find the training images that are most similar to each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from saccade.attention import watch
from saccade.errors import OptionError
from saccade.lens.view import View, view
from saccade.models.autoencoder import PatchAutoencoder
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.image_input import ImageInputPredictor, InputImage
from saccade.tasks.base.image_task import patch_names, token_names
from saccade.tasks.base.neighbours import NeighbourOptions
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.image_autoencoder.answer import ImageAutoencoderAnswer
from saccade.tasks.image_autoencoder.task import ImageAutoencoder

__all__ = ["ImageAutoencoderPredictor"]


class ImageAutoencoderPredictor(ImageInputPredictor):
    """An opened image autoencoder."""

    options = NeighbourOptions
    task: ImageAutoencoder

    @property
    def plural(self) -> str:
        return "image autoencoders"

    @torch.inference_mode()
    def answer(
        self, inputs: Sequence[InputImage], options: NeighbourOptions, now: Snapshot
    ) -> list[ImageAutoencoderAnswer]:
        patches = self.model.config if isinstance(self.model, PatchAutoencoder) else None
        pixels = [image.pixels for image in inputs]
        reconstructions, codes = self.task.reconstruct(self.model, pixels), self.task.codes(self.model, pixels)
        answers = []
        for image, reconstructed, code in zip(inputs, reconstructions, codes, strict=True):
            error = float(np.square((image.pixels.astype(np.float64) - reconstructed) / 255).mean())
            answers.append(
                ImageAutoencoderAnswer(
                    f"{image.where} reconstructed, mean squared error {error:.4f}",
                    -error,
                    code.tolist(),
                    self.task.state.index.nearest(code, options.neighbours),
                    now.later(self._view, image),
                    image,
                    reconstructed,
                    patches,
                )
            )
        return answers

    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        raise OptionError("The pixels of a reconstructed image have no probabilities; compare its score instead.")

    def view_of(self, given: Any, answer: Answer) -> View:
        return self._view(self.prepare(given))

    @torch.inference_mode()
    def _view(self, image: InputImage) -> View:
        if not isinstance(self.model, PatchAutoencoder):
            raise OptionError(
                'This model has no attention, so there is nothing to view; models with kind = "patches" have attention.'
            )
        with watch(self.model) as seen:
            self.model(self.task.state.normalise([image.pixels]).to(self.device))
        config = self.model.config
        return view(seen, patch_names(config), source_tokens=token_names(config))

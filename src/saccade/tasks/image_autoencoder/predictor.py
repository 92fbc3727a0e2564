"""An autoencoder that answers: a reconstructed image, its code vector, and its nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from saccade.attention import watch
from saccade.errors import OptionError
from saccade.lens.view import View, view
from saccade.models.autoencoder import PatchAutoencoder
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.image_input import GivenImage, ImageInputPredictor
from saccade.tasks.base.neighbours import NeighbourOptions
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.image_autoencoder.answer import ImageAutoencoderAnswer
from saccade.tasks.image_autoencoder.task import ImageAutoencoder
from saccade.tasks.images.task import CLASS_TOKEN, as_tensor, patch_names

__all__ = ["ImageAutoencoderPredictor"]

#: How many images are reconstructed between two progress reports.
PIECE = 250


class ImageAutoencoderPredictor(ImageInputPredictor):
    """An opened image autoencoder."""

    options = NeighbourOptions
    task: ImageAutoencoder

    @property
    def plural(self) -> str:
        return "image autoencoders"

    @torch.inference_mode()
    def _predict(
        self, inputs: Sequence[Any], *, progress: Callable[[int], None] | None = None, **options: Any
    ) -> list[ImageAutoencoderAnswer]:
        """The reconstruction of each image; ``neighbours`` says how many training images are shown with it."""
        count, kept, now = self.chosen(options).neighbours, self.task.state.kept, Snapshot(self)
        patches = self.model.config if isinstance(self.model, PatchAutoencoder) else None
        answers: list[ImageAutoencoderAnswer] = []
        for start in range(0, len(inputs), PIECE):
            images = [self.given(one) for one in inputs[start : start + PIECE]]
            pixels = [image.pixels for image in images]
            again, codes = self.task.rebuilt(self.model, pixels), self.task.codes(self.model, pixels)
            for image, rebuilt, code in zip(images, again, codes, strict=True):
                error = float(np.square((image.pixels.astype(np.float64) - rebuilt) / 255).mean())
                answers.append(
                    ImageAutoencoderAnswer(
                        f"{image.where} reconstructed, mean squared error {error:.4f}",
                        -error,
                        code.tolist(),
                        [] if kept is None or not count else kept.nearest(code, count),
                        now.later(self._look, image),
                        image,
                        rebuilt,
                        patches,
                    )
                )
            if progress is not None:
                progress(len(answers))
        return answers

    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        raise OptionError("A reconstructed image consists of numbers without probabilities; compare its error instead.")

    def view_of(self, given: Any, answer: Answer) -> View:
        return self._look(self.given(given))

    @torch.inference_mode()
    def _look(self, image: GivenImage) -> View:
        if not isinstance(self.model, PatchAutoencoder):
            raise OptionError(
                'This model has no attention, so there is nothing to view; models with kind = "patches" have attention.'
            )
        with watch(self.model) as seen:
            self.model(as_tensor([image.pixels], self.task.state.pixels).to(self.device))
        config = self.model.config
        patches = patch_names(config)
        return view(seen, patches, source_tokens=[*([CLASS_TOKEN] if config.pooling == "class" else []), *patches])

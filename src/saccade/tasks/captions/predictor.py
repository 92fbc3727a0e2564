"""Describe images with a trained model: ``saccade.open("run/").predict(["picture.png"])``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch

from saccade.data.captions import IN_ORDER, find_picture
from saccade.data.images import Pixels, image_suffix
from saccade.data.inputs import read_column, suffix_of
from saccade.data.lines import suffix
from saccade.data.paths import column
from saccade.data.picture_folders import PICTURES
from saccade.data.tables import TABLES, Column, table_format
from saccade.errors import OptionError
from saccade.lens.view import View
from saccade.models import Targets
from saccade.models.captioner import CaptionerConfig
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.cost import MOST_OUTPUTS, MOST_TOKENS, Cost
from saccade.tasks.base.image_input import ImageInputPredictor, InputImage
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.search import likeliest_tokens
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.captions.answer import CaptionsAnswer
from saccade.tasks.captions.data import CaptionData, CaptionsFiles
from saccade.tasks.captions.task import AT_ONCE, CaptionOptions, EncodedCaption, view_caption

__all__ = ["CaptionsPredictor"]

FOR_TABLES = "--columns, --encoding and --separator say how to read a table, and"


class CaptionsPredictor(ImageInputPredictor):
    """An opened model that describes images in words."""

    options = CaptionOptions
    ceilings: ClassVar = {"beam": MOST_OUTPUTS, "n_best": MOST_OUTPUTS, "max_length": MOST_TOKENS}
    at_once = AT_ONCE

    @property
    def plural(self) -> str:
        return "captioning models"

    def read_otherwise(
        self,
        columns: str | None = None,
        encoding: str | None = None,
        lines: bool = False,
        separator: str | None = None,
    ) -> None:
        Predictor.read_otherwise(self, columns, encoding, lines, separator)  # the inputs may be in tables

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        """Read the pictures that a table names, as in training; it need not have captions. Or read other images."""
        is_table = not path.is_dir() and path.suffix.lower() not in (*PICTURES, ".npz") and table_format(path) in TABLES
        if is_table:
            return self._read_table(path, path.parent)
        if self.reads_otherwise:
            raise OptionError(f"{FOR_TABLES} {path} is not a .tsv, .csv or .jsonl file.")
        return super().read_file(path)

    def read_unnamed(self, path: Path) -> tuple[list[Any], str]:
        """Read a table, a file of images, or one image name per line. Paths are relative to the current folder."""
        if image_suffix(path) is not None:
            return super().read_unnamed(path)
        how = self.read_as
        trained = suffix(str(self.bundle.data.get("table") or ""))
        kind = suffix_of(
            path,
            trained,
            self._columns,
            IN_ORDER,
            chosen=self.chose_columns,
            encoding=how.get("encoding"),
            separator=how.get("separator"),
        )
        path = path.rename(path.with_suffix(kind))
        if table_format(path) in TABLES:
            return self._read_table(path, Path())
        if self.reads_otherwise:
            raise OptionError(f"{FOR_TABLES} this is not recognised as one; give the name of a file.")
        return super().read_unnamed(path)

    def _read_table(self, path: Path, folder: Path) -> tuple[list[Any], str]:
        how = self.read_as
        rows, said = read_column(
            path,
            self._columns,
            in_order=IN_ORDER,
            encoding=how.get("encoding"),
            separator=how.get("separator"),
            is_chosen=self.chose_columns,
        )
        columns = " and ".join(map(str, self._columns))
        files = [find_picture(folder, name, f"{path}, line {line}", columns) for line, name in rows]
        found, fitted = self.read_pictures(files)
        return found, "; ".join((f"{fitted}, from column {self._columns[0]}", *said))

    @property
    def _columns(self) -> list[Column]:
        """The columns of images and, unless other columns were chosen for this file, of captions."""
        given = (self.read_as["image_column"], self.read_as["text_column"])
        return [column(one) for one in given if one is not None]

    def cost(self, given: Any, options: CaptionOptions) -> Cost:
        return Cost.of(self.count_tokens(given), options.max_length, options.beam)

    def answer(self, inputs: Sequence[InputImage], options: CaptionOptions, now: Snapshot) -> list[CaptionsAnswer]:
        """Return the best caption for each image, with the other captions that beam search found as its
        ``alternatives``."""
        tokenizer = self.task.state.tokenizer
        config = self.model.config if isinstance(self.model.config, CaptionerConfig) else None
        answers = []
        for image, hypotheses in zip(
            inputs, self.task.describe(self.model, [image.pixels for image in inputs], options), strict=True
        ):
            best, *others = (
                CaptionsAnswer(
                    image,
                    tokenizer.decode(found.tokens),
                    found.score,
                    found.log_probability,
                    tokenizer.tokens(found.tokens),
                    found.finished,
                    found.tokens,
                    config,
                    None if config is None else now.later(self._view, image, found.tokens),
                )
                for found in hypotheses
            )
            best.alternatives.extend(others)
            answers.append(best)
        return answers

    def builtin_images(self) -> Sequence[Pixels]:
        """Return the test images of ``recipes/digit-captions.toml``; they do not depend on the number of training
        images."""
        return [pair.pixels for pair in CaptionsFiles.read_for_scoring(CaptionData(builtin="digits", count=100))]

    @torch.inference_mode()
    def token_scores(self, given: Any, answer: Answer) -> list[float]:
        assert isinstance(answer, CaptionsAnswer)
        batch = self.task.plain_batch([EncodedCaption(self.prepare(given).pixels, answer.ids, "", 1)]).to(self.device)
        losses = self.model(batch.images, batch.read, targets=Targets(batch.predicted[0], summed=False))
        scores: list[float] = (-losses).tolist()
        return scores if answer.finished else scores[:-1]

    @torch.inference_mode()
    def likeliest(self, given: Any, answer: Answer, number: int) -> list[list[tuple[str, float]]]:
        assert isinstance(answer, CaptionsAnswer)
        batch = self.task.plain_batch([EncodedCaption(self.prepare(given).pixels, answer.ids, "", 1)]).to(self.device)
        logits = self.model(batch.images, batch.read)[0, : len(answer.scored_tokens)]
        return likeliest_tokens(logits, number, self.task.state.tokenizer)

    def view_of(self, given: Any, answer: Answer) -> View:
        assert isinstance(answer, CaptionsAnswer)
        return self._view(self.prepare(given), answer.ids)

    def _view(self, image: InputImage, ids: list[int]) -> View:
        return view_caption(self.model, self.task, image.pixels, ids)

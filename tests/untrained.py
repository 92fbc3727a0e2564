"""Model folders of every task with weights that nothing was learned by: enough to be asked over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from saccade.data.labelled import LabelledText
from saccade.data.structures import UNPAIRED
from saccade.data.tagged import TaggedSentence
from saccade.models.sentence_encoder import SentenceConfig
from saccade.tasks.base.model_folder import open_model, read_bundle, write_bundle
from saccade.tasks.base.neighbours import NeighbourOptions
from saccade.tasks.base.predictor import NoOptions, Predictor
from saccade.tasks.base.search import SearchOptions
from saccade.tasks.base.task import Bundle, Task
from saccade.tasks.base_pairs.task import BasePairs, BasePairsState, FoldingOptions
from saccade.tasks.captions.task import CaptionOptions, Captions, CaptionsState
from saccade.tasks.classification.task import Classification, ClassificationState, ClassificationText
from saccade.tasks.image_autoencoder.task import ImageAutoencoder, ImageAutoencoderState
from saccade.tasks.images.task import Images, ImagesState
from saccade.tasks.language_model.generation import GenerationOptions
from saccade.tasks.language_model.task import LanguageModel, LanguageModelState
from saccade.tasks.masked.predictor import FillOptions
from saccade.tasks.masked.task import MaskedLanguageModel, MaskedLanguageModelState
from saccade.tasks.similarity.predictor import SimilarityPredictor
from saccade.tasks.similarity.task import Similarity, SimilarityState
from saccade.tasks.tagging.task import Tagging, TaggingState
from saccade.tasks.tagging.word_ids import TaggingText
from saccade.tasks.text_autoencoder.task import TextAutoencoder, TextAutoencoderState
from saccade.tasks.trajectories.task import SamplingOptions, Trajectories, TrajectoriesState
from saccade.tasks.translation.task import Translation, TranslationState
from saccade.text import Tokenizer
from toy_language import toy_pairs

SIZES = {"width": 12, "num_heads": 2, "encoder_layers": 2, "decoder_layers": 2, "feedforward_width": 20}
LANGUAGES = '[data]\nsource_language = "{}"\ntarget_language = "{}"\n'
PAIRS = toy_pairs(60, seed=3)
ENGLISH, FRENCH = ([pair[side] for pair in PAIRS] for side in (0, 1))


def write_untrained(
    folder: Path, task: Task, options: Any, *, recipe: str = "", kind: str = "transformer", **fields: Any
) -> Path:
    """A folder of a network for this task."""
    torch.manual_seed(3)
    known = task.networks[kind].config
    config = known.read({key: SIZES[key] for key in SIZES if key in known.used_fields()} | fields, "the model")
    bundle = Bundle(task, kind, config, task.build(kind, config).eval(), options)
    write_bundle(folder, bundle, recipe=f'task = "{task.name}"\n{recipe}', readme="")
    return folder


def with_languages(run: Path, folder: Path, source: str, target: str) -> Path:
    """The model of a run again, with a recipe that names its languages."""
    write_bundle(folder, read_bundle(run), recipe=LANGUAGES.format(source, target), readme="")
    return folder


def translator(folder: Path) -> Path:
    """From French to English, with a vocabulary for each."""
    task = Translation(TranslationState(Tokenizer.train(FRENCH, "word"), Tokenizer.train(ENGLISH, "word")))
    return write_untrained(folder, task, SearchOptions(), recipe=LANGUAGES.format("fr", "en"))


def writer(folder: Path, **fields: Any) -> Path:
    task = LanguageModel(LanguageModelState(Tokenizer.train(ENGLISH, "character"), 32, separated=True))
    return write_untrained(folder, task, GenerationOptions(), **{"position": "rotary"} | fields)


def filler(folder: Path) -> Path:
    task = MaskedLanguageModel(MaskedLanguageModelState(Tokenizer.train(ENGLISH, "word"), 32))
    return write_untrained(folder, task, FillOptions(), position="alibi")


def tagger(folder: Path, **fields: Any) -> Path:
    sentences = [
        TaggedSentence(
            tuple(text.rstrip(".").split()), tuple("AB"[len(word) % 2] for word in text.split()), (1,), "toy"
        )
        for text in ENGLISH
    ]
    task = Tagging(TaggingState.prepare({"text": TaggingText(pieces=300)}, sentences))
    return write_untrained(folder, task, NoOptions(), **fields)


def sorter(folder: Path, pooling: str = "attention", kind: str = "transformer") -> Path:
    settings = {"text": ClassificationText(min_frequency=1)}
    texts = [LabelledText(text, ("good", "bad")[number % 2], number, "toy") for number, text in enumerate(ENGLISH)]
    task = Classification(ClassificationState.prepare(settings, texts))
    return write_untrained(folder, task, NoOptions(), kind=kind, pooling=pooling)


def image_classifier(folder: Path) -> Path:
    """With its data beside it, of which samples are offered."""
    data = folder.with_suffix(".npz")
    np.savez(data, images=np.arange(20 * 8 * 6).astype(np.uint8).reshape(20, 8, 6), labels=[*("round", "square")] * 10)
    task = Images(ImagesState(["round", "square"], (8, 6, 1), (0.5, 0.3)))
    recipe = f'[data]\nimages = "{data}"\n'
    return write_untrained(folder, task, NoOptions(), recipe=recipe, image_size=[8, 6], patch=2)


def captioner(folder: Path) -> Path:
    task = Captions(CaptionsState(Tokenizer.train(ENGLISH, "word"), (8, 6, 1), (0.5, 0.3)))
    return write_untrained(folder, task, CaptionOptions(), image_size=[8, 6], patch=2)


def text_rebuilder(folder: Path) -> Path:
    task = TextAutoencoder(TextAutoencoderState(Tokenizer.train(ENGLISH, "word")))
    return write_untrained(folder, task, NeighbourOptions(), code_width=5)


def image_rebuilder(folder: Path) -> Path:
    task = ImageAutoencoder(ImageAutoencoderState((8, 6, 1), (0.5, 0.3)))
    return write_untrained(folder, task, NeighbourOptions(), kind="patches", image_size=[8, 6], patch=2, code_width=5)


def forecaster(folder: Path) -> Path:
    """It observes 3 moments of the paths in a scene and predicts 2."""
    return write_untrained(
        folder, Trajectories(TrajectoriesState(1.5, 3, 2)), SamplingOptions(samples=2), kind="agents"
    )


def rna_folder(folder: Path) -> Path:
    task = BasePairs(BasePairsState((("GGAAACC", (6, 5, UNPAIRED, UNPAIRED, UNPAIRED, 1, 0)),)))
    return write_untrained(folder, task, FoldingOptions(), kind="pairs", pair_width=6, layers=1)


def comparer() -> Predictor:
    """No folder of ours has such a model: it comes from another library."""
    task = Similarity(SimilarityState(Tokenizer.train(ENGLISH, "word")))
    config = SentenceConfig(width=12, num_heads=2, encoder_layers=2, feedforward_width=20)
    return SimilarityPredictor(Bundle(task, "transformer", config, task.build("transformer", config), NoOptions()))


#: For every task that has model folders, how to make one, and an input.
EVERY_TASK: dict[str, tuple[Callable[[Path], Path], Any]] = {
    "translation": (translator, "le chat voit le chien."),
    "tagging": (tagger, "the black cat sees the dog."),
    "classification": (sorter, "the black cat sees the dog."),
    "language-model": (writer, "the cat"),
    "masked-language-model": (filler, "the [MASK] sees the dog."),
    "images": (image_classifier, np.arange(48, dtype=np.uint8).reshape(8, 6)),
    "captions": (captioner, np.arange(48, dtype=np.uint8).reshape(8, 6)),
    "text-autoencoder": (text_rebuilder, "the black cat sees the dog."),
    "image-autoencoder": (image_rebuilder, np.arange(48, dtype=np.uint8).reshape(8, 6)),
    "trajectories": (forecaster, [[moment, agent, 0.5 * moment, agent] for moment in range(3) for agent in (1, 2)]),
    "base-pairs": (rna_folder, "GGGAAAACCC"),
}


def open_untrained(task: str, folder: Path) -> tuple[Predictor, Any]:
    """A predictor for a task, and an input."""
    if task == "sentence-similarity":
        return comparer(), ["the cat", "the dog"]
    make, given = EVERY_TASK[task]
    return open_model(make(folder)), given

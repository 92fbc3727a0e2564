"""ONNX Runtime as an engine: the answers of torch, and attention from the same network to the last bit."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from typer.testing import CliRunner

import saccade
import untrained
from saccade.attention.weights import resolve_weights
from saccade.cli.main import app
from saccade.data.labelled import LabelledText
from saccade.data.tagged import TaggedSentence
from saccade.errors import OptionError, PositionError, StaleTraceError
from saccade.models.classifier import Classifier, TransformerClassifierConfig
from saccade.models.tagger import Tagger, TransformerTaggerConfig
from saccade.pretrained.onnx import run_graph
from saccade.serving.batching import Batcher
from saccade.serving.limits import Limits
from saccade.tasks.base import encoder_engine
from saccade.tasks.base.encoder_engine import EncoderEngine, open_encoder
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.snapshot import only_checks
from saccade.tasks.classification.answer import ClassificationAnswer
from saccade.tasks.tagging.answer import TaggingAnswer
from saccade.tasks.tagging.predictor import TaggingPredictor

TEXTS = ["the black cat sees the dog.", "dog", "the", "the cat the dog the cat sees the black dog.", "zebra!"]


def scores(predictor: Predictor, inputs: list[Any]) -> list[list[float]]:
    """All numbers of the answers: probabilities, or vectors and their similarity."""
    found = []
    for answer in predictor.predict(inputs):
        rows = answer.every.tolist() if isinstance(answer, TaggingAnswer) else getattr(answer, "vectors", ())
        each = answer.probabilities.values() if isinstance(answer, ClassificationAnswer) else ()
        found.append([answer.score or 0.0, *each, *(number for row in rows for number in row)])
    return found


def with_engine(predictor: Predictor) -> Predictor:
    engine = type(predictor).open_engine("onnx", predictor.bundle, "cpu", "fp32", 1)
    return type(predictor)(predictor.bundle, engine=engine)


#: Folders of models that attend, and how each is made.
MODELS: dict[str, Callable[[Path], Path]] = {
    "classifier": untrained.sorter,
    "tagger of words": partial(untrained.tagger, spelling="convolution"),
    "tagger of pieces": partial(untrained.tagger, unit="pieces"),
}


@pytest.fixture(scope="module", params=MODELS)
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Predictor, Predictor]:
    """A model, opened with torch and with ONNX Runtime. Writing the graph takes seconds."""
    folder = MODELS[request.param](tmp_path_factory.mktemp("models") / "model")
    return saccade.open(folder), saccade.open(folder, engine="onnx")


def assert_same_answers(ours: Predictor, theirs: Predictor) -> None:
    for inputs in (TEXTS, TEXTS[:1], [*TEXTS, ""]):
        torch.testing.assert_close(scores(theirs, inputs), scores(ours, inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "most"), [("LONGEST", 512), ("LONGEST", 4), ("WORDS_AT_ONCE", 1)])
def test_the_answers_are_the_same(
    both: tuple[Predictor, Predictor], name: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder_engine, name, most)
    assert both[1].engine_name == "ONNX Runtime"
    assert_same_answers(*both)


def test_an_evaluation_gives_the_same_scores(
    both: tuple[Predictor, Predictor], monkeypatch: pytest.MonkeyPatch
) -> None:
    examples: list[Any] = [LabelledText(text, "good", number, "toy") for number, text in enumerate(TEXTS)]
    if isinstance(both[0], TaggingPredictor):
        sentences = [tuple(text.split()) for text in TEXTS]
        examples = [TaggedSentence(words, ("A",) * len(words), (1,), "toy") for words in sentences]
    ours = both[0].evaluate(examples).scores
    runs: list[int] = []
    monkeypatch.setattr(encoder_engine, "run_graph", lambda *given: (runs.append(1), run_graph(*given))[1])
    assert both[1].evaluate(examples).scores == pytest.approx(ours, rel=1e-4)
    assert runs


CONFIG: dict[str, Any] = {"width": 12, "num_heads": 2, "encoder_layers": 1, "feedforward_width": 20}


@pytest.fixture(scope="module")
def typed() -> tuple[Classifier, EncoderEngine]:
    """A network that reads two texts, told apart by the types of their tokens."""
    torch.manual_seed(0)
    network = Classifier(TransformerClassifierConfig(**CONFIG, token_types=2), 50, 3).eval()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return network, open_encoder(network, "cpu", "fp32")


@torch.inference_mode()
def test_tokens_and_their_types_both_count(typed: tuple[Classifier, EncoderEngine]) -> None:
    network, engine = typed
    for count, length in ((1, 1), (2, 7), (5, 30)):
        tokens = torch.randint(50, (count, length))
        lengths = torch.randint(1, length + 1, (count,))
        for types in (torch.randint(2, (count, length)), torch.zeros_like(tokens), None):
            torch.testing.assert_close(engine(tokens, lengths, types), network(tokens, lengths, types))


def tagger(**fields: Any) -> Tagger:
    torch.manual_seed(0)
    config = TransformerTaggerConfig(**CONFIG, **fields)
    features = () if config.unit == "pieces" else (3, 7)
    network = Tagger(config, words=29, pieces=23, characters=17, labels=5, features=features).eval()
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.4)
    return network


def sentences(network: Tagger, count: int, longest: int, pieces: int, frame: int) -> dict[str, Tensor]:
    """Random sentences; a word may have no pieces, and no characters."""
    lengths = torch.randint(1, longest + 1, (count,))
    lengths[0] = longest

    def ids(name: str, most: int, more: int = 0) -> Tensor:
        real = torch.arange(longest + 2 * more) < lengths[:, None] + 2 * more
        counts = torch.randint(most + 1, real.shape).where(real, 0)
        drawn = torch.randint(1, network.sizes[name], (*real.shape, most))
        return drawn.masked_fill(torch.arange(most) >= counts[..., None], 0)

    words = torch.randint(1, network.sizes["words"], (count, longest))
    words[torch.arange(longest) >= lengths[:, None]] = 0
    given = {"words": words, "pieces": ids("pieces", pieces, frame), "characters": ids("characters", 6)}
    given["pieces"][:, frame, 0] = 1  # a sentence has at least one piece
    each = [torch.randint(size, words.shape) for size in network.feature_sizes]
    return given | {"lengths": lengths} | ({"features": torch.stack(each, dim=-1)} if each else {})


@pytest.mark.parametrize(
    "fields", [{"unit": "pieces"}, {"spelling": "convolution", "piece_width": 5}], ids=["pieces", "words"]
)
@torch.inference_mode()
def test_every_input_of_a_tagger_counts(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    network = tagger(**fields, position="learned", max_length=40)
    engine = open_encoder(network, "cpu", "fp32")
    for count, longest, pieces, frame in ((1, 1, 1, 0), (1, 1, 1, 1), (2, 7, 4, 0), (5, 9, 3, 1), (3, 30, 1, 0)):
        given = sentences(network, count, longest, pieces, frame)
        real = torch.arange(longest) < given["lengths"][:, None]
        for at in (None, real):
            torch.testing.assert_close(engine(**given, at=at), network(**given, at=at), rtol=1e-4, atol=1e-4)
    with pytest.raises(PositionError, match="40 learned positions; the input needs"):
        engine(**sentences(network, 9, 80, 3, 0))
    read = ["pieces"] if network.by_pieces else ["words", "pieces", "characters", "features"]
    for name in read:
        monkeypatch.setattr(encoder_engine, "run_graph", partial(without, "tokens" if network.by_pieces else name))
        with pytest.raises(OptionError, match="does not compute what this network computes"):
            engine._check()


def without(name: str, session: Any, given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Run a graph that does not notice what one of its inputs is."""
    return run_graph(session, given | {name: given[name].clamp(max=1)})


def test_a_graph_that_computes_something_else_is_refused(
    typed: tuple[Classifier, EncoderEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_types(session: Any, given: Any) -> Any:
        return run_graph(session, given | {"tokens": given["types"]})

    monkeypatch.setattr(encoder_engine, "run_graph", as_types)
    with pytest.raises(OptionError, match="does not compute what this network computes"):
        open_encoder(typed[0], "cpu", "fp32")


def test_what_an_engine_cannot_do_the_network_does(both: tuple[Predictor, Predictor]) -> None:
    """Hooks, autocast and training mode change answers, and a watcher wants to see the attention."""
    ours, theirs = both

    def found() -> list[list[list[float]]]:
        return [scores(predictor, TEXTS) for predictor in both]

    before = found()[0]
    hooks = [
        layer.register_forward_hook(lambda module, given, output: 2 * output)
        for layer in (ours.model.encoder[0], theirs.model.encoder[0])
    ]
    with_hooks = found()
    for hook in hooks:
        hook.remove()
    assert with_hooks[0] == with_hooks[1] != before
    with torch.autocast("cpu", torch.bfloat16):
        narrow = found()
    assert narrow[0] == narrow[1] != before
    with saccade.watch(theirs.model) as seen:
        theirs.predict(TEXTS)
    assert set(seen) == set(ours.predict(TEXTS[:1])[0].view.names)
    attention = theirs.model.encoder[0].self
    attention.weights, kept = resolve_weights("sparsemax"), attention.weights
    with pytest.raises(StaleTraceError, match="The model has changed since ONNX Runtime copied it"):
        theirs.predict(TEXTS)
    attention.weights = kept
    torch.testing.assert_close(*found(), rtol=1e-4, atol=1e-5)


def test_a_copy_and_a_pickled_copy_answer_alike(typed: tuple[Classifier, EncoderEngine]) -> None:
    tokens, lengths = torch.randint(50, (2, 7)), torch.tensor([7, 3])
    for again in (copy.deepcopy(typed[1]), pickle.loads(pickle.dumps(typed[1]))):
        torch.testing.assert_close(again(tokens, lengths), typed[1](tokens, lengths))


def test_the_server_can_stop_it(both: tuple[Predictor, Predictor], monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[int] = []
    monkeypatch.setattr(Batcher, "_check_time", only_checks(lambda self, *_: checks.append(1)))
    predictor = type(both[1])(both[1].bundle, engine=both[1].engine)
    batcher = Batcher(predictor, Limits())
    try:
        predictor.predict(TEXTS)
        assert predictor.engine_name == "ONNX Runtime"
        assert checks == [1]  # the network, which has hooks of its own, did not run
    finally:
        batcher.close()


def test_other_threads_are_edited_and_watched_while_a_graph_is_written(both: tuple[Predictor, Predictor]) -> None:
    ours, theirs = both
    plain = scores(ours, TEXTS)
    with ThreadPoolExecutor(1) as threads:
        opening = threads.submit(with_engine, theirs)
        rounds = 0
        while not opening.done():
            with saccade.edit(ours.model, without_heads=["encoder.0.self:0"]), saccade.watch(ours.model) as seen:
                assert scores(ours, TEXTS) != plain
            assert list(seen)
            rounds += 1
    assert rounds > 1
    assert opening.result().engine_name == "ONNX Runtime"


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "max", "first"])
def test_every_pooling_gives_the_same_answers(pooling: str, tmp_path: Path) -> None:
    folder = untrained.sorter(tmp_path / "model", pooling=pooling)
    assert_same_answers(saccade.open(folder), saccade.open(folder, engine="onnx"))


def test_a_sentence_encoder_gives_the_same_vectors() -> None:
    ours = untrained.comparer()
    theirs = with_engine(ours)
    inputs = [["the cat", "the black dog sees"], ["dog", "cat"]]
    torch.testing.assert_close(scores(theirs, inputs), scores(ours, inputs), rtol=1e-4, atol=1e-5)


def test_the_attention_is_that_of_torch(both: tuple[Predictor, Predictor]) -> None:
    ours, theirs = (predictor.predict(TEXTS[:1])[0].view for predictor in both)
    assert ours.names == theirs.names
    for name in ours.names:
        assert torch.equal(ours.matrix(name), theirs.matrix(name))


def test_an_edit_changes_the_answer(both: tuple[Predictor, Predictor]) -> None:
    found = []
    for predictor in both:
        with saccade.edit(predictor.model, without_heads=["encoder.0.self:0", "encoder.1.self:1"]):
            found.append(scores(predictor, TEXTS))
    assert found[0] == found[1] != scores(both[0], TEXTS)


def test_weights_that_changed_are_noticed(both: tuple[Predictor, Predictor]) -> None:
    weight = next(both[1].model.parameters()).data
    before = weight.clone()
    weight.add_(1)
    with pytest.raises(StaleTraceError, match="since ONNX Runtime copied it"):
        both[1].predict(TEXTS)
    weight.copy_(before)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (untrained.filler, "--engine onnx does not apply to masked-language-model models"),
        (untrained.translator, "--engine onnx does not apply to translation models"),
        (untrained.writer, "--engine onnx does not apply to language-model models"),
        (lambda folder: untrained.sorter(folder, kind="recurrent"), "Only Transformers can be exported to ONNX"),
        (lambda folder: untrained.tagger(folder, kind="recurrent"), "Only Transformers can be exported to ONNX"),
        (untrained.tagger, "A tagger with spelling = recurrent cannot be exported to ONNX"),
    ],
)
def test_other_models_are_refused(make: Callable[[Path], Path], said: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=said):
        saccade.open(make(tmp_path / "model"), engine="onnx")


def test_what_it_cannot_do_is_refused(tmp_path: Path) -> None:
    folder = untrained.sorter(tmp_path / "model")
    with pytest.raises(OptionError, match="--engine onnx computes in fp32, not in bf16"):
        saccade.open(folder, precision="bf16", engine="onnx")
    with pytest.raises(OptionError, match="runs in one process, which uses several threads, not with 2 workers"):
        saccade.open(folder, workers=2, engine="onnx")
    with pytest.raises(OptionError, match="does not run the network Linear"):
        open_encoder(nn.Linear(2, 2), "cpu", "fp32")


@pytest.mark.slow
def test_the_command_line_says_who_computed(tmp_path: Path) -> None:
    folder = untrained.sorter(tmp_path / "model")
    found = CliRunner().invoke(app, ["predict", str(folder), TEXTS[0], "--engine", "onnx"])
    assert found.exit_code == 0, found.output
    assert "computed by ONNX Runtime" in found.stderr
    torch_says = CliRunner().invoke(app, ["predict", str(folder), TEXTS[0]])
    assert found.stdout == torch_says.stdout

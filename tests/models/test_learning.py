"""Every network learns what it should be able to learn, and fixed context less than attention; all on new examples."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from toy_tasks import (
    FIRST,
    SYMBOLS,
    TASKS,
    VOCABULARY,
    examples,
    fit,
    learn,
    real,
    shifted,
    token_accuracy,
)

import saccade
from saccade.attention import Hard
from saccade.models import (
    ConvolutionalConfig,
    ConvolutionalEncoder,
    ConvolutionalSeq2Seq,
    DecoderOnly,
    EncoderDecoder,
    EncoderOnly,
    RecurrentConfig,
    RecurrentLanguageModel,
    RecurrentSeq2Seq,
    ReinforcedLoss,
    TransformerConfig,
    VisionConfig,
    VisionTransformer,
    WholeWindow,
    WindowEncoder,
)

SEED = 0
TRANSFORMER = {"width": 32, "num_heads": 4, "feedforward_width": 64, "scaled_embedding": True}


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(SEED)


# --- sequence to sequence ---------------------------------------------------------------------------------


def transformer():
    config = TransformerConfig(**TRANSFORMER, encoder_layers=1, decoder_layers=1)
    return EncoderDecoder(config, VOCABULARY, VOCABULARY)


def recurrent(attention, weights="softmax"):
    config = RecurrentConfig(
        cell="gru_torch", width=64, embedding_width=32, attention_width=32, attention=attention, weights=weights
    )
    return RecurrentSeq2Seq(config, VOCABULARY, VOCABULARY)


def convolutional():
    config = ConvolutionalConfig(width=32, encoder_layers=2, decoder_layers=2, max_length=32, score="scaled_dot")
    return ConvolutionalSeq2Seq(config, VOCABULARY, VOCABULARY)


#: How each network is made, and for how many steps it is trained.
NETWORKS = {
    "transformer": (transformer, 300),
    "recurrent, fixed context": (lambda: recurrent("none"), 350),
    "recurrent, attention into the state": (lambda: recurrent("state"), 200),
    "recurrent, attention into the output": (lambda: recurrent("output"), 200),
    "convolutional": (convolutional, 350),
}


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=[] if task == "reverse" else pytest.mark.slow) for task in TASKS]
)
@pytest.mark.parametrize("network", NETWORKS)
def test_short_sequences_are_learned(network, task):
    make, steps = NETWORKS[network]
    model = make()
    learn(model, task, steps, 1e-2, shortest=3, longest=5, batch=32)
    assert token_accuracy(model, task, shortest=3, longest=5) >= 0.9


@pytest.mark.slow
def test_reversing_20_words_needs_attention():
    """The same cell, width and steps: with attention all is right, with one fixed vector about half."""
    accuracy = {}
    for attention in ("none", "state", "output"):
        torch.manual_seed(SEED)
        model = recurrent(attention)
        learn(model, "reverse", 500, 5e-3, shortest=20, longest=20)
        accuracy[attention] = token_accuracy(model, "reverse", shortest=20, longest=20)
    assert min(accuracy["state"], accuracy["output"]) >= 0.95
    assert accuracy["none"] <= 0.7


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("network", ["transformer", "recurrent, attention into the output", "convolutional"])
def test_long_sequences_are_learned_with_attention(network, task):
    model = NETWORKS[network][0]()
    learn(model, task, 1500, 5e-3, shortest=20, longest=20)
    assert token_accuracy(model, task, shortest=20, longest=20) >= 0.9


# --- hard attention ---------------------------------------------------------------------------------------


def pointed_right(model, length):
    """The fraction of words for which the mirrored position has all the attention, on new sequences."""
    source, lengths, answer = examples("reverse", 200, length, length)
    with torch.no_grad(), saccade.watch(model) as seen:
        model(source, lengths, shifted(answer))
    weights = seen["decoder.cross"].tile(slice(0, length), slice(None), head=0)
    return weights.flip(2).diagonal(dim1=1, dim2=2).eq(1).float().mean().item()


def test_hard_attention_learns_by_reinforcement_where_to_look():
    length, model, reinforced = 5, recurrent("output", "hard"), ReinforcedLoss()

    def batch_loss():
        source, lengths, answer = examples("reverse", 64, length, length)
        logits = model(source, lengths, shifted(answer))
        token_loss = F.cross_entropy(logits.transpose(1, 2), answer, reduction="none")
        return reinforced(token_loss, model.decoder.cross.log_probability, real(lengths, length + 1))

    fit(model, batch_loss, 400, 5e-3)
    assert token_accuracy(model, "reverse", shortest=length, longest=length) >= 0.95
    assert pointed_right(model, length) >= 0.95


def test_without_reinforcement_hard_attention_does_not_learn_where_to_look():
    """What shows that the test above tests the reinforcement: a drawn state passes no gradient to its score."""
    model = recurrent("output", "hard")
    learn(model, "reverse", 100, 5e-3, shortest=5, longest=5)
    assert model.decoder.cross.query.weight.grad is None
    assert pointed_right(model, 5) < 0.6


@pytest.mark.slow
def test_hard_attention_learns_by_passing_straight_through():
    model = recurrent("output")
    model.decoder.cross.weights = Hard("straight_through")
    learn(model, "reverse", 300, 5e-3, shortest=5, longest=5)
    assert token_accuracy(model, "reverse", shortest=5, longest=5) >= 0.95
    assert pointed_right(model, 5) >= 0.95


# --- a label for each word --------------------------------------------------------------------------------


class Tagger(nn.Module):
    """Words to vectors, an encoder over them, and a label from each."""

    def __init__(self, encoder, width):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, width)
        self.encoder = encoder
        self.labels = nn.Linear(width, VOCABULARY)

    def forward(self, tokens, lengths):
        return self.labels(self.encoder(self.words(tokens), lengths))


def before(steps):
    """The label of a word is the word so many places before it, or FIRST where there is none."""
    return lambda sequence: F.pad(sequence, (steps, 0), value=FIRST)[: len(sequence)]


def sentences(label, count=64, shortest=3, longest=7):
    """Random sequences and the label of each of their words."""
    source, lengths, _ = examples("copy", count, shortest, longest)
    labels = torch.zeros_like(source)
    for row, length in enumerate(lengths.tolist()):
        labels[row, :length] = label(source[row, :length])
    return source, lengths, labels, torch.arange(longest) < lengths[:, None]


@pytest.mark.parametrize(
    ("make", "label"),
    [
        (lambda: Tagger(WindowEncoder(32, radius=2), 32), before(2)),
        (lambda: Tagger(ConvolutionalEncoder(32, layers=2, kernel=3), 32), before(2)),
        (lambda: Tagger(WholeWindow(16, length=7), 16), before(5)),
        (lambda: EncoderOnly(TransformerConfig(**TRANSFORMER, encoder_layers=2), VOCABULARY), before(5)),
        (lambda: EncoderOnly(TransformerConfig(**TRANSFORMER, encoder_layers=2), VOCABULARY), TASKS["sort"]),
    ],
    ids=["window", "convolutional", "whole window", "transformer", "transformer, sort"],
)
def test_labels_are_learned(make, label):
    assert label_accuracy(make(), label, steps=300) >= 0.95


@pytest.mark.parametrize(
    "encoder",
    [WindowEncoder(32, radius=1), ConvolutionalEncoder(32, layers=1, kernel=3)],
    ids=["window", "convolutional"],
)
def test_what_lies_outside_the_window_cannot_be_learned(encoder):
    """A word two places back, out of sight, can only be guessed: 1 in 8, and right where there is none."""
    lengths = torch.arange(3, 8).float()
    known = (2 / lengths).mean() + (1 - 2 / lengths).mean() / SYMBOLS
    assert label_accuracy(Tagger(encoder, 32), before(2), steps=150) <= known + 0.1


def label_accuracy(model, label, steps):
    def batch_loss():
        source, lengths, labels, kept = sentences(label)
        return F.cross_entropy(model(source, lengths)[kept], labels[kept])

    fit(model, batch_loss, steps, 1e-2)
    source, lengths, labels, kept = sentences(label, count=200)
    with torch.no_grad():
        return (model(source, lengths).argmax(dim=-1) == labels)[kept].float().mean().item()


# --- language models --------------------------------------------------------------------------------------


def periodic(count, period=3, length=12):
    """Sequences that repeat three random words; the first words are the prompt, all others follow from them."""
    return torch.randint(FIRST, VOCABULARY, (count, period)).repeat(1, length // period)


@pytest.mark.parametrize(
    "make",
    [
        lambda: DecoderOnly(TransformerConfig(**TRANSFORMER, decoder_layers=2, position="rotary"), VOCABULARY),
        lambda: RecurrentLanguageModel(RecurrentConfig(cell="lstm", width=64, embedding_width=32), VOCABULARY),
    ],
    ids=["transformer", "recurrent"],
)
def test_a_periodic_text_is_continued(make):
    model = make()

    def batch_loss():
        tokens = periodic(32)
        return F.cross_entropy(model(tokens[:, :-1])[:, 2:].transpose(1, 2), tokens[:, 3:])

    fit(model, batch_loss, 250, 1e-2)
    tokens = periodic(200)
    with torch.no_grad():
        state, read, written = model.start(tokens[:, :2], 12), tokens[:, 2], []
        for _ in range(9):
            logits, state = model.step(read, state)
            read = logits.argmax(dim=-1)
            written.append(read)
    assert (torch.stack(written, dim=1) == tokens[:, 3:]).float().mean() >= 0.95


# --- images -----------------------------------------------------------------------------------------------


def spots(count):
    """Noisy images of 2 × 3 patches, one of which is brighter: its number is the class."""
    classes = torch.randint(6, (count,))
    images = torch.randn(count, 1, 8, 12) * 0.5
    for image, number in zip(images, classes.tolist(), strict=True):
        row, column = divmod(number, 3)
        image[:, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] += 1.0
    return images, classes


@pytest.mark.parametrize("pooling", ["class", "mean"])
def test_images_are_told_apart_by_where_they_are_bright(pooling):
    config = VisionConfig(
        image_size=(8, 12), patch=4, width=32, num_heads=4, feedforward_width=64, encoder_layers=2, pooling=pooling
    )
    model = VisionTransformer(config, classes=6)

    def batch_loss():
        images, classes = spots(32)
        return F.cross_entropy(model(images), classes)

    fit(model, batch_loss, 300, 5e-3)
    images, classes = spots(300)
    with torch.no_grad():
        assert (model(images).argmax(dim=-1) == classes).float().mean() >= 0.95

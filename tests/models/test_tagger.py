"""Taggers: what surrounds a sentence changes nothing, a word is what its configuration says, and all of them learn."""

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from toy_tasks import fit

import saccade
from saccade.models import EncoderOnly, TransformerConfig
from saccade.models.tagger import TAGGERS, Tagger, in_one_row

WORDS, PIECES, CHARACTERS, LABELS = 29, 23, 17, 5
LENGTHS = torch.tensor([7, 3, 1])
SMALL = {
    "recurrent": {"width": 11, "encoder_layers": 2},
    "convolutional": {"width": 13, "encoder_layers": 2},
    "window": {"width": 13, "radius": 1},
    "transformer": {"width": 12, "num_heads": 3, "feedforward_width": 19, "encoder_layers": 2},
}
READER = {"word_width": 7, "piece_width": 5, "spelling_width": 6, "character_width": 3, "character_kernel": 3}
VARIANTS = [
    *((kind, {"spelling": spelling}) for kind in SMALL for spelling in ("recurrent", "convolution")),
    ("transformer", {"unit": "pieces"}),
    ("recurrent", {"cell": "mut1", "piece_width": 0}),
    ("recurrent", {"bidirectional": False, "word_width": 0}),
]
each_variant = pytest.mark.parametrize(("kind", "changes"), VARIANTS)


def tagger(kind, changes):
    torch.manual_seed(0)
    config = TAGGERS[kind](**{**SMALL[kind], **READER, **changes})
    return Tagger(config, words=WORDS, pieces=PIECES, characters=CHARACTERS, labels=LABELS).eval()


def sentences(lengths=LENGTHS, longest=7, pieces=3, characters=5):
    """Random words, each of 1 to 3 pieces and 1 to 5 characters, with 0 wherever there is none."""
    torch.manual_seed(1)
    shape = (len(lengths), longest)
    there = torch.arange(longest) < lengths[:, None]

    def inside(most):
        counts = torch.randint(1, most + 1, shape)
        return (torch.arange(most) < counts[..., None]) & there[..., None]

    words = torch.randint(1, WORDS, shape) * there
    return (
        words,
        torch.randint(1, PIECES, (*shape, pieces)) * inside(pieces),
        torch.randint(1, CHARACTERS, (*shape, characters)) * inside(characters),
    )


@each_variant
@torch.no_grad()
def test_padding_changes_nothing(kind, changes):
    model, (words, pieces, characters) = tagger(kind, changes), sentences()
    together = model(words, pieces, characters, LENGTHS)
    assert together.shape == (3, 7, LABELS)
    wider = model(F.pad(words, (0, 2)), F.pad(pieces, (0, 1, 0, 2)), F.pad(characters, (0, 4, 0, 2)), LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        one = slice(row, row + 1)
        alone = model(words[one, :length], pieces[one, :length], characters[one, :length], LENGTHS[one])
        torch.testing.assert_close(alone[0], together[row, :length], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(wider[row, :length], together[row, :length], rtol=1e-4, atol=1e-5)


@each_variant
def test_every_parameter_has_a_gradient(kind, changes):
    model, inputs = tagger(kind, changes), sentences()
    features = model.features(*inputs, LENGTHS)
    targets = torch.tensor([0, 1, 2, 3, 4, 0, 1])
    model.output.loss(features[0], targets).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("spelling", ["recurrent", "convolution"])
@torch.no_grad()
def test_the_end_of_a_word_is_seen(spelling):
    """The same three characters, first and last in a word of six: a suffix is not what begins a word."""
    model = tagger("window", {"spelling": spelling})
    reader = model.input.characters
    one, other = reader(torch.tensor([[[1, 2, 3, 9, 9, 9], [9, 9, 9, 1, 2, 3]]]))[0]
    assert not torch.allclose(one, other)


@torch.no_grad()
def test_some_words_are_hidden_in_training():
    model = tagger("recurrent", {"word_dropout": 0.5, "spelling": "none", "piece_width": 0})
    reader = model.input
    words = torch.full((1, 2000), 9)
    vectors = reader.train()(words, words[..., None], words[..., None])[0]
    hidden = (vectors == reader.words.weight[1]).all(dim=1)
    assert ((vectors == reader.words.weight[9]).all(dim=1) | hidden).all()
    assert 0.45 < hidden.float().mean() < 0.55
    assert (reader.eval()(words, words[..., None], words[..., None]) == reader.words.weight[9]).all()


def test_pieces_stand_in_one_row_without_gaps():
    pieces = torch.tensor([[[7, 0], [8, 9]], [[5, 0], [0, 0]]])
    tokens, place, lengths = in_one_row(pieces)
    assert tokens.tolist() == [[7, 8, 9], [5, 0, 0]]
    assert lengths.tolist() == [3, 1]
    assert place[pieces != 0].tolist() == [0, 1, 2, 0]


@torch.no_grad()
def test_a_masked_language_model_fits_by_name():
    model = tagger("transformer", {"unit": "pieces"})
    masked = EncoderOnly(TransformerConfig(**SMALL["transformer"]), PIECES)
    shared = {name: value for name, value in masked.state_dict().items() if not name.startswith("output")}
    rest = model.load_state_dict(shared, strict=False)
    assert not rest.unexpected_keys
    assert all(name.startswith("output") for name in rest.missing_keys)
    pieces = sentences()[1]
    pieces[..., 1:] = 0  # a piece a word, so that a word is its piece
    words, _, characters = sentences()
    expected = masked.eval().features(pieces[..., 0], LENGTHS)
    found = model.features(words, pieces, characters, LENGTHS)
    torch.testing.assert_close(found[0], expected[0])
    torch.testing.assert_close(found[1, :3], expected[1, :3])


@torch.no_grad()
def test_a_watch_names_the_layers():
    with saccade.watch(model := tagger("transformer", {})) as seen:
        model(*sentences(), LENGTHS)
    assert list(seen) == ["encoder.0.self", "encoder.1.self"]


def test_a_word_is_made_of_something():
    with pytest.raises(ValidationError, match="at least one of word_width, piece_width and spelling"):
        TAGGERS["window"](word_width=0, spelling="none")


@pytest.mark.parametrize(
    ("kind", "changes"),
    [(kind, {}) for kind in SMALL] + [("transformer", {"unit": "pieces"}), ("window", {"spelling": "convolution"})],
)
def test_the_word_before_is_learned(kind, changes):
    """The label of a word is whether the word before it ends in the character (or piece) 2: 1, or not: 0."""
    big = {"width": 32, "encoder_layers": 2} | (
        {"num_heads": 4, "feedforward_width": 64} if kind == "transformer" else {}
    )
    reader = {"word_width": 0, "spelling_width": 16, "character_width": 8}
    torch.manual_seed(0)
    config = TAGGERS[kind](**big, **reader, **changes)
    model = Tagger(config, words=2, pieces=6, characters=6, labels=2)

    def batch(count=32, length=6):
        pieces = torch.randint(2, 4, (count, length, 3))
        labels = F.pad((pieces[..., -1] == 2)[:, :-1].long(), (1, 0))
        return torch.ones(count, length, dtype=torch.long), pieces, torch.full((count,), length), labels

    def batch_loss():
        words, pieces, lengths, labels = batch()
        return F.cross_entropy(model(words, pieces, pieces, lengths).transpose(1, 2), labels)

    fit(model, batch_loss, 150, 1e-2)
    words, pieces, lengths, labels = batch(100)
    with torch.no_grad():
        assert (model(words, pieces, pieces, lengths).argmax(-1) == labels).float().mean() >= 0.95

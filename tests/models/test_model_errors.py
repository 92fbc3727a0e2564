"""What a network refuses, and the sentence it says."""

import math

import pytest
import torch
from pydantic import ValidationError

from saccade.errors import OptionError, ShapeError, UnknownNameError
from saccade.models import (
    ConvolutionalConfig,
    ConvolutionalEncoder,
    ConvolutionalSeq2Seq,
    DecoderOnly,
    EncoderDecoder,
    EncoderOnly,
    RecurrentConfig,
    RecurrentSeq2Seq,
    ReinforcedLoss,
    TransformerConfig,
    VisionConfig,
    VisionTransformer,
    WholeWindow,
    WindowEncoder,
)

SMALL = {"width": 12, "num_heads": 3, "feedforward_width": 19}


# --- configurations ---------------------------------------------------------------------------------------


def test_an_unknown_key_is_refused_with_the_nearest_one():
    with pytest.raises(UnknownNameError, match=r"^\[model\] has no key 'num_head'; .*Did you mean 'num_heads'\?"):
        TransformerConfig.read({"num_head": 3}, "[model]")


@pytest.mark.parametrize(
    ("config", "values", "sentence"),
    [
        (TransformerConfig, {"width": 0}, r"^\[model\]: width must be at least 1, not 0\.$"),
        (TransformerConfig, {"dropout": 1.0}, r"^\[model\]: dropout must be less than 1, not 1\.0\.$"),
        (TransformerConfig, {"norm": "batch"}, r"^\[model\]: norm must be 'layer' or 'rms', not 'batch'\.$"),
        (ConvolutionalConfig, {"kernel": 4}, r"^\[model\]: kernel = 4: must be odd, so that a kernel has a middle\.$"),
        (
            TransformerConfig,
            {"one_hot": True},
            r"^\[model\]: one_hot learns no embedding, so tied_output and tied_embeddings must be false\.$",
        ),
        (
            TransformerConfig,
            {"one_hot": True, "tied_output": False, "tied_embeddings": True},
            "one_hot learns no embedding",
        ),
        (
            TransformerConfig,
            {"position": "rotary", "position_width": 4, "tied_output": False},
            "position_width needs a table of positions, which position = 'rotary' does not have",
        ),
        (TransformerConfig, {"position_width": 4}, "position_width must be below width and needs tied_output = false"),
        (
            TransformerConfig,
            {"width": 8, "position_width": 8, "tied_output": False},
            "position_width must be below width",
        ),
        (
            RecurrentConfig,
            {"cell": "mut2", "encoder_layers": 2},
            "mut2 needs inputs as wide as its state, so a second layer cannot read both directions",
        ),
        (
            VisionConfig,
            {"image_size": (28, 30), "patch": 4},
            r"patches of 4 pixels do not divide an image of \(28, 30\)",
        ),
        (VisionConfig, {"image_size": (0, 28)}, "do not divide"),
    ],
)
def test_a_wrong_value_is_one_sentence(config, values, sentence):
    with pytest.raises(OptionError, match=sentence):
        config.read(values, "[model]")


def test_a_value_written_as_text_is_read_as_its_number():
    assert TransformerConfig.read({"width": "24", "dropout": "0.5"}, "--set") == TransformerConfig(
        width=24, dropout=0.5
    )


def test_a_configuration_does_not_change():
    with pytest.raises(ValidationError, match="frozen"):
        TransformerConfig().width = 3


# --- networks ---------------------------------------------------------------------------------------------


def test_one_hot_words_need_the_width():
    config = TransformerConfig(**SMALL, encoder_layers=1, one_hot=True, tied_output=False)
    EncoderOnly(config, 12)
    with pytest.raises(OptionError, match="at least 13, the size of the vocabulary; got 12"):
        EncoderOnly(config, 13)


def test_concatenated_positions_take_their_place_from_the_words():
    config = TransformerConfig(**SMALL, encoder_layers=1, position_width=5, tied_output=False)
    assert EncoderOnly(config, 11).input.words.weight.shape == (11, 7)
    vision = VisionConfig(**SMALL, encoder_layers=1, position_width=5, image_size=(8, 12))
    assert VisionTransformer(vision, 3).features(torch.zeros(2, 1, 8, 12)).shape == (2, 7, 12)


def test_a_decoder_has_layers():
    with pytest.raises(OptionError, match="at least 1 layer, not decoder_layers = 0"):
        DecoderOnly(TransformerConfig(**SMALL), 11)
    with pytest.raises(OptionError, match="at least 1 layer, not decoder_layers = 0"):
        EncoderDecoder(TransformerConfig(**SMALL, encoder_layers=1), 11, 13)


def test_heads_divide_the_width():
    with pytest.raises(ShapeError, match="5 heads do not divide a width of 12"):
        EncoderOnly(TransformerConfig(**SMALL | {"num_heads": 5}, encoder_layers=1), 11)


@pytest.mark.parametrize(("field", "value"), [("score", "dott"), ("weights", "softmaxx")])
def test_a_score_or_weights_function_of_no_such_name(field, value):
    with pytest.raises(UnknownNameError, match="Did you mean"):
        EncoderOnly(TransformerConfig(**SMALL, encoder_layers=1, **{field: value}), 11)


def test_a_cell_of_no_such_name():
    with pytest.raises(UnknownNameError, match=r"no cell 'lstmm'; allowed: .*Did you mean 'lstm'"):
        RecurrentSeq2Seq(RecurrentConfig(cell="lstmm"), 11, 13)


def test_only_hard_attention_that_has_drawn_has_log_probabilities():
    model = RecurrentSeq2Seq(RecurrentConfig(weights="hard"), 11, 13)
    with pytest.raises(OptionError, match="no log-probabilities yet"):
        _ = model.decoder.cross.log_probability


# --- inputs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 1, 8, 8), (2, 3, 8, 12), (1, 8, 12)])
def test_an_image_of_another_size(shape):
    model = VisionTransformer(VisionConfig(**SMALL, encoder_layers=1, image_size=(8, 12)), 3)
    with pytest.raises(ShapeError, match=r"\(B, C, H, W\) = \(B, 1, 8, 12\); got"):
        model(torch.zeros(shape))


def test_a_window_over_everything_ends():
    with pytest.raises(ShapeError, match="takes at most 5 positions; the input has 6"):
        WholeWindow(3, 5)(torch.zeros(2, 6, 3))


@pytest.mark.parametrize(("radius", "layers"), [(-1, 1), (2, 0)])
def test_a_window_has_a_radius_and_layers(radius, layers):
    with pytest.raises(OptionError, match=f"not {radius} and {layers}"):
        WindowEncoder(3, radius, layers)


def test_a_source_without_words():
    model = ConvolutionalSeq2Seq(ConvolutionalConfig(width=8), 11, 13)
    with pytest.raises(ShapeError, match="at least 1 token; got 0"):
        model.start(torch.zeros(2, 0, dtype=torch.long), None)


# --- the reinforced loss, by hand -------------------------------------------------------------------------


def test_the_reinforced_loss_by_hand():
    """Step 1: rewards -1 and -3 about -2, so advantages 1 and -1. Step 2: one sentence, so 0. Spread √(2/3)."""
    token_loss = torch.tensor([[1.0, 5.0], [3.0, 100.0]], requires_grad=True)
    log_probability = torch.tensor([[-0.5, -2.0], [-0.25, -7.0]], requires_grad=True)
    loss = ReinforcedLoss(strength=0.5)(token_loss, log_probability, torch.tensor([[True, True], [True, False]]))
    spread = (2 / 3) ** 0.5
    surrogate = (0.5 * 1 - 0.25 * 1) / spread
    assert loss.item() == pytest.approx((1 + 5 + 3 + 0.5 * surrogate) / 3)
    loss.backward()
    third = pytest.approx(1 / 3)
    assert token_loss.grad.tolist() == [[third, third], [third, 0.0]]  # the reward is a constant
    pull = 0.5 / spread / 3  # the better draw up, the worse one down
    assert (-log_probability.grad).flatten().tolist() == pytest.approx([pull, 0.0, -pull, 0.0])


def test_one_embedding_needs_one_vocabulary():
    config = TransformerConfig(
        width=8, num_heads=2, encoder_layers=1, decoder_layers=1, feedforward_width=9, tied_embeddings=True
    )
    with pytest.raises(OptionError, match=r"tied_embeddings needs one vocabulary for both sides.* 6 and 5 words"):
        EncoderDecoder(config, 6, 5)


def test_token_types_of_a_model_without_them():
    model = EncoderOnly(TransformerConfig(width=8, num_heads=2, encoder_layers=1, feedforward_width=9), 7)
    tokens = torch.tensor([[1, 2, 3]])
    with pytest.raises(OptionError, match="This model has no token types, but some were given; set token_types"):
        model(tokens, None, tokens * 0)


@pytest.mark.parametrize("lengths", [[2], [-3, 5], [2, 6]])
def test_lengths_that_do_not_fit(lengths):
    x = torch.randn(2, 5, 4)
    for encoder in (WindowEncoder(4, 1), ConvolutionalEncoder(4, 1, 3), WholeWindow(4, 5)):
        with pytest.raises(ShapeError, match="engths"):
            encoder(x, torch.tensor(lengths))


def test_what_the_padding_holds_does_not_matter():
    x = torch.randn(2, 5, 4)
    x[1, 3:] = math.nan
    for encoder in (WindowEncoder(4, 1), ConvolutionalEncoder(4, 1, 3), WholeWindow(4, 5)):
        assert bool(torch.isfinite(encoder(x, torch.tensor([5, 3]))).all())

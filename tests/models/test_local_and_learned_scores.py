"""Recipe keys of a Transformer that say how it compares and how far it looks (lectures 002 and 004)."""

import pytest
import torch

import saccade
from saccade.attention import MLP, Additive, Bilinear
from saccade.errors import ShapeError, UnknownNameError
from saccade.models import EncoderDecoder, EncoderOnly, TransformerConfig
from saccade.models.encoders import TransformerEncoderConfig, WindowEncoderConfig, build_encoder

SIZES = {"width": 12, "num_heads": 3, "feedforward_width": 19, "encoder_layers": 1}


@pytest.mark.parametrize(("name", "kind"), [("additive", Additive), ("bilinear", Bilinear), ("mlp", MLP)])
def test_a_learned_score_belongs_to_each_head_and_is_trained(name: str, kind: type) -> None:
    model = EncoderDecoder(TransformerConfig(**SIZES, decoder_layers=1, score=name), 7, 7)
    layers = [model.encoder[0].self, model.decoder[0].self, model.decoder[0].cross]
    model(torch.randint(7, (2, 5)), None, torch.randint(7, (2, 4))).square().sum().backward()
    for layer in layers:
        assert isinstance(layer.score, kind)
        for parameter in layer.score.parameters():
            assert len(parameter) == 3
            assert parameter.grad is not None
            assert parameter.grad.abs().sum() > 0


def test_an_unknown_score_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"no score 'aditive'.*Did you mean 'additive'"):
        EncoderOnly(TransformerConfig(**SIZES, score="aditive"), 7)


@pytest.mark.parametrize("lengths", [None, torch.tensor([9, 6])])
def test_an_encoder_window_reaches_its_neighbours_only(lengths: torch.Tensor | None) -> None:
    model = EncoderOnly(TransformerConfig(**SIZES, encoder_window=2), 7).eval()
    with torch.inference_mode(), saccade.watch(model) as seen:
        model(torch.randint(7, (2, 9)), lengths)
    weights = seen["encoder.0.self"].tile(slice(0, 6), slice(0, 9), head=1, batch=1)
    near = (torch.arange(6)[:, None] - torch.arange(9)).abs() <= 2
    near &= torch.arange(9) < (9 if lengths is None else 6)
    assert ((weights > 0) == near).all()


def test_each_layer_may_have_its_own_window() -> None:
    sizes = SIZES | {"encoder_layers": 2, "decoder_layers": 2}
    model = EncoderDecoder(TransformerConfig(**sizes, encoder_window=(2, 0), attention_window=(1, 3)), 7, 7).eval()
    with torch.inference_mode(), saccade.watch(model) as seen:
        model(torch.randint(7, (1, 9)), None, torch.randint(7, (1, 8)))
    reach = {
        name: int((torch.arange(8)[:, None] - torch.arange(8))[seen[name].weights()[0, 0, :8, :8] > 0].max())
        for name in ("encoder.0.self", "encoder.1.self", "decoder.0.self", "decoder.1.self")
    }
    assert list(reach.values()) == [2, 0, 0, 2]
    with pytest.raises(ValueError, match="one number for each layer: encoder_layers is 2, not 1"):
        TransformerConfig(**sizes, encoder_window=(2,))
    with pytest.raises(ValueError, match="attention_window must be at least 1"):
        TransformerConfig(**sizes, attention_window=(3, 0))


def test_the_encoder_of_a_tagger_has_the_same_window() -> None:
    torch.manual_seed(1)
    x, lengths = torch.randn(1, 9, 12), torch.tensor([9])
    encoder, _ = build_encoder(TransformerEncoderConfig(**SIZES, encoder_window=1), 12)
    changed = x.clone()
    changed[0, 8] += 1.0
    moved = (encoder(changed, lengths) - encoder(x, lengths)).abs().sum(dim=-1)[0] > 1e-6
    assert moved.tolist() == [False] * 7 + [True] * 2


def test_a_window_over_the_whole_text_sees_everything_and_grows_with_its_square() -> None:
    torch.manual_seed(1)
    sizes = []
    for length in (5, 10):
        encoder, _ = build_encoder(WindowEncoderConfig(width=6, whole_length=length), 6)
        sizes.append(sum(parameter.numel() for parameter in encoder.parameters() if parameter.ndim == 2))
    assert sizes == [(5 * 6) ** 2, (10 * 6) ** 2]
    x = torch.randn(1, 7, 6)
    changed = x.clone()
    changed[0, 6] += 1.0
    lengths = torch.tensor([7])
    assert ((encoder(changed, lengths) - encoder(x, lengths)).abs().sum(dim=-1)[0] > 1e-6).all()
    with pytest.raises(ShapeError, match="takes at most 10 positions; the input has 11"):
        encoder(torch.randn(1, 11, 6), torch.tensor([11]))

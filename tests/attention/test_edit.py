"""Editing: a head that is off is a head whose output is zeroed by hand, a forbidden link has no weight."""

from __future__ import annotations

import copy
import threading
from typing import cast

import pytest
import torch
from torch import Tensor, nn

from saccade import MultiHead, attend, causal, edit, watch
from saccade.attention import Dot, Softmax, editable
from saccade.decoding import beam_search
from saccade.errors import OptionError, UnknownNameError
from saccade.models import DecoderOnly, EncoderDecoder, RecurrentConfig, RecurrentSeq2Seq, Targets, TransformerConfig

START, END = 1, 2
SOURCE, LENGTHS = torch.tensor([[5, 7, 3, 9, 4], [8, 6, 3, 0, 0]]), torch.tensor([5, 3])
TARGET = torch.tensor([[START, 4, 6, 8], [START, 5, 3, 7]])


def translator(**fields: object) -> EncoderDecoder:
    torch.manual_seed(0)
    config = TransformerConfig.read(
        {"width": 12, "num_heads": 3, "encoder_layers": 2, "decoder_layers": 2, "feedforward_width": 17, **fields},
        "test",
    )
    model = EncoderDecoder(config, 11, 13).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)  # so that heads have preferences
    return model


def zeroed_by_hand(model: EncoderDecoder, name: str, head: int) -> EncoderDecoder:
    """A copy in which W_O takes nothing from a head."""
    made = copy.deepcopy(model)
    layer = cast(MultiHead, made.get_submodule(name))
    with torch.no_grad():
        layer.output.weight[:, head * layer.head_width : (head + 1) * layer.head_width] = 0.0
    return made


def searched(model: nn.Module, beam: int) -> list[tuple[list[int], float]]:
    state = cast(EncoderDecoder, model).start(SOURCE, LENGTHS, 9)
    found = beam_search(
        cast(EncoderDecoder, model),
        state,
        batch_size=2,
        start_token=START,
        end_token=END,
        beam=beam,
        n_best=beam,
        max_length=torch.tensor([8, 8]),
        length_penalty=1.0,
        device="cpu",
    )
    return [(one.tokens, one.log_probability) for best in found for one in best]


@pytest.mark.parametrize("name", ["encoder.1.self", "decoder.0.self", "decoder.1.cross"])
@torch.inference_mode()
def test_a_head_that_is_off_is_a_head_zeroed_by_hand(name: str) -> None:
    model = translator()
    by_hand = zeroed_by_hand(model, name, 2)
    whole = model(SOURCE, LENGTHS, TARGET)
    with edit(model, without_heads=[f"{name}:2"]):
        off = model(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(off, by_hand(SOURCE, LENGTHS, TARGET), atol=1e-6, rtol=0)
    assert (off - whole).abs().max() > 1e-3
    assert torch.equal(model(SOURCE, LENGTHS, TARGET), whole)  # it ends with its block


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("name", ["encoder.0.self", "decoder.1.self", "decoder.0.cross"])
@torch.inference_mode()
def test_the_same_in_a_search(name: str, beam: int) -> None:
    model = translator()
    with edit(model, without_heads=[f"{name}:0"]):
        off = searched(model, beam)
    by_hand = searched(zeroed_by_hand(model, name, 0), beam)
    assert [tokens for tokens, _ in off] == [tokens for tokens, _ in by_hand]
    assert [score for _, score in off] == pytest.approx([score for _, score in by_hand], abs=1e-5)
    assert [score for _, score in off] != pytest.approx([score for _, score in searched(model, beam)], abs=1e-3)


def test_a_head_that_is_off_has_no_gradient() -> None:
    layer = MultiHead(12, 3)
    with edit(layer, without_heads=["attention:1"]):
        layer(torch.randn(2, 5, 12)).square().sum().backward()
    gradient = layer.query.weight.grad
    assert gradient is not None
    rows = gradient.view(3, 4, 12).abs().amax(dim=(1, 2))
    assert rows[1] == 0
    assert rows[0] > 0
    assert rows[2] > 0


@torch.inference_mode()
def test_a_forbidden_link_has_no_weight_and_the_others_grow() -> None:
    model = translator()
    with watch(model) as before:
        model(SOURCE, LENGTHS, TARGET)
    with edit(model, without_links=[("encoder.0.self", 3, 1), ("encoder.0.self:2", 0, 4)]), watch(model) as seen:
        model(SOURCE, LENGTHS, TARGET)
    expected = before["encoder.0.self"].weights()
    expected[:, :, 3, 1] = 0
    expected[:, 2, 0, 4] = 0
    expected = expected / expected.sum(-1, keepdim=True)
    torch.testing.assert_close(seen["encoder.0.self"].weights(), expected, atol=1e-6, rtol=0)


@torch.inference_mode()
def test_the_weights_of_a_head_that_is_off_are_as_it_computed_them() -> None:
    model = translator()
    with watch(model) as before:
        model(SOURCE, LENGTHS, TARGET)
    with edit(model, without_heads=["encoder.0.self:1"]), watch(model) as seen:
        model(SOURCE, LENGTHS, TARGET)
    assert torch.equal(seen["encoder.0.self"].weights(), before["encoder.0.self"].weights())
    assert not torch.equal(seen["encoder.1.self"].weights(), before["encoder.1.self"].weights())


@pytest.mark.parametrize("position", ["sinusoidal", "rotary", "alibi", "relative"])
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize(
    "links",
    [[("decoder.0.cross", 2, 1)], [("decoder.1.self", 3, 1), ("decoder.0.self:1", 2, 0)], [("encoder.1.self", 2, 0)]],
)
@torch.inference_mode()
def test_a_search_forbids_what_a_forced_pass_forbids(
    links: list[tuple[str, int, int]], beam: int, position: str
) -> None:
    """The hypotheses of a beam lie beside each other; each one's score is that of its text alone."""
    model = translator(position=position)
    with edit(model, without_links=links) as made:
        found = searched(model, beam)
        assert made.unmet == []
        for number, (tokens, score) in enumerate(found):
            row = slice(number // beam, number // beam + 1)
            whole = [*tokens, END]
            asked = Targets(torch.tensor(whole), summed=False)
            forced = -model(SOURCE[row], LENGTHS[row], torch.tensor([[START, *tokens]]), targets=asked)
            assert score == pytest.approx(float(forced[: len(whole) if len(tokens) < 8 else 8].sum()), abs=1e-5)
    assert [score for _, score in found] != pytest.approx([score for _, score in searched(model, beam)], abs=1e-5)


@torch.inference_mode()
def test_cached_steps_are_at_their_own_position() -> None:
    torch.manual_seed(0)
    model = DecoderOnly(TransformerConfig(width=12, num_heads=3, decoder_layers=2, feedforward_width=17), 11).eval()
    tokens = torch.tensor([[3, 5, 7, 2, 9]])
    with edit(model, without_links=[("decoder.0.self", 4, 2)]):
        whole = model(tokens)
        state = model.start(tokens[:, :2])
        for place in (2, 3, 4):
            step, state = model.step(tokens[:, place], state)
    torch.testing.assert_close(step, whole[:, -1], atol=1e-6, rtol=0)
    assert not torch.allclose(model(tokens)[:, -1], whole[:, -1], atol=1e-5)


@torch.inference_mode()
def test_a_recurrent_decoder_is_edited_too() -> None:
    torch.manual_seed(0)
    model = RecurrentSeq2Seq(RecurrentConfig(width=8), 11, 13).eval()
    assert list(editable(model)) == ["decoder.cross"]
    with edit(model, without_links=[("decoder.cross", 2, 0)]), watch(model) as seen:
        model(SOURCE, LENGTHS, TARGET)
    weights = seen["decoder.cross"].weights()
    assert bool((weights[:, :, 2, 0] == 0).all())
    assert bool((weights[:, :, 1, 0] > 0).all())


@torch.inference_mode()
def test_a_query_without_any_link_takes_nothing() -> None:
    layer = MultiHead(12, 3)
    x = torch.randn(1, 2, 12)
    with edit(layer, without_links=[("attention", 1, 0), ("attention", 1, 1)]):
        output = layer(x, mask=causal)
    torch.testing.assert_close(output[0, 1], layer.output.bias)


class OneHead(nn.Module):
    """An attention of one's own: what has a score and weights, and names itself as the owner, can be edited."""

    def __init__(self) -> None:
        super().__init__()
        self.score, self.weights = Dot(), Softmax()

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return attend(query, key, torch.eye(4), score=self.score, weights=self.weights, owner=self)


def test_hand_numbers() -> None:
    """Scores log 1, log 2, log 5, log 2 are weights 0.1, 0.2, 0.5, 0.2; without the third 0.2, 0.4, 0, 0.4."""
    model, key = OneHead(), torch.tensor([[1.0], [2.0], [5.0], [2.0]]).log()
    with edit(model, without_links=[("attention", 0, 2)]):
        output = model(torch.ones(1, 1), key)
    torch.testing.assert_close(output, torch.tensor([[0.2, 0.4, 0.0, 0.4]]))
    with edit(model, without_heads=["attention:0"]):
        assert torch.equal(model(torch.ones(1, 1), key), torch.zeros(1, 4))


def test_links_that_nothing_met_are_told() -> None:
    layer = MultiHead(12, 3)
    with edit(layer, without_links=[("attention", 1, 0), ("attention:2", 5, 0), ("attention", 0, 7)]) as made:
        layer(torch.randn(1, 2, 12))
    assert made.unmet == ["attention:2:5:0", "attention:0:7"]


@torch.inference_mode()
def test_edits_nest_and_keep_to_their_model_and_thread() -> None:
    model, other = MultiHead(12, 3), MultiHead(12, 3)
    x = torch.randn(2, 5, 12)
    plain, of_other = model(x), other(x)
    elsewhere: list[Tensor] = []
    with edit(model, without_heads=["attention:0"]):
        one = model(x)
        with edit(model, without_heads=["attention:1", "attention:2"]):
            torch.testing.assert_close(model(x), model.output.bias.expand(2, 5, 12))
        assert torch.equal(model(x), one)
        assert torch.equal(other(x), of_other)
        thread = threading.Thread(target=lambda: elsewhere.append(model(x)))
        thread.start()
        thread.join()
        attend(x, x, x)  # a call without an owner is no one's
    assert torch.equal(elsewhere[0], plain)


def test_what_is_not_there_is_refused_with_what_is() -> None:
    model = translator()
    with pytest.raises(UnknownNameError, match=r"no attention 'decoder.2.cross'; allowed: decoder.0.cross, .*"):
        edit(model, without_heads=["decoder.2.cross:0"]).__enter__()
    with pytest.raises(OptionError, match=r"no head '3' in decoder.1.cross; it has heads 0 to 2"):
        edit(model, without_heads=["decoder.1.cross:3"]).__enter__()
    with pytest.raises(OptionError, match=r"such as decoder.1.cross:0; not 'decoder.1.cross'"):
        edit(model, without_heads=["decoder.1.cross"]).__enter__()
    with pytest.raises(OptionError, match="positions of at least 0; not -1"):
        edit(model, without_links=[("encoder.0.self", -1, 0)]).__enter__()
    with pytest.raises(OptionError, match=r"A link is \(attention, row, column\)"):
        edit(model, without_links=["encoder.0.self"]).__enter__()  # type: ignore[list-item]
    with pytest.raises(OptionError, match="has no attention, so there is nothing to edit"):
        edit(nn.Linear(2, 3), without_heads=["a:0"]).__enter__()
    with pytest.raises(OptionError, match="takes a torch module, not str"):
        edit("model").__enter__()  # type: ignore[arg-type]

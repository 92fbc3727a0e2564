"""Bad input: one kind of error each, with what was expected and what came."""

from __future__ import annotations

import pytest
import torch
from attention_cases import Problem

from saccade import attend, causal, dense, padding
from saccade.attention import MLP, Additive, Bilinear, Hard
from saccade.errors import KernelError, OptionError, SaccadeError, ShapeError, UnknownNameError

QUERY, KEY, VALUE = Problem().tensors()  # (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 11)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((QUERY[0, 0, 0], KEY, VALUE), r"query has shape \(4,\); expected \(\.\.\., positions, width\)"),
        ((QUERY, KEY[0], VALUE), r"key has shape \(3, 7, 4\).*query, which has shape \(2, 3, 5, 4\)"),
        ((QUERY, KEY, VALUE[0]), r"value has shape \(3, 7, 11\)"),
        ((QUERY, KEY[..., :3], VALUE), "query has width 4, the key 3"),
        ((QUERY, KEY[:1], VALUE), "key has batch size 1, but the query has 2"),
        ((QUERY, KEY, VALUE[:1]), "value has batch size 1, but the query has 2"),
        ((QUERY, KEY, VALUE[:, :, :6]), r"key has shape \(2, 3, 7, 4\), the value \(2, 3, 6, 11\)"),
        ((QUERY, KEY[:, :2], VALUE[:, :2]), "number of key heads, 2, must divide that of query heads, 3"),
        ((QUERY, KEY[:, :0], VALUE[:, :0]), "number of key heads, 0, must divide"),
        ((QUERY.expand(3, 2, 3, 5, 4), KEY.expand(2, 2, 3, 7, 4), VALUE.expand(2, 2, 3, 7, 11)), r"\(2, 2\).*\(3, 2\)"),
    ],
)
def test_shapes(inputs: tuple[torch.Tensor, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        attend(*inputs)


@pytest.mark.parametrize("shape", [(5, 6), (4, 7), (8, 7), (2, 5, 7), (3, 3, 5, 7), (2, 2, 5, 7)])
def test_masks_of_another_length(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match=rf"mask has shape .*{', '.join(map(str, shape))}"):
        attend(QUERY, KEY, VALUE, mask=torch.ones(shape, dtype=torch.bool))
    with pytest.raises(ShapeError, match="bias has shape"):
        attend(QUERY, KEY, VALUE, bias=torch.ones(shape))


def test_rules_of_another_length() -> None:
    with pytest.raises(ShapeError, match="3 lengths, but the batch has 2 sequences"):
        attend(QUERY, KEY, VALUE, mask=padding(torch.tensor([1, 2, 3])))
    with pytest.raises(ShapeError, match="length of 8, but there are only 7 keys"):
        attend(QUERY, KEY, VALUE, mask=causal & ~padding(torch.tensor([1, 8])))
    with pytest.raises(ShapeError, match=r"expected \(B, H, Q, K\) = \(2, 3, 5, 7\)"):
        attend(QUERY, KEY, VALUE, mask=dense(torch.ones(4, 7, dtype=torch.bool)) | causal)
    with pytest.raises(ShapeError, match="mask has shape"):  # it starts after the first query
        attend(QUERY, KEY, VALUE, mask=dense(torch.ones(5, 7, dtype=torch.bool), first_row=1))


@pytest.mark.parametrize(
    ("option", "name", "message"),
    [
        ("score", "scaled-dot", r"no score 'scaled-dot'; allowed: .*equal, scaled_dot\. Did you mean 'scaled_dot'"),
        ("weights", "softmx", r"no weights function 'softmx'; allowed: .*sparsemax\. Did you mean 'softmax'"),
        ("kernel", "flash", r"no kernel 'flash'; allowed: auto, equation, fused\."),
        ("score", 3, "no score 3; allowed"),
    ],
)
def test_unknown_names(option: str, name: object, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        attend(QUERY, KEY, VALUE, **{option: name})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dropout": 1.0}, r"dropout must be at least 0 and below 1, not 1\.0"),
        ({"dropout": -0.1}, r"not -0\.1"),
        ({"first_row": -1}, "first_row must be at least 0, not -1"),
        ({"mask": "causal"}, "mask must be a rule .* not str"),
        ({"bias": 3.0}, "bias must be a rule .* not float"),
        ({"bias": torch.ones(5, 7, dtype=torch.bool)}, "floating-point, not torch.bool"),
    ],
)
def test_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        attend(QUERY, KEY, VALUE, **options)  # type: ignore[arg-type]


def test_types() -> None:
    with pytest.raises(OptionError, match=r"torch\.float32, torch\.float64, torch\.float32"):
        attend(QUERY, KEY.double(), VALUE)
    with pytest.raises(OptionError, match=r"floating-point type; got torch\.int64"):
        attend(QUERY.long(), KEY.long(), VALUE.long())
    with pytest.raises(OptionError, match="greedy, straight_through, sample, not 'soft'"):
        Hard("soft")  # type: ignore[arg-type]


def test_the_fused_kernel_refuses_what_it_does_not_compute() -> None:
    with pytest.raises(KernelError, match="not Sparsemax weights"):
        attend(QUERY, KEY, VALUE, weights="sparsemax", kernel="fused")
    with pytest.raises(KernelError, match="not the Additive score"):
        attend(QUERY, KEY, VALUE, score=Additive(4), kernel="fused")


def test_learned_scores_say_what_they_were_made_for() -> None:
    with pytest.raises(ShapeError, match="Bilinear score needs a query of width 5; the query has width 4"):
        attend(QUERY, KEY, VALUE, score=Bilinear(5, 4))
    with pytest.raises(ShapeError, match="MLP score needs a key of width 6; the key has width 4"):
        attend(QUERY, KEY, VALUE, score=MLP(4, 6))
    with pytest.raises(ShapeError, match="Additive score is for 2 heads; the query has 3"):
        attend(QUERY, KEY, VALUE, score=Additive(4, num_heads=2))


def test_one_catch_for_all() -> None:
    with pytest.raises(SaccadeError) as caught:
        attend(QUERY, KEY, VALUE, score="nothing like it")
    assert str(caught.value).count("\n") == 0

"""Rules: what each says, how they join, and that what they say unevaluated is never wrong."""

from __future__ import annotations

import pytest
import torch
from attention_cases import allowed_by, problems, property_settings, rules
from hypothesis import given
from hypothesis import strategies as st

from saccade import attend, causal, dense, padding, rule, window
from saccade.attention import Bias, Mask
from saccade.errors import OptionError, ShapeError

SHAPE = (1, 1, 4, 5)


def picture(mask: Mask, shape: tuple[int, int, int, int] = SHAPE, first_row: int = 0) -> list[str]:
    """The rule as one line a row, x where it may attend."""
    return [
        "".join("x" if cell else "." for cell in row) for row in allowed_by(mask, shape, first_row)[-1, -1].tolist()
    ]


def test_each_rule_says_what_it_should() -> None:
    assert picture(causal) == ["x....", "xx...", "xxx..", "xxxx."]
    assert picture(causal, first_row=2) == ["xxx..", "xxxx.", "xxxxx", "xxxxx"]
    assert picture(window(1)) == ["xx...", "xxx..", ".xxx.", "..xxx"]
    assert picture(window(0)) == ["x....", ".x...", "..x..", "...x."]
    assert picture(padding(torch.tensor([5, 2])), (2, 1, 2, 5)) == ["xx...", "xx..."]
    assert picture(rule(lambda batch, head, row, column: (row + column) % 2 == 0)) == [
        "x.x.x",
        ".x.x.",
        "x.x.x",
        ".x.x.",
    ]
    marks = torch.tensor([[True, False, True]])
    assert picture(dense(marks), (1, 1, 2, 3)) == ["x.x", "x.x"]
    assert picture(dense(torch.eye(3, dtype=torch.bool)[:2], first_row=7), (1, 1, 2, 3), 7) == ["x..", ".x."]


def test_rules_join() -> None:
    assert picture(causal & window(1)) == ["x....", "xx...", ".xx..", "..xx."]
    assert picture(causal | window(1)) == ["xx...", "xxx..", "xxxx.", "xxxxx"]
    assert picture(~causal) == [".xxxx", "..xxx", "...xx", "....x"]
    assert picture(~(causal | window(1))) == picture(~causal & ~window(1))


@property_settings
@given(st.data())
def test_what_a_rule_says_unevaluated_is_never_wrong(data: st.DataObject) -> None:
    """Outside its span nothing is allowed; where it is full, everything is."""
    shape = data.draw(problems()).shape
    first_row = data.draw(st.integers(0, 4))
    mask = data.draw(rules(shape, first_row))
    first = data.draw(st.integers(0, shape[2] - 1))
    last = data.draw(st.integers(first, shape[2] - 1))
    allowed = allowed_by(mask, shape, first_row)[:, :, first : last + 1]
    start, stop = mask.span(first_row + first, first_row + last, shape[3])
    assert 0 <= start <= stop <= shape[3]
    assert not allowed[..., :start].any()
    assert not allowed[..., stop:].any()
    for left in range(shape[3]):
        for right in range(left + 1, shape[3] + 1):
            if mask.is_full(first_row + first, first_row + last, left, right):
                assert allowed[..., left:right].all()


def test_spans_are_as_narrow_as_the_rule_allows() -> None:
    """A span that is never wrong could also be useless; these are the ones that save work."""
    assert causal.span(3, 5, 100) == (0, 6)
    assert window(2).span(50, 60, 100) == (48, 63)
    assert window(2).span(500, 600, 100) == (100, 100)
    assert padding(torch.tensor([7, 3])).span(0, 99, 100) == (0, 7)
    assert (causal & window(2)).span(50, 60, 100) == (48, 61)
    assert causal.is_full(9, 20, 0, 10)
    assert not causal.is_full(8, 20, 0, 10)
    assert padding(torch.tensor([7, 3])).is_full(0, 99, 0, 3)
    assert window(4).is_full(10, 12, 8, 15)
    assert (causal | window(4)).is_full(10, 12, 0, 11)


def test_a_mask_read_again_is_read_as_it_is_now() -> None:
    """The dense form of a rule is kept between layers; not beyond a change of what it was made from."""
    query, key, value = torch.zeros(2, 1), torch.zeros(3, 1), torch.eye(3)
    marks, lengths = torch.tensor([[True, True, False]]), torch.tensor([3])
    by_marks, by_lengths = dense(marks), padding(lengths)
    for mask in (by_marks, by_lengths):
        attend(query, key, value, mask=mask)
    marks[0, 1] = False
    torch.testing.assert_close(attend(query, key, value, mask=by_marks), torch.tensor([[1.0, 0, 0]]).expand(2, 3))
    lengths[0] = 1  # a rule is what it was when it was made
    torch.testing.assert_close(attend(query, key, value, mask=by_lengths), torch.full((2, 3), 1 / 3))


@pytest.mark.parametrize("grad", [torch.no_grad, torch.inference_mode])
def test_a_learned_bias_is_trained_after_it_was_used_without_gradient(grad: type) -> None:
    slope = torch.tensor(0.5, requires_grad=True)
    bias = Bias(lambda batch, head, row, column: slope * (row - column))
    query, key, value = torch.ones(3, 2), torch.ones(3, 2), torch.eye(3)
    with grad():
        before = attend(query, key, value, bias=bias, mask=causal)
    output = attend(query, key, value, bias=bias, mask=causal)
    torch.testing.assert_close(output, before)
    (gradient,) = torch.autograd.grad(output[1, 0], slope)
    # row 1 has scores slope·1 and 0: the weight σ(slope) has the slope σ(1 - σ)
    share = torch.sigmoid(slope.detach())
    torch.testing.assert_close(gradient, share * (1 - share))


def test_what_rules_refuse() -> None:
    with pytest.raises(OptionError, match="at least 0; it got -1"):
        window(-1)
    with pytest.raises(OptionError, match="at least 0; it got -3"):
        padding(torch.tensor([4, -3]))
    with pytest.raises(ShapeError, match=r"float32 of shape \(2,\)"):
        padding(torch.tensor([1.0, 2.0]))
    with pytest.raises(ShapeError, match=r"shape \(1, 2\)"):
        padding(torch.tensor([[1, 2]]))
    with pytest.raises(ShapeError, match="list"):
        padding([1, 2])  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"torch.int64 of shape \(2, 2\)"):
        dense(torch.ones(2, 2, dtype=torch.long))
    with pytest.raises(OptionError, match=r"Tensor.*dense\(tensor\)"):
        causal & torch.ones(2, 2, dtype=torch.bool)  # type: ignore[operator]
    with pytest.raises(OptionError, match=r"A rule must return a boolean tensor.*float32"):
        attend(*(torch.ones(3, 2),) * 3, mask=rule(lambda batch, head, row, column: (row - column).float()))

"""Weights of a `transformers` model copied into one of ours, and what is compared then."""

import torch

TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def random_weights(model, strength=0.4):
    """No parameter is 0 or 1, so that none can be left out unnoticed; large enough to spread the attention."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:  # sinusoidal positions are computed, not learned
                # Norms about 1, all else about 0; strong matrices and weak biases, so that inputs matter.
                about = parameter.round()
                parameter.copy_(about + torch.randn_like(parameter) * (strength if parameter.ndim > 1 else 0.1))
    return model.eval()


class Copy:
    """Copies tensors of one model's state by name, and knows in the end whether any was forgotten."""

    def __init__(self, theirs, ours):
        self.state = theirs.state_dict()
        self.todo = {id(parameter) for parameter in ours.parameters()}

    def tensor(self, own, name, part=slice(None), *, transposed=False):
        value = self.state[name]
        self.set(own, (value.T if transposed else value)[part])

    def set(self, own, value):
        assert own.shape == value.shape
        with torch.no_grad():
            own.copy_(value)
        self.todo.discard(id(own))

    def layer(self, own, name, part=slice(None), *, transposed=False):
        """The weight and, where ours has one, the bias of a linear layer, convolution or norm."""
        self.tensor(own.weight, f"{name}.weight", part, transposed=transposed)
        if getattr(own, "bias", None) is not None:
            self.tensor(own.bias, f"{name}.bias", part)

    def attention(self, own, query, key, value, output):
        self.layer(own.query, query)
        for kind in ("weight", "bias"):
            if getattr(own.key_value, kind) is not None:
                both = torch.cat([self.state[f"{key}.{kind}"], self.state[f"{value}.{kind}"]])
                self.set(getattr(own.key_value, kind), both)
        self.layer(own.output, output)

    def projections(self, own, prefix, output):
        self.attention(own, *(f"{prefix}.{name}" for name in ("q_proj", "k_proj", "v_proj", output)))

    def done(self):
        assert not self.todo


def compare_attention(seen, names, theirs):
    assert len(names) == len(theirs)
    for name, expected in zip(names, theirs, strict=True):
        torch.testing.assert_close(seen[name].weights().to(expected.dtype), expected, **TOLERANCE)


def names(part, kind, layers):
    return [f"{part}.{number}.{kind}" for number in range(layers)]

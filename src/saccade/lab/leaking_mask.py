"""A decoder that can see the next word learns to copy it, and is useless when there is no next word yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.lab.experiment import Experiment, Trial
from saccade.lab.learning import Examples, train
from saccade.models import DecoderOnly, EncoderOnly, TransformerConfig

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from saccade.lab.results import Interval

__all__ = ["EXPERIMENT"]

WORDS, LENGTH = 12, 16
CONFIG = TransformerConfig(
    width=32, num_heads=4, encoder_layers=2, decoder_layers=2, feedforward_width=64, dropout=0.0, max_length=LENGTH
)


def chain(seed: int) -> Tensor:
    """Return the probability of each next word after each word, as a matrix: after every word, all words are possible,
    and one or a few are likely."""
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(WORDS, WORDS, generator=generator)).softmax(-1)


def draw_texts(probabilities: Tensor, count: int) -> Tensor:
    words = [torch.randint(WORDS, (count,))]
    for _ in range(LENGTH):
        words.append(torch.multinomial(probabilities[words[-1]], 1)[:, 0])
    return torch.stack(words, dim=1)


@torch.inference_mode()
def loss_when_writing(model: nn.Module, texts: Tensor) -> float:
    """Return the mean loss of predicting a word when only the words before it are available, as in generation."""
    model.eval()
    losses = [F.cross_entropy(model(texts[:, :place])[:, -1], texts[:, place]) for place in range(1, LENGTH)]
    return float(torch.stack(losses).mean())


def measure(trial: Trial) -> Mapping[str, float]:
    probabilities = chain(trial.seed)

    def draw(count: int) -> Examples:
        texts = draw_texts(probabilities, count)
        return Examples(texts[:, :-1], texts[:, 1:])

    found = {}
    texts = draw_texts(probabilities, 300)
    for name, network in (("causal", DecoderOnly), ("leaking", EncoderOnly)):
        model = network(CONFIG, WORDS)
        found[f"{name}, training"] = train(model, draw, steps=trial.choose(600, 150))
        found[f"{name}, writing"] = loss_when_writing(model, texts)
    return found | {"loss when writing, leaking minus causal": found["leaking, writing"] - found["causal, writing"]}


def draw(axes: Axes, found: Mapping[str, Interval]) -> None:
    for shift, what in ((-0.2, "training"), (0.2, "writing")):
        heights = [found[f"{name}, {what}"].mean for name in ("causal", "leaking")]
        axes.bar([shift, 1 + shift], heights, 0.4, label=what)
    axes.set_xticks([0, 1], ["causal", "leaking"])
    axes.set_ylabel("nats per word")
    axes.legend()


EXPERIMENT = Experiment(
    name="leaking-mask",
    lecture="003",
    claim="Without the causal mask, a decoder's training loss falls almost to zero, but the text it writes is useless.",
    method=f"The same network learns texts of a Markov chain of {WORDS} words with and without the mask. We measure "
    "its loss in training, and its loss when it writes and has only the words so far.",
    measure=measure,
    decisive="loss when writing, leaking minus causal",
    direction="at least",
    bound=0.5,
    draw=draw,
)

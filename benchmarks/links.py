"""Where a translator keeps what "it" refers to and what "bank" means: in which heads, layers and positions.

python benchmarks/links.py runs/demo

First, which head finds the deciding word. Then, with the right translation as far as the word in question, whether the
model still prefers the right word to the other one without a link. Last, how much of the difference between two
sentences that differ in one word comes back with a head, a layer or a position from the other sentence.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from head_links import link_shares
from torch import Tensor

import saccade
from saccade.data.grammar import Example, generate
from saccade.text import END, START

#: Words that are exchanged to make the other sentence: the same verbs and people then lead to the other answer.
SWAPS = {
    "bank": [("river", "street"), ("lake", "avenue"), ("canal", "road"), ("stream", "square")],
    "pronoun": [("hungry", "slow"), ("furious", "wounded"), ("curious", "wounded")],
}
OTHER = {"il": "elle", "elle": "il", "ils": "elles", "elles": "ils", "banque": "rive", "rive": "banque"}


@dataclass(frozen=True)
class Question:
    """A sentence up to the word that shows what the model understood, with the right and the other word."""

    source: Tensor
    target: Tensor
    right: int
    wrong: int
    word: int  # where "it" or "bank" is in the source
    deciding: int

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.source, torch.tensor([self.source.shape[1]]), self.target


class Translator:
    def __init__(self, folder: str) -> None:
        self.opened: Any = saccade.open(folder)
        self.model = self.opened.model.eval()
        self.tokens, self.targets = self.opened.tokenizers
        self.encoder = [f"encoder.{layer}.self" for layer in range(self.model.config.encoder_layers)]
        self.cross = [f"decoder.{layer}.cross" for layer in range(self.model.config.decoder_layers)]
        self.heads = [f"{name}:{head}" for name in self.encoder for head in range(self.model.config.num_heads)]

    def question(self, example: Example, source_text: str | None = None) -> Question:
        (link,) = example.links
        place = next(t for s, t in example.alignment if s == link.word and example.target[t].lower() in OTHER)
        start, stop = example.target_spans[place]
        text = example.target_text
        right = self.targets.encode(text[:stop]).ids
        wrong = self.targets.encode(text[:start] + OTHER[text[start:stop].lower()]).ids
        assert right[:-1] == wrong[:-1]
        ids = [*self.tokens.encode(source_text or example.source_text).ids, END]
        assert len(ids) == len(example.source) + 1  # a token is a word
        return Question(torch.tensor([ids]), torch.tensor([[START, *right[:-1]]]), right[-1], wrong[-1], link.word,
                        link.antecedent)  # fmt: skip

    @torch.inference_mode()
    def lead(self, question: Question) -> float:
        """How far the logit of the right word is above that of the other."""
        logits = self.model(*question.inputs)[0, -1]
        return float(logits[question.right] - logits[question.wrong])


def cuts(translator: Translator, question: Question, chosen: str) -> dict[str, list[tuple[str, int, int]]]:
    """The links that are cut together, by what they stand for."""
    link, last = (question.word, question.deciding), question.target.shape[1] - 1
    in_encoder = [(name, *link) for name in translator.encoder]
    to_word = [(name, last, question.deciding) for name in translator.cross]
    return {
        "the chosen head": [(chosen, *link)],
        "any other head": [(head, *link) for head in translator.heads if head != chosen],
        "all heads of the encoder": in_encoder,
        "the decoder's look at the deciding word": to_word,
        "both of these": in_encoder + to_word,
    }


def report_cuts(translator: Translator, questions: Sequence[Question], chosen: str) -> None:
    flipped: dict[str, list[bool]] = defaultdict(list)
    right = [question for question in questions if translator.lead(question) > 0]
    for question in right:
        for name, links in cuts(translator, question, chosen).items():
            for together in [[link] for link in links] if name == "any other head" else [links]:
                with saccade.edit(translator.model, without_links=together):
                    flipped[name].append(translator.lead(question) < 0)
    print(f"  prefers the right word in {len(right)} of {len(questions)} sentences; of these, it flips without")
    for name, found in flipped.items():
        print(f"    {name}: {100 * sum(found) / len(found):.0f} %")


def pairs(translator: Translator, kind: str, examples: Sequence[Example]) -> Iterator[tuple[Question, Question]]:
    """The sentences in which a word can be exchanged and that the model understands, with their other form."""
    exchange = {a: b for one in SWAPS[kind] for a, b in (one, one[::-1])}
    for example in examples:
        swapped = [word for word in example.source if word in exchange]
        if len(swapped) == 1:
            other = example.source_text.replace(f" {swapped[0]}", f" {exchange[swapped[0]]}")
            clean, corrupted = translator.question(example), translator.question(example, other)
            if translator.lead(clean) > 0:
                yield clean, corrupted


def parts(translator: Translator, clean: Question, changed: int, seen: Any) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """What is taken from the clean sentence, as outputs of heads: one head at all positions, a layer, or a position."""
    mine = {head: seen[head.partition(":")[0]].outputs(head=int(head.partition(":")[2])) for head in translator.heads}
    yield from ((head, {head: outputs}) for head, outputs in mine.items())
    for name in translator.encoder:
        yield f"{name}, all heads", {head: outputs for head, outputs in mine.items() if head.startswith(name)}
    for name, place in (("the word itself", clean.word), ("the exchanged word", changed)):
        yield f"encoder at {name}", {head: outputs[:, place] for head, outputs in mine.items()}


@torch.inference_mode()
def report_patches(translator: Translator, kind: str, examples: Sequence[Example]) -> None:
    shares: dict[str, list[float]] = defaultdict(list)
    tried = count = 0
    for clean, corrupted in pairs(translator, kind, examples):
        high, low = translator.lead(clean), translator.lead(corrupted)
        tried += 1
        if low > 0:
            continue
        count += 1
        changed = int((clean.source != corrupted.source)[0].nonzero()[0])
        with saccade.watch(translator.model, values=True) as seen:
            translator.lead(clean)
        with saccade.watch(translator.model, values=True) as before:
            translator.lead(corrupted)
        for name, outputs in parts(translator, clean, changed, seen):
            if "at the" in name:
                place = clean.word if "itself" in name else changed
                outputs = {head: _at(before, head, place, vector) for head, vector in outputs.items()}
            with saccade.edit(translator.model, set_heads=outputs):
                shares[name].append((translator.lead(corrupted) - low) / (high - low))
    print(f"  exchanging a word changes the answer in {count} of {tried} sentences; what brings it back:")
    for name, found in sorted(shares.items(), key=lambda one: -sum(one[1])):
        print(f"    {name}: {sum(found) / len(found):+.2f}")


def _at(before: Any, head: str, place: int, vector: Tensor) -> Tensor:
    """The outputs of a head in the corrupted sentence, with those of the clean one at a position."""
    name, _, number = head.partition(":")
    outputs: Tensor = before[name].outputs(head=int(number)).clone()
    outputs[:, place] = vector
    return outputs


def depends(example: Example) -> bool:
    """Whether the answer depends on the link; "he" and "she" tell the gender themselves."""
    return example.source[example.links[0].word] not in ("he", "she")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a translator of the built-in corpus into French, such as runs/demo")
    parser.add_argument(
        "--sentences", type=int, default=2000, help="number of sentences from the grammar, for each part"
    )
    parser.add_argument("--pairs", type=int, default=400, help="number of sentences in which a word is exchanged")
    options = parser.parse_args()
    translator = Translator(options.model)
    choose, judge = generate(options.sentences, 11, "train"), generate(options.sentences, 12, "test")
    for kind in ("pronoun", "bank"):
        shares = link_shares(translator.opened.view_input, kind, choose, judge)
        print(shares)
        linked = [one for one in judge if one.links and one.links[0].kind == kind]
        report_cuts(translator, [translator.question(one) for one in linked if depends(one)], shares.best_head)
        report_patches(translator, kind, [one for one in generate(options.pairs, 13, "test", kind) if depends(one)])


if __name__ == "__main__":
    main()

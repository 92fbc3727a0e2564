"""Texts from the built-in corpus in which a deciding word shows what an ambiguous word means, and a small encoder that
tags the ambiguous word with its meaning.

"It" and "they" are tagged with the gender of the French noun that they refer to: in "The cat ate the mouse because it
was hungry", "it" is the cat (il), but the mouse (elle) if "it was slow". The meaning of "bank" follows from a word such
as "river" or "street"; a text has two such sentences in a row, so that "bank" has to find the deciding word of its own
sentence. In every text, the deciding word has a rival: the other noun, or the deciding word of the other sentence.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.attention import KeyValue, MultiHead, edit, padding
from saccade.data.grammar import Example, generate
from saccade.data.grammar.lexicon import NOUNS
from saccade.models.layers import FeedForward

__all__ = [
    "ANSWERS",
    "HEADS",
    "WORDS",
    "Case",
    "Corpus",
    "DecidedWordTagger",
    "answer_of",
    "hidden",
    "padded",
    "train_tagger",
    "vocabulary_of",
]

ANSWERS = ("masculine", "feminine", "money", "water")
WORDS = ("it", "bank")  # "it" stands for "they" too
HIDDEN = "…"
WIDTH, HEADS, AHEAD, BATCH = 64, 2, 2, 64
_GENDERS = {form: "mf".index(noun.gender) for nouns in NOUNS.values() for noun in nouns
            for form in (noun.english, noun.english_plural) if form}  # fmt: skip
_MONEY = {form for category in ("street", "customer") for noun in NOUNS[category]
          for form in (noun.english, noun.english_plural)}  # fmt: skip


class Case(NamedTuple):
    """A text, with the positions of the ambiguous word, of the word that decides its meaning, and of that word's
    rival."""

    words: tuple[str, ...]
    decided: int
    deciding: int
    rival: int
    answer: int  # an index into ANSWERS
    rival_answer: int


def _pronoun_case(example: Example) -> Case | None:
    """Return the case of a sentence; None if the English pronoun shows the gender or a noun's gender is not known."""
    (link,) = example.links
    nouns = [place for place, tag in enumerate(example.tags) if tag == "NOUN" and place != link.antecedent]
    known = [place for place in (link.antecedent, *nouns) if example.source[place] in _GENDERS]
    if example.source[link.word] not in ("it", "they") or len(known) != 2:
        return None
    answers = [_GENDERS[example.source[place]] for place in known]
    return Case(example.source, link.word, *known, *answers)


def _bank_case(own: Example, other: Example, own_is_first: bool) -> Case:
    first, second = (own, other) if own_is_first else (other, own)
    starts = (0, len(first.source)) if own_is_first else (len(first.source), 0)
    (link,), (rival,) = own.links, other.links
    answers = (2 + (one.source[one.links[0].antecedent] not in _MONEY) for one in (own, other))
    return Case(first.source + second.source, link.word + starts[0], link.antecedent + starts[0],
                rival.antecedent + starts[1], *answers)  # fmt: skip


def hidden(case: Case) -> Case:
    """Return the case with its deciding word hidden; the right answer is then the one that the rival would give."""
    words = (*case.words[: case.deciding], HIDDEN, *case.words[case.deciding + 1 :])
    return case._replace(words=words, answer=case.rival_answer)


class Corpus:
    """Cases from one split of the built-in corpus. The combinations of two words that are held out for validation or
    test do not occur in training."""

    def __init__(self, split: str, sentences: int, seed: int) -> None:
        found = (_pronoun_case(example) for example in generate(sentences, seed, split, "pronoun"))
        self.pronouns = [case for case in found if case is not None]
        self.banks = generate(sentences, seed, split, "bank")
        self._random = random.Random(seed)

    def draw(self, word: str, count: int) -> list[Case]:
        """Draw cases of one ambiguous word, "it" or "bank"."""
        if word == "it":
            return self._random.choices(self.pronouns, k=count)
        pairs = (self._random.sample(self.banks, 2) for _ in range(count))
        return [_bank_case(own, other, self._random.random() < 0.5) for own, other in pairs]

    def contrasts(self, word: str, count: int) -> list[Case]:
        """Draw distinct cases in which the rival would give a different answer than the deciding word."""
        drawn = dict.fromkeys(case for case in self.draw(word, 6 * count) if case.answer != case.rival_answer)
        return list(drawn)[:count]


def padded(cases: Sequence[Case], vocabulary: dict[str, int]) -> tuple[Tensor, Tensor]:
    """Return the word ids (B, N) and the lengths of the texts; unknown words and padding have the id 0."""
    ids = [torch.tensor([vocabulary.get(word, 0) for word in case.words]) for case in cases]
    return nn.utils.rnn.pad_sequence(ids, batch_first=True), torch.tensor([len(one) for one in ids])


def vocabulary_of(corpus: Corpus) -> dict[str, int]:
    texts = [case.words for case in corpus.pronouns] + [example.source for example in corpus.banks]
    return {word: number for number, word in enumerate(sorted({word for text in texts for word in text}), start=1)}


class DecidedWordTagger(nn.Module):
    """A tagger with one attention layer. The query and key of a word are computed from the word and the two words after
    it, so that "it" knows what is said of it and a noun knows its verb. Its value is computed from the word alone, so
    that a gender can only come from a noun.
    """

    def __init__(self, words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(words, WIDTH)
        self.following = nn.Conv1d(WIDTH, WIDTH, AHEAD + 1)
        self.attention = MultiHead(WIDTH, HEADS, alibi=True)
        self.feed_forward, self.output = FeedForward(WIDTH, 2 * WIDTH, "relu"), nn.Linear(WIDTH, len(ANSWERS))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        words = self.words(ids)
        following = self.following(F.pad(words.transpose(1, 2), (0, AHEAD))).transpose(1, 2)
        x = words + following
        seen = self.norms[0](x)
        source = KeyValue(self.attention.project(seen).key, self.attention.project(self.norms[1](words)).value)
        x = x + self.attention(seen, source, mask=padding(lengths))
        logits: Tensor = self.output(x + self.feed_forward(self.norms[2](x)))
        return logits


def answer_of(model: DecidedWordTagger, case: Case, vocabulary: dict[str, int], *without: tuple[str, int, int]) -> int:
    """Return the index in ANSWERS of the likeliest answer when the attention links in ``without`` are cut."""
    with torch.inference_mode(), edit(model, without_links=without):
        return int(model(*padded([case], vocabulary))[0, case.decided].argmax())


def train_tagger(corpus: Corpus, vocabulary: dict[str, int], *, steps: int, ordered: bool) -> DecidedWordTagger:
    """Train a tagger. In a quarter of the texts, the deciding word is hidden (see ``hidden``).

    With ``ordered``, only the first head is used in every second batch (nested dropout, Rippel 2014), so that the first
    head learns to find the answer without the other heads.
    """
    model = DecidedWordTagger(len(vocabulary) + 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    others = [f"attention:{head}" for head in range(1, HEADS)]
    for step in range(steps):
        cases = [case for word in WORDS for case in corpus.draw(word, BATCH // len(WORDS))]
        cases = [hidden(case) if number % 4 == 0 else case for number, case in enumerate(cases)]
        with edit(model, without_heads=others if ordered and step % 2 else ()):
            logits = model(*padded(cases, vocabulary))
        decided = logits[torch.arange(len(cases)), torch.tensor([case.decided for case in cases])]
        loss = F.cross_entropy(decided, torch.tensor([case.answer for case in cases]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model.eval()

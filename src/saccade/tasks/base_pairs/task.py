"""Base pairs: predict, for each base of an RNA sequence, which other base it pairs with, if any."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor, nn

from saccade.data.structures import BASES, Molecule, pairs_of, partners_of, to_dot_bracket
from saccade.errors import FileError
from saccade.models import Config
from saccade.models.pairs import PairConfig, PairNetwork
from saccade.tasks.base.settings import TrainingSettings
from saccade.tasks.base.task import (
    Batch,
    CheckCancelled,
    Evaluation,
    Loss,
    Network,
    Probe,
    ReadFile,
    Task,
    TaskState,
    device_of,
)
from saccade.tasks.base_pairs.baselines import copied_structure, folded_by_vienna
from saccade.tasks.base_pairs.folding import SMALLEST_LOOP, best_structure, pair_scores
from saccade.text import plan_batches

__all__ = ["BasePairs", "BasePairsState", "FoldingOptions"]

#: The ids of the bases, and of an uncertain base.
LETTERS = {base: number for number, base in enumerate(BASES)}
UNCERTAIN = len(BASES)
#: The target of a base that the loss ignores: padding, or a base whose partner is too close for the network to allow.
IGNORED = -100
KNOWN_FILE = "training.jsonl"


class BasePairsTraining(TrainingSettings):
    """How the model is trained; the batch size is counted in pairs of bases."""

    batch_key = "batch_pairs"

    batch_pairs: int = Field(
        80_000, ge=1, description="Pairs of bases in a batch: the sum of the squares of the padded lengths"
    )


class FoldingOptions(Config):
    """How a structure is chosen from the probabilities."""

    crossing: bool = Field(False, description="Whether base pairs may cross each other (pseudoknots)")


@dataclass(frozen=True)
class BasePairsBatch(Batch):
    """Padded sequences, and the partner of each base."""

    bases: Int[Tensor, "B L"]
    lengths: Int[Tensor, " B"]
    partners: Int[Tensor, "B L"]  # L if the base is unpaired
    lines: Sequence[int]
    predictions: int  # bases that the loss counts

    @property
    def count(self) -> int:
        return self.predictions


@dataclass(frozen=True)
class BasePairsState(TaskState):
    """The training molecules; a baseline predicts a structure by copying that of the most similar one."""

    known: tuple[tuple[str, tuple[int, ...]], ...] = field(repr=False)

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], train: Sequence[Molecule], tokenizer: Any = None) -> Self:
        return cls(tuple((one.sequence, one.partners) for one in train if one.partners is not None))

    @classmethod
    def load(cls, description: Mapping[str, Any], read: ReadFile, where: str) -> Self:
        known = []
        for number, line in enumerate(read(KNOWN_FILE).decode().splitlines(), start=1):
            place = f"{where}: {KNOWN_FILE}, line {number}"
            try:
                sequence, pairs = json.loads(line)
                known.append((sequence, partners_of(pairs, len(sequence))))
            except (ValueError, TypeError, IndexError):
                raise FileError(f"{place}: expected a JSON list of a sequence and its base pairs.") from None
        return cls(tuple(known))

    def description(self) -> dict[str, Any]:
        return {"training_molecules": len(self.known)}

    def files(self) -> Mapping[str, bytes]:
        lines = (json.dumps([sequence, pairs_of(partners)]) + "\n" for sequence, partners in self.known)
        return {KNOWN_FILE: "".join(lines).encode()}


class BasePairs(Task):
    """Trains with the cross-entropy of each base's partner: one of the other bases, or "unpaired"."""

    name = "base-pairs"
    about = "predicts which bases of an RNA sequence pair with each other"
    metrics = ("f1", "precision", "recall", "loss")
    state_class = BasePairsState
    tables: ClassVar = {"decoding": FoldingOptions, "training": BasePairsTraining}
    networks: ClassVar = {
        "pairs": Network(PairConfig, lambda config, state: PairNetwork(config, UNCERTAIN + 1, SMALLEST_LOOP + 1))
    }

    state: BasePairsState
    training: BasePairsTraining

    def encode(self, examples: Sequence[Molecule]) -> list[Molecule]:
        return list(examples)

    def lengths(self, examples: Sequence[Molecule]) -> Int[np.ndarray, "n 1"]:
        return np.array([[one.length**2] for one in examples], dtype=np.int64)

    def batch(self, examples: Sequence[Molecule]) -> BasePairsBatch:
        lengths = torch.tensor([one.length for one in examples])
        longest = int(lengths.max())
        bases = torch.full((len(examples), longest), UNCERTAIN)
        partners = torch.full((len(examples), longest), IGNORED)
        for row, one in enumerate(examples):
            bases[row, : one.length] = _ids(one.sequence)
            for place, partner in enumerate(one.partners or ()):
                if partner < 0:
                    partners[row, place] = longest
                elif abs(partner - place) > SMALLEST_LOOP:
                    partners[row, place] = partner
        counted = int((partners != IGNORED).sum())
        return BasePairsBatch(bases, lengths, partners, [one.line for one in examples], counted)

    def loss(self, model: nn.Module, batch: BasePairsBatch) -> Loss:
        logits = model(batch.bases, batch.lengths).flatten(0, 1)
        targets = batch.partners.flatten()
        return Loss(F.cross_entropy(logits.float(), targets, ignore_index=IGNORED, reduction="sum"), batch.count)

    @torch.inference_mode()
    def probabilities(
        self, model: nn.Module, sequences: Sequence[str]
    ) -> list[tuple[Float[np.ndarray, "L L"], Float[np.ndarray, " L"]]]:
        """Return, for each sequence, a symmetric matrix with the probability of each pair of bases, and the probability
        of each base to be unpaired."""
        lengths = torch.tensor([len(sequence) for sequence in sequences])
        bases = torch.full((len(sequences), int(lengths.max())), UNCERTAIN)
        for row, sequence in enumerate(sequences):
            bases[row, : len(sequence)] = _ids(sequence)
        alone = len(sequences) == 1
        logits = model(bases.to(device_of(model)), None if alone else lengths)
        every = logits.double().softmax(-1).cpu().numpy()
        found = []
        for row, length in enumerate(lengths.tolist()):
            paired = every[row, :length, :length]
            found.append(((paired + paired.T) / 2, every[row, :length, -1]))
        return found

    def structures(
        self,
        model: nn.Module,
        molecules: Sequence[Molecule],
        options: FoldingOptions,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> list[tuple[int, ...]]:
        """Return the predicted structure of each molecule, as the partner of each base."""
        found: dict[int, tuple[int, ...]] = {}
        for part in plan_batches(self.lengths(molecules), max_tokens=self.training.batch_size, shuffle=False):
            check_cancelled()
            predicted = self.probabilities(model, [molecules[place].sequence for place in part])
            for place, (paired, unpaired) in zip(part, predicted, strict=True):
                found[int(place)] = best_structure(paired, unpaired, crossing=options.crossing)
        return [found[place] for place in range(len(molecules))]

    def validate(
        self, model: nn.Module, examples: Sequence[Molecule], check_cancelled: CheckCancelled = lambda: None
    ) -> dict[str, float]:
        with torch.inference_mode():
            loss = self.mean_loss(model, examples, self.training.batch_size, check_cancelled)
        found = self.structures(model, examples, self.settings["decoding"], check_cancelled)
        return {"loss": loss, **_mean_scores(examples, found)}

    def evaluate(
        self,
        model: nn.Module,
        examples: Sequence[Molecule],
        options: Any = None,
        check_cancelled: CheckCancelled = lambda: None,
    ) -> Evaluation:
        """Return the scores averaged over molecules, and lines that compare them with those of two baselines: copying
        the structure of the most similar training molecule, and ViennaRNA."""
        found = self.structures(model, examples, options or self.settings["decoding"], check_cancelled)
        scores = _mean_scores(examples, found)
        lines = [f"{'method':34} {'precision':>9} {'recall':>9} {'f1':>9}", _line("this model", scores)]
        methods: dict[str, Callable[[str], tuple[int, ...] | None]] = {
            "most similar training molecule": lambda sequence: copied_structure(sequence, self.state.known),
            "RNAfold (ViennaRNA)": folded_by_vienna,
        }
        for name, method in methods.items():
            other = []
            for one in examples:
                check_cancelled()
                other.append(method(one.sequence))
            if any(one is None for one in other):
                lines.append(f"{name:34} not installed; run: pip install 'saccade[rna]'")
            else:
                lines.append(_line(name, _mean_scores(examples, cast(Any, other))))
        known = {sequence for sequence, _ in self.state.known}
        same = sum(one.sequence in known for one in examples)
        lines.append(f"{same:,} of {len(examples):,} sequences are also in the training data")
        return Evaluation(scores, lines=lines)

    def probe(self, model: nn.Module, example: Molecule) -> Probe:
        paired, unpaired = self.probabilities(model, [example.sequence])[0]
        structure = to_dot_bracket(best_structure(paired, unpaired, crossing=False))
        return Probe(list(example.sequence), list(structure), structure, paired.tolist())

    def facts(self) -> list[str]:
        return ["scores: precision, recall and F1 of base pairs in percent, averaged over molecules"]


def _ids(sequence: str) -> Int[Tensor, " L"]:
    return torch.tensor([LETTERS.get(base, UNCERTAIN) for base in sequence])


def _mean_scores(molecules: Sequence[Molecule], found: Sequence[tuple[int, ...]]) -> dict[str, float]:
    each = [
        pair_scores(set(pairs_of(partners)), set(pairs_of(one.partners or ())))
        for one, partners in zip(molecules, found, strict=True)
    ]
    precision, recall, f1 = (100 * np.mean(each, axis=0)).tolist()
    return {"precision": precision, "recall": recall, "f1": f1}


def _line(name: str, scores: Mapping[str, float]) -> str:
    return f"{name:34} {scores['precision']:9.2f} {scores['recall']:9.2f} {scores['f1']:9.2f}"

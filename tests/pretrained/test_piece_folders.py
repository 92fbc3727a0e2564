"""Folders with SentencePiece files: texts in and out as at home, and training from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
import torch
import transformers as hf
from tiny import marian, save, t5

import saccade
from saccade.errors import FileError
from saccade.tasks.base.exporting import export
from saccade.text.sentencepiece import read_pieces
from untrained import ENGLISH, FRENCH

TEXTS = [*ENGLISH[:6], "An unknown ж here."]


def pieces(folder: Path, name: str, texts: list[str], **rules: Any) -> list[str]:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_prefix=str(folder / "trained"),
        **{"vocab_size": 90, "minloglevel": 2, "num_threads": 1, "hard_vocab_limit": False} | rules,
    )
    (folder / "trained.vocab").unlink()
    (folder / "trained.model").rename(folder / name)
    return [piece.text for piece in read_pieces(folder / name).pieces]


def marian_folder(folder: Path) -> Path:
    folder.mkdir()
    both = pieces(folder, "source.spm", ENGLISH) + pieces(folder, "target.spm", FRENCH)
    entries = dict.fromkeys(["</s>", "<unk>", *sorted(set(both) - {"</s>", "<unk>", "<s>"}), "<pad>"])
    (folder / "vocab.json").write_text(json.dumps({entry: id for id, entry in enumerate(entries)}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "MarianTokenizer"}))
    last = len(entries) - 1
    ids = {"vocab_size": len(entries), "pad_token_id": last, "decoder_start_token_id": last, "eos_token_id": 0}
    return save(marian(**ids, max_position_embeddings=128), folder)


def t5_folder(folder: Path) -> Path:
    folder.mkdir()
    rules = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    count = len(pieces(folder, "spiece.model", ENGLISH + FRENCH, **rules)) + 4
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "T5Tokenizer", "extra_ids": 4}))
    ids = {"pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 1}
    return save(t5(vocab_size=count + 3, **ids), folder)


FOLDERS = {"marian": (marian_folder, hf.MarianTokenizer), "t5": (t5_folder, hf.T5Tokenizer)}


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
@torch.no_grad()
@pytest.mark.parametrize("family", FOLDERS)
def test_a_text_is_rewritten_as_at_home(family: str, tmp_path: Path) -> None:
    make, kind = FOLDERS[family]
    folder = make(tmp_path / "theirs")
    opened = saccade.open(folder)
    tokenizer = kind.from_pretrained(folder)
    home = hf.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    barred = [[id] for id in opened.task.state.target.barred_ids]
    found = []
    for text, answer in zip(TEXTS, opened.predict(TEXTS, beam=1), strict=True):
        given = tokenizer(text, return_tensors="pt")
        written = home.generate(
            **given, num_beams=1, do_sample=False, max_new_tokens=70, bad_words_ids=barred, use_cache=False
        )
        ids = [id for id in written[0, 1:].tolist() if id != opened.task.state.target.special.end]
        length = min(len(ids), len(answer.ids))  # the two libraries do not stop a long text at the same place
        assert answer.ids[:length] == ids[:length]
        assert answer.text == opened.task.state.target.decode(answer.ids)
        found.append(tuple(answer.ids))
    assert len(set(found)) > 1


@pytest.mark.parametrize("family", FOLDERS)
def test_training_goes_on_from_it_with_its_own_pieces(family: str, tmp_path: Path) -> None:
    folder = FOLDERS[family][0](tmp_path / "theirs")
    for name, texts in (("source", ENGLISH), ("target", FRENCH)):
        (tmp_path / f"{name}.txt").write_text("\n".join(texts[:30]) + "\n")
    recipe = {
        "task": "translation",
        "data": {"source": str(tmp_path / "source.txt"), "target": str(tmp_path / "target.txt"), "validation": 0.2},
        "training": {"steps": 1, "warmup": 0, "validate_every": 1, "lr": 1e-12, "batch_tokens": 64},
        "decoding": {"beam": 1},
    }
    again = saccade.train(recipe, output=tmp_path / "run", init=folder, quiet=True).open()
    before = saccade.open(folder)
    for side in ("source", "target"):
        first, second = (one.task.state.vocabularies()[side] for one in (before, again))
        assert first.encode_ids(ENGLISH + FRENCH) == second.encode_ids(ENGLISH + FRENCH)
    answers = [[one.ids for one in opened.predict(TEXTS, beam=1)] for opened in (before, again)]
    assert answers[0] == answers[1]


def test_it_is_exported_for_ctranslate2_with_both_vocabularies(tmp_path: Path) -> None:
    said = export(marian_folder(tmp_path / "theirs"), "ctranslate2", tmp_path / "out", ENGLISH[:4])
    assert "the same" in said


@pytest.mark.parametrize("beam", [1, 3])
def test_ctranslate2_gives_the_same_answers_and_scores(beam: int, tmp_path: Path) -> None:
    """Its search shares the probability of tokens that are never written among the others."""
    folder = marian_folder(tmp_path / "theirs")
    ours, theirs = (saccade.open(folder, engine=engine) for engine in ("torch", "ctranslate2"))
    assert ours.task.state.target.barred_ids
    answers = theirs.predict(ENGLISH[:4], beam=beam, max_ratio=1)
    for answer in answers:
        assert answer.log_probability == pytest.approx(sum(ours.token_scores(answer.source, answer)), abs=1e-3)
    if beam == 1:
        expected = ours.predict(ENGLISH[:4], beam=beam, max_ratio=1)
        assert [one.ids for one in answers] == [one.ids for one in expected]
        assert [one.score for one in answers] == pytest.approx([one.score for one in expected], abs=1e-3)


def test_added_tokens_are_refused(tmp_path: Path) -> None:
    """Wrong before: an added token was split like an ordinary word."""
    folder = t5_folder(tmp_path / "t5")
    (folder / "added_tokens.json").write_text(json.dumps({"<|im_start|>": 300}))
    with pytest.raises(FileError, match=r"adds the token '<\|im_start\|>' to those of spiece.model"):
        saccade.open(folder)


def test_byte_pieces_of_marian_are_refused(tmp_path: Path) -> None:
    folder = marian_folder(tmp_path / "marian")
    pieces(folder, "source.spm", ENGLISH, byte_fallback=True, vocab_size=400)
    with pytest.raises(FileError, match="has pieces for bytes"):
        saccade.open(folder)

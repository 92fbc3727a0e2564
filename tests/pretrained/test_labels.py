"""Classifiers and taggers of other libraries give the logits, and so the labels, that they give at home."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny import LABELLING_TEXTS, TOLERANCE, VOCABULARY, WORDS, bert, labelling, save

import saccade
from saccade.errors import FileError
from saccade.pretrained import read_pretrained
from saccade.tasks.base.exporting import export


@torch.no_grad()
@pytest.mark.parametrize("name", LABELLING_TEXTS)
def test_texts_get_the_same_logits_and_labels(name: str, tmp_path: Path) -> None:
    theirs = labelling("Sequence", LABELLING_TEXTS[name])
    folder = save(theirs, tmp_path / "theirs")
    ours = read_pretrained(folder)
    tokens, lengths = torch.randint(2, VOCABULARY, (3, 13)), torch.tensor([13, 5, 8])
    real = torch.arange(13) < lengths[:, None]
    tokens = tokens.masked_fill(~real, theirs.config.pad_token_id)
    expected = theirs(tokens, attention_mask=real.long()).logits
    torch.testing.assert_close(ours.network(tokens, lengths), expected, **TOLERANCE)
    (answer,) = saccade.open(folder).predict([" ".join(map(str, tokens[0].tolist()))])  # ids, without a tokenizer
    found = [answer.probabilities[label] for label in ("bad", "good", "mixed")]
    assert found == pytest.approx(expected[0].softmax(dim=-1).tolist(), abs=1e-5)


@torch.no_grad()
def test_words_get_the_mean_of_the_logits_of_their_pieces(tmp_path: Path) -> None:
    theirs = labelling("Token", bert, vocab_size=len(WORDS))
    folder = save(theirs, tmp_path / "theirs")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (answer,) = saccade.open(folder).predict([["the", "dogs", "sleep"]])
    logits = theirs(torch.tensor([[2, 5, 6, 9, 8, 3]])).logits[0]  # [CLS] the dog ##s sleep [SEP]
    expected = torch.stack([logits[1], logits[2:4].mean(dim=0), logits[4]]).softmax(dim=-1)
    torch.testing.assert_close(answer.every, expected, **TOLERANCE)


def test_a_classifier_is_exported_to_the_class_that_it_came_from(tmp_path: Path) -> None:
    folder = save(labelling("Sequence", bert, vocab_size=len(WORDS)), tmp_path / "theirs")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    assert "same logits" in export(folder, "huggingface", tmp_path / "out", ["the dog sleeps", "very good film ."])
    again, before = saccade.open(tmp_path / "out"), saccade.open(folder)
    assert again.predict("the cat was bad")[0].record() == before.predict("the cat was bad")[0].record()


def test_labels_of_the_same_name_are_told_apart_and_missing_ones_refused(tmp_path: Path) -> None:
    model = labelling("Sequence", bert)
    model.config.id2label = {0: "good", 1: "good", 2: "bad"}
    assert read_pretrained(save(model, tmp_path)).labels == ["good (0)", "good (1)", "bad"]
    fields = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(fields | {"id2label": {"0": "good", "1": "bad", "3": "mixed"}}))
    with pytest.raises(FileError, match="id2label does not give each id from 0 to 2 a label"):
        read_pretrained(tmp_path)


@pytest.mark.parametrize("name", LABELLING_TEXTS)
def test_a_model_with_one_label_computes_a_number_and_is_refused(name: str, tmp_path: Path) -> None:
    """Otherwise, each text would have this label with a probability of 1."""
    save(labelling("Sequence", LABELLING_TEXTS[name]), tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text()) | {"id2label": {"0": "relevance"}}
    refused = r"config\.json: id2label has only one label, so "
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(FileError, match=f"{refused}the model computes a number"):
        saccade.open(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(fields | {"problem_type": "single_label_classification"}))
    with pytest.raises(FileError, match=f"{refused}there is nothing to choose between; Saccade supports two labels"):
        saccade.open(tmp_path)


def test_a_tagger_with_one_label_is_refused(tmp_path: Path) -> None:
    save(labelling("Token", bert), tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text()) | {"id2label": {"0": "word"}}
    (tmp_path / "config.json").write_text(json.dumps(fields))
    with pytest.raises(FileError, match="has only one label, so there is nothing to choose between"):
        saccade.open(tmp_path)


@pytest.mark.parametrize("engine", ["auto", "transformers"])
def test_labels_that_only_have_a_number_get_numbered_names(engine: str, tmp_path: Path) -> None:
    """Wrong before: Saccade's engine refused the folder, and transformers answered with an IndexError."""
    model = labelling("Sequence", bert, vocab_size=len(WORDS))
    (save(model, tmp_path) / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    fields = json.loads((tmp_path / "config.json").read_text())
    labels = fields.pop("id2label")
    fields.pop("label2id")
    (tmp_path / "config.json").write_text(json.dumps(fields | {"num_labels": 3}))
    (answer,) = saccade.open(tmp_path, engine=engine).predict(["the dog"])
    assert sorted(answer.probabilities) == ["LABEL_0", "LABEL_1", "LABEL_2"]
    (tmp_path / "config.json").write_text(json.dumps(fields | {"num_labels": 2, "id2label": labels}))
    with pytest.raises(FileError, match="id2label has 3 labels, but num_labels is 2"):
        saccade.open(tmp_path, engine=engine)

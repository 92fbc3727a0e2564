"""Encoder-decoders and taggers that Saccade's networks cannot express, run by their home library and watched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tiny import LENGTH, VOCABULARY, WORDS, bert, labelling, marian, random_weights, roberta, save
from typer.testing import CliRunner

import saccade
from saccade.cli.main import app
from saccade.decoding import beam_search
from saccade.errors import UnsupportedError
from saccade.pretrained.by_transformers import read_by_transformers

TEXTS = ["5 7 11 3", "4 9", "8 6 12 20 21 22"]


def pegasus() -> Any:
    sizes = {
        f"{stack}_{name}": value
        for stack in ("encoder", "decoder")
        for name, value in (("layers", 2), ("attention_heads", 7), ("ffn_dim", 29))
    }
    ids = {"pad_token_id": 30, "decoder_start_token_id": 30, "eos_token_id": 0, "forced_eos_token_id": None}
    config = hf.PegasusConfig(vocab_size=VOCABULARY, d_model=14, max_position_embeddings=64, **sizes, **ids)
    return random_weights(hf.PegasusForConditionalGeneration(config))


def mt5() -> Any:
    sizes = {"d_model": 14, "d_kv": 3, "d_ff": 29, "num_layers": 2, "num_heads": 7}
    ids = {"pad_token_id": 30, "decoder_start_token_id": 30, "eos_token_id": 0}
    return random_weights(hf.MT5ForConditionalGeneration(hf.MT5Config(vocab_size=VOCABULARY, **sizes, **ids)))


REWRITING = {"pegasus": pegasus, "mt5": mt5}


@torch.no_grad()
@pytest.mark.parametrize("name", REWRITING)
def test_texts_are_rewritten_as_at_home(name: str, tmp_path: Path) -> None:
    folder = save(REWRITING[name](), tmp_path)
    opened = saccade.open(folder)
    assert opened.engine_name == "transformers"
    home = hf.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    answers = opened.predict(TEXTS, beam=1)  # sources of several lengths
    for text, answer in zip(TEXTS, answers, strict=True):
        source = torch.tensor([[*map(int, text.split()), 0]])
        options = {"do_sample": False, "num_beams": 1, "max_new_tokens": 24, "bad_words_ids": [[30]]}
        written = home.generate(source, attention_mask=torch.ones_like(source), **options)[0, 1:].tolist()
        expected = written[: written.index(0)] if 0 in written else written
        length = min(len(expected), len(answer.ids))
        assert length > 1
        assert answer.ids[:length] == expected[:length]
    assert len({answer.text for answer in answers}) > 1


@torch.no_grad()
@pytest.mark.parametrize("name", REWRITING)
def test_a_search_scores_its_texts_as_one_pass_does(name: str, tmp_path: Path) -> None:
    network = read_by_transformers(save(REWRITING[name](), tmp_path), "Chosen.").network
    source, lengths = torch.randint(1, 30, (3, 9)), torch.tensor([9, 4, 9])
    options = {"batch_size": 3, "start_token": 30, "end_token": 0, "max_length": 7, "barred": [30]}
    for row, found in enumerate(beam_search(network, network.start(source, lengths), beam=3, n_best=3, **options)):
        home = network.network
        for one in found:
            ids = [*one.tokens, *([0] if one.finished else [])]
            text = source[row : row + 1, : lengths[row]]
            logits = home(input_ids=text, decoder_input_ids=torch.tensor([[30, *ids[:-1]]])).logits[0]
            expected = logits.log_softmax(dim=-1).gather(1, torch.tensor(ids)[:, None]).sum()
            assert one.log_probability == pytest.approx(float(expected), abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("name", REWRITING)
def test_all_three_attentions_are_those_of_the_home_library(name: str, tmp_path: Path) -> None:
    folder = save(REWRITING[name](), tmp_path)
    opened = saccade.open(folder)
    (answer,) = opened.predict(TEXTS[:1], beam=1)
    seen = answer.attention.view
    kind = type(opened.model.network)
    home = kind.from_pretrained(folder, attn_implementation="eager").eval()
    given = {"input_ids": torch.tensor([[5, 7, 11, 3, 0]]), "decoder_input_ids": torch.tensor([[30, *answer.ids]])}
    expected = home(**given, output_attentions=True)
    every = {"encoder": expected.encoder_attentions, "cross": expected.cross_attentions}
    every["decoder"] = expected.decoder_attentions
    for part, layers in every.items():
        names = [one for one in seen.names if _part(one) == part]
        assert len(names) == len(layers) == 2
        for one, weights in zip(names, layers, strict=True):
            for head in range(weights.shape[1]):
                found = seen.matrix(one, head)
                torch.testing.assert_close(found, weights[0, head].to(found), rtol=1e-4, atol=1e-5)
    alignment = answer.attention.alignment
    assert alignment is not None
    assert alignment.shape == (len(answer.ids), 5)
    said = CliRunner().invoke(app, ["look", str(folder), TEXTS[0]])
    assert said.exit_code == 0, said.output


def _part(name: str) -> str:
    if "encoder_attn" in name or "EncDecAttention" in name:
        return "cross"
    return "encoder" if ".encoder." in name else "decoder"


def test_a_marian_with_a_field_that_is_not_ours_is_run_too(tmp_path: Path) -> None:
    folder = save(marian(share_encoder_decoder_embeddings=False), tmp_path)
    opened = saccade.open(folder)
    assert opened.engine_name == "transformers"
    assert opened.predict(TEXTS[:1], beam=2)[0].ids


def test_a_model_that_reads_sound_is_refused(tmp_path: Path) -> None:
    table = {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"]}
    (tmp_path / "config.json").write_text(json.dumps(table))
    (tmp_path / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    with pytest.raises(UnsupportedError, match="WhisperForConditionalGeneration does not turn one text into another"):
        saccade.open(tmp_path)


def electra(folder: Path) -> Path:
    sizes = {"embedding_size": 6, "hidden_size": 15, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = hf.ElectraConfig(vocab_size=len(WORDS), intermediate_size=29, max_position_embeddings=LENGTH, **sizes)
    config.id2label, config.label2id = {0: "X", 1: "N", 2: "V"}, {"X": 0, "N": 1, "V": 2}
    save(random_weights(hf.ElectraForTokenClassification(config)), folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


def roberta_tagger(folder: Path) -> Path:
    """Its first token has the id 0, which is padding in our own taggers."""
    letters = ["<s>", "<pad>", "</s>", "<unk>", "Ġ", *"adeghilmopstwy.", "<mask>"]
    save(labelling("Token", roberta, vocab_size=len(letters)), folder)
    (folder / "vocab.json").write_text(json.dumps({letter: id for id, letter in enumerate(letters)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return folder


SENTENCES = [["the", "dogs", "sleep"], ["pet", "was", "good", "."]]


@torch.no_grad()
@pytest.mark.parametrize("make", [electra, roberta_tagger])
def test_words_get_the_mean_of_the_logits_of_their_pieces(make: Any, tmp_path: Path) -> None:
    folder = make(tmp_path)
    opened = saccade.open(folder)
    assert opened.engine_name == "transformers"
    home = hf.AutoModelForTokenClassification.from_pretrained(folder).eval()
    tokenizer = opened.task.state.words.pieces
    before, after = tokenizer.frame
    assert len(before) == len(after) == 1
    answers = opened.predict(SENTENCES)
    for words, answer in zip(SENTENCES, answers, strict=True):
        pieces = [one.pieces for one in opened.prepare(words).words]
        ids = [*before, *(id for word in pieces for id in word), *after]
        logits = home(torch.tensor([ids])).logits[0, 1:-1]
        expected = torch.stack([part.mean(dim=0) for part in logits.split([len(word) for word in pieces])])
        torch.testing.assert_close(answer.every.float(), expected.softmax(dim=-1), rtol=1e-4, atol=1e-5)
        assert len(answer.view.names) == 2
        assert len(answer.view.rows[answer.view.names[0]]) == len(ids)
    assert "engine     transformers. " in CliRunner().invoke(app, ["open", str(folder)]).output
    assert max(len(one.pieces) for one in opened.prepare(SENTENCES[0]).words) > 1


def test_a_tagger_of_ours_is_run_by_either_engine(tmp_path: Path) -> None:
    folder = save(labelling("Token", bert, vocab_size=len(WORDS)), tmp_path)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    first, second = (saccade.open(folder, engine=engine).predict(SENTENCES) for engine in ("torch", "transformers"))
    for one, other in zip(first, second, strict=True):
        torch.testing.assert_close(one.every, other.every, rtol=1e-4, atol=1e-5)


def test_a_forced_first_token_is_refused(tmp_path: Path) -> None:
    """Wrong before: the token was left out, and with it perhaps the language to translate into."""
    folder = save(pegasus(), tmp_path)
    (folder / "generation_config.json").write_text(json.dumps({"forced_bos_token_id": 5}))
    with pytest.raises(UnsupportedError, match="forced_bos_token_id forces the first token"):
        saccade.open(folder)


def test_a_tagger_whose_token_0_is_a_word_is_refused(tmp_path: Path) -> None:
    """Wrong before: the token was dropped as padding, and all labels of its sentence were wrong."""
    config = hf.GPT2Config(vocab_size=VOCABULARY, n_embd=14, n_layer=2, n_head=2, n_positions=LENGTH, num_labels=3)
    with pytest.raises(UnsupportedError, match="the token with id 0 can occur in a text"):
        saccade.open(save(random_weights(hf.GPT2ForTokenClassification(config)), tmp_path))


def test_an_opened_model_does_not_change_with_its_file(tmp_path: Path) -> None:
    folder = save(bert(), tmp_path)
    model = saccade.open(folder).model
    before = [one.clone() for one in model.parameters()]
    file = folder / "model.safetensors"
    with file.open("r+b") as stream:
        stream.seek(file.stat().st_size // 2)
        stream.write(bytes(file.stat().st_size // 2))
    assert all(torch.equal(one, was) for one, was in zip(model.parameters(), before, strict=True))

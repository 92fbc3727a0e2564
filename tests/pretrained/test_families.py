"""Each family as its home library writes it: the same logits and attention, read and written back bit for bit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file
from tiny import (
    CONTINUING,
    ENCODING,
    FILLING,
    IMAGES,
    LENGTH,
    MODELS,
    REWRITING,
    TOLERANCE,
    VOCABULARY,
    WORDS,
    bert,
    save,
    save_bert,
)

import saccade
from saccade.decoding import beam_search
from saccade.errors import FileError, UnsupportedError
from saccade.pretrained import Pretrained, pretrained_files, read_pretrained
from saccade.pretrained.sentences import sentence_fields


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model of a family, its folder, and what we make of it; each once."""
    made: dict[str, tuple[Any, Path, Pretrained]] = {}

    def get(name: str) -> tuple[Any, Path, Pretrained]:
        if name not in made:
            theirs = MODELS[name]()
            folder = save(theirs, tmp_path_factory.mktemp(name))
            made[name] = theirs, folder, read_pretrained(folder)
        return made[name]

    return get


def compare_attention(seen: saccade.Watch, part: str, expected: Any, real: Any = None) -> None:
    """``real``: the rows to compare; RoBERTa gives padding a position of its own, which no one sees.

    A rounding error of a score is a relative error of its weight, and T5 has large scores, because it does not scale
    them.
    """
    for number, weights in enumerate(expected):
        found = seen[part.format(number)].weights().to(weights.dtype)
        pair = (found, weights) if real is None else (one.transpose(1, 2)[real] for one in (found, weights))
        torch.testing.assert_close(*pair, rtol=1e-4, atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", FILLING)
def test_a_padded_batch_gives_the_same_logits_and_attention(opened: Any, name: str) -> None:
    theirs, _, ours = opened(name)
    tokens, lengths = torch.randint(2, VOCABULARY, (3, 13)), torch.tensor([13, 5, 8])
    real = torch.arange(13) < lengths[:, None]
    tokens = tokens.masked_fill(~real, theirs.config.pad_token_id)
    with saccade.watch(ours.network) as seen:
        logits = ours.network(tokens, lengths)
    expected = theirs(tokens, attention_mask=real.long(), output_attentions=True)
    torch.testing.assert_close(logits[real], expected.logits[real], **TOLERANCE)
    compare_attention(seen, "encoder.{}.self", expected.attentions, real)


@torch.no_grad()
@pytest.mark.parametrize("name", ENCODING)
def test_padded_texts_give_the_same_vectors(opened: Any, name: str) -> None:
    theirs, _, ours = opened(name)
    tokens, lengths = torch.randint(2, VOCABULARY, (3, 13)), torch.tensor([13, 5, 8])
    real = torch.arange(13) < lengths[:, None]
    tokens = tokens.masked_fill(~real, theirs.config.pad_token_id)
    states = theirs(tokens, attention_mask=real.long()).last_hidden_state
    expected = torch.stack([row[:length].mean(dim=0) for row, length in zip(states, lengths, strict=True)])
    torch.testing.assert_close(ours.network(tokens, lengths), expected, **TOLERANCE)


@torch.no_grad()
@pytest.mark.parametrize("name", CONTINUING)
def test_a_text_gives_the_same_logits_and_attention(opened: Any, name: str) -> None:
    theirs, _, ours = opened(name)
    tokens = torch.randint(VOCABULARY, (3, LENGTH))
    with saccade.watch(ours.network) as seen:
        logits = ours.network(tokens)
    expected = theirs(tokens, output_attentions=True)
    torch.testing.assert_close(logits, expected.logits, **TOLERANCE)
    compare_attention(seen, "decoder.{}.self", expected.attentions)


@torch.no_grad()
@pytest.mark.parametrize("name", CONTINUING)
def test_a_text_read_step_by_step_gives_the_same_logits(opened: Any, name: str) -> None:
    theirs, _, ours = opened(name)
    tokens = torch.randint(VOCABULARY, (3, LENGTH))
    expected = theirs(tokens).logits
    state = ours.network.start(tokens[:, :7], LENGTH)
    for place in range(7, LENGTH):
        logits, state = ours.network.step(tokens[:, place], state)
        torch.testing.assert_close(logits, expected[:, place], **TOLERANCE)


@torch.no_grad()
@pytest.mark.parametrize("name", CONTINUING)
def test_a_search_scores_its_texts_as_one_pass_does(opened: Any, name: str) -> None:
    """Hypotheses share a cache, where a window must count positions, not keys."""
    theirs, _, ours = opened(name)
    prompt = torch.randint(1, VOCABULARY, (2, 6))
    start = ours.network.start(prompt[:, :-1], LENGTH)
    options = {"batch_size": 2, "start_token": prompt[:, -1], "end_token": 0, "max_length": 11}
    for row, found in enumerate(beam_search(ours.network, start, beam=3, n_best=3, **options)):
        for one in found:
            ids = torch.tensor([[*prompt[row].tolist(), *one.tokens, *([0] if one.finished else [])]])
            terms = theirs(ids).logits[0, 5:-1].log_softmax(dim=-1)
            expected = terms.gather(1, ids[0, 6:, None]).sum()
            assert one.log_probability == pytest.approx(float(expected), abs=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("name", REWRITING)
def test_a_padded_pair_gives_the_same_logits_and_attention(opened: Any, name: str) -> None:
    theirs, _, ours = opened(name)
    source, lengths = torch.randint(1, 30, (3, 11)), torch.tensor([5, 11, 8])
    target = torch.randint(VOCABULARY, (3, 13))
    real = torch.arange(11) < lengths[:, None]
    with saccade.watch(ours.network) as seen:
        logits = ours.network(source, lengths, target)
    expected = theirs(source, attention_mask=real.long(), decoder_input_ids=target, output_attentions=True)
    torch.testing.assert_close(logits, expected.logits, **TOLERANCE)
    compare_attention(seen, "encoder.{}.self", expected.encoder_attentions)
    compare_attention(seen, "decoder.{}.self", expected.decoder_attentions)
    compare_attention(seen, "decoder.{}.cross", expected.cross_attentions)
    state = ours.network.start(source, lengths, 13)
    for place in range(13):
        stepped, state = ours.network.step(target[:, place], state)
        torch.testing.assert_close(stepped, expected.logits[:, place], **TOLERANCE)


@torch.no_grad()
@pytest.mark.parametrize("name", IMAGES)
def test_images_give_the_same_logits_and_attention(opened: Any, name: str) -> None:
    theirs, _, ours = opened(name)
    images = torch.randn(3, 3, 12, 12)
    with saccade.watch(ours.network) as seen:
        logits = ours.network(images)
    expected = theirs(images, output_attentions=True)
    torch.testing.assert_close(logits, expected.logits, **TOLERANCE)
    compare_attention(seen, "encoder.{}.self", expected.attentions)


@torch.no_grad()
@pytest.mark.parametrize("name", REWRITING)
def test_greedy_search_writes_what_the_home_library_writes(opened: Any, name: str) -> None:
    theirs, _, ours = opened(name)
    torch.manual_seed(4)
    source, lengths = torch.randint(1, 30, (9, 11)), torch.arange(3, 12)
    real = torch.arange(11) < lengths[:, None]
    # Their cache counts the layers of T5's encoder, not of its decoder.
    options = {"max_length": LENGTH, "do_sample": False, "num_beams": 1, "use_cache": "t5" not in name}
    expected = theirs.generate(source, attention_mask=real.long(), **options)
    start = ours.network.start(source, lengths, LENGTH)
    options = {"batch_size": 9, "start_token": 30, "end_token": 0, "max_length": LENGTH - 1}
    found = [best[0].tokens for best in beam_search(ours.network, start, beam=1, **options)]
    rows = [row[: row.index(0)] if 0 in row else row for row in expected[:, 1:].tolist()]
    assert found == rows
    assert len({tuple(row) for row in rows}) > 1  # not all one and the same, which any model could write


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_what_we_write_is_bit_for_bit_what_we_read(opened: Any, name: str, tmp_path: Path) -> None:
    theirs, folder, ours = opened(name)
    for file, content in pretrained_files(ours).items():
        (tmp_path / file).write_bytes(content)
    before, after = load_file(folder / "model.safetensors"), load_file(tmp_path / "model.safetensors")
    assert set(after) == set(before) - {name for name in before if "pooler" in name}  # not used by ours
    for key in after:
        assert after[key].dtype == before[key].dtype
        assert torch.equal(after[key], before[key]), key
    again = type(theirs).from_pretrained(tmp_path, attn_implementation="eager")
    for key, tensor in theirs.state_dict().items():
        assert "pooler" in key or torch.equal(again.state_dict()[key], tensor), key


@pytest.mark.parametrize("name", MODELS)
def test_several_files_with_an_index_are_read_like_one(opened: Any, name: str, tmp_path: Path) -> None:
    theirs, _, ours = opened(name)
    save(theirs, tmp_path, max_shard_size="3KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    again = read_pretrained(tmp_path).network.state_dict()
    assert all(torch.equal(tensor, again[key]) for key, tensor in ours.network.state_dict().items())


@pytest.mark.parametrize("name", ["llama", "gpt_neox"])
def test_a_field_of_the_old_table_of_rotary_positions_that_no_one_reads_is_refused(name: str, tmp_path: Path) -> None:
    folder = save(MODELS[name](), tmp_path)
    fields = json.loads((folder / "config.json").read_text())
    del fields["rope_parameters"]
    for kind in ("rope_type", "type"):
        (folder / "config.json").write_text(json.dumps(fields | {"rope_scaling": {kind: "default"}}))
        read_pretrained(folder)
    for key, value in (("rope_theta", 500000), ("partial_rotary_factor", 0.25), ("factor", 2.0)):
        scaling = {"rope_type": "default", key: value}
        (folder / "config.json").write_text(json.dumps(fields | {"rope_scaling": scaling}))
        with pytest.raises(FileError, match=rf"config\.json: rope_scaling has rope_type = default, {key} = {value}; "):
            read_pretrained(folder)


@torch.no_grad()
@pytest.mark.parametrize("given", [{}, {"rotary_emb_base": 50}, {"rotary_pct": 0.5, "rope_theta": 10000}])
def test_rotary_fields_that_are_missing_have_the_values_of_transformers(given: dict[str, Any], tmp_path: Path) -> None:
    folder = save(MODELS["gpt_neox"](), tmp_path)
    fields = json.loads((folder / "config.json").read_text())
    del fields["rope_parameters"]
    (folder / "config.json").write_text(json.dumps(fields | given))
    tokens = torch.randint(VOCABULARY, (2, LENGTH))
    theirs = transformers.GPTNeoXForCausalLM.from_pretrained(folder, attn_implementation="eager")
    torch.testing.assert_close(read_pretrained(folder).network(tokens), theirs(tokens).logits, **TOLERANCE)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("gpt_neox", {"rope_theta": 50.0}, "rope_theta is 50.0; Saccade supports only 700.0"),
        ("roberta", {"hidden_act": "relu"}, 'hidden_act is "relu"; Saccade supports only "gelu" or "gelu_python"'),
        ("llama", {"sliding_window": 5}, "sliding_window is 5; Saccade supports only null"),
        ("llama", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "has rope_parameters and rope_scaling"),
        (
            "qwen2",
            {"rope_parameters": {"rope_theta": 500.0, "partial_rotary_factor": 0.5}},
            "partial_rotary_factor is 0.5; for this model_type, Saccade supports only 1",
        ),
    ],
)
def test_fields_that_have_another_effect_in_transformers_are_refused(
    name: str, given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    folder = save(MODELS[name](), tmp_path)
    fields = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(fields | given))
    with pytest.raises(UnsupportedError, match=re.escape(said)):
        read_pretrained(folder)


def test_mistral_has_a_window_even_if_its_config_does_not_mention_it(tmp_path: Path) -> None:
    folder = save(MODELS["mistral"](), tmp_path)
    fields = json.loads((folder / "config.json").read_text())
    window = fields.pop("sliding_window")
    assert read_pretrained(folder).config.attention_window == window == 5
    (folder / "config.json").write_text(json.dumps(fields))
    assert read_pretrained(folder).config.attention_window == transformers.MistralConfig().sliding_window
    (folder / "config.json").write_text(json.dumps(fields | {"sliding_window": None}))
    assert read_pretrained(folder).config.attention_window is None


def test_the_example_of_a_model_that_fills_in_words_has_only_words_that_it_knows(tmp_path: Path) -> None:
    folder = save_bert(tmp_path)
    assert saccade.open(folder).examples() == []
    missing = ["animal", "didn", "t", "cross", "street", "because", "it", "too", "'"]
    (folder / "vocab.txt").write_text("\n".join([*WORDS, *missing]) + "\n")
    save(bert(vocab_size=len(WORDS) + len(missing)), folder)
    assert saccade.open(folder).examples() == ["The animal didn't cross the street because it was too [MASK]."]


def test_texts_that_sentence_transformers_lower_cases_itself_are_refused(tmp_path: Path) -> None:
    """Wrong before: the field was ignored without a word."""
    (tmp_path / "modules.json").write_text("[]")
    (tmp_path / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 8, "do_lower_case": True}))
    with pytest.raises(FileError, match="do_lower_case is true; Saccade supports only false"):
        sentence_fields(tmp_path)

"""Our own models in the formats of others: their library opens them and answers as we do, or the network is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file
from tiny import CONTINUING, MODELS, save

import saccade
from saccade.errors import ExportError, OptionError, UnknownNameError
from saccade.models import DecoderOnly
from saccade.pretrained import FAMILIES, pretrained_files, read_pretrained
from saccade.pretrained.describing import as_pretrained
from saccade.tasks.base.exporting import export, huggingface
from saccade.tasks.base.search import SearchOptions
from saccade.tasks.language_model.generation import GenerationOptions
from saccade.tasks.language_model.task import LanguageModel, LanguageModelState
from saccade.tasks.translation.task import Translation, TranslationState
from saccade.text import Tokenizer
from untrained import ENGLISH, FRENCH, write_untrained

GPT2 = {"position": "learned", "max_length": 64, "activation": "gelu_tanh"}
LLAMA = {"position": "rotary", "norm": "rms", "gated": True, "bias": False, "activation": "silu", "tied_output": False}
MARIAN = {"norm_first": False, "sines_first": True, "tied_embeddings": True, "scaled_embedding": True}


def language_model(folder: Path, **fields: Any) -> Path:
    tokenizer = Tokenizer.train(ENGLISH, "bpe", vocabulary_size=300)
    task = LanguageModel(LanguageModelState(tokenizer, 32, separated=True))
    return write_untrained(folder, task, GenerationOptions(), encoder_layers=0, **fields)


def translator(folder: Path, **fields: Any) -> Path:
    both = Tokenizer.train(ENGLISH + FRENCH, "word")
    return write_untrained(folder, Translation(TranslationState(both, both)), SearchOptions(), **fields)


MAKERS: dict[str, tuple[Callable[..., Path], dict[str, Any], str, str]] = {
    "GPT-2": (language_model, GPT2, "huggingface", "GPT2LMHeadModel"),
    "Llama": (language_model, LLAMA, "huggingface", "LlamaForCausalLM"),
    "GPT-NeoX": (language_model, {"position": "rotary", "parallel": True}, "huggingface", "GPTNeoXForCausalLM"),
    "Marian": (translator, MARIAN, "huggingface", "MarianMTModel"),
    "CTranslate2 generator": (language_model, GPT2, "ctranslate2", "Generator"),
    "CTranslate2 translator": (translator, {}, "ctranslate2", "Translator"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_the_foreign_library_answers_as_we_do(name: str, tmp_path: Path) -> None:
    make, fields, to, opened_by = MAKERS[name]
    checked = export(make(tmp_path / "model", **fields), to, tmp_path / "out", ENGLISH[:5])
    assert "the same" in checked
    assert "5 texts" in checked
    card = (tmp_path / "out" / "README.md").read_text()
    assert checked in card
    assert opened_by in card
    if to == "huggingface":  # and back
        again = saccade.open(tmp_path / "out")
        before = saccade.open(tmp_path / "model")
        for key, tensor in before.model.state_dict().items():
            assert torch.equal(again.model.state_dict()[key], tensor), key
        tokenizer = hf.AutoTokenizer.from_pretrained(tmp_path / "out")
        text = ENGLISH[7]
        ours = next(iter(before.task.state.vocabularies().values())).encode_ids([text])[0]
        assert tokenizer(text, add_special_tokens=False)["input_ids"] == ours


def test_a_difference_is_found_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = language_model(tmp_path / "model", **GPT2)

    def spoiled(*arguments: Any) -> Any:
        files = dict(pretrained_files(*arguments))
        fields = json.loads(files["config.json"])
        files["config.json"] = json.dumps(fields | {"layer_norm_epsilon": 0.1}).encode()
        return files

    monkeypatch.setattr(huggingface, "pretrained_files", spoiled)
    with pytest.raises(ExportError, match="different logits from Saccade"):
        export(model, "huggingface", tmp_path / "out", ENGLISH[:2])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("make", "fields", "said"),
    [
        (language_model, {"position": "alibi"}, "does not support position = alibi"),
        (language_model, GPT2 | {"weights": "sparsemax"}, "GPT-2, does not support weights = sparsemax"),
        (language_model, LLAMA | {"attention_window": (3, 1)}, "does not support attention_window"),
        (translator, {}, "the closest one, Marian, does not support"),
    ],
)
def test_a_network_that_no_family_has_is_refused(
    make: Callable[..., Path], fields: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=said):
        export(make(tmp_path / "model", **fields), "huggingface", tmp_path / "out")
    with pytest.raises(UnknownNameError, match="format 'tensorflow'"):
        export(tmp_path / "model", "tensorflow", tmp_path / "out")


@pytest.mark.parametrize("name", MODELS)
def test_every_family_describes_the_networks_that_it_has(name: str, tmp_path: Path) -> None:
    """The fields that we write for a network give that network again."""
    first = read_pretrained(save(MODELS[name](), tmp_path / "theirs"))
    more = {"pad_token_id": 1} if "roberta" in name else {"id2label": first.fields.get("id2label")}
    described = as_pretrained(first.network, first.vocabulary, more, first.preparation)
    folder = tmp_path / "ours"
    folder.mkdir()
    for file, content in pretrained_files(described).items():
        (folder / file).write_bytes(content)
    again = read_pretrained(folder)
    assert described.layout.model_type in FAMILIES
    # Llama's classes ignore sliding_window.
    assert first.config.attention_window is None or described.layout.model_type == "mistral"
    for key, tensor in first.network.state_dict().items():
        assert torch.equal(again.network.state_dict()[key], tensor), key
    assert set(load_file(folder / "model.safetensors")) == set(described.tensors())
    if name in CONTINUING:
        assert isinstance(again.network, DecoderOnly)
        tokens = torch.arange(9)[None]
        torch.testing.assert_close(again.network(tokens), first.network(tokens), rtol=0, atol=0)

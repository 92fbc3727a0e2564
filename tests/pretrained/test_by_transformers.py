"""Models that Saccade's networks cannot express: run by their home library, watched, and said to be."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from tiny import LENGTH, WORDS, bert, gpt2, labelling, llama, random_weights, save
from typer.testing import CliRunner

import saccade
from saccade.cli.main import app
from saccade.errors import FileError, OptionError, UnsupportedError
from saccade.pretrained.by_transformers import read_by_transformers
from saccade.tasks.base.exporting import export

YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 20}
TEXT = "3 4 5 6 7"


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(llama(rope_parameters=YARN), tmp_path_factory.mktemp("yarn"))


def electra(folder: Path) -> Path:
    sizes = {"embedding_size": 6, "hidden_size": 15, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = hf.ElectraConfig(vocab_size=len(WORDS), intermediate_size=29, max_position_embeddings=LENGTH, **sizes)
    save(random_weights(hf.ElectraForMaskedLM(config)), folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@torch.no_grad()
def test_rotary_positions_that_are_not_ours_are_continued_as_at_home(yarn: Path) -> None:
    opened = saccade.open(yarn)
    assert opened.engine_name == "transformers"
    assert "rope_type = yarn" in opened.describe()["engine"]
    (answer,) = opened.predict([TEXT], sample=False, max_tokens=6)
    home = hf.LlamaForCausalLM.from_pretrained(yarn).eval()
    ids = [int(one) for one in TEXT.split()]
    for id in answer.ids:
        ids.append(int(home(torch.tensor([ids])).logits[0, -1].argmax()))
        assert id == ids[-1]


@torch.no_grad()
def test_its_attention_is_that_of_the_home_library(yarn: Path) -> None:
    seen = saccade.open(yarn).view_input(TEXT)
    home = hf.LlamaForCausalLM.from_pretrained(yarn, attn_implementation="eager").eval()
    ids = torch.tensor([[int(one) for one in TEXT.split()]])
    expected = home(ids, output_attentions=True).attentions
    assert len(seen.names) == len(expected) == 2
    for name, weights in zip(seen.names, expected, strict=True):
        for head in range(weights.shape[1]):
            torch.testing.assert_close(
                seen.matrix(name, head), weights[0, head].to(seen.matrix(name, head)), rtol=1e-4, atol=1e-5
            )


def test_the_same_model_gives_the_same_text_by_either_engine(tmp_path: Path) -> None:
    folder = save(gpt2(), tmp_path / "gpt2")
    answers = [
        saccade.open(folder, engine=one).predict([TEXT], sample=False, max_tokens=5) for one in ("auto", "transformers")
    ]
    assert answers[0][0].ids == answers[1][0].ids
    assert saccade.open(folder).engine_name == "torch"


def test_heads_of_it_can_be_switched_off(yarn: Path) -> None:
    opened = saccade.open(yarn)
    name = opened.view_input(TEXT).names[0]
    change = opened.compare(TEXT, without_heads=[f"{name}:0"], max_tokens=3)
    assert change.before.before != change.before.after


@torch.no_grad()
def test_an_architecture_that_is_not_ours_fills_in_words(tmp_path: Path) -> None:
    folder = electra(tmp_path)
    (answer,) = saccade.open(folder).predict(["the dog [MASK] ."])
    home = hf.ElectraForMaskedLM.from_pretrained(folder).eval()
    logits = home(torch.tensor([[2, 5, 6, 4, 11, 3]])).logits[0, 3]
    logits[:5] = -torch.inf  # special tokens are no words
    assert answer.ids == [int(logits.argmax())]
    assert len(answer.view.names) == 2
    found = CliRunner().invoke(app, ["open", str(folder)])
    assert "engine     transformers. " in found.output
    assert "model_type is 'electra'" in found.output


def bidirectional() -> dict[str, Any]:
    sizes = {"vocab_size": 23, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3}
    sizes |= {"intermediate_size": 20, "max_position_embeddings": LENGTH}
    return {
        "bert": lambda: hf.BertLMHeadModel(hf.BertConfig(**sizes)),
        "roberta": lambda: hf.RobertaForCausalLM(hf.RobertaConfig(**sizes)),
        "electra": lambda: hf.ElectraForCausalLM(hf.ElectraConfig(embedding_size=6, **sizes)),
        "xlnet": lambda: hf.XLNetLMHeadModel(hf.XLNetConfig(vocab_size=23, d_model=12, n_layer=2, n_head=3, d_inner=9)),
    }


@pytest.mark.parametrize("name", bidirectional())
def test_a_network_whose_words_look_at_later_words_is_not_opened_to_continue_a_text(name: str, tmp_path: Path) -> None:
    folder = save(random_weights(bidirectional()[name]()), tmp_path / name)
    with pytest.raises(UnsupportedError, match="its tokens attend to later tokens, so it cannot write a text"):
        saccade.open(folder)


def test_the_same_class_is_opened_if_its_words_only_look_back(tmp_path: Path) -> None:
    config = hf.BertConfig(
        vocab_size=23, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, is_decoder=True
    )
    opened = saccade.open(save(random_weights(hf.BertLMHeadModel(config)), tmp_path / "bert"))
    assert len(opened.predict([TEXT], sample=False, max_tokens=3)[0].ids) == 3


@torch.no_grad()
@pytest.mark.parametrize("name", ["ConvBert", "FNet"])
def test_a_text_in_a_padded_batch_gets_the_logits_it_gets_alone(name: str, tmp_path: Path) -> None:
    sizes: dict[str, Any] = {"vocab_size": 23, "hidden_size": 12, "num_hidden_layers": 2, "intermediate_size": 20}
    if name == "ConvBert":
        sizes |= {"embedding_size": 12, "num_attention_heads": 2, "head_ratio": 2, "conv_kernel_size": 3}
    config = getattr(hf, f"{name}Config")(max_position_embeddings=LENGTH, **sizes)
    folder = save(random_weights(getattr(hf, f"{name}ForMaskedLM")(config)), tmp_path)
    network = read_by_transformers(folder, "Chosen.").network
    tokens, lengths = torch.tensor([[3, 4, 5, 6, 7, 8, 9], [9, 8, 7, 0, 0, 0, 0]]), torch.tensor([7, 3])
    both = network(tokens, lengths)
    assert both.shape == (2, 7, 23)
    for row, length in enumerate(lengths.tolist()):
        alone = network(tokens[row : row + 1, :length], lengths[row : row + 1])
        torch.testing.assert_close(both[row, :length], alone[0])


@pytest.mark.parametrize("engine", ["auto", "transformers"])
def test_outputs_that_are_not_labels_are_refused_by_every_engine(engine: str, tmp_path: Path) -> None:
    folder = save(labelling("Sequence", bert), tmp_path)
    about = json.loads((folder / "config.json").read_text()) | {"problem_type": "regression"}
    (folder / "config.json").write_text(json.dumps(about))
    with pytest.raises(FileError, match='problem_type is "regression"') as caught:
        saccade.open(folder, engine=engine)
    assert not isinstance(caught.value, UnsupportedError)


def test_what_it_cannot_do_is_refused_in_a_sentence(yarn: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="rope_type = yarn"):
        saccade.open(yarn, engine="torch")
    with pytest.raises(UnsupportedError, match="rope_type = yarn"):
        export(yarn, "onnx", tmp_path / "out")
    with pytest.raises(UnsupportedError, match="rope_type = yarn"):
        saccade.open(yarn, precision="bf16")
    with pytest.raises(OptionError, match="one process"):
        saccade.open(yarn, workers=2)
    bart = tmp_path / "bart"
    bart.mkdir()
    (bart / "config.json").write_text(json.dumps({"model_type": "pegasus", "architectures": ["PegasusModel"]}))
    with pytest.raises(UnsupportedError, match=r"model_type is 'pegasus'.* supported, not 'PegasusModel'"):
        saccade.open(bart)


def test_a_folder_that_lacks_a_tensor_or_has_only_a_pickle_is_not_run(yarn: Path, tmp_path: Path) -> None:
    import shutil

    from safetensors.torch import load_file, save_file

    folder = shutil.copytree(yarn, tmp_path / "less")
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.down_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(FileError, match=r"lacks 1 tensor .* model\.layers\.1\.mlp\.down_proj\.weight"):
        saccade.open(folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(FileError, match="only as a pickle"):
        saccade.open(folder)


def test_without_transformers_the_error_names_the_extra(yarn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *given: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "transformers":
            raise ModuleNotFoundError("No module named 'transformers'", name="transformers")
        return imported(name, *given, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UnsupportedError, match=r"rope_type = yarn.*pip install 'saccade\[huggingface\]'"):
        saccade.open(yarn)

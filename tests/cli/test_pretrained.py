"""Folders of other libraries through the commands: opened like our own, or refused in one sentence."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import transformers as hf
from commands import Capture, assert_refused, run, succeed
from safetensors.torch import load_file, save_file

WORDS = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "cat", "sleep", "##s", "here", ".", "didn", "'"),
    *("t", "it", "was", "tired"),
]
SPLIT = ("[CLS]", "the", "dog", "didn", "'", "t", "[MASK]", ".", "[SEP]")
TEXT = "The dog didn't [MASK]."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT with random weights, and its vocabulary."""
    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("bert")
    config = hf.BertConfig(
        vocab_size=len(WORDS), hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=17
    )
    model = hf.BertForMaskedLM(config)
    torch.nn.init.normal_(model.cls.predictions.bias)
    model.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@pytest.fixture
def bert(made: Path, tmp_path: Path, capsys: Capture) -> Path:
    """A copy that a test may spoil."""
    folder = tmp_path / "bert"
    folder.mkdir()
    for path in made.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    capsys.readouterr()  # what the other library printed
    return folder


def test_open_says_what_it_is(capsys: Capture, bert: Path) -> None:
    said = succeed(capsys, "open", bert)
    for part in ("BERT", "fills in hidden words", "2 encoder layers, width 12, 3 heads", "18 entries, WordPiece"):
        assert part in said


@torch.no_grad()
def test_predict_fills_in_what_the_home_library_does(capsys: Capture, bert: Path) -> None:
    answer = json.loads(succeed(capsys, "predict", bert, TEXT, "--json", "--n-best", "13"))
    tokenizer = hf.BertTokenizer(str(bert / "vocab.txt"))
    given = tokenizer(TEXT, return_tensors="pt")
    assert tokenizer.convert_ids_to_tokens(given["input_ids"][0]) == [
        "[CLS]",
        "the",
        "dog",
        "didn",
        "'",
        "t",
        "[MASK]",
        ".",
        "[SEP]",
    ]
    (place,) = (given["input_ids"][0] == tokenizer.mask_token_id).nonzero()
    expected = hf.BertForMaskedLM.from_pretrained(bert).eval()(**given).logits[0, place[0]].softmax(dim=-1)
    (found,) = answer["masks"]
    ids = expected[5:].argsort(descending=True) + 5  # special tokens are no answers
    assert [one["token"].replace("▁", "") for one in found] == [WORDS[id].replace("##", "") for id in ids]
    assert [one["probability"] for one in found] == pytest.approx(expected[ids].tolist(), abs=1e-6)
    best = WORDS[ids[0]]
    assert answer["text"] == ("The dog didn't" + (best[2:] if best.startswith("##") else f" {best}") + ".")


def test_look_words_and_evaluate_take_it_like_a_model_of_ours(capsys: Capture, bert: Path, tmp_path: Path) -> None:
    assert "what the masks attend to: encoder.1.self" in succeed(capsys, "look", bert, TEXT)
    succeed(capsys, "look", bert, TEXT, "--word", "dog")
    assert "before" in succeed(capsys, "look", bert, TEXT, "--without-head", "encoder.0.self:1")
    assert "sleep" in succeed(capsys, "words", bert, "dog", "--neighbours", "11")
    (tmp_path / "texts.txt").write_text("The dog sleeps here.\nIt was tired.\n")
    assert "accuracy" in succeed(capsys, "evaluate", bert, "--data", tmp_path / "texts.txt")


def test_a_sentence_encoder_is_scored_by_correlations_with_finite_scores(
    capsys: Capture, made: Path, tmp_path: Path
) -> None:
    hf.BertModel(hf.BertConfig.from_pretrained(made)).save_pretrained(tmp_path / "encoder")
    (tmp_path / "encoder" / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    table = tmp_path / "pairs.tsv"
    lines = ["the dog\tthe cat\t3.5", "it sleeps\tit was tired\t2", "the cat\tit sleeps here\t0.5"]
    table.write_text("\n".join(lines) + "\n")
    capsys.readouterr()  # what the other library printed
    said = succeed(capsys, "evaluate", tmp_path / "encoder", "--data", table)
    assert "spearman" in said
    assert "mean (a default, because the folder does not say)" in succeed(capsys, "open", tmp_path / "encoder")
    assert "loss" not in said  # scores from 0 to 5 have no squared distance to a cosine that means anything
    for wrong in ("nan", "inf", "-Infinity", "high"):
        table.write_text("\n".join([*lines, f"the dog\tit was tired\t{wrong}"]) + "\n")
        refused = run(capsys, "evaluate", tmp_path / "encoder", "--data", table)
        assert_refused(refused, f"pairs.tsv, line 4: the score is '{wrong}', which is not a finite number")


def test_a_text_longer_than_its_positions_is_refused(capsys: Capture, bert: Path) -> None:
    assert_refused(run(capsys, "predict", bert, "the dog " * 600 + "[MASK]"), "512 learned positions")


def config(**changed: object) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        found = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(found | changed))

    return spoil


def tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        found = load_file(folder / "model.safetensors")
        change(found)
        save_file(found, folder / "model.safetensors")

    return spoil


def pickled(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def ten_gigabytes(folder: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2_500_000_000], "data_offsets": [0, 10_000_000_000]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 64)


def long_header(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", 10_000_000_000) + b"{}" + b"\0" * 64)


def outside(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "model.safetensors")
    index = {"weight_map": {"cls.predictions.bias": "../model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


WORDS_NAME = "bert.embeddings.word_embeddings.weight"
BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "pickle": (pickled, "only as a pickle (pytorch_model.bin)"),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "has no weights"),
    "10 GB": (ten_gigabytes, "is not a safetensors file"),
    "long header": (long_header, "is not a safetensors file"),
    "outside": (outside, "'../model.safetensors', which is not the plain name"),
    "index": (lambda folder: (folder / "model.safetensors.index.json").write_text("[]"), "has no table weight_map"),
    "family": (config(model_type="zebra"), "model_type is 'zebra'; Saccade opens bert"),
    "class": (config(architectures=["BertForFun"]), "architectures is 'BertForFun'"),
    "field": (config(stripes=3), "has the field 'stripes', which Saccade does not know for BERT"),
    "value": (config(position_embedding_type="relative_key"), 'position_embedding_type is "relative_key"'),
    "activation": (config(hidden_act="stripy"), "hidden_act is 'stripy'; Saccade supports relu, gelu"),
    "type": (config(hidden_size="12"), "hidden_size is '12'"),
    "missing field": (config(hidden_size=None), "does not have the field 'hidden_size'"),
    "heads": (config(num_attention_heads=5), "5 heads do not divide a width of 12"),
    "many layers": (config(num_hidden_layers=10**9), "must be at most 1,000"),
    "large": (config(vocab_size=10**12), f"{WORDS_NAME} has shape (18, 12); config.json requires (1000000000000, 12)"),
    "shape": (tensors(lambda all: all.update({WORDS_NAME: torch.zeros(18, 11)})), f"{WORDS_NAME} has shape (18, 11)"),
    "missing": (tensors(lambda all: all.pop(WORDS_NAME)), f"does not have the tensor {WORDS_NAME}"),
    "extra": (tensors(lambda all: all.update(tail=torch.zeros(3))), "has the tensor tail, which Saccade does not know"),
    "nan": (tensors(lambda all: all[WORDS_NAME].fill_(torch.nan)), f"{WORDS_NAME} contains NaN"),
    "whole": (tensors(lambda all: all.update({WORDS_NAME: all[WORDS_NAME].long()})), "not floating-point numbers"),
    "tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("{}"), "is not a tokenizer.json"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_folder_is_refused_in_one_sentence(capsys: Capture, bert: Path, kind: str) -> None:
    spoil, said = BAD[kind]
    spoil(bert)
    assert_refused(run(capsys, "open", bert), said)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["Marian", "BART"])
def test_a_model_that_writes_one_text_from_another(capsys: Capture, tmp_path: Path, kind: str) -> None:
    """Without a tokenizer, texts are ids."""
    torch.manual_seed(5)
    sizes = {f"{stack}_{name}": 2 for stack in ("encoder", "decoder") for name in ("layers", "attention_heads")}
    ids = {"pad_token_id": 30, "decoder_start_token_id": 30, "eos_token_id": 0, "forced_eos_token_id": None}
    ids |= {"bos_token_id": None, "encoder_ffn_dim": 13, "decoder_ffn_dim": 13, "d_model": 12, "init_std": 0.5}
    config, model = {
        "Marian": (hf.MarianConfig, hf.MarianMTModel),
        "BART": (hf.BartConfig, hf.BartForConditionalGeneration),
    }[kind]
    theirs = model(config(vocab_size=31, max_position_embeddings=64, **sizes, **ids)).eval()
    theirs.final_logits_bias[0, 30] = 50.0  # the padding is the likeliest everywhere; published folders bar it
    theirs.save_pretrained(tmp_path)
    source, barred = torch.tensor([[5, 7, 11, 3, 0]]), [[30]]
    written = theirs.generate(source, max_length=30, do_sample=False, num_beams=1, bad_words_ids=barred)[0, 1:].tolist()
    capsys.readouterr()
    answer = json.loads(succeed(capsys, "predict", tmp_path, "5 7 11 3", "--beam", "1", "--json"))
    expected = written[: written.index(0)] if 0 in written else written
    assert [int(token.removeprefix("▁")) for token in answer["tokens"]][: len(expected)] == expected
    for options in (("--beam", "3"), ("--sample", "--tries", "3")):
        answer = json.loads(succeed(capsys, "predict", tmp_path, "5 7 11 3", "--json", *options))
        assert 30 not in [int(token.removeprefix("▁")) for token in answer["tokens"]]
    assert kind in succeed(capsys, "open", tmp_path)
    succeed(capsys, "look", tmp_path, "5 7 11 3")
    assert "decoder.1.cross" in succeed(capsys, "look", tmp_path, "5 7 11 3", "--layer", "decoder.1.cross")

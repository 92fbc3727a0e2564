"""Folders of other libraries on the page: words filled in, texts continued and compared, and the engine that did it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import transformers as hf
from playwright.sync_api import expect
from servers import Runner, Running, post
from studio_pages import OpenStudio

from saccade.serving import Limits, Models

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "cat", "sleeps", "."]
SIZES = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 16}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 20}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("pretrained")
    torch.manual_seed(0)
    config = hf.BertConfig(vocab_size=len(WORDS), **SIZES)
    hf.BertForMaskedLM(config).save_pretrained(folder / "bert")
    hf.BertModel(config).save_pretrained(folder / "encoder")
    ids = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    llama = hf.LlamaConfig(vocab_size=len(WORDS), rope_parameters=YARN, **SIZES, **ids)
    hf.LlamaForCausalLM(llama).save_pretrained(folder / "llama")
    for name in ("bert", "encoder"):
        (folder / name / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    models = Models(Limits())
    for name in ("bert", "encoder", "llama"):
        models.add(folder / name)
    started = Runner()
    yield started.start(models)
    started.close()


def test_words_are_filled_in_and_the_engine_is_named(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/ask?m=bert&t=the+[MASK]+sleeps+.")
    answers = post(running.client, "/api/models/bert/predict", inputs=["the [MASK] sleeps ."])["answers"]
    assert page.locator(".answer > p").inner_text() == answers[0]["text"]
    expect(page.get_by_text("BERT, computed by torch; all of the model's attention layers are shown")).to_be_visible()


def test_a_text_is_continued_by_transformers_and_the_page_says_so(open_studio: OpenStudio) -> None:
    page = open_studio("/ask?m=llama&t=5+6+7")
    expect(
        page.get_by_text("llama, computed by transformers; all of the model's attention layers are shown")
    ).to_be_visible()


def test_two_texts_are_compared(open_studio: OpenStudio, running: Running) -> None:
    page = open_studio("/ask?m=encoder&t=the+dog+|||+the+cat+sleeps")
    (answer,) = post(running.client, "/api/models/encoder/predict", inputs=["the dog ||| the cat sleeps"])["answers"]
    assert str(answer["text"]) in page.locator(".answer").inner_text()


def test_every_page_takes_a_model_of_another_library(open_studio: OpenStudio) -> None:
    walk = open_studio("/walk?from=model&m=bert&t=the+[MASK]+sleeps+.&a=encoder.1.self&h=2")
    walk.wait_for_selector(".step[data-step=sum]")
    words = open_studio("/words?m=bert&word=dog&other=cat")
    expect(words.locator(".pair")).to_be_visible()
    expect(words.get_by_role("heading", name="Nearest words")).to_be_visible()
    whole = open_studio("/map?m=bert&t=the+dog+sleeps+.")
    whole.wait_for_selector(".map[data-ready=yes]")
    expect(whole.locator(".map-frame p.quiet")).to_have_text("6 × 6 weights")

"""The interface of OpenAI's completions, by its own client."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
from servers import Running


@pytest.fixture
def asked(running: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.url}/v1", api_key="any", max_retries=0) as client:
        yield client


def test_models_are_listed(asked: openai.OpenAI) -> None:
    assert [model.id for model in asked.models.list()] == ["writer"]
    assert asked.models.retrieve("writer").owned_by == "saccade"


def test_a_completion_is_that_of_the_library(asked: openai.OpenAI, running: Running) -> None:
    answer = asked.completions.create(model="writer", prompt="the cat", max_tokens=9, seed=4, logprobs=3)
    (expected,) = running.models["writer"].predictor.predict(["the cat"], max_tokens=9, seed=4)
    choice = answer.choices[0]
    assert choice.text == expected.text
    assert choice.finish_reason == ("stop" if expected.record()["finished"] else "length")
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (7, len(expected.tokens))
    assert choice.logprobs is not None
    assert "".join(choice.logprobs.tokens or []).strip() == expected.text.strip()
    count = len(choice.logprobs.tokens or [])
    assert choice.logprobs.token_logprobs == expected.record()["log_probabilities"][:count]
    starts = [choice.text.lstrip()[place:] for place in choice.logprobs.text_offset or []]
    assert all(rest.startswith(token) for rest, token in zip(starts, choice.logprobs.tokens or [], strict=True))
    for token, value, most in zip(
        choice.logprobs.tokens or [],
        choice.logprobs.token_logprobs or [],
        choice.logprobs.top_logprobs or [],
        strict=True,
    ):
        assert len(most) == 3
        assert max(most.values()) >= value - 1e-5
        assert most.get(token, value) == pytest.approx(value, abs=1e-4)


def test_a_stream_is_the_same_text_in_pieces(asked: openai.OpenAI) -> None:
    options = {"model": "writer", "prompt": ["the", "a"], "max_tokens": 12, "seed": 8}
    whole = [choice.text for choice in asked.completions.create(**options).choices]  # type: ignore[call-overload]
    texts, ends, usage = ["", ""], {}, None
    for chunk in asked.completions.create(**options, stream=True, stream_options={"include_usage": True}):  # type: ignore[call-overload]
        usage = chunk.usage or usage
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            ends[choice.index] = choice.finish_reason
    assert texts == whole
    assert set(ends.values()) <= {"stop", "length"}
    assert usage is not None
    assert usage.prompt_tokens == 4


def test_several_tries_and_a_stop(asked: openai.OpenAI) -> None:
    answer = asked.completions.create(model="writer", prompt="the", n=3, max_tokens=20, seed=2, stop=["e"], echo=True)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert all(choice.text.startswith("the") and "e" not in choice.text[3:] for choice in answer.choices)
    greedy = [asked.completions.create(model="writer", prompt="the", temperature=0).choices[0].text for _ in range(2)]
    assert greedy[0] == greedy[1]


def test_what_is_wrong_is_said_as_the_client_expects(asked: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="no language model with this name; the language models are: writer"):
        asked.completions.create(model="tiny", prompt="a")
    with pytest.raises(openai.BadRequestError, match="suffix is not supported"):
        asked.completions.create(model="writer", prompt="a", suffix="b")
    with pytest.raises(openai.BadRequestError, match="echo with logprobs is not supported"):
        asked.completions.create(model="writer", prompt="a", echo=True, logprobs=1)
    with pytest.raises(openai.BadRequestError, match="n must be at most 32, not 1000000"):
        asked.completions.create(model="writer", prompt="a", n=10**6)
    with pytest.raises(openai.BadRequestError, match="prompt must be a text"):
        asked.completions.create(model="writer", prompt=[])
    with pytest.raises(openai.BadRequestError, match="invented"):
        asked.completions.create(model="writer", prompt="a", extra_body={"invented": 1})
    with pytest.raises(openai.BadRequestError, match="max_tokens can be at most 2048"):
        asked.completions.create(model="writer", prompt="a", max_tokens=10**9)

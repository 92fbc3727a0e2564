"""OpenAI's completions API for our language models."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from itertools import accumulate
from typing import Annotated, Any, cast

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr
from starlette.responses import JSONResponse, Response

from saccade.serving.computation import request_size, wait_for
from saccade.serving.http.events import Send, event_stream
from saccade.serving.http.refusals import Refused
from saccade.serving.http.strict import StrictRoute
from saccade.serving.inputs import read_input
from saccade.serving.limits import check_options
from saccade.serving.models import Served
from saccade.serving.state import ServerState, state_of
from saccade.serving.threads import offload
from saccade.tasks.base.answer import Answer
from saccade.tasks.base.capabilities import Continuation, ContinuesText
from saccade.tasks.base.cost import MOST_OUTPUTS

__all__ = ["router"]

router = APIRouter(prefix="/v1", route_class=StrictRoute, tags=["OpenAI"])

Number = Annotated[float, Field(allow_inf_nan=False)]
DONE = "[DONE]"
SPACE = "▁"


class StreamOptions(BaseModel):
    """What a streamed answer contains besides the text: with ``include_usage``, the number of tokens."""

    include_usage: StrictBool = False


class CompletionBody(BaseModel):
    """One or more prompts and how to continue them. Unsupported fields are refused, not ignored."""

    model_config = ConfigDict(extra="forbid")

    model: StrictStr
    prompt: StrictStr | Annotated[list[StrictStr], Field(fail_fast=True, min_length=1)]
    max_tokens: Annotated[StrictInt, Field(ge=1)] | None = 16
    temperature: Annotated[Number, Field(ge=0, le=2)] | None = 1.0
    top_p: Annotated[Number, Field(gt=0, le=1)] | None = 1.0
    n: Annotated[StrictInt, Field(ge=1, le=MOST_OUTPUTS)] | None = 1
    stream: StrictBool | None = False
    stream_options: StreamOptions | None = None
    stop: StrictStr | Annotated[list[StrictStr], Field(fail_fast=True)] | None = None
    seed: Annotated[StrictInt, Field(ge=0, lt=2**32)] | None = None
    echo: StrictBool | None = False
    logprobs: Annotated[StrictInt, Field(ge=0, le=5)] | None = None
    best_of: Annotated[StrictInt, Field(ge=1)] | None = None
    suffix: StrictStr | None = None
    presence_penalty: Number | None = 0.0
    frequency_penalty: Number | None = 0.0
    logit_bias: dict[str, Number] | None = None
    user: StrictStr | None = None

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    def options(self) -> dict[str, Any]:
        """Return the options under the names that Saccade's models use; without a seed, a random one is chosen."""
        temperature = 1.0 if self.temperature is None else self.temperature
        return {
            "max_tokens": self.max_tokens or 16,
            "sample": temperature > 0 or (self.n or 1) > 1,
            "tries": self.n or 1,
            "temperature": temperature,
            "top_p": None if self.top_p in (None, 1.0) else self.top_p,
            "top_k": None,
            "stop": [self.stop] if isinstance(self.stop, str) else self.stop or [],
            "seed": secrets.randbelow(2**32) if self.seed is None else self.seed,
        }

    def refuse_unsupported(self) -> None:
        given = {
            "suffix": bool(self.suffix),
            "best_of": (self.best_of or self.n or 1) != (self.n or 1),
            "presence_penalty": bool(self.presence_penalty),
            "frequency_penalty": bool(self.frequency_penalty),
            "logit_bias": bool(self.logit_bias),
            "echo with logprobs": bool(self.echo) and self.logprobs is not None,
        }
        for name, is_given in given.items():
            if is_given:
                raise Refused(400, f"{name} is not supported here; leave it out.")


@router.get("/models")
def list_models(request: Request) -> dict[str, Any]:
    """The language models."""
    return {"object": "list", "data": [_described(name) for name in state_of(request).models.writers()]}


@router.get("/models/{name}")
def one_model(request: Request, name: str) -> dict[str, Any]:
    return _described(_writer(state_of(request), name).name)


@router.post("/completions")
async def complete(request: Request, body: CompletionBody) -> Response:
    """Return a continuation of each prompt; if ``stream`` is true, piece by piece, as server-sent events."""
    state = state_of(request)
    served = _writer(state, body.model)
    body.refuse_unsupported()
    limits = state.limits
    if len(body.prompts) > limits.texts:
        raise Refused(413, f"The request has {len(body.prompts)} prompts; the limit is {limits.texts}.")
    size = await request_size(request)
    prompts = await offload(
        size, lambda: [read_input(served, one, limits.characters, limits.tokens) for one in body.prompts]
    )
    options = body.options()
    check_options(served.predictor, options)
    served.predictor.chosen(options)
    if body.stream:
        return event_stream(served.batcher, _streaming(served, prompts, options, body), _encoded, prompts, options)
    answers = await wait_for(request, await offload(size, served.batcher.predict, prompts, options))
    found = [cast(Continuation, one) for answer in answers for one in (answer, *answer.alternatives)]
    logprobs: list[Any] = [None] * len(found)
    if body.logprobs is not None:
        number = body.logprobs
        computation = served.batcher.run(lambda: [_logprobs(served, one, number) for one in found], prompts, options)
        logprobs = await wait_for(request, computation)

    def written() -> Response:
        choices = [
            _piece(
                number,
                one.prompt + one.text if body.echo else one.text,
                "stop" if one.finished else "length",
                logprobs[number],
            )
            for number, one in enumerate(found)
        ]
        usage = _usage(served, prompts, sum(len(one.tokens) for one in found))
        return JSONResponse(_frame(served.name) | {"choices": choices, "usage": usage})

    return await offload(size if len(found) == 1 else float("inf"), written)


def _writer(state: ServerState, name: str) -> Served:
    writers = state.models.writers()
    if name not in writers:
        known = ", ".join(writers) or "none"
        raise Refused(404, f"There is no language model with this name; the language models are: {known}.")
    return writers[name]


def _described(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "saccade"}


def _frame(model: str) -> dict[str, Any]:
    """The fields at the start of every answer, or of every piece of a streamed answer."""
    name = f"cmpl-{secrets.token_hex(12)}"
    return {"id": name, "object": "text_completion", "created": int(time.time()), "model": model}


def _usage(served: Served, prompts: list[str], written: int) -> dict[str, int]:
    read = sum(served.predictor.count_tokens(prompt) for prompt in prompts)
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _logprobs(served: Served, answer: Continuation, number: int) -> dict[str, Any]:
    """Return each token with its log-probability and the most probable alternatives. Call it in the model's thread."""
    count = len(answer.tokens) - answer.ends
    tokens = [_written(token) for token in answer.tokens[:count]]
    most = _likeliest(served, answer, number)[:count] if number and tokens else None
    return {
        "tokens": tokens,
        "token_logprobs": answer.log_probabilities[:count],
        "top_logprobs": most and [{_written(token): value for token, value in place} for place in most],
        "text_offset": list(accumulate((len(token) for token in tokens[:-1]), initial=0)) if tokens else [],
    }


def _likeliest(served: Served, answer: Continuation, number: int) -> list[list[tuple[str, float]]]:
    return served.predictor.likeliest(answer.prompt, cast(Answer, answer), number)


def _written(token: str) -> str:
    """A token as it appears in the text, including the space before it."""
    return token.replace(SPACE, " ")


def _piece(number: int, text: str, finish: str | None = None, logprobs: Any = None) -> dict[str, Any]:
    return {"text": text, "index": number, "logprobs": logprobs, "finish_reason": finish}


def _streaming(served: Served, prompts: list[str], options: dict[str, Any], body: CompletionBody) -> Any:
    """Make the function that the model's thread runs for a stream.

    It sends each piece of text as soon as it is written.
    """
    if options["tries"] > 1 or body.logprobs is not None:
        raise Refused(400, "A stream returns one text per prompt, without logprobs; leave out n and logprobs.")
    predictor, frame = cast(ContinuesText, served.predictor), _frame(served.name)

    def work(send: Send) -> Iterator[None]:
        written = 0
        for number, prompt in enumerate(prompts):
            if body.echo:
                send(frame | {"choices": [_piece(number, prompt)]})
            for piece in predictor.pieces(prompt, **options | {"seed": (options["seed"] + number) % 2**32}):
                finish = None if piece.finished is None else "stop" if piece.finished else "length"
                if piece.text or finish:
                    send(frame | {"choices": [_piece(number, piece.text, finish)]})
                yield
            written += piece.written
        if body.stream_options is not None and body.stream_options.include_usage:
            send(frame | {"choices": [], "usage": _usage(served, prompts, written)})
        send(DONE)

    return work


def _encoded(value: Any) -> bytes:
    """Format one server-sent event. The data of every event except the last is JSON."""
    return f"data: {value if value == DONE else json.dumps(value, ensure_ascii=False)}\n\n".encode()

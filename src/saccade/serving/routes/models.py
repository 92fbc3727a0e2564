"""Routes that return answers of a model: complete, as a stream, or with attention."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr

from saccade.attention import edit, editable
from saccade.errors import OptionError, counted
from saccade.serving.architecture import describe_architecture
from saccade.serving.computation import Computation, request_size, wait_for
from saccade.serving.effects import find_opening, words_left_out
from saccade.serving.http.events import EVENTS, event_stream
from saccade.serving.http.refusals import Refused
from saccade.serving.http.strict import StrictRoute, parse_json
from saccade.serving.inputs import read_file, read_input, read_inputs, replaced
from saccade.serving.limits import Limits, check_options
from saccade.serving.looks import Edits, Look, answer_record, finite, no_attention, plain_record
from saccade.serving.models import Served
from saccade.serving.state import ServerState, state_of
from saccade.serving.threads import SMALL_BYTES, offload, parse_apart
from saccade.tasks.base.answer import Answer

__all__ = ["router"]

router = APIRouter(prefix="/api/models", route_class=StrictRoute, tags=["models"])

#: How many results of ``find_opening`` are kept for one model, each for different options.
MOST_OPENINGS = 16
#: Up to this many answers, counting alternatives, are written on the event loop; more are written in a thread.
MOST_AT_ONCE = 8

Options = Annotated[dict[str, Any], Field(max_length=32)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class PredictBody(_Body):
    """Inputs for the model, and its options. An input is a text, an image as {"pixels": [[...]]}, {"png": base64} or
    {"sample": number}, or another value that the model's input schema describes."""

    inputs: Annotated[list[Any], Field(min_length=1)]
    options: Options = {}


class StreamBody(_Body):
    """One input and the model's options."""

    input: Any
    options: Options = {}


class OpeningBody(_Body):
    """The options with which the model answers its example inputs."""

    options: Options = {}


class EffectsBody(StreamBody):
    """An input whose words are left out one by one, and changes to make first: heads to switch off, a word to replace.
    Links between positions cannot be cut here, because leaving out a word shifts the positions after it."""

    without_heads: Annotated[list[StrictStr], Field(fail_fast=True, max_length=1000)] = []
    replace: tuple[StrictStr, StrictStr] | None = None


class LookBody(EffectsBody):
    """An input whose attention is requested, and changes to make first: heads to switch off, links between positions to
    cut, and a word to replace."""

    which: Annotated[StrictInt, Field(ge=0, le=1000)] = 0  # 0: the best answer; n: the n-th alternative
    without_links: Annotated[list[tuple[StrictStr, StrictInt, StrictInt]], Field(fail_fast=True, max_length=1000)] = []

    @property
    def edits(self) -> Edits:
        return Edits(self.without_heads, self.without_links, self.replace)


class MapBody(_Body):
    """A long text that the model reads, without answering it, so that the Map page can show its attention."""

    text: StrictStr


@router.get("", response_model=list[dict[str, Any]])
def list_models(request: Request) -> JSONResponse:
    """Every model with its task, kind of input, options and some examples; also models that are still being trained."""
    state = state_of(request)
    ready = [served.description for served in state.models.values()]
    return JSONResponse(ready + [pending.describe() for pending in list(state.models.pending.values())])


@router.post("/{name}/predict", response_model=dict[str, Any])
async def predict(request: Request, name: str, body: PredictBody) -> Response:
    """The answer to each input."""
    state = state_of(request)
    served = state.models[name]
    check_options(served.predictor, body.options)
    size = await request_size(request, *body.inputs)
    inputs = await offload(size, read_inputs, served, body.inputs, state.limits)
    return await _answer(request, served, inputs, size, body.options)


@router.get("/{name}/architecture")
def architecture(request: Request, name: str) -> dict[str, Any]:
    """The blocks of a model in order, with the number of their parameters, the shapes of their matrices, and their
    attention layers."""
    return describe_architecture(state_of(request).models[name].predictor.model)


#: A file may have any type; these are the ones that the documentation names.
_FILES = ("text/plain", "text/csv", "text/tab-separated-values", "application/jsonl", "application/gzip", "image/png")
_FILE_BODY = {
    "required": True,
    "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in _FILES},
}


@router.post("/{name}/file", openapi_extra={"requestBody": _FILE_BODY}, response_model=dict[str, Any])
async def predict_file(request: Request, name: str, options: str = "{}") -> Response:
    """The answer to each input in a file, which is the body of the request. The file is read in the format of the
    model's training files; the field ``read`` of the response says how. ``options`` is a JSON object of options."""
    state = state_of(request)
    served = state.models[name]
    chosen = parse_json(options.encode())
    if not isinstance(chosen, dict):
        raise Refused(400, "options must be a JSON object.")
    check_options(served.predictor, chosen)
    content = await request.body()
    inputs, how = await parse_apart(max(len(content), SMALL_BYTES + 1), read_file, served, content, state.limits)
    return await _answer(request, served, inputs, float("inf"), chosen, {"read": how})


async def _answer(
    request: Request,
    served: Served,
    inputs: list[Any],
    size: float,
    options: dict[str, Any],
    more: dict[str, Any] | None = None,
) -> Response:
    answers = await wait_for(request, await offload(size, served.batcher.predict, inputs, options))
    written = sum(1 + len(answer.alternatives) for answer in answers)
    content = await offload(size if written <= MOST_AT_ONCE else float("inf"), _written, served, inputs, answers)
    end = "".join(f",{_json(key)}:{_json(value)}" for key, value in (more or {}).items())
    return Response(f'{{"answers":[{content}]{end}}}', media_type="application/json")


def _written(served: Served, inputs: list[Any], answers: list[Answer]) -> str:
    """Write the answers as JSON, one by one, because no other thread runs while a long list is written."""
    records = []
    for one, answer in zip(inputs, answers, strict=True):
        unknown = served.predictor.unknown(one)
        records.append(_json(answer_record(answer) | ({"unknown": unknown} if unknown else {})))
    return ",".join(records)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


async def _one_input(request: Request, served: Served, body: StreamBody, limits: Limits) -> Any:
    check_options(served.predictor, body.options)
    size = await request_size(request, body.input)
    return await offload(size, read_input, served, body.input, limits.characters, limits.tokens)


async def _edited_input(request: Request, served: Served, body: EffectsBody, limits: Limits) -> tuple[Any, Any]:
    """The input, and what it becomes if a word of it is replaced."""
    given = await _one_input(request, served, body, limits)
    if body.replace is None:
        return given, given
    size = await request_size(request, body.input)
    return given, await offload(size, replaced, served, given, body.replace, limits)


@router.post("/{name}/stream", response_class=StreamingResponse, responses=EVENTS)
async def stream(request: Request, name: str, body: StreamBody) -> StreamingResponse:
    """One answer, sent piece by piece while it is generated: events {"piece": text}, then {"done": true}."""
    state = state_of(request)
    served = state.models[name]
    given = await _one_input(request, served, body, state.limits)
    served.predictor.chosen(body.options)  # refuses invalid options before the stream begins

    def write(send: Any) -> Iterator[None]:
        for piece in served.predictor.stream(given, **body.options):
            send({"piece": piece})
            yield
        send({"done": True})

    return event_stream(served.batcher, write, inputs=[given], options=body.options)


@router.post("/{name}/looks")
async def look(request: Request, name: str, body: LookBody) -> dict[str, Any]:
    """The answer to an input, and a look: the attention recorded for it, parts of which are at /api/looks/{id}."""
    state = state_of(request)
    served = state.models[name]
    given, edited = await _edited_input(request, served, body, state.limits)
    inputs = [given, edited] if body.edits else [given]
    work = served.batcher.run(lambda: _look(state, served, given, edited, body), inputs, body.options)
    return await wait_for(request, work)


@router.post("/{name}/effects", response_class=StreamingResponse, responses=EVENTS)
async def effects(request: Request, name: str, body: EffectsBody) -> StreamingResponse:
    """What the answer to a text depends on: each word is left out in turn, and an event gives the log-probability that
    the original answer, and each of its tokens, has without that word."""
    state = state_of(request)
    served = state.models[name]
    _, text = await _edited_input(request, served, body, state.limits)
    if not isinstance(text, str):
        raise Refused(400, "This model does not take texts, so no words can be left out.")
    served.predictor.chosen(body.options)  # refuses invalid options before the stream begins

    def measure(send: Any) -> Iterator[None]:
        records = words_left_out(served.predictor, text, body.options)
        while True:
            with edit(served.predictor.model, without_heads=body.without_heads):  # not while other requests run
                record = next(records, None)
            if record is None:
                return
            send(finite(record))
            yield

    return event_stream(served.batcher, measure, inputs=[text], options=body.options)


@router.post("/{name}/opening")
async def opening(request: Request, name: str, body: OpeningBody) -> dict[str, Any] | None:
    """An example, and two of its words: if the attention between them is cut, the answer changes. Null if no such
    example was found."""
    served = state_of(request).models[name]
    check_options(served.predictor, body.options)
    served.predictor.chosen(body.options)  # refuses invalid options even if there is nothing to answer
    key = json.dumps(body.options, sort_keys=True)
    if key not in served.openings:
        texts = [one for one in served.examples if isinstance(one, str)]
        read = [served.predictor.from_json(text) for text in texts]
        work: Computation[Any] = served.batcher.run(
            lambda: find_opening(served.predictor, texts, body.options), read, body.options
        )
        found: dict[str, Any] | None = await wait_for(request, work)
        if len(served.openings) >= MOST_OPENINGS:
            served.openings.clear()
        served.openings[key] = found
        return found
    return served.openings[key]


@router.post("/{name}/maps", response_class=StreamingResponse, responses=EVENTS)
async def read_map(request: Request, name: str, body: MapBody) -> StreamingResponse:
    """Read a long text without answering it, and record its attention for the Map page: events {"progress": 0..1,
    "name": attention layer}, then {"look", "tokens"}.

    Reading may take minutes, so a server that is told to stop does not wait for it, but ends it with an error.
    """
    state = state_of(request)
    served = state.models[name]
    if not served.reads:
        raise Refused(400, f"The model {served.name} cannot read a text without answering it; use /looks instead.")
    limits = state.limits
    text = await offload(len(body.text), read_input, served, body.text, limits.map_characters, limits.map_tokens)
    every = list(editable(served.predictor.model))
    names = [one for one in every if one.startswith("encoder")] or every

    def read(send: Any) -> None:
        def progress(attention: str, share: float) -> None:
            if state.draining:
                raise Refused(503, "The server is stopping; ask again in a moment.")
            if attention in names:
                done = (names.index(attention) + share) / len(names)
                send({"progress": round(done, 4), "name": attention})

        view = served.predictor.view_input(text, progress)
        kept = state.looks.add(Look(served, text, view))
        send({"look": kept.describe(), "tokens": served.predictor.count_tokens(text)})

    return event_stream(served.reader, read)


def _look(state: ServerState, served: Served, given: Any, edited: Any, body: LookBody) -> dict[str, Any]:
    """Answer, record the attention, and compare with the unedited model; runs in the model's thread."""
    edits, predictor = body.edits, served.predictor
    found: dict[str, Any] = {"unknown": predictor.unknown(edited)}
    if edits:
        found["change"] = _change(served, given, edits, body.options)
    with edit(predictor.model, without_heads=edits.without_heads, without_links=edits.without_links):
        first = predictor.predict([edited], **body.options)[0]
        every = [first, *first.alternatives]
        if body.which >= len(every):
            raise Refused(
                400, f"which = {body.which}: the model gave {counted(len(every), 'answer')}, numbered from 0."
            )
        answer = every[body.which]
        found |= {"answer": plain_record(answer), "which": body.which}
        found["alternatives"] = [plain_record(one) for one in every]
        try:
            view = answer.view
        except OptionError as error:
            return found | no_attention(answer, error)
        return found | state.looks.add(Look(served, edited, view, answer, edits)).describe()


def _change(served: Served, given: Any, edits: Edits, options: dict[str, Any]) -> dict[str, Any]:
    change = served.predictor.compare(
        given,
        without_heads=edits.without_heads,
        without_links=edits.without_links,
        replace=edits.replace,
        **options,
    )
    sides = {
        name: {"text": one.text, "tokens": one.tokens, "before": one.before, "after": one.after}
        for name, one in (("before", change.before), ("after", change.after))
    }
    compared: dict[str, Any] = finite({"changed": change.changed, "same": change.is_same, **sides})
    return compared

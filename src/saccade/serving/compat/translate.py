"""LibreTranslate's API, answered by Saccade's translation models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError

from saccade.errors import describe_invalid
from saccade.serving.compat.forms import read_fields
from saccade.serving.compat.languages import Detected, language_name
from saccade.serving.compat.segments import Segmented, segment_html, segment_text
from saccade.serving.computation import request_size, wait_for
from saccade.serving.http.guard import same_key
from saccade.serving.http.refusals import Refused
from saccade.serving.models import Served
from saccade.serving.state import ServerState, state_of
from saccade.serving.threads import offload
from saccade.tasks.base.answer import Answer

__all__ = ["router"]

router = APIRouter(tags=["LibreTranslate"])

AUTO = "auto"


class TranslateBody(BaseModel):
    """The fields of a request for a translation, sent as JSON, as a form, or in the query string."""

    model_config = ConfigDict(extra="ignore")

    q: StrictStr | Annotated[list[StrictStr], Field(fail_fast=True)]
    source: StrictStr
    target: StrictStr
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0, le=10)] = 0
    api_key: str | None = None


class DetectBody(BaseModel):
    """A text whose language should be detected."""

    model_config = ConfigDict(extra="ignore")

    q: StrictStr
    api_key: str | None = None


def _documented(body: type[BaseModel]) -> dict[str, Any]:
    """Describe the request body for the OpenAPI document. FastAPI cannot, because ``read_fields`` reads the body."""
    schema = body.model_json_schema()
    content = {kind: {"schema": schema} for kind in ("application/json", "application/x-www-form-urlencoded")}
    parameters = [{"name": name, "in": "query", "schema": one} for name, one in schema["properties"].items()]
    return {"requestBody": {"content": content}, "parameters": parameters}


@router.post("/translate", openapi_extra=_documented(TranslateBody))
async def translate(request: Request) -> dict[str, Any]:
    """Translate texts.

    If ``source`` is "auto", the answer includes ``detectedLanguage``; if ``alternatives`` is more than 0, it also
    includes up to that many other translations.
    """
    state = state_of(request)
    fields = await read_fields(request)
    _check_key(state, request, fields.get("api_key"))
    body = _checked(TranslateBody, fields)
    texts = [body.q] if isinstance(body.q, str) else body.q
    if len(texts) > state.limits.texts:
        raise Refused(400, f"The request has {len(texts)} texts; the limit is {state.limits.texts}.")
    for text in texts:
        _check_length(state, text)
    size = await request_size(request)
    found: list[list[Detected]] = [[] for _ in texts]  # the likeliest language, or none
    if body.source == AUTO:
        found = await offload(size, lambda: [state.detector.detect(text)[:1] for text in texts])
    sources = [one[0].language if one else body.source for one in found]
    routes = [_model(state, source, body.target) for source in sources]
    results = await _translated(request, routes, texts, body)
    answer: dict[str, list[Any]] = {"translatedText": [first for first, _ in results]}
    if body.source == AUTO:
        answer["detectedLanguage"] = [one[0]._asdict() if one else None for one in found]
    if body.alternatives:
        answer["alternatives"] = [others for _, others in results]
    return {name: values[0] for name, values in answer.items()} if isinstance(body.q, str) else answer


@router.post("/detect", openapi_extra=_documented(DetectBody))
async def detect(request: Request) -> list[dict[str, Any]]:
    """Return every language of the served models with the probability that the text is written in it, in percent, the
    most likely one first."""
    state = state_of(request)
    fields = await read_fields(request)
    _check_key(state, request, fields.get("api_key"))
    body = _checked(DetectBody, fields)
    _check_length(state, body.q)
    return [one._asdict() for one in await offload(await request_size(request), state.detector.detect, body.q)]


@router.get("/languages")
def languages(request: Request) -> list[dict[str, Any]]:
    """Return every language, and the languages into which it can be translated."""
    pairs = state_of(request).models.translators()
    codes = dict.fromkeys(code for pair in pairs for code in pair)
    return [
        {"code": code, "name": language_name(code), "targets": [target for source, target in pairs if source == code]}
        for code in codes
    ]


def _checked(kind: type[Any], fields: dict[str, Any]) -> Any:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        place = str(first["loc"][0]) if first["loc"] else "the request"
        if first["type"] == "missing":
            raise Refused(400, f"Invalid request: missing {place} parameter.") from None
        raise Refused(400, f"Invalid request: {describe_invalid(first, place)}.") from None


def _check_key(state: ServerState, request: Request, given: Any) -> None:
    bearer = request.headers.get("authorization", "").partition(" ")[2].strip()
    if state.api_key is not None and not any(same_key(str(one or ""), state.api_key) for one in (given, bearer)):
        raise Refused(403, "Invalid API key.")


def _check_length(state: ServerState, text: str) -> None:
    if len(text) > state.limits.characters:
        raise Refused(400, f"The text has {len(text):,} characters; the limit is {state.limits.characters:,}.")


def _model(state: ServerState, source: str, target: str) -> Served | None:
    """The model that translates from one language to another; None if both are the same language."""
    pairs = state.models.translators()
    known = {code for pair in pairs for code in pair}
    if not known and state.models.pending:
        raise Refused(503, "The model is still being trained; try again in 30 seconds.", retry_after=30)
    for code in (source, target):
        if code not in known:
            languages = ", ".join(sorted(known)) or "none"
            raise Refused(400, f"The language {code[:40]} is not supported; the languages are: {languages}.")
    if source == target:
        return None
    if (source, target) not in pairs:
        raise Refused(400, f"There is no model from {source} to {target}.")
    return pairs[source, target]


async def _translated(
    request: Request, routes: list[Served | None], texts: list[str], body: TranslateBody
) -> list[tuple[str, list[str]]]:
    """The best translation of each text, and the alternatives. Each model gets all its sentences in one job."""
    size = await request_size(request)
    cut = await offload(size, _segmented, state_of(request), routes, texts, body.format)
    models = {served.name: served for served in routes if served is not None}
    sentences: dict[str, list[str]] = {name: [] for name in models}
    for served, segmented in zip(routes, cut, strict=True):
        if served is not None:
            sentences[served.name] += segmented.sentences
    computations = {}
    for name in (name for name in models if sentences[name]):
        options: dict[str, Any] = {"sample": False}
        if body.alternatives:
            beam = models[name].predictor.chosen({}).beam
            options |= {"n_best": body.alternatives + 1, "beam": max(body.alternatives + 1, beam)}
        computations[name] = await offload(size, models[name].batcher.predict, sentences[name], options)
    done = {name: await wait_for(request, computation) for name, computation in computations.items()}
    return await offload(size, _joined, routes, texts, cut, done, body.alternatives)


def _joined(
    routes: list[Served | None],
    texts: list[str],
    cut: list[Segmented],
    done: dict[str, list[Answer]],
    alternatives: int,
) -> list[tuple[str, list[str]]]:
    """Replace the sentences of each text by their translations."""
    answers = {name: iter(found) for name, found in done.items()}
    results: list[tuple[str, list[str]]] = []
    for served, text, segmented in zip(routes, texts, cut, strict=True):
        if served is None or not segmented.sentences:
            results.append((text, []))
            continue
        some = [next(answers[served.name]) for _ in segmented.sentences]
        every = [[answer.text, *(other.text for other in answer.alternatives)] for answer in some]
        joined = [  # the n-th translation of each sentence, or its best if it has fewer
            segmented.join([texts[n] if n < len(texts) else texts[0] for texts in every])
            for n in range(min(alternatives + 1, max(map(len, every))))
        ]
        results.append((joined[0], joined[1:]))
    return results


def _segmented(state: ServerState, routes: list[Served | None], texts: list[str], format: str) -> list[Segmented]:
    """The sentences of each text, checked against the limits."""
    limits, cut = state.limits, []
    for served, text in zip(routes, texts, strict=True):
        cut.append(segment_html(text) if format == "html" else segment_text(text))
        if sum(len(one.sentences) for one in cut) > limits.sentences:
            raise Refused(400, f"The texts have more than {limits.sentences:,} sentences, which is the limit.")
        for sentence in cut[-1].sentences:
            if served is not None and (found := served.predictor.count_tokens(sentence)) > limits.tokens:
                raise Refused(400, f"A sentence has {found:,} tokens; the limit is {limits.tokens:,}.")
    return cut

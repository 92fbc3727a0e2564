"""The interface of LibreTranslate, so that programs written for it can ask our translation models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError

from saccade.serving.asked import answered, aside, size_of
from saccade.serving.compat.forms import read_fields
from saccade.serving.compat.languages import Detected, language_name
from saccade.serving.compat.segments import Segmented, segment_html, segment_text
from saccade.serving.http.guard import same_key
from saccade.serving.http.refusals import Refused
from saccade.serving.models import Served
from saccade.serving.state import State, state_of
from saccade.tasks.base.answer import Answer

__all__ = ["router"]

router = APIRouter(tags=["LibreTranslate"])

AUTO = "auto"


class TranslateBody(BaseModel):
    """What is to be translated; JSON, a form, or the query string."""

    model_config = ConfigDict(extra="ignore")

    q: StrictStr | list[StrictStr]
    source: StrictStr
    target: StrictStr
    format: Literal["text", "html"] = "text"
    alternatives: Annotated[int, Field(ge=0, le=10)] = 0
    api_key: str | None = None


class DetectBody(BaseModel):
    """A text in some language."""

    model_config = ConfigDict(extra="ignore")

    q: StrictStr
    api_key: str | None = None


def _documented(body: type[BaseModel]) -> dict[str, Any]:
    """The body is read by hand, because it comes in three forms; this tells the OpenAPI document of it."""
    schema = body.model_json_schema()
    content = {kind: {"schema": schema} for kind in ("application/json", "application/x-www-form-urlencoded")}
    parameters = [{"name": name, "in": "query", "schema": one} for name, one in schema["properties"].items()]
    return {"requestBody": {"content": content}, "parameters": parameters}


@router.post("/translate", openapi_extra=_documented(TranslateBody))
async def translate(request: Request) -> dict[str, Any]:
    """``translatedText``; for the source "auto" also ``detectedLanguage``, and ``alternatives`` if asked for."""
    state = state_of(request)
    fields = await read_fields(request)
    _check_key(state, request, fields.get("api_key"))
    body = _checked(TranslateBody, fields)
    texts = [body.q] if isinstance(body.q, str) else body.q
    if len(texts) > state.limits.texts:
        raise Refused(400, f"There are {len(texts)} texts; {state.limits.texts} are taken at once.")
    for text in texts:
        _check_length(state, text)
    size = await size_of(request)
    found = await aside(size, _detected, state, texts) if body.source == AUTO else [[] for _ in texts]
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
    """The languages that a text may be in, with a confidence in percent, the likeliest first."""
    state = state_of(request)
    fields = await read_fields(request)
    _check_key(state, request, fields.get("api_key"))
    body = _checked(DetectBody, fields)
    _check_length(state, body.q)
    return [one._asdict() for one in await aside(await size_of(request), state.detector.detect, body.q)]


@router.get("/languages")
def languages(request: Request) -> list[dict[str, Any]]:
    """Every language, and those that it can be translated to."""
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
        raise Refused(400, f"Invalid request: {place}: {first['msg']}.") from None


def _check_key(state: State, request: Request, given: Any) -> None:
    bearer = request.headers.get("authorization", "").partition(" ")[2].strip()
    if state.api_key is not None and not any(same_key(str(one or ""), state.api_key) for one in (given, bearer)):
        raise Refused(403, "Invalid API key.")


def _check_length(state: State, text: str) -> None:
    if len(text) > state.limits.characters:
        raise Refused(400, f"The text has {len(text):,} characters; {state.limits.characters:,} are taken.")


def _detected(state: State, texts: list[str]) -> list[list[Detected]]:
    """The likeliest language of each text; none where nothing can be told."""
    return [state.detector.detect(text)[:1] for text in texts]


def _model(state: State, source: str, target: str) -> Served | None:
    """The model from one language to another; None where there is nothing to do."""
    pairs = state.models.translators()
    known = {code for pair in pairs for code in pair}
    if not known and state.models.pending:
        raise Refused(503, "The model is still being trained; try again in a minute.", retry_after=30)
    for code in (source, target):
        if code not in known:
            raise Refused(400, f"{code[:40]} is not supported; there are: {', '.join(sorted(known)) or 'none'}.")
    if source == target:
        return None
    if (source, target) not in pairs:
        raise Refused(400, f"There is no model from {source} to {target}.")
    return pairs[source, target]


async def _translated(
    request: Request, routes: list[Served | None], texts: list[str], body: TranslateBody
) -> list[tuple[str, list[str]]]:
    """The best translation of each text, and others. All that goes to one model is asked for at once."""
    size = await size_of(request)
    cut = await aside(size, _segmented, state_of(request), routes, texts, body.format)
    models = {served.name: served for served in routes if served is not None}
    asked: dict[str, list[str]] = {name: [] for name in models}
    for served, segmented in zip(routes, cut, strict=True):
        if served is not None:
            asked[served.name] += segmented.sentences
    answers = {
        name: await aside(size, models[name].worker.predict, sentences, _options(models[name], body.alternatives + 1))
        for name, sentences in asked.items()
        if sentences
    }
    found: dict[str, Iterator[Answer]] = {}
    for name, asked_of in answers.items():
        done = await answered(request, asked_of)
        found[name] = iter(done)
    results: list[tuple[str, list[str]]] = []
    for served, text, segmented in zip(routes, texts, cut, strict=True):
        if served is None or not segmented.sentences:
            results.append((text, []))
            continue
        some = [next(found[served.name]) for _ in segmented.sentences]
        every = [[answer.text, *(other.text for other in answer.alternatives)] for answer in some]
        joined = [_nth(segmented, every, n) for n in range(min(body.alternatives + 1, max(map(len, every))))]
        results.append((joined[0], joined[1:]))
    return results


def _segmented(state: State, routes: list[Served | None], texts: list[str], format: str) -> list[Segmented]:
    """The sentences of each text, none of them too long."""
    limits, cut = state.limits, []
    for served, text in zip(routes, texts, strict=True):
        cut.append(segment_html(text) if format == "html" else segment_text(text))
        if sum(len(one.sentences) for one in cut) > limits.sentences:
            raise Refused(400, f"The texts have more than {limits.sentences:,} sentences, which are taken at once.")
        if served is not None:
            for sentence in cut[-1].sentences:
                _check_tokens(served, sentence, limits.tokens)
    return cut


def _check_tokens(served: Served, sentence: str, most: int) -> None:
    found = served.predictor.count_tokens(sentence)
    if found > most:
        raise Refused(400, f"A sentence has {found:,} tokens; {most:,} are taken.")


def _options(served: Served, count: int) -> dict[str, Any]:
    """How a model is asked for so many translations of each sentence."""
    if count == 1:
        return {"sample": False}
    return {"sample": False, "n_best": count, "beam": max(count, served.predictor.chosen({}).beam)}


def _nth(segmented: Segmented, every: list[list[str]], number: int) -> str:
    """The whole with the n-th translation of each sentence; where one has no further, with its best."""
    return segmented.join([some[number] if number < len(some) else some[0] for some in every])

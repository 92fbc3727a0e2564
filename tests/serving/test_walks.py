"""Walks through numbers: those of ``saccade explain``, and those of a head of a real model."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from servers import Running, numbers, post
from test_models import INPUTS

from saccade.cli import main
from saccade.lens import EXAMPLES, WalkDocument
from saccade.serving.apart import Apart
from saccade.serving.http.refusals import Refused
from saccade.serving.routes.walk import LARGE_BYTES, LARGE_NUMBERS
from saccade.serving.walks import numbers_of, walk_through, written


def explained(document: dict[str, Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """What ``saccade explain --json`` says to a file of these numbers."""
    path = folder / "numbers.json"
    path.write_text(json.dumps(document))
    with pytest.raises(SystemExit) as left:
        main(["explain", str(path), "--json"])
    assert not left.value.code
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_edited_number_changes_the_same_cells(
    name: str, client: httpx.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = client.get("/api/walkthroughs").json()[name]
    before = post(client, "/api/walkthrough", **document)
    assert before == explained(document, tmp_path, capsys)
    edited = "W_key" if "W_key" in document else "keys"
    document[edited][-2][0] += 0.5  # in the dictionary: the key that is looked up
    after = post(client, "/api/walkthrough", **document)
    assert after == explained(document, tmp_path, capsys)
    changed = [old["name"] for old, new in zip(before["steps"], after["steps"], strict=True) if old != new]
    assert changed[0] == edited
    several = {"scores0", "weights0", "concatenated"}  # where there are several heads
    assert (several if "heads" in document and document["heads"] > 1 else {"scores", "weights", "sum"}) <= set(changed)
    assert not {"queries", "values", "inputs"} & set(changed)


@pytest.mark.parametrize(
    ("step", "place"),
    [
        ("queries", [0, 1]),
        ("keys", [2, 0]),
        ("values", [1, 1]),
        ("scores", [2, 1]),
        ("weights", [0, 2]),
        ("weighted", [2, 0, 1]),
        ("sum", [1, 2]),
    ],
)
def test_a_changed_computed_number_changes_the_same_cells(
    step: str, place: list[int], client: httpx.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = client.get("/api/walkthroughs").json()["projection"]
    before = post(client, "/api/walkthrough", **document)
    document["changed"] = [{"step": step, "place": place, "value": 0.75}]
    after = post(client, "/api/walkthrough", **document)
    assert after == explained(document, tmp_path, capsys)
    changed = [old["name"] for old, new in zip(before["steps"], after["steps"], strict=True) if old != new]
    assert (changed[0], changed[-1]) == (step, "sum")
    assert next(one["changed"] for one in after["steps"] if one["name"] == step) == [place]


HEADS = [
    ("tiny", "encoder.0.self"),
    ("tiny", "decoder.0.cross"),
    ("tiny", "decoder.0.self"),
    ("back", "encoder.1.self"),
]
HEADS += [("writer", "decoder.1.self"), ("filler", "encoder.1.self"), ("shapes", "encoder.0.self")]


@pytest.mark.parametrize(("model", "name"), HEADS)
def test_a_real_head_walked_through_has_the_weights_of_its_trace(model: str, name: str, running: Running) -> None:
    client = running.client
    options = {"max_tokens": 9} if model == "writer" else {}
    look = post(client, f"/api/models/{model}/looks", input=INPUTS[model], options=options)
    tile = numbers(client, f"/api/looks/{look['id']}/tile", name=name, head=1)
    document = post(client, f"/api/looks/{look['id']}/walk", name=name, head=1)
    steps = {step["name"]: step["values"] for step in post(client, "/api/walkthrough", **document)["steps"]}
    np.testing.assert_allclose(steps["weights"], tile, rtol=0, atol=1e-5)  # from X, in float64
    assert ("bias" in steps) == (model == "filler")
    part = post(client, f"/api/looks/{look['id']}/walk", name=name, head=1, rows=[2, 4])
    rows = {step["name"]: step["values"] for step in post(client, "/api/walkthrough", **part)["steps"]}
    np.testing.assert_allclose(rows["weights"], tile[2:4], rtol=0, atol=1e-5)
    np.testing.assert_allclose(rows["output"], steps["output"][2:4], rtol=0, atol=1e-12)


def test_the_heads_of_a_layer_sum_to_its_output(running: Running) -> None:
    """Each head's walk ends in its share of what the layer gives on; together, and with the bias, that is all of it."""
    predictor = running.models["tiny"].predictor
    layer = predictor.model.get_submodule("encoder.0.self")
    outputs: list[Any] = []
    handle = layer.register_forward_hook(lambda _, given, found: outputs.append(found[0].double().numpy()))
    look = post(running.client, "/api/models/tiny/looks", input=INPUTS["tiny"])
    handle.remove()
    total = layer.output.bias.detach().double().numpy()  # type: ignore[union-attr]
    for head in range(2):
        document = post(running.client, f"/api/looks/{look['id']}/walk", name="encoder.0.self", head=head)
        total = total + np.array(post(running.client, "/api/walkthrough", **document)["steps"][-1]["values"])
    np.testing.assert_allclose(total, outputs[-1], rtol=0, atol=1e-5)


def test_what_cannot_be_walked_through_is_said(client: httpx.Client) -> None:
    look = post(client, "/api/models/tiny/looks", input=" ".join(["the cat sees the dog."] * 12))
    path = f"/api/looks/{look['id']}/walk"
    for body, said in (
        ({"name": "encoder.0.self", "head": 0}, "a walkthrough can have at most 64"),
        ({"name": "encoder.0.self", "head": 2}, "has no head 2"),
        ({"name": "encoder.0.self", "head": 0, "rows": [9, 3]}, "rows = [9, 3]"),
        ({"name": "nothing", "head": 0}, "There is no attention 'nothing'"),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code in (400, 413)
        assert said in answer.json()["error"]
    for change, said in (
        ({"step": "scaled", "place": [0, 0], "value": 1}, "There is no computed step 'scaled'"),
        ({"step": "sum", "place": [0, 1], "value": 1}, "There is no sum[0][1]"),
        ({"step": "sum", "place": [0], "value": 1}, "changed.0.place"),
    ):
        answer = client.post("/api/walkthrough", json={"inputs": [[1]], "score": "dot", "changed": [change]})
        assert answer.status_code == 400
        assert said in answer.json()["error"]
    nan = client.post(
        "/api/walkthrough", content=b'{"inputs": [[NaN, 1]]}', headers={"content-type": "application/json"}
    )
    assert (nan.status_code, "NaN" in nan.json()["error"]) == (400, True)


def test_a_large_walkthrough_is_computed_in_another_process(running: Running) -> None:
    rows, width = 48, 160
    numbers = torch.randn(rows, width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    body: dict[str, Any] = {"inputs": numbers.tolist(), "heads": 1}
    for name in ("W_query", "W_key", "W_value"):
        body[name] = numbers[:, :40].T.expand(4, 40, rows).reshape(width, rows).tolist()
    sent = json.dumps(body).encode()
    assert len(sent) > LARGE_BYTES
    assert walk_through(sent) == written(WalkDocument.model_validate(body))
    answer = running.client.post("/api/walkthrough", content=sent, headers={"content-type": "application/json"})
    assert answer.content == walk_through(sent)
    assert multiprocessing.active_children()
    for wrong, said in (
        ({**body, "W_query": [["a"] * rows] * width}, "W_query.0.0 must be a number, not 'a'"),
        ({**body, "score": "nothing"}, "There is no score 'nothing'"),
    ):
        refused = running.client.post("/api/walkthrough", json=wrong)
        assert refused.status_code == 400
        assert said in refused.json()["error"]


def test_a_walkthrough_whose_process_is_killed_can_be_sent_again() -> None:
    apart = Apart(walk_through)
    body = EXAMPLES["projection"].model_dump_json(exclude_none=True).encode()
    before = set(multiprocessing.active_children())  # those of the other tests
    answer = apart.run(body)
    (process,) = set(multiprocessing.active_children()) - before
    process.kill()
    process.join()
    with pytest.raises(Refused, match="send the request again") as found:
        apart.run(body)
    assert found.value.status == 503
    assert apart.run(body) == answer


def test_many_numbers_are_computed_in_another_process_and_too_many_weights_are_refused(client: httpx.Client) -> None:
    rows = [[1.0] * 32] * 60
    body: dict[str, Any] = {"queries": rows, "keys": rows, "values": rows}
    assert len(json.dumps(body)) < LARGE_BYTES
    assert numbers_of(WalkDocument.model_validate(body)) > LARGE_NUMBERS
    answer = client.post("/api/walkthrough", json=body)
    assert answer.content == written(WalkDocument.model_validate(body))
    refused = client.post("/api/walkthrough", json={**body, "heads": 32})
    assert refused.status_code == 413
    assert "has 115,200 weights; the limit is 65,536" in refused.json()["error"]
    long = client.post("/api/walkthrough", json={"inputs": [[1]], "score": "q" * 70_000})
    assert long.status_code == 400
    assert len(long.content) < 500

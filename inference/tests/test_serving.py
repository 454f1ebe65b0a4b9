"""Serving on two ranks: every answer is one decision, taken by both."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api import Stream, call, chat, complete
from engines import Cluster, cluster, wait_until

MODEL = "SmolLM2-135M"
LONG = 4000
"""Tokens that take far longer than any test has patience for."""


@pytest.fixture(scope="module")
def rack(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("serving"), tiny, 2) as running:
        yield running.go()
        running.stop()


def test_every_rank_reports_the_same_generation(rack: Cluster) -> None:
    request = complete(rack.port, "same", max_tokens=6).json["id"]
    events = [engine.wait_for("generated", lambda e: e["request"] == request) for engine in rack.engines]
    assert {(e["prompt_tokens"], e["tokens"], e["finish_reason"]) for e in events} == {(4, 6, "length")}
    assert all(e["generation_tps"] > 0 and e["prompt_tps"] > 0 for e in events)


def test_a_stream_carries_the_same_text(rack: Cluster) -> None:
    whole = complete(rack.port, "stream me", max_tokens=40)
    stream = Stream(
        rack.port,
        "/v1/completions",
        {"prompt": "stream me", "max_tokens": 40, "stream_options": {"include_usage": True}},
    )
    assert (stream.status, stream.type) == (200, "text/event-stream")
    *events, last = stream.events()
    assert last == "[DONE]"
    *chunks, usage = map(json.loads, events)
    assert len(chunks) > 5, "not all at once"
    assert "".join(c["choices"][0]["text"] for c in chunks) == whole.text
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert (usage["choices"], usage["usage"]) == ([], whole.json["usage"])


def test_a_wrong_model_is_not_found_and_nothing_is_disturbed(rack: Cluster) -> None:
    before = complete(rack.port, "steady", max_tokens=8).text
    reply = chat(rack.port, "hi", model="mlx-community/Other-4bit")
    assert reply.status == 404
    error = reply.json["error"]
    assert (error["code"], error["param"], error["type"]) == ("model_not_found", "model", "invalid_request_error")
    assert complete(rack.port, "steady", max_tokens=8).text == before


def test_health_tells_of_the_last_token(rack: Cluster) -> None:
    before = call(rack.port, "GET", "/health").json["served"]
    complete(rack.port, "healthy?", max_tokens=2)
    reply = call(rack.port, "GET", "/health")
    assert reply.status == 200
    health = reply.json
    assert (health["status"], health["model"], health["world_size"]) == ("ok", MODEL, len(rack.engines))
    assert health["served"] == before + 1
    assert health["seconds_since_sync"] < 5
    assert health["last_token_at"] > rack[0].all("ready")[0]["t"]


def test_a_prompt_in_chunks_gives_what_it_gives_at_once(rack: Cluster) -> None:
    prompt = [65 + i % 26 for i in range(1200)]
    first = complete(rack.port, prompt, max_tokens=20)
    rack[-1].wait_for("generated", lambda e: e["request"] == first.json["id"])
    prefill = {e["step"] for e in rack[-1].all("beat") if e["phase"] == "prefill"}
    assert len([step for step in prefill if step > 0]) > 1, "it went in chunks"
    assert complete(rack.port, prompt, max_tokens=20).text == first.text


def test_a_stop_string_ends_an_answer_before_it(rack: Cluster) -> None:
    whole = complete(rack.port, "find a stop", max_tokens=60)
    stop = whole.text[20:23]
    reply = complete(rack.port, "find a stop", max_tokens=60, stop=["never there", stop])
    assert reply.text == whole.text[: whole.text.index(stop)]
    assert reply.json["choices"][0]["finish_reason"] == "stop"
    assert reply.json["usage"]["completion_tokens"] < 60
    events = [engine.wait_for("generated", lambda e: e["request"] == reply.json["id"]) for engine in rack.engines]
    assert {(e["tokens"], e["finish_reason"]) for e in events} == {(reply.json["usage"]["completion_tokens"], "stop")}


def test_requests_at_once_are_all_answered_as_if_alone(rack: Cluster) -> None:
    prompts = [f"number {i}" for i in range(6)]
    alone = [complete(rack.port, prompt, max_tokens=20).text for prompt in prompts]
    with ThreadPoolExecutor(len(prompts)) as pool:
        together = list(pool.map(lambda prompt: complete(rack.port, prompt, max_tokens=20).text, prompts))
    assert together == alone
    assert len(set(together)) > 1


def test_a_client_that_leaves_a_stream_ends_its_generation(rack: Cluster) -> None:
    stream = Stream(rack.port, "/v1/completions", {"prompt": "talk", "max_tokens": LONG})
    request = json.loads(next(stream.events()))["id"]
    stream.disconnect()
    for engine in rack.engines:
        event = engine.wait_for("generated", lambda e: e["request"] == request)
        assert event["finish_reason"] == "cancelled"
        assert event["tokens"] < LONG
    assert complete(rack.port, "still there?", max_tokens=3).status == 200


def test_a_client_that_leaves_while_it_waits_ends_its_generation(rack: Cluster) -> None:
    prompt = [65 + i % 26 for i in range(37)]  # a length no other test asks with
    body = json.dumps({"prompt": prompt, "max_tokens": LONG}).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", rack.port)) as client:
        client.sendall(head + body)
        wait_until(lambda: call(rack.port, "GET", "/health").json["phase"] == "decode", "decoding")
    for engine in rack.engines:
        event = engine.wait_for("generated", lambda e: e["prompt_tokens"] == len(prompt))
        assert event["finish_reason"] == "cancelled"
        assert event["tokens"] < LONG

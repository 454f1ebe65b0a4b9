"""The HTTP API, as its clients see it, on one rank."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from api import Stream, call, chat, complete
from engines import Cluster, cluster, wait_until

MODEL = "SmolLM2-135M"
LONG = 4000
"""Tokens that take far longer than any test has patience for."""


@pytest.fixture(scope="module")
def rack(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("api"), tiny) as running:
        yield running.go()
        running.stop()


def test_an_answer_has_the_openai_shape(rack: Cluster) -> None:
    reply = chat(rack.port, "hello", max_tokens=5, model=MODEL)
    assert reply.status == 200
    answer = reply.json
    assert (answer["object"], answer["model"]) == ("chat.completion", MODEL)
    (choice,) = answer["choices"]
    assert choice["message"]["role"] == "assistant"
    assert choice["finish_reason"] == "length"
    usage = answer["usage"]
    assert usage["completion_tokens"] == 5
    assert usage["total_tokens"] == usage["prompt_tokens"] + 5


def test_a_chat_stream_begins_with_the_role(rack: Cluster) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
    *events, _ = Stream(rack.port, "/v1/chat/completions", body).events()
    deltas = [json.loads(e)["choices"][0]["delta"] for e in events]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert deltas[-1] == {}


@pytest.mark.parametrize(
    ("body", "status", "word"),
    [
        (b"{", 400, "JSON"),
        (b"\xff\xfe", 400, "JSON"),
        (b"[" * 100_000, 400, "JSON"),
        (b"[]", 400, "object"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', 400, "template"),
        ({"messages": [{"role": "user", "content": "x"}], "max_tokens": -1}, 400, "max_tokens"),
        # The template itself objects.
        ({"messages": [{"role": "tool", "content": "x"}]}, 400, "no tools here"),
        ({"messages": [{"role": "user", "content": "x" * 5000}]}, 400, "context of this model is 4096 tokens"),
        ({"messages": [{"role": "user", "content": "x"}], "max_tokens": 4096}, 400, "context of this model"),
    ],
)
def test_bad_requests(rack: Cluster, body: object, status: int, word: str) -> None:
    reply = call(rack.port, "POST", "/v1/chat/completions", body)
    assert reply.status == status
    assert word in reply.json["error"]["message"]


def test_bodies_have_a_limit_and_a_length(rack: Cluster) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", rack.port, timeout=60)
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Content-Length", str(8 * 1024 * 1024 + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    assert connection.getresponse().status == 411
    connection.close()


def test_other_paths_and_the_models(rack: Cluster) -> None:
    assert call(rack.port, "GET", "/v1/nothing").status == 404
    assert call(rack.port, "POST", "/v1/embeddings", {}).status == 404
    assert [m["id"] for m in call(rack.port, "GET", "/v1/models").json["data"]] == [MODEL]


def test_without_a_limit_an_answer_has_512_tokens(rack: Cluster) -> None:
    assert complete(rack.port, "go on").json["usage"]["completion_tokens"] == 512
    # Near the end of the context it has what is left.
    usage = complete(rack.port, "x" * 4090).json["usage"]
    assert usage["total_tokens"] == 4096


def test_sampling_follows_the_seed(rack: Cluster) -> None:
    def text(**fields: object) -> str:
        return complete(rack.port, "sample", max_tokens=30, temperature=1.5, **fields).text

    assert text(seed=1) == text(seed=1)
    assert text(seed=1) != text(seed=2)
    assert text(seed=1, top_p=0.5) != text(seed=1)
    # Almost nothing of the distribution is left: greedy by another way.
    assert text(seed=3, top_k=1) == complete(rack.port, "sample", max_tokens=30, temperature=0).text


def test_a_penalty_changes_the_answer(rack: Cluster) -> None:
    plain = complete(rack.port, "again and again", max_tokens=40).text
    assert complete(rack.port, "again and again", max_tokens=40, repetition_penalty=5.0).text != plain


def test_a_full_queue_refuses_and_says_when_to_come_back(rack: Cluster) -> None:
    first = Stream(rack.port, "/v1/completions", {"prompt": "first", "max_tokens": LONG})
    next(first.events())
    waiting = [Stream(rack.port, "/v1/completions", {"prompt": "wait", "max_tokens": 1}) for _ in range(16)]
    wait_until(lambda: call(rack.port, "GET", "/health").json["queued"] == 16, "a full queue")
    reply = complete(rack.port, "one too many", max_tokens=1)
    assert reply.status == 503
    assert reply.headers["Retry-After"] == "5"
    assert reply.json["error"]["code"] == "overloaded"
    first.disconnect()
    for stream in waiting:
        assert list(stream.events())[-1] == "[DONE]"


def test_a_connection_serves_many_requests(rack: Cluster) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", rack.port, timeout=60)
    for i in range(3):
        connection.request("POST", "/v1/completions", json.dumps({"prompt": f"{i}", "max_tokens": 2}).encode())
        response = connection.getresponse()
        assert (response.status, len(json.loads(response.read())["choices"])) == (200, 1)
    connection.close()

"""A client of the engine's HTTP API, as plain as can be."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any

TIMEOUT_S = 300.0


class Reply:
    """Status, headers and body of one answer."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        choice = self.json["choices"][0]
        return choice["message"]["content"] if "message" in choice else choice["text"]


def call(port: int, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
    """One request; `body` is sent as JSON, or as it is when it is bytes."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    try:
        connection.request(method, path, data, headers or {})
        return Reply(connection.getresponse())
    finally:
        connection.close()


def chat(port: int, content: str, **fields: Any) -> Reply:
    """One chat message of a user."""
    body = {"messages": [{"role": "user", "content": content}], **fields}
    return call(port, "POST", "/v1/chat/completions", body)


def complete(port: int, prompt: Any, **fields: Any) -> Reply:
    """One plain completion."""
    return call(port, "POST", "/v1/completions", {"prompt": prompt, **fields})


class Stream:
    """A streamed completion, read as it comes."""

    def __init__(self, port: int, path: str, body: dict[str, Any]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        self._connection.request("POST", path, json.dumps({**body, "stream": True}).encode())
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.type = self._response.headers["Content-Type"]

    def events(self) -> Iterator[str]:
        """The data of each event; a comment is passed over."""
        while line := self._response.readline():
            if line.startswith(b"data: "):
                yield line[6:].decode().strip()
            else:
                assert line.startswith(b":") or line == b"\n", line

    def disconnect(self) -> None:
        """Go away without a word."""
        # The response holds the socket as long as it is open.
        self._response.close()
        self._connection.close()

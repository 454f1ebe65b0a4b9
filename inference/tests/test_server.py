"""The HTTP side alone: when it stops, and when something fails."""

from __future__ import annotations

import fcntl
import http.client
import io
import json
import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest

from macluster_inference.config import Api
from macluster_inference.errors import stopping_error
from macluster_inference.generate import Work
from macluster_inference.jobs import Job, Jobs, Piece
from macluster_inference.protocol import Request
from macluster_inference.server import Handler, Server, hung_up
from macluster_inference.service import Service
from macluster_inference.witness import Register, Witness

BODY = b'{"messages": []}'
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(BODY), BODY)
)


class Stopping(Service):
    """Takes no requests any more."""

    def __init__(self) -> None:
        super().__init__("m", cast(Any, None), cast(Any, None), Jobs(), cast(Any, None), 1)

    def accept(self, body: Any, *, chat: bool) -> Any:
        raise stopping_error()


class Failing(Stopping):
    """Fails in the middle of an answer, in a way that nobody has thought of."""

    def accept(self, body: Any, *, chat: bool) -> Any:
        work = cast(Work, SimpleNamespace(request="r", prompt=[1]))
        job = Job(work, cast(Any, None), cast(Any, None))
        job.output.put(Piece("so far", reasoning=False))
        job.output.put(cast(Any, "nothing that anybody knows"))
        return cast(Request, SimpleNamespace(stream=True, include_usage=False)), job


class Late(Server):
    """Somebody connects when connections are not accepted any more."""

    client: socket.socket

    def shutdown(self) -> None:
        super().shutdown()
        self.client = socket.create_connection(self.server_address[:2], timeout=20)
        self.client.sendall(REQUEST)


def test_a_connection_that_nobody_has_accepted_yet_hears_that_the_engine_stops() -> None:
    server = Late(Api("127.0.0.1", 0))
    server.activate(Stopping())
    server.deactivate()
    with server.client.makefile("rb") as answer:
        head, _, body = answer.read().partition(b"\r\n\r\n")
    server.client.close()
    assert head.startswith(b"HTTP/1.1 503 ")
    assert json.loads(body)["error"]["code"] == "stopping"


def test_an_idle_connection_does_not_hold_up_the_end() -> None:
    server = Server(Api("127.0.0.1", 0))
    server.activate(Stopping())
    with socket.create_connection(server.server_address[:2], timeout=20) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.recv(4096).startswith(b"HTTP/1.1 ")
        server.deactivate()
    assert not server._unheard


def test_a_failure_in_the_middle_of_a_stream_is_its_last_event() -> None:
    server = Server(Api("127.0.0.1", 0))
    server.activate(Failing())
    with socket.create_connection(server.server_address[:2], timeout=20) as client:
        client.sendall(REQUEST)
        response = http.client.HTTPResponse(client)
        response.begin()
        *_, last = response.read().decode().split("\n\n")[:-1]
    server.deactivate()
    assert json.loads(last.removeprefix("data: "))["error"]["message"].startswith("the engine failed on this request")


def test_an_answer_is_one_write() -> None:
    writes: list[bytes] = []

    class Wire(io.BytesIO):
        def write(self, data: Any) -> int:
            writes.append(bytes(data))
            return len(data)

    handler = Handler.__new__(Handler)
    handler.requestline, handler.request_version, handler.close_connection = "", "HTTP/1.1", False
    handler.wfile = Wire()
    handler._json(200, {"a": 1}, {"Retry-After": "5"})
    (answer,) = writes
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b'Retry-After: 5\r\n\r\n{"a": 1}')


def test_a_client_is_missed_also_when_many_files_are_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    ours, theirs = socket.socketpair()
    with ours, socket.socket(fileno=fcntl.fcntl(theirs, fcntl.F_DUPFD, 2000)) as high, theirs:
        assert not hung_up(high)
        ours.sendall(b"the next request")
        assert not hung_up(high), "it waits for two answers"
        ours.close()
        assert not hung_up(high)
        high.recv(100)
        assert hung_up(high)


def told(client: socket.socket, words: bytes, *, clean: bool) -> tuple[int, bytes]:
    """What the engine process says to one client of a worker that has said `words` of it and has ended."""
    ours, theirs = socket.socketpair()
    listener = socket.create_server(("127.0.0.1", 0))
    client.connect(listener.getsockname())
    connection, _ = listener.accept()
    witness = Witness(ours)
    register = Register(theirs)
    number = register.opened(connection)
    for word in words.decode():
        {"a": register.asked, "s": register.streams, "r": register.answered}[word](number)
    if not clean:
        theirs.sendall(b"half")  # a record that never comes to its end
    for each in (theirs, connection, listener):
        each.close()
    client.settimeout(20)
    with ThreadPoolExecutor() as pool:
        heard = pool.submit(client.makefile("rb").read)
        count = witness.tell_all()
        if not clean:
            client.shutdown(socket.SHUT_RDWR)
        return count, heard.result()


@pytest.mark.parametrize(
    ("words", "clean", "begin"),
    [
        (b"", True, b""),
        (b"a", True, b"HTTP/1.1 503 "),
        (b"as", True, b"73\r\ndata: {"),
        (b"ar", True, b""),
        (b"ara", True, b"HTTP/1.1 503 "),
        (b"asr", True, b""),
        (b"a", False, b""),
    ],
)
def test_only_who_waits_hears_of_the_end_of_the_worker(words: bytes, clean: bool, begin: bytes) -> None:
    with socket.socket() as client:
        count, heard = told(client, words, clean=clean)
    assert count == bool(begin)
    assert heard.startswith(begin) if begin else heard == b""

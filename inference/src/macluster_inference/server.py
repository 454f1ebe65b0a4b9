"""The HTTP side of rank 0, on loopback: an OpenAI-style API over the job queue."""

from __future__ import annotations

import json
import logging
import queue
import select
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .config import Api
from .errors import EngineError, Kind
from .generate import Listener, Sampling, Work
from .jobs import Done, Job, Jobs, Piece
from .protocol import Request, RequestError, parse
from .text import Text

MAX_BODY_BYTES = 8 * 1024 * 1024
IDLE_CONNECTION_S = 60.0
POLL_S = 0.2
"""How often a waiting request looks whether its client is still there."""

KEEPALIVE_S = 5.0
RETRY_AFTER_S = 5

log = logging.getLogger(__name__)


class Service:
    """What the HTTP threads need to answer requests."""

    def __init__(
        self, model_id: str, text: Text, defaults: Sampling, jobs: Jobs, listener: Listener, world_size: int
    ) -> None:
        self.model_id = model_id
        self.jobs = jobs
        self.world_size = world_size
        self.created = int(time.time())
        self._text = text
        self._defaults = defaults
        self._listener = listener

    def accept(self, body: Any, *, chat: bool) -> tuple[Request, Job]:
        """Check, tokenise and queue one request.

        Raises:
            RequestError: refused.
        """
        request = parse(
            body,
            chat=chat,
            model_id=self.model_id,
            defaults=self._defaults,
            vocabulary=self._text.vocabulary,
        )
        prompt = self._text.tokenize(request)
        work = Work(
            request=("chatcmpl-" if chat else "cmpl-") + uuid.uuid4().hex,
            prompt=prompt,
            max_tokens=self._text.limit(request, len(prompt)),
            eos=self._text.eos,
            sampling=request.sampling,
        )
        job = Job(work, self._text.stream(prompt, request.stop), self._listener)
        self.jobs.submit(job)
        return request, job


class Server(ThreadingHTTPServer):
    """Binds early, so that a taken port is known before the ranks meet; answers once activated."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, api: Api) -> None:
        self.address_family = socket.AF_INET6 if ":" in api.host else socket.AF_INET
        super().__init__((api.host, api.port), Handler, bind_and_activate=False)
        self.service: Service | None = None
        try:
            self.server_bind()
        except OSError as error:
            self.server_close()
            raise EngineError(Kind.API_PORT, f"cannot listen on {api}: {error.strerror or error}") from error

    def server_bind(self) -> None:
        """Bind without the reverse name lookup of the base class."""
        socket.socket.setsockopt(self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address[:2]

    def activate(self, service: Service) -> None:
        """Start to accept connections.

        Raises:
            EngineError: kind `api-port`, when someone else began to listen meanwhile.
        """
        self.service = service
        try:
            self.server_activate()
        except OSError as error:
            raise EngineError(Kind.API_PORT, f"cannot listen: {error.strerror or error}") from error


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version = "macluster-inference"
    sys_version = ""
    timeout = IDLE_CONNECTION_S
    # A token is a small write, and must not wait for the next one.
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is inherited
        """To the log, quietly."""
        log.debug(format, *args)

    def do_GET(self) -> None:
        """`/health`, `/v1/models`."""
        service = self._service()
        path = self.path.split("?", 1)[0]
        if path == "/health":
            healthy, facts = service.jobs.health()
            facts = {**facts, "model": service.model_id, "world_size": service.world_size}
            self._json(200 if healthy else 503, facts)
        elif path == "/v1/models":
            model = {
                "id": service.model_id,
                "object": "model",
                "created": service.created,
                "owned_by": "macluster",
            }
            self._json(200, {"object": "list", "data": [model]})
        else:
            self._refuse(RequestError(404, f"there is no {path}", code="not_found"))

    def do_POST(self) -> None:
        """`/v1/chat/completions`, `/v1/completions`."""
        routes = {"/v1/chat/completions": True, "/v1/completions": False}
        path = self.path.split("?", 1)[0]
        try:
            body = self._body()
            if path not in routes:
                raise RequestError(404, f"there is no {path}", code="not_found")
            request, job = self._service().accept(body, chat=routes[path])
        except RequestError as error:
            self._refuse(error)
            return
        answer = _Answer(job, self._service().model_id, chat=routes[path])
        try:
            if request.stream:
                self._stream(job, answer, request.include_usage)
            else:
                self._whole(job, answer)
        except (OSError, _ClientGoneError):
            self.close_connection = True
        finally:
            job.cancel()

    def _service(self) -> Service:
        service = self.server.service
        assert service is not None, "set before the first connection is accepted"
        return service

    def _body(self) -> Any:
        try:
            length = int(self.headers.get("Content-Length", ""))
            if length < 0:
                raise ValueError
        except ValueError:
            self.close_connection = True
            raise RequestError(411, "a Content-Length header is required") from None
        if length > MAX_BODY_BYTES:
            self.close_connection = True
            raise RequestError(413, f"the request body may have {MAX_BODY_BYTES} bytes, not {length}")
        data = self.rfile.read(length)
        if len(data) < length:
            self.close_connection = True
            raise RequestError(400, "the request body ended early")
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise RequestError(400, f"the request body is not valid JSON: {error}") from None

    def _refuse(self, error: RequestError) -> None:
        headers = {"Retry-After": str(RETRY_AFTER_S)} if error.status == 503 else {}
        self._json(error.status, error.body(), headers)

    def _json(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if self.close_connection:
            self.send_header("Connection", "close")
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _events(self, job: Job, keepalive: Callable[[], None]) -> Iterator[Piece | Done]:
        """The job's output, while the client is there.

        Raises:
            RequestError: the job failed.
            _ClientGoneError: nobody reads any more.
        """
        quiet_since = time.monotonic()
        while True:
            try:
                event = job.output.get(timeout=POLL_S)
            except queue.Empty:
                if self._client_gone():
                    raise _ClientGoneError from None
                if time.monotonic() - quiet_since >= KEEPALIVE_S:
                    quiet_since = time.monotonic()
                    keepalive()
                continue
            quiet_since = time.monotonic()
            if isinstance(event, RequestError):
                raise event
            yield event
            if isinstance(event, Done):
                return

    def _client_gone(self) -> bool:
        readable, _, _ = select.select([self.connection], [], [], 0)
        return bool(readable) and self.connection.recv(1, socket.MSG_PEEK) == b""

    def _whole(self, job: Job, answer: _Answer) -> None:
        try:
            for event in self._events(job, lambda: None):
                answer.take(event)
        except RequestError as error:
            self._refuse(error)
            return
        self._json(200, answer.whole())

    def _stream(self, job: Job, answer: _Answer, include_usage: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            if answer.chat:
                self._data(answer.chunk({"role": "assistant", "content": ""}))
            for event in self._events(job, lambda: self._chunk(b": still working\n\n")):
                answer.take(event)
                self._data(answer.piece(event))
            if include_usage:
                self._data(answer.usage_chunk())
            self._chunk(b"data: [DONE]\n\n")
        except RequestError as error:
            self._data(error.body())
            self.close_connection = True
        self._chunk(b"")

    def _data(self, body: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(body).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


class _ClientGoneError(Exception):
    pass


class _Answer:
    """The OpenAI objects of one answer."""

    def __init__(self, job: Job, model_id: str, *, chat: bool) -> None:
        self.chat = chat
        self._job = job
        self._head = {"id": job.work.request, "created": int(time.time()), "model": model_id}
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._done = Done("stop", 0)

    def take(self, event: Piece | Done) -> None:
        """Collect one event."""
        if isinstance(event, Done):
            self._done = event
        else:
            (self._reasoning if event.reasoning else self._content).append(event.text)

    def _usage(self) -> dict[str, int]:
        prompt, tokens = len(self._job.work.prompt), self._done.tokens
        return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}

    def whole(self) -> dict[str, Any]:
        """The answer in one object."""
        content, reasoning = "".join(self._content), "".join(self._reasoning)
        choice: dict[str, Any] = {"index": 0, "finish_reason": self._done.reason, "logprobs": None}
        if self.chat:
            choice["message"] = {"role": "assistant", "content": content}
            if reasoning:
                choice["message"]["reasoning_content"] = reasoning
        else:
            choice["text"] = reasoning + content
        name = "chat.completion" if self.chat else "text_completion"
        return {**self._head, "object": name, "choices": [choice], "usage": self._usage()}

    def chunk(self, delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        """One object of a stream."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
        if self.chat:
            choice["delta"] = delta
        else:
            choice["text"] = "".join(delta.values())
        name = "chat.completion.chunk" if self.chat else "text_completion"
        return {**self._head, "object": name, "choices": [choice]}

    def piece(self, event: Piece | Done) -> dict[str, Any]:
        """The object that carries one event."""
        if isinstance(event, Done):
            return self.chunk({}, event.reason)
        return self.chunk({"reasoning_content" if event.reasoning else "content": event.text})

    def usage_chunk(self) -> dict[str, Any]:
        """The last object of a stream whose client asked for usage."""
        name = "chat.completion.chunk" if self.chat else "text_completion"
        return {**self._head, "object": name, "choices": [], "usage": self._usage()}

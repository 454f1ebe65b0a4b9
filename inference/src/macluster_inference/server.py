"""The HTTP side of rank 0, on loopback: an OpenAI-style API over the job queue."""

from __future__ import annotations

import io
import json
import logging
import queue
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .answer import Answer
from .config import Api
from .errors import RETRY_AFTER_S, EngineError, Kind, RequestError
from .jobs import Done, Job, Piece
from .service import Service
from .witness import BACKLOG, Register

MAX_BODY_BYTES = 8 * 1024 * 1024
IDLE_CONNECTION_S = 60.0
POLL_S = 0.2
"""How often a waiting request looks whether its client is still there."""

KEEPALIVE_S = 5.0
SHUTDOWN_POLL_S = 0.1
LAST_WORDS_S = 2.0
"""How long requests may take to hear that the engine stops."""

log = logging.getLogger(__name__)


class Server(ThreadingHTTPServer):
    """Binds early, so that a taken port is known before the ranks meet; answers once activated."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = BACKLOG

    def __init__(self, api: Api, register: Register | None = None) -> None:
        self.address_family = socket.AF_INET6 if ":" in api.host else socket.AF_INET
        super().__init__((api.host, api.port), Handler, bind_and_activate=False)
        self.service: Service | None = None
        self._register = register or Register()
        self._numbers: dict[socket.socket, int] = {}
        self._unheard: set[socket.socket] = set()
        self._asking: set[socket.socket] = set()
        self._changed = threading.Condition()
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
        try:
            self.server_activate()
        except OSError as error:
            raise EngineError(Kind.API_PORT, f"cannot listen: {error.strerror or error}") from error
        self.service = service
        self._register.listening(self.socket)
        threading.Thread(target=self.serve_forever, args=(SHUTDOWN_POLL_S,), name="http", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection that was accepted, in a thread of its own."""
        with self._changed:
            self._unheard.add(request)
            self._numbers[request] = self._register.opened(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self.heard(request)
        super().shutdown_request(request)
        with self._changed:
            number = self._numbers.pop(request, None)
        if number is not None:
            self._register.closed(number)

    @contextmanager
    def asking(self, request: Any) -> Iterator[None]:
        """While the client of a connection waits for an answer."""
        number = self._numbers[request]
        with self._changed:
            self._asking.add(request)
        self._register.asked(number)
        try:
            yield
        finally:
            self._register.answered(number)
            with self._changed:
                self._asking.discard(request)
                self._changed.notify_all()

    def streams(self, request: Any) -> None:
        """The head of a chunked answer was sent."""
        self._register.streams(self._numbers[request])

    def heard(self, request: Any) -> None:
        """The first request of a connection was answered; whatever else it does is not waited for."""
        with self._changed:
            self._unheard.discard(request)
            self._changed.notify_all()

    def deactivate(self) -> None:
        """Let requests come to their end, those of connections that nobody has accepted yet as well, and close.

        Works in any state. Who connects after that is refused, and knows that nobody has taken its request.
        """
        if self.service is not None:
            self.shutdown()
            self._accept_the_rest()
        self.server_close()
        if self.service is not None:
            self._register.deaf()
            with self._changed:
                self._changed.wait_for(lambda: not self._asking, LAST_WORDS_S)
                self._changed.wait_for(lambda: not self._unheard, LAST_WORDS_S)

    def _accept_the_rest(self) -> None:
        """Those that wait now; who comes again meanwhile must not keep this from its end."""
        self.socket.setblocking(False)
        with suppress(OSError):
            for _ in range(self.request_queue_size):
                connection, address = self.socket.accept()
                connection.setblocking(True)
                try:
                    self.process_request(connection, address)
                except RuntimeError:  # no thread can be started any more
                    self.shutdown_request(connection)


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

    def handle_one_request(self) -> None:
        """One request, or the end of the connection."""
        try:
            super().handle_one_request()
        except ConnectionError:  # the client left; nobody is to blame
            self.close_connection = True
        self.server.heard(self.request)

    def do_GET(self) -> None:
        """`/health`, `/v1/models`."""
        with self.server.asking(self.request):
            self._get()

    def _get(self) -> None:
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
        with self.server.asking(self.request):
            try:
                self._post()
            except RequestError as error:
                self._refuse(error)
            except (OSError, _ClientGoneError):
                self.close_connection = True
            except Exception:
                log.exception("%s", self.path)
                self.close_connection = True
                self._refuse(_unexpected())

    def _post(self) -> None:
        routes = {"/v1/chat/completions": True, "/v1/completions": False}
        path = self.path.split("?", 1)[0]
        body = self._body()
        if path not in routes:
            raise RequestError(404, f"there is no {path}", code="not_found")
        request, job = self._service().accept(body, chat=routes[path])
        answer = Answer(job, self._service().model_id, chat=routes[path])
        try:
            if request.stream:
                self._stream(job, answer, request.include_usage)
            else:
                self._whole(job, answer)
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
        # In one piece: of a worker that is killed between two writes the client would take for the body what the engine
        # process says.
        whole, self.wfile = self.wfile, io.BytesIO()
        try:
            self.end_headers()
            answer = self.wfile.getvalue()
        finally:
            self.wfile = whole
        self.wfile.write(answer + data)

    def _events(self, job: Job, keepalive: Callable[[], None]) -> Iterator[Piece | Done]:
        """The job's output, while the client is there.

        Raises:
            RequestError: the job failed.
            _ClientGoneError: nobody reads any more.
        """
        quiet_since = looked = time.monotonic()
        while True:
            event = None
            with suppress(queue.Empty):
                event = job.output.get(timeout=POLL_S)
            now = time.monotonic()
            # Also while tokens flow: they are not written before the last one to a client that does not stream.
            if now - looked >= POLL_S:
                looked = now
                if self._client_gone():
                    raise _ClientGoneError
            if event is None:
                if now - quiet_since >= KEEPALIVE_S:
                    quiet_since = now
                    keepalive()
                continue
            quiet_since = now
            if isinstance(event, RequestError):
                raise event
            yield event
            if isinstance(event, Done):
                return

    def _client_gone(self) -> bool:
        return hung_up(self.connection)

    def _whole(self, job: Job, answer: Answer) -> None:
        for event in self._events(job, lambda: None):
            answer.take(event)
        self._json(200, answer.whole())

    def _stream(self, job: Job, answer: Answer, include_usage: bool) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.server.streams(self.request)
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
        except (OSError, _ClientGoneError):
            raise
        except Exception:
            # The head was sent: a second one would be read as a chunk.
            log.exception("%s", self.path)
            self._data(_unexpected().body())
            self.close_connection = True
        self._chunk(b"")

    def _data(self, body: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(body).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))


def _unexpected() -> RequestError:
    """The stack is for the log; the client only learns that it is not to blame."""
    return RequestError(500, "the engine failed on this request; its log says why")


def hung_up(connection: socket.socket) -> bool:
    """Whether the client has closed; reads nothing."""
    # Not select(): it knows no descriptor above 1023.
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0)) and connection.recv(1, socket.MSG_PEEK) == b""


class _ClientGoneError(Exception):
    pass

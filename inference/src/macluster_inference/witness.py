"""Rank 0's clients, seen from the engine process: who waits for an answer gets one, also when the worker dies.

A worker that hangs in native code, crashes or is killed takes its connections with it, and its clients would learn
nothing. So it hands a copy of every connection, and of the socket it listens on, to the engine process (`Register`),
and says what becomes of them. That one touches none of them while the worker lives; when it is gone, it tells
whoever still waits (`Witness`).

Both talk over a pair of stream sockets in records of nine bytes: what, and the number of the connection. `OPENED` and
`LISTENING` carry a descriptor.
"""

from __future__ import annotations

import itertools
import json
import os
import selectors
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .errors import RETRY_AFTER_S, stopping_error

_RECORD = struct.Struct("!cQ")
_LISTENING, _DEAF, _OPENED, _ASKED, _STREAMS, _ANSWERED, _CLOSED = (b"L", b"D", b"O", b"A", b"S", b"R", b"C")

BACKLOG = 64
"""Connections that wait to be accepted."""

READ_S = 1.5
"""How long the last records of a worker that has ended may take.

With `TELL_S` and what the worker may take to stop, less than what the agent waits before it kills the engine.
"""

TELL_S = 1.5
"""How long clients may take to hear that the engine stops."""


class Register:
    """The worker's side. Without a channel nobody is told; an engine process that is gone is not an error."""

    def __init__(self, channel: socket.socket | None = None) -> None:
        self._channel = channel
        self._sending = threading.Lock()
        self._numbers = itertools.count(1)

    def listening(self, listener: socket.socket) -> None:
        """Connections are accepted from now on."""
        self._tell(_LISTENING, 0, listener)

    def deaf(self) -> None:
        """And no more."""
        self._tell(_DEAF, 0)

    def opened(self, connection: socket.socket) -> int:
        """A connection was accepted; gives its number."""
        number = next(self._numbers)
        self._tell(_OPENED, number, connection)
        return number

    def asked(self, number: int) -> None:
        """A request came over it."""
        self._tell(_ASKED, number)

    def streams(self, number: int) -> None:
        """The head of a chunked answer was sent."""
        self._tell(_STREAMS, number)

    def answered(self, number: int) -> None:
        """Its client waits for nothing now."""
        self._tell(_ANSWERED, number)

    def closed(self, number: int) -> None:
        """It is closed."""
        self._tell(_CLOSED, number)

    def _tell(self, what: bytes, number: int, carried: socket.socket | None = None) -> None:
        if self._channel is None:
            return
        record = _RECORD.pack(what, number)
        with self._sending, suppress(OSError):
            if carried is None:
                self._channel.sendall(record)
            else:
                socket.send_fds(self._channel, [record], [carried.fileno()])


@dataclass
class _Client:
    """A connection, and how far its request is."""

    socket: socket.socket
    asked: bool = False
    streams: bool = False

    def waits(self) -> bool:
        """For an answer; also with a request that nobody has read."""
        if self.asked:
            return True
        with suppress(OSError):
            self.socket.setblocking(False)
            return self.socket.recv(1, socket.MSG_PEEK) != b""
        return False

    def tell(self) -> None:
        error = stopping_error()
        body = json.dumps(error.body()).encode()
        if self.streams:
            event = b"data: " + body + b"\n\n"
            words = b"%x\r\n%b\r\n0\r\n\r\n" % (len(event), event)
        else:
            head = (
                f"HTTP/1.1 {error.status} Service Unavailable\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nRetry-After: {RETRY_AFTER_S}\r\nConnection: close\r\n\r\n"
            )
            words = head.encode() + body
        # A client that takes nothing any more is not waited for: these few bytes fit, or nobody reads.
        with suppress(OSError):
            self.socket.setblocking(False)
            self.socket.sendall(words)
            self.socket.shutdown(socket.SHUT_WR)


class Witness:
    """The engine process's side."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._listener: socket.socket | None = None
        self._clients: dict[int, _Client] = {}
        self._heard_all = False
        self._reader = threading.Thread(target=self._read, name="witness", daemon=True)
        self._reader.start()

    def tell_all(self) -> int:
        """The worker has ended: end the requests that it has left behind with an error. Returns how many those are."""
        self._reader.join(READ_S)
        if not self._heard_all:
            # What is known may be old: an error must never follow an answer. The connections end with this process.
            print("not known which clients wait: none is told that the engine stops", file=sys.stderr)
            return 0
        waiting = []
        for client in self._clients.values():
            if client.waits():
                waiting.append(client)
            else:
                client.socket.close()
        waiting += self._backlog()
        _tell(waiting)
        return len(waiting)

    def _read(self) -> None:
        # However this ends: the worker must not wait for somebody to read.
        with self._channel, suppress(OSError):
            while True:
                record, carried, _, _ = socket.recv_fds(self._channel, _RECORD.size, 1)
                if not record:
                    self._heard_all = True
                    return
                while len(record) < _RECORD.size:
                    more = self._channel.recv(_RECORD.size - len(record))
                    if not more:
                        return
                    record += more
                self._take(*_RECORD.unpack(record), _sockets(carried))

    def _take(self, what: bytes, number: int, carried: list[socket.socket]) -> None:
        client = self._clients.get(number)
        if what == _LISTENING and carried:
            self._listener = carried[0]
        elif what == _DEAF:
            # This copy was the last that took connections.
            _tell(self._backlog())
        elif what == _OPENED and carried:
            self._clients[number] = _Client(carried[0])
        elif client and what == _ASKED:
            client.asked, client.streams = True, False
        elif client and what == _STREAMS:
            client.streams = True
        elif client and what == _ANSWERED:
            client.asked = client.streams = False
        elif client and what == _CLOSED:
            del self._clients[number]
            client.socket.close()

    def _backlog(self) -> list[_Client]:
        """Those that nobody has accepted; from then on connections are refused."""
        listener, self._listener = self._listener, None
        if listener is None:
            return []
        found = []
        with listener, suppress(OSError):
            listener.setblocking(False)
            for _ in range(BACKLOG):
                found.append(_Client(listener.accept()[0]))
        return found


def _sockets(descriptors: list[int]) -> list[socket.socket]:
    """Those that are sockets: a connection that was reset meanwhile may not say what it is."""
    found = []
    for fd in descriptors:
        try:
            found.append(socket.socket(fileno=fd))
        except OSError:
            os.close(fd)
    return found


def _tell(clients: list[_Client]) -> None:
    """Tell them, and let them close: a connection that is closed with unread data in it loses what was sent last."""
    for client in clients:
        client.tell()
    until = time.monotonic() + TELL_S
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ)
        while selector.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if _ended(key.fileobj):
                    selector.unregister(key.fileobj)
    for client in clients:
        client.socket.close()


def _ended(connection: Any) -> bool:
    """Whether the other side has closed; reads what it has sent."""
    try:
        return not connection.recv(65536)
    except OSError:
        return True

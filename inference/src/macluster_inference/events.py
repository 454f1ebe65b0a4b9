"""JSON lines: the only thing that ever appears on the engine's standard output."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any

from .errors import EngineError


def take_stdout() -> int:
    """Keep standard output for events alone; returns the file descriptor to write them to.

    Whatever else writes to descriptor 1 (libraries, native code, `print`) lands on standard error.
    """
    private = os.dup(1)
    os.set_inheritable(private, False)
    os.dup2(2, 1)
    return private


class Events:
    """Writes one JSON object per line, whole lines only, from any thread."""

    def __init__(self, fd: int, rank: int | None, node: str | None) -> None:
        self._fd = fd
        self._rank = rank
        self._node = node
        self._lock = threading.Lock()
        self._last_beat = 0.0

    def emit(self, event: str, **fields: Any) -> None:
        """Write one event. A reader that has gone away is not an error: its end of stdin says so too."""
        line = {"event": event, "t": round(time.time(), 6), "rank": self._rank, **fields}
        self.relay((json.dumps(line, ensure_ascii=False) + "\n").encode())

    def relay(self, line: bytes) -> None:
        """Write one line, already encoded and ended."""
        with self._lock:
            try:
                while line:
                    line = line[os.write(self._fd, line) :]
            except BrokenPipeError:
                pass

    def beat(self, phase: str, step: int, every_s: float = 0.0) -> None:
        """A sign of life, at most one per `every_s` seconds."""
        now = time.monotonic()
        if now - self._last_beat >= every_s:
            self._last_beat = now
            self.emit("beat", phase=phase, step=step)

    def error(self, error: EngineError, *, fatal: bool = True) -> None:
        """Report a failure under its kind."""
        self.emit("error", kind=str(error.kind), message=str(error), node=self._node, fatal=fatal)

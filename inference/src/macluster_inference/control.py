"""What the worker is told on its standard input: `go`, `stop REASON`, or the end of file."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from .errors import EXIT_STOP_IGNORED, StopRequestedError

STOP_LIMIT_S = 10.0
"""How long a stop request may take to reach the end of the process."""

ORPHAN_LIMIT_S = STOP_LIMIT_S + 5.0
"""The same for a worker whose engine process is gone, which nobody else can end."""


class Control:
    """Reads the commands in a thread of its own; the thread that computes only looks at flags."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self._stop = threading.Event()
        self._changed = threading.Event()
        self._at_stop: Callable[[], None] | None = None
        self.reason = ""

    def listen(self) -> None:
        """Start reading standard input."""
        threading.Thread(target=self._read, name="control", daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            command, _, rest = line.strip().partition(" ")
            if command == "go":
                self._go.set()
                self._changed.set()
            elif command == "stop":
                self.stop(rest or "stop requested")
        self.stop("the engine process is gone")
        time.sleep(ORPHAN_LIMIT_S)
        os._exit(EXIT_STOP_IGNORED)

    def stop(self, reason: str) -> None:
        """Ask this rank to stop; the first reason stays."""
        if not self._stop.is_set():
            self.reason = reason
            self._stop.set()
            if self._at_stop:
                self._at_stop()
        self._changed.set()

    def at_stop(self, action: Callable[[], None]) -> None:
        """Do this as soon as a stop is asked for, whatever the thread that computes is waiting for."""
        self._at_stop = action
        if self.stopping:
            action()

    @property
    def stopping(self) -> bool:
        """Whether this rank was asked to stop."""
        return self._stop.is_set()

    def wait_go(self) -> None:
        """Return at `go`.

        Raises:
            StopRequestedError: a stop came first.
        """
        self._changed.wait()
        if self.stopping:
            raise StopRequestedError(self.reason)

    def pause(self, seconds: float) -> None:
        """Sleep, or wake at once when asked to stop."""
        self._stop.wait(seconds)

"""The process the agent starts: `python -m macluster_inference.engine --config RANK_JSON`.

It never imports MLX. The rank itself is a child process (`worker`), because `mx.distributed.init` keeps the
interpreter lock while it waits for the other ranks: in one process no signal, no time limit and no command could
be heard then. This process listens to the agent and to signals, relays the worker's events, and watches the
clock; where the worker cannot end itself, it ends it and says why.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import config as rank_config
from . import reach
from .config import RankConfig
from .control import STOP_LIMIT_S
from .errors import EXIT_STOP_IGNORED, EXIT_UNEXPECTED, EngineError, Kind
from .events import Events, take_stdout
from .witness import Witness

FILES = 4096
"""Open files: mlx-lm allows the worker 2048."""


@dataclass(frozen=True)
class Go:
    """The agent said `go`."""


@dataclass(frozen=True)
class Stop:
    """Someone asked to stop."""

    reason: str


@dataclass(frozen=True)
class Line:
    """An event of the worker."""

    data: bytes


@dataclass(frozen=True)
class Ended:
    """The worker has closed its output."""


Message = Go | Stop | Line | Ended


class Supervisor:
    """Starts the worker and stays until it is gone."""

    def __init__(self, config: RankConfig, config_path: Path, events: Events) -> None:
        self._config = config
        self._events = events
        # Its `put` may be called by a signal handler while the same thread is in `get`; Queue's may not.
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._phase = "starting"
        self._said_stopped = False
        self._let_go = False
        self._join_failed = False
        self._start_deadline: float | None = None
        self._stop_deadline: float | None = None
        arguments = [sys.executable, "-P", "-m", f"{__package__}.worker", "--config", str(config_path)]
        ours, theirs = socket.socketpair()
        with theirs:
            self._worker = subprocess.Popen(
                [*arguments, "--clients", str(theirs.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
            )
        self._witness = Witness(ours)

    def run(self) -> int:
        """Relay until the worker has ended; returns the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        for target in (self._read_agent, self._read_worker, self._reach):
            threading.Thread(target=target, name=target.__name__, daemon=True).start()
        while True:
            try:
                message = self._messages.get(timeout=self._time_left())
            except queue.Empty:
                return self._kill()
            match message:
                case Go():
                    self._let_go = True
                    self._start_deadline = time.monotonic() + self._config.start_timeout_s
                    self._tell("go")
                case Stop(reason):
                    self._begin_stop(reason)
                case Line(data):
                    self._relay(data)
                case Ended():
                    code = self._worker.wait()
                    self._tell_clients()
                    return self._after(code)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._messages.put(Stop(signal.Signals(number).name))

    def _read_agent(self) -> None:
        """`go` on standard input starts; its end stops. Read from the descriptor: nothing may be buffered."""
        for line in _lines(0):
            if line.strip() == b"go":
                self._messages.put(Go())
            elif line.strip():
                print(f"ignored on standard input: {line[:80]!r}", file=sys.stderr)
        self._messages.put(Stop("end of standard input"))

    def _read_worker(self) -> None:
        assert self._worker.stdout is not None
        for line in self._worker.stdout:
            self._messages.put(Line(line))
        self._messages.put(Ended())

    def _reach(self) -> None:
        """Beside the worker's imports: it takes no time of anybody."""
        if results := reach.of_this_rank(self._config.rank):
            self._events.emit("reach", results=results)

    def _tell(self, command: str) -> None:
        assert self._worker.stdin is not None
        # A worker that has ended says so on its output.
        with suppress(BrokenPipeError):
            self._worker.stdin.write(f"{command}\n".encode())
            self._worker.stdin.flush()

    def _begin_stop(self, reason: str) -> None:
        if self._stop_deadline is None:
            self._stop_deadline = time.monotonic() + STOP_LIMIT_S
            self._tell(f"stop {reason}")

    def _relay(self, data: bytes) -> None:
        try:
            line = json.loads(data)
            event = line["event"]
        except (ValueError, KeyError, TypeError):
            print(f"not an event of the worker: {data[:200]!r}", file=sys.stderr)
            return
        if event == "ready":
            self._start_deadline = None
        if event == "error" and line.get("kind") == Kind.JOIN_FAILED:
            self._join_failed = True
        if event == "stopped":
            self._said_stopped = True
        elif event not in ("beat", "error"):
            self._phase = {"ready": "serving", "generated": "serving"}.get(event, event)
        self._events.relay(data)

    def _time_left(self) -> float | None:
        deadlines = [d for d in (self._start_deadline, self._stop_deadline) if d is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def _kill(self) -> int:
        """End a worker that a deadline has found at work."""
        stopping = self._stop_deadline is not None
        self._worker.kill()
        self._worker.wait()
        self._unclean("it was killed")
        self._tell_clients()
        if stopping:
            reason = f"the worker ({self._phase}) did not stop within {STOP_LIMIT_S:g} s and was killed"
            self._events.emit("stopped", reason=reason)
            return EXIT_STOP_IGNORED
        error = EngineError(Kind.TIMEOUT, self._timeout_message())
        self._events.error(error)
        self._events.emit("stopped", reason=f"error: {error.kind}")
        return error.exit_code

    def _tell_clients(self) -> None:
        """Those that the worker has left without an answer. Whatever goes wrong here, the agent hears the end."""
        try:
            if told := self._witness.tell_all():
                print(f"told {told} clients of the worker that the engine stops", file=sys.stderr)
        except Exception:  # noqa: BLE001 - see above
            traceback.print_exc()

    def _timeout_message(self) -> str:
        limit = f"not ready {self._config.start_timeout_s:g} s after go"
        if self._phase == "joining":
            return f"{limit}: still waiting for all {self._config.world_size} ranks to join; one never came"
        return f"{limit}: last seen {self._phase}"

    def _after(self, code: int) -> int:
        """The exit code for a worker that ended by itself."""
        if self._join_failed:
            self._unclean("it could not join")
        if self._said_stopped and code >= 0:
            if code == EXIT_STOP_IGNORED:
                self._unclean("it ended in the middle of its work")
            return code
        if code < 0:
            with suppress(ValueError):
                name = signal.Signals(-code).name
                self._unclean(f"it died of {name}")
                return self._lost(f"the worker died of {name} ({self._phase})")
        self._unclean(f"it ended with code {code}")
        return self._lost(f"the worker ended with code {code} ({self._phase}); see its standard error")

    def _unclean(self, how: str) -> None:
        """Say that this end can have cost RDMA resources: only a restart of the node brings them back (FAILURES F1)."""
        if self._let_go:
            self._events.emit("unclean", how=how)

    def _lost(self, message: str) -> int:
        if self._stop_deadline is not None and self._said_stopped:
            # It crashed on the way out: everything was done, but the node may have lost RDMA resources.
            self._events.error(EngineError(Kind.INTERNAL, message), fatal=False)
            return EXIT_UNEXPECTED
        self._events.error(EngineError(Kind.INTERNAL, message))
        if not self._said_stopped:
            self._events.emit("stopped", reason=f"error: {Kind.INTERNAL}")
        return EXIT_UNEXPECTED


def _many_files() -> None:
    """Allow this process as many open files as the worker, whose connections it holds too: launchd begins with few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # Without it, connections beyond the limit are not known here, and not told.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _lines(fd: int) -> Iterable[bytes]:
    """Whole lines of a descriptor, until its end."""
    rest = b""
    while True:
        try:
            data = os.read(fd, 4096)
        except OSError:
            data = b""
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from lines


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def main(argv: list[str] | None = None) -> int:
    """Run the engine; returns the exit code."""
    parser = argparse.ArgumentParser(prog="macluster_inference.engine", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, metavar="RANK_JSON")
    options = parser.parse_args(argv)
    fd = take_stdout()
    _many_files()
    try:
        config = rank_config.load(options.config)
    except EngineError as error:
        events = Events(fd, None, None)
        events.error(error)
        events.emit("stopped", reason=f"error: {error.kind}")
        return error.exit_code
    events = Events(fd, config.rank, config.node)
    events.emit(
        "starting",
        pid=os.getpid(),
        python=platform.python_version(),
        mlx=_version("mlx"),
        mlx_lm=_version("mlx-lm"),
        hostname=socket.gethostname(),
    )
    return Supervisor(config, options.config, events).run()


if __name__ == "__main__":
    sys.exit(main())

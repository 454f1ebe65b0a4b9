"""Real engines as processes on loopback, and everything a test may ask of them.

An engine's output is read by a thread into a list guarded by a condition, so that a test waits for an event, and
never for a time. All that is started here is ended here, by its own process handle.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
WAIT_S = 300.0
"""The longest any single wait may take: far more than needed, so that only a hang meets it."""


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody uses, all different.

    They lie below the range from which systems take the near end of outgoing connections: a port of that range could
    be gone by the time an engine binds it, when other tests run on the same machine.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as s, suppress(OSError):
            s.bind(("127.0.0.1", port))
            if port not in ports:
                ports.append(port)
    return ports


class Engine:
    """One rank: its process, the events it has written, and its standard error."""

    def __init__(self, config: Path, environment: dict[str, str], python: str = sys.executable) -> None:
        self.config: dict[str, Any] = json.loads(config.read_text())
        self.rank: int = self.config["rank"]
        self.events: list[dict[str, Any]] = []
        self.stray: list[str] = []
        self._stderr_path = config.with_suffix(".stderr")
        self._changed = threading.Condition()
        self._ended = False
        with self._stderr_path.open("wb") as stderr:
            self.process = subprocess.Popen(
                [python, "-m", "macluster_inference.engine", "--config", str(config)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=environment,
                # Like the agent: a terminal's Ctrl-C is not the engine's.
                start_new_session=True,
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                event, stray = json.loads(line), None
            except ValueError:
                event, stray = None, line.decode(errors="replace")
            with self._changed:
                if stray is not None:
                    self.stray.append(stray)
                else:
                    self.events.append(event)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def stderr(self) -> str:
        return self._stderr_path.read_text(errors="replace")

    def all(self, name: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["event"] == name]

    def wait_for(
        self, name: str, where: Callable[[dict[str, Any]], bool] = lambda _: True, timeout: float = WAIT_S
    ) -> dict[str, Any]:
        """The first such event, now or later; fails at once when the engine has ended without it."""
        found: list[dict[str, Any]] = []

        def look() -> bool:
            found.extend(e for e in self.events if e["event"] == name and where(e))
            return bool(found) or self._ended

        with self._changed:
            self._changed.wait_for(look, timeout)
        if not found:
            raise AssertionError(f"rank {self.rank}: no {name!r}; events {self.events}\n{self.stderr[-3000:]}")
        return found[0]

    def tell(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def go(self) -> None:
        self.tell("go\n")

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def worker_pid(self) -> int:
        """The process that computes, found as the engine's only child."""
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
        (pid,) = (int(p) for p, parent in map(str.split, listed.splitlines()) if int(parent) == self.process.pid)
        return pid

    def worker_cpu_s(self) -> float:
        """Processor time the worker has used, in whole seconds."""
        done = subprocess.run(
            ["ps", "-o", "time=", "-p", str(self.worker_pid())], check=True, capture_output=True, text=True
        )
        total = 0.0
        for part in done.stdout.strip().replace("-", ":").split(":"):
            total = total * 60 + float(part)
        return total

    def kill_worker(self, number: signal.Signals) -> None:
        os.kill(self.worker_pid(), number)

    def kill_all(self) -> None:
        """Engine and worker at once, as when a node loses its power."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def wait(self, timeout: float = WAIT_S) -> int:
        """The exit code, once the whole output is read."""
        code = self.process.wait(timeout)
        with self._changed:
            assert self._changed.wait_for(lambda: self._ended, 10), "the worker outlived its engine"
        return code

    def end(self) -> None:
        """Make sure nothing is left; for a test that failed half-way."""
        assert self.process.stdin is not None
        if self.process.poll() is None:
            try:
                self.process.stdin.close()
                self.process.wait(15)
            except (OSError, subprocess.TimeoutExpired):
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        elif not self._ended:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.stdin.close()


@dataclass
class Cluster:
    """The engines of one rack, by rank, and where rank 0 listens."""

    engines: list[Engine]
    port: int
    pids: list[int] = field(default_factory=list)

    def __getitem__(self, rank: int) -> Engine:
        return self.engines[rank]

    def go(self) -> Cluster:
        """Wait for all, start all, wait for all."""
        for engine in self.engines:
            engine.wait_for("armed")
        for engine in self.engines:
            engine.go()
        for engine in self.engines:
            engine.wait_for("ready")
        return self

    def stop(self) -> None:
        """The good end: one rank is told, all stop."""
        self.engines[-1].signal(signal.SIGTERM)
        assert [engine.wait() for engine in self.engines] == [0] * len(self.engines)


def rank_json(folder: Path, model: Path, rank: int, world_size: int, port: int, **changes: Any) -> dict[str, Any]:
    """A valid rank.json, with some keys changed."""
    env = {}
    if world_size > 1:
        env = {"MLX_RANK": str(rank), "MLX_HOSTFILE": str(folder / "hostfile.json")}
    return {
        "schema_version": 1,
        "rack": "test-rack",
        "node": f"studio-{rank + 1}",
        "release": "test",
        "rank": rank,
        "world_size": world_size,
        "backend": "ring",
        "mlx_backend": "ring",
        "env": env,
        "model": {"path": str(model), "id": "SmolLM2-135M"},
        "trust_remote_code": False,
        "api": {"host": "127.0.0.1", "port": port} if rank == 0 else None,
        "start_timeout_s": WAIT_S,
        "idle_sync_s": 0.5,
        **changes,
    }


@contextmanager
def cluster(
    folder: Path,
    models: Path | Sequence[Path],
    world_size: int = 1,
    ranks: Sequence[int] | None = None,
    python: str = sys.executable,
    **changes: Any,
) -> Iterator[Cluster]:
    """Start the engines of a rack (of those `ranks`, or all); whatever happens, none is left.

    `models` may give each rank a folder of its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    api, *ports = free_ports(world_size + 1)
    (folder / "hostfile.json").write_text(json.dumps([[f"127.0.0.1:{port}"] for port in ports]))
    engines: list[Engine] = []
    try:
        for rank in ranks if ranks is not None else range(world_size):
            model = models if isinstance(models, Path) else models[rank]
            config = folder / f"rank-{rank}.json"
            value = rank_json(folder, model, rank, world_size, api, **changes)
            config.write_text(json.dumps(value))
            engines.append(Engine(config, environment(value["env"]), python))
        yield Cluster(engines, api)
    finally:
        for engine in engines:
            engine.end()
        stray = [line for engine in engines for line in engine.stray]
    assert not stray, f"not an event on standard output: {stray}"


def environment(env: dict[str, str]) -> dict[str, str]:
    """This process's environment without MLX's, with the rank's."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MLX_")}
    return {**inherited, "PYTHONPATH": str(SOURCE), **env}


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 20.0) -> None:
    """Wait for a state that has no event."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether there is such a process that has not ended."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True)
    return done.stdout.strip()[:1] not in ("", "Z")

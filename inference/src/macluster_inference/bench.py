"""One rank of a measurement: `python -I -m macluster_inference.bench`, for `macluster accept`.

Reads one line of JSON from standard input, joins the group it describes, times sums over that group, prints one
line of JSON and ends. It also ends when its time limit is over, and when standard input ends: then nobody waits any
more for the result.

As with the engine, the rank is a process of its own (the same module, `--rank`): while ranks join, MLX keeps the
interpreter lock, and only another process can watch the clock and listen then.
"""

from __future__ import annotations

import faulthandler
import json
import os
import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .config import fields
from .control import STOP_LIMIT_S
from .errors import EXIT_STOPPED, EngineError, Kind, StopRequestedError
from .events import take_stdout

SCHEMA_VERSION = 1
WARM_UP = 2
"""Sums of each size that are not counted: buffers are allocated and windows opened by the first ones."""
LATENCY_BYTES = 4
END_LIMIT_S = {"ring": 3.0, "jaccl": STOP_LIMIT_S}
"""For a rank that was told to stop, by backend: it looks between two sums. With RDMA as long as an engine has, because
killing it costs the same: resources that only a restart of the node brings back."""
ORPHAN_LIMIT_S = 15.0
"""Beyond the time limit: then the process that should have ended this one is gone."""
NOBODY_WAITS = "stopped: nobody waits for the result any more"

_REQUIRED = {
    "schema_version": int,
    "rank": int,
    "size": int,
    "backend": str,
    "hostfile": (list, type(None)),
    "devices": (list, type(None)),
    "coordinator": (str, type(None)),
    "ring": bool,
    "sizes": list,
    "repetitions": int,
    "latency_repetitions": int,
    "limit_s": (int, float),
}


@dataclass(frozen=True)
class Bench:
    """What one rank measures. Sizes are in bytes, times in seconds."""

    rank: int
    size: int
    backend: str
    hostfile: list[Any] | None
    devices: list[Any] | None
    coordinator: str | None
    ring: bool
    sizes: list[int]
    repetitions: int
    latency_repetitions: int
    limit_s: float


def read(line: bytes) -> Bench:
    """Check the configuration.

    Raises:
        EngineError: kind `config`, with the offending key.
    """

    def wrong(message: str) -> EngineError:
        return EngineError(Kind.CONFIG, message)

    try:
        raw = json.loads(line)
    except ValueError as error:
        raise wrong(f"standard input is not valid JSON: {error}") from error
    top = dict(fields(raw, "", _REQUIRED))
    version = top.pop("schema_version")
    if version != SCHEMA_VERSION:
        raise wrong(f"schema_version is {version}, this release reads {SCHEMA_VERSION}")
    bench = Bench(**top)
    if bench.size < 2 or not 0 <= bench.rank < bench.size:
        raise wrong(f"rank {bench.rank} of {bench.size} is no member of a group")
    given = {"ring": bench.hostfile, "jaccl": bench.devices}
    if bench.backend not in given:
        raise wrong(f"backend is {bench.backend!r}, not one of {', '.join(given)}")
    rows = given[bench.backend]
    if rows is None or len(rows) != bench.size:
        raise wrong(f"backend {bench.backend} needs a row for each of {bench.size} ranks")
    if bench.backend == "jaccl" and not bench.coordinator:
        raise wrong("backend jaccl needs a coordinator")
    if not bench.sizes or not all(isinstance(n, int) and n > 0 and n % 4 == 0 for n in bench.sizes):
        raise wrong("sizes must be multiples of 4 bytes")
    if bench.repetitions < 1 or bench.latency_repetitions < 0 or bench.limit_s <= 0:
        raise wrong("repetitions and limit_s must be more than 0")
    return bench


def environment(bench: Bench, folder: Path, inherited: Mapping[str, str]) -> dict[str, str]:
    """Write the files that MLX wants; gives the rank's environment, with nothing of MLX's from outside."""
    env = {name: value for name, value in inherited.items() if not name.startswith(("MLX_", "JACCL_"))}
    env["MLX_RANK"] = str(bench.rank)
    if bench.backend == "ring":
        path = folder / "hostfile.json"
        path.write_text(json.dumps(bench.hostfile))
        env["MLX_HOSTFILE"] = str(path)
    else:
        path = folder / "devices.json"
        path.write_text(json.dumps(bench.devices))
        env["MLX_IBV_DEVICES"] = str(path)
        env["MLX_JACCL_COORDINATOR"] = str(bench.coordinator)
        if bench.ring:
            env["MLX_JACCL_RING"] = "1"
    return env


def main() -> int:
    """Watch one rank; returns the exit code."""
    out = take_stdout()
    try:
        line = _first_line()
        bench = read(line)
        # Private to this user, and gone at the end.
        with tempfile.TemporaryDirectory(prefix="macluster-bench-") as folder:
            result = _watch(bench, line, environment(bench, Path(folder), os.environ))
    except EngineError as error:
        result = failure(error)
    with suppress(BrokenPipeError):
        os.write(out, (json.dumps(result) + "\n").encode())
    return EXIT_STOPPED if result["ok"] else 1


def failure(error: EngineError) -> dict[str, Any]:
    """The line that says why there is no measurement."""
    return {"ok": False, "kind": str(error.kind), "message": str(error)}


def _first_line() -> bytes:
    """The configuration; read byte by byte, so that what follows is left for others."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return bytes(line)


def _at_end_of_input(action: Callable[[], object]) -> None:
    """Do this when standard input ends, whatever else this process does."""

    def listen() -> None:
        while os.read(0, 4096):
            pass
        action()

    threading.Thread(target=listen, daemon=True).start()


def _watch(bench: Bench, line: bytes, env: dict[str, str]) -> dict[str, Any]:
    """Run the rank as a process and hear of its end, of the end of the time, or of the end of standard input."""
    isolation = "-I" if sys.flags.isolated else "-P"
    rank = subprocess.Popen(
        [sys.executable, isolation, "-m", f"{__package__}.bench", "--rank"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
    )
    assert rank.stdin is not None
    assert rank.stdout is not None
    said = rank.stdout
    messages: queue.SimpleQueue[bytes | EngineError] = queue.SimpleQueue()

    def asked(number: int, _frame: object) -> None:
        messages.put(EngineError(Kind.INTERNAL, f"stopped by {signal.Signals(number).name}"))

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, asked)
    _at_end_of_input(lambda: messages.put(EngineError(Kind.INTERNAL, NOBODY_WAITS)))
    threading.Thread(target=lambda: messages.put(said.read()), daemon=True).start()
    with suppress(BrokenPipeError):
        rank.stdin.write(line.rstrip(b"\n") + b"\n")
        rank.stdin.flush()
    try:
        message = messages.get(timeout=bench.limit_s)
    except queue.Empty:
        text = f"not done within {bench.limit_s:g} s: another rank of this group did not come, or a link is stuck"
        message = EngineError(Kind.TIMEOUT, text)
    # The end of its input tells the rank to stop, so that it can give back its RDMA resources.
    with suppress(BrokenPipeError):
        rank.stdin.close()
    killed = False
    try:
        code = rank.wait(END_LIMIT_S[bench.backend])
    except subprocess.TimeoutExpired:
        killed = True
        rank.kill()
        code = rank.wait()
    # Whoever else has ended it so: what it had of RDMA is lost all the same.
    killed = killed or code < 0
    if isinstance(message, EngineError):
        return {**failure(message), "killed": killed}
    with suppress(ValueError):
        return {**json.loads(message), "killed": killed}
    how = signal.Signals(-code).name if code < 0 else f"status {code}"
    error = EngineError(Kind.INTERNAL, f"the measuring process ended with {how} and without a result")
    return {**failure(error), "killed": killed}


def run_rank() -> int:
    """Be the rank: join, measure, say the result. Deaf to signals, as a rank must be inside a collective."""
    out = take_stdout()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    bench = read(_first_line())
    faulthandler.dump_traceback_later(bench.limit_s + ORPHAN_LIMIT_S, exit=True)
    stop = threading.Event()
    _at_end_of_input(stop.set)
    try:
        result = measure(bench, stop)
    except StopRequestedError as error:
        result = failure(EngineError(Kind.INTERNAL, error.reason))
    except EngineError as error:
        result = failure(error)
    os.write(out, (json.dumps(result) + "\n").encode())
    return EXIT_STOPPED if result["ok"] else 1


def measure(bench: Bench, stop: threading.Event) -> dict[str, Any]:
    """Join and time the sums of every size.

    Raises:
        EngineError: the ranks did not meet, lost one another, or a sum was wrong.
        StopRequestedError: nobody waits for the result any more.
    """
    import mlx.core as mx

    from .group import join_as

    began = time.perf_counter()
    group = join_as(bench.rank, bench.size, bench.backend, bench.backend)
    joined = time.perf_counter() - began

    def timed(nbytes: int, repetitions: int) -> list[float]:
        # Every rank adds another number, so that a sum that lacks one, or has it twice, is seen.
        values = mx.full((nbytes // 4,), bench.rank + 1, dtype=mx.float32)
        mx.eval(values)
        expected = bench.size * (bench.size + 1) // 2
        times: list[float] = []
        for _ in range(WARM_UP + repetitions):
            if stop.is_set():
                raise StopRequestedError(NOBODY_WAITS)
            start = time.perf_counter()
            try:
                total = mx.distributed.all_sum(values, group=group.handle, stream=mx.cpu)
                mx.eval(total)
            except RuntimeError as error:
                raise EngineError(Kind.PEER_LOST, f"lost contact with another rank: {error}") from error
            times.append(time.perf_counter() - start)
        if not mx.all(total == expected, stream=mx.cpu).item():
            raise EngineError(Kind.INTERNAL, f"a sum of {nbytes} bytes arrived damaged: collectives are unsound")
        return times[WARM_UP:]

    latency = timed(LATENCY_BYTES, bench.latency_repetitions) if bench.latency_repetitions else None
    sums = [{"bytes": nbytes, **_figures(timed(nbytes, bench.repetitions))} for nbytes in bench.sizes]
    return {
        "ok": True,
        "rank": bench.rank,
        "size": bench.size,
        "joined_s": joined,
        "latency": _figures(latency) if latency else None,
        "sums": sums,
    }


def _figures(times: list[float]) -> dict[str, Any]:
    return {"median_s": statistics.median(times), "worst_s": max(times), "repetitions": len(times)}


if __name__ == "__main__":
    sys.exit(run_rank() if sys.argv[1:] == ["--rank"] else main())

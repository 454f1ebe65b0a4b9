"""Real ranks measure each other over loopback, and end whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engines import WAIT_S, alive, environment, free_ports, wait_until
from macluster_inference import bench
from macluster_inference.errors import EngineError


def config(rank: int, rows: list[list[str]], **changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "rank": rank,
        "size": len(rows),
        "backend": "ring",
        "hostfile": rows,
        "devices": None,
        "coordinator": None,
        "ring": False,
        "sizes": [4096, 1 << 20],
        "repetitions": 3,
        "latency_repetitions": 5,
        "limit_s": WAIT_S,
        **changes,
    }


@contextmanager
def ranks(tmp_path: Path, size: int, *, only: int | None = None, **changes: Any) -> Iterator[list[subprocess.Popen]]:
    """The processes of a group (or its first `only`), each told its configuration; none is left behind."""
    hostfile = [[f"127.0.0.1:{port}"] for port in free_ports(size)]
    # What a login shell may export must not reach MLX.
    env = environment({"MLX_RANK": "7", "MLX_HOSTFILE": "/nowhere", "TMPDIR": str(tmp_path)})
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "macluster_inference.bench"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            text=True,
        )
        for _ in range(size if only is None else only)
    ]
    try:
        for rank, process in enumerate(started):
            assert process.stdin is not None
            process.stdin.write(json.dumps(config(rank, hostfile, **changes)) + "\n")
            process.stdin.flush()
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
    wait_until(lambda: not list(tmp_path.glob("macluster-bench-*")), "the end of its temporary folder")


def answer(process: subprocess.Popen) -> dict[str, Any]:
    """The one line, once the process has ended by itself."""
    assert process.stdout is not None
    (line,) = process.stdout.read().splitlines()
    result = json.loads(line)
    assert process.wait(WAIT_S) == (0 if result["ok"] else 1)
    return result


def child(process: subprocess.Popen) -> int:
    """The rank's own process, once it is there."""
    found: list[int] = []

    def look() -> bool:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
        found.extend(int(p) for p, parent in map(str.split, listed.splitlines()) if int(parent) == process.pid)
        return bool(found)

    wait_until(look, "the rank's process")
    return found[0]


@pytest.mark.parametrize("size", [2, 3])
def test_a_group_times_every_size(tmp_path: Path, size: int) -> None:
    with ranks(tmp_path, size) as group:
        results = [answer(process) for process in group]
    assert [r["rank"] for r in results] == list(range(size))
    for result in results:
        assert result["ok"]
        assert not result["killed"]
        assert result["size"] == size
        assert [s["bytes"] for s in result["sums"]] == [4096, 1 << 20]
        for figures in [result["latency"], *result["sums"]]:
            assert 0 < figures["median_s"] <= figures["worst_s"] < WAIT_S
        assert result["latency"]["repetitions"] == 5
        assert result["sums"][0]["repetitions"] == 3


def test_a_rank_that_waits_in_vain_ends_at_its_limit(tmp_path: Path) -> None:
    """It waits in native code, where no thread of Python is heard."""
    with ranks(tmp_path, 2, only=1, limit_s=2) as (alone,):
        result = answer(alone)
    assert result["kind"] == "timeout"
    assert "not done within 2 s" in result["message"]
    assert result["killed"]


@pytest.mark.parametrize("how", ["stdin", "term"])
def test_nobody_waits_for_a_desk_that_is_gone(tmp_path: Path, how: str) -> None:
    with ranks(tmp_path, 2, only=1) as (alone,):
        rank = child(alone)
        assert alone.stdin is not None
        if how == "stdin":
            alone.stdin.close()
        else:
            alone.send_signal(signal.SIGTERM)
        result = answer(alone)
        wait_until(lambda: not alive(rank), "the end of the rank's process")
    assert result["message"].startswith("stopped")


def test_a_rank_that_is_killed_ends_the_other_with_a_reason(tmp_path: Path) -> None:
    with ranks(tmp_path, 2, repetitions=1_000_000, limit_s=20) as group:
        os.kill(child(group[1]), signal.SIGKILL)
        lost = answer(group[1])
        result = answer(group[0])
    assert "ended with SIGKILL" in lost["message"]
    # Killed before they met, it leaves the other one waiting for its limit.
    assert result["kind"] in ("peer-lost", "join-failed", "timeout")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": 3}, "needs a row for each of 3 ranks"),
        ({"rank": 2}, "rank 2 of 2 is no member"),
        ({"backend": "mpi"}, "backend is 'mpi', not one of ring, jaccl"),
        ({"backend": "jaccl", "devices": [[None, "a"], ["b", None]]}, "needs a coordinator"),
        ({"sizes": [5]}, "multiples of 4"),
        ({"surplus": 1}, "unknown key surplus"),
        ({"schema_version": 2}, "this release reads 1"),
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    value = {**config(0, [["127.0.0.1:1"], ["127.0.0.1:2"]]), **changes}
    with pytest.raises(EngineError, match=message):
        bench.read(json.dumps(value).encode())


def test_the_environment_of_jaccl(tmp_path: Path) -> None:
    matrix = [[None, "rdma_en3"], ["rdma_en4", None]]
    value = config(1, [["x"], ["y"]], backend="jaccl", hostfile=None, devices=matrix, coordinator="10.0.0.1:7429")
    env = bench.environment(bench.read(json.dumps(value).encode()), tmp_path, {"JACCL_RANK": "5", "HOME": "/h"})
    assert json.loads(Path(env.pop("MLX_IBV_DEVICES")).read_text()) == matrix
    assert env == {"HOME": "/h", "MLX_RANK": "1", "MLX_JACCL_COORDINATOR": "10.0.0.1:7429"}

"""What ranks do together: start, stop, and lose one another."""

from __future__ import annotations

import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from api import Stream, call, complete
from engines import alive, cluster, free_ports, wait_until


def test_the_first_events_come_in_order_and_none_before_go(tiny: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, tiny, 2) as rack:
        for engine in rack.engines:
            engine.wait_for("armed")
            assert [e["event"] for e in engine.events] == ["starting", "armed"]
        # Rank 0 is held at the barrier: rank 1 alone cannot get further than joining.
        rack[1].go()
        rack[1].wait_for("joining")
        assert not rack[1].all("joined")
        assert not rack[0].all("joining")
        rack[0].go()
        for engine in rack.engines:
            engine.wait_for("ready")
        rack.stop()
        names = [
            [e["event"] for e in engine.events if e["event"] not in ("beat", "loading")] for engine in rack.engines
        ]
        ready = [engine.all("ready")[0] for engine in rack.engines]
        starting = [engine.all("starting")[0] for engine in rack.engines]
        loading = rack[0].all("loading")
        loaded = rack[0].all("loaded")[0]
    assert names == [["starting", "armed", "joining", "joined", "loaded", "ready", "stopped"]] * 2
    assert [r["api"] for r in ready] == [f"127.0.0.1:{rack.port}", None]
    assert [s["pid"] for s in starting] == [engine.process.pid for engine in rack.engines]
    assert all((s["mlx"], s["mlx_lm"]) == ("0.32.4", "0.32.2") for s in starting)
    assert loading[-1]["done"] == loading[-1]["total"] == loaded["bytes"]
    assert len(loaded["digest"]) == 64


@pytest.mark.parametrize("told", [0, 1, 2])
def test_a_signal_to_any_one_rank_stops_all_in_the_same_step(tiny: Path, tmp_path: Path, told: int) -> None:
    """Rank 2 is told in the middle of an answer."""
    number = signal.SIGINT if told == 1 else signal.SIGTERM
    with cluster(tmp_path, tiny, 4 if told == 2 else 2) as rack:
        rack.go()
        stream = None
        if told == 2:
            stream = Stream(rack.port, "/v1/completions", {"prompt": "talk", "max_tokens": 4000})
            next(stream.events())
        rack[told].signal(number)
        assert [engine.wait() for engine in rack.engines] == [0] * len(rack.engines)
        reasons = [engine.all("stopped")[0]["reason"] for engine in rack.engines]
        assert not any(engine.all("error") for engine in rack.engines)
        if stream:
            *_, last = stream.events()
            assert json.loads(last)["error"]["code"] == "stopping"
    assert reasons.pop(told) == number.name
    assert set(reasons) == {"another rank was asked to stop"}


def test_the_end_of_standard_input_stops_all(tiny: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, tiny, 2) as rack:
        rack.go()
        rack[1].close_stdin()
        assert [engine.wait() for engine in rack.engines] == [0, 0]
        assert rack[1].all("stopped")[0]["reason"] == "end of standard input"


def test_before_go_the_end_of_standard_input_and_a_signal_stop_at_once(tiny: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, tiny, 2) as rack:
        for engine in rack.engines:
            engine.wait_for("armed")
        rack[0].close_stdin()
        rack[1].signal(signal.SIGTERM)
        assert [engine.wait() for engine in rack.engines] == [0, 0]
        assert [e["event"] for e in rack[0].events] == ["starting", "armed", "stopped"]


def test_a_rank_that_never_joins_is_waited_for_only_so_long(tiny: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, tiny, 2, ranks=[0], start_timeout_s=2) as rack:
        rack[0].wait_for("armed")
        rack[0].go()
        assert rack[0].wait() == 5
        error = rack[0].all("error")[0]
    assert (error["kind"], error["fatal"]) == ("timeout", True)
    assert "still waiting for all 2 ranks to join" in error["message"]
    assert [e["how"] for e in rack[0].all("unclean")] == ["it was killed"]
    assert rack[0].events[-1]["event"] == "stopped"


def test_a_stop_that_cannot_be_honoured_ends_in_70(tiny: Path, tmp_path: Path) -> None:
    """In `joining`, MLX waits in native code and listens to nobody."""
    with cluster(tmp_path, tiny, 2, ranks=[0]) as rack:
        rack[0].wait_for("armed")
        rack[0].go()
        rack[0].wait_for("joining")
        rack[0].signal(signal.SIGTERM)
        assert rack[0].wait() == 70
        stopped = rack[0].all("stopped")[0]
    assert "did not stop within 10 s" in stopped["reason"]


def test_a_client_is_told_although_the_ranks_hang(tiny: Path, tmp_path: Path) -> None:
    """Rank 1 stands still in the middle of an answer: rank 0 never comes back from its collective."""
    with cluster(tmp_path, tiny, 2) as rack:
        rack.go()
        stream = Stream(rack.port, "/v1/completions", {"prompt": "talk", "max_tokens": 4000})
        next(stream.events())
        os.kill(rack[1].worker_pid(), signal.SIGSTOP)
        rack[0].signal(signal.SIGTERM)
        *_, last = stream.events()
        assert json.loads(last)["error"]["code"] == "stopping"
        assert rack[0].wait() == 70
        rack[1].kill_all()


def test_a_lost_rank_ends_the_others_with_an_error(tiny: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, tiny, 2) as rack:
        rack.go()
        assert complete(rack.port, "hi", max_tokens=2).status == 200
        rack[1].kill_all()
        assert rack[0].wait() == 1
        error = rack[0].all("error")[0]
        assert rack[0].all("unclean") == [], "it left by its own door"
    assert error["kind"] == "peer-lost"
    assert "lost contact with another rank" in error["message"]


def test_a_worker_that_dies_is_reported_with_its_signal(tiny: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, tiny) as rack:
        rack.go()
        rack[0].kill_worker(signal.SIGSEGV)
        assert rack[0].wait() == 1
        error = rack[0].all("error")[0]
        unclean = rack[0].all("unclean")
    assert error["kind"] == "internal"
    assert "the worker died of SIGSEGV (serving)" in error["message"]
    assert [e["how"] for e in unclean] == ["it died of SIGSEGV"]


def test_a_worker_does_not_outlive_its_engine(tiny: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, tiny) as rack:
        rack.go()
        worker = rack[0].worker_pid()
        rack[0].process.kill()
        # The worker holds a copy of standard error only; its end is seen in the process table.
        wait_until(lambda: not alive(worker), "the end of the worker")


def test_a_taken_port_is_found_before_the_barrier(tiny: Path, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        with cluster(tmp_path, tiny, api={"host": "127.0.0.1", "port": port}) as rack:
            assert rack[0].wait() == 6
            error = rack[0].all("error")[0]
    assert error["kind"] == "api-port"
    assert f"127.0.0.1:{port}" in error["message"]
    assert not rack[0].all("armed")


def test_a_link_port_that_is_taken_is_a_failed_join(tiny: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, tiny, 2, ranks=[0]) as rack, socket.socket() as other:
        rack[0].wait_for("armed")
        host, _, port = json.loads((tmp_path / "hostfile.json").read_text())[0][0].partition(":")
        other.bind((host, int(port)))
        other.listen()
        rack[0].go()
        assert rack[0].wait() == 5
        error = rack[0].all("error")[0]
    assert error["kind"] == "join-failed"
    assert "backend ring: [ring] Couldn't bind socket" in error["message"]


def test_a_backend_this_mlx_does_not_have(tiny: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, tiny, 2, ranks=[0], mlx_backend="jaccl", backend="jaccl") as rack:
        rack[0].wait_for("armed")
        rack[0].go()
        assert rack[0].wait() == 5
        error = rack[0].all("error")[0]
    assert error["kind"] == "join-failed"
    assert "jaccl" in error["message"]
    assert [e["how"] for e in rack[0].all("unclean")] == ["it could not join"]


def test_idle_ranks_beat_and_use_little_of_the_processor(tiny: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, tiny, 2) as rack:
        rack.go()
        beats = [rack[1].wait_for("beat", lambda e: e["phase"] == "idle")]
        before = rack[1].worker_cpu_s()
        for _ in range(3):
            last = beats[-1]["t"]
            beats.append(rack[1].wait_for("beat", lambda e, last=last: e["phase"] == "idle" and e["t"] > last))
        used = rack[1].worker_cpu_s() - before
        rack.stop()
    gaps = [b["t"] - a["t"] for a, b in pairwise(beats)]
    assert min(gaps) > 1.9
    # A rank that waited inside the collective would have used all of these seconds.
    assert used < sum(gaps) / 2


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_clients_are_told_although_the_worker_that_has_them_is_gone(
    tiny: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """One gets an answer as it comes, one waits in the queue, one connects to a worker that stands still."""
    body = {"prompt": "talk", "max_tokens": 4000}
    with cluster(tmp_path, tiny) as rack:
        rack.go()
        stream = Stream(rack.port, "/v1/completions", body)
        next(stream.events())
        with ThreadPoolExecutor() as pool:
            queued = pool.submit(complete, rack.port, "wait", max_tokens=4000)
            wait_until(lambda: call(rack.port, "GET", "/health").json["queued"] == 1, "queued")
            rack[0].kill_worker(number)
            waiting = [queued]
            if number == signal.SIGSTOP:
                with socket.create_connection(("127.0.0.1", rack.port)) as idle:
                    waiting.append(pool.submit(complete, rack.port, "late", max_tokens=4))
                    rack[0].signal(signal.SIGTERM)
                    assert idle.recv(20).startswith(b"HTTP/1.1 503 ")
            replies = [reply.result() for reply in waiting]
        *_, last = stream.events()
        assert json.loads(last)["error"]["code"] == "stopping"
        assert [(reply.status, reply.json["error"]["code"]) for reply in replies] == [(503, "stopping")] * len(replies)
        assert rack[0].wait() == (70 if number == signal.SIGSTOP else 1)

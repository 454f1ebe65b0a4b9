"""What a process may reach, against real sockets."""

from __future__ import annotations

import errno
import json
import socket
from pathlib import Path

from macluster_inference import reach


def test_the_other_ranks_are_tried_and_loopback_is_not(tmp_path: Path) -> None:
    hostfile = tmp_path / "hostfile.json"
    hostfile.write_text(json.dumps([["10.254.0.1:5000", "10.254.0.5:5001"], ["10.254.0.2:5000"], ["127.0.0.1:5002"]]))
    environment = {"MLX_HOSTFILE": str(hostfile)}
    assert reach.peers(1, environment) == ["10.254.0.1", "10.254.0.5"]
    assert reach.peers(0, environment) == ["10.254.0.2"]
    assert reach.peers(1, {"MLX_JACCL_COORDINATOR": "192.168.1.10:32323"}) == ["192.168.1.10"]
    assert reach.peers(0, {"MLX_JACCL_COORDINATOR": "192.168.1.10:32323"}) == []
    assert reach.peers(1, {"MLX_HOSTFILE": str(tmp_path / "none")}) == []
    hostfile.write_text('{"odd": 1}')
    assert reach.peers(0, environment) == []


def test_each_attempt_has_its_own_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        # Only the first address of the loopback network has a listener.
        results = reach.probe(["127.0.0.1", "127.0.0.2"], port)
    assert results == [
        {"address": "127.0.0.1", "errno": 0, "name": ""},
        {"address": "127.0.0.2", "errno": errno.ECONNREFUSED, "name": "ECONNREFUSED"},
    ]


def test_silence_ends_with_the_limit() -> None:
    # A full backlog: the kernel answers nobody any more.
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        held = [socket.socket() for _ in range(8)]
        try:
            for client in held:
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
            (result,) = reach.probe(["127.0.0.1"], port, limit_s=0.2)
        finally:
            for client in held:
                client.close()
    assert result["name"] == "ETIMEDOUT"

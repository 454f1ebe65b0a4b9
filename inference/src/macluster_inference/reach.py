"""What this process may reach: macOS can keep a program from the local network, and says only `No route to host`.

The privacy setting belongs to the program and to how it was started, so it is tried by the engine itself, as launchd
started it, and never read from a setting. Nothing is decided here: the desk compares with what its own tools reach.
"""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import selectors
import socket
import time
from pathlib import Path
from typing import TypedDict

# The discard port: nobody listens there. A refusal, or silence, is an answer too.
PORT = 9
# For all attempts together, seconds.
LIMIT_S = 3.0


class Result(TypedDict):
    """One attempt: the address, the system's error number (0: connected) and its name."""

    address: str
    errno: int
    name: str


def peers(rank: int, environment: dict[str, str]) -> list[str]:
    """Addresses of the other ranks, as MLX is told them; loopback is left out, because it is always allowed."""
    found: list[str] = []
    hostfile = environment.get("MLX_HOSTFILE")
    if hostfile and environment.get("MLX_JACCL_COORDINATOR") is None:
        try:
            hosts = json.loads(Path(hostfile).read_text())
            found = [at.rsplit(":", 1)[0] for number, host in enumerate(hosts) if number != rank for at in host]
        except (OSError, ValueError, TypeError, AttributeError):
            # What is wrong with that file is MLX's to say.
            return []
    coordinator = environment.get("MLX_JACCL_COORDINATOR")
    if coordinator and rank != 0:
        found.append(coordinator.rsplit(":", 1)[0])
    return [address for address in dict.fromkeys(found) if _counts(address)]


def _counts(address: str) -> bool:
    try:
        return not ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def probe(addresses: list[str], port: int = PORT, limit_s: float = LIMIT_S) -> list[Result]:
    """Try to connect to all at once; one result each, in order. `ETIMEDOUT` stands for silence within the limit."""
    results: dict[str, int] = {}
    selector = selectors.DefaultSelector()
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        attempt = socket.socket(family, socket.SOCK_STREAM)
        attempt.setblocking(False)
        code = attempt.connect_ex((address, port))
        if code == errno.EINPROGRESS:
            selector.register(attempt, selectors.EVENT_WRITE, address)
        else:
            results[address] = code
            attempt.close()
    deadline = time.monotonic() + limit_s
    while selector.get_map() and (left := deadline - time.monotonic()) > 0:
        for key, _ in selector.select(left):
            assert isinstance(key.fileobj, socket.socket)
            results[key.data] = key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            selector.unregister(key.fileobj)
            key.fileobj.close()
    for key in list(selector.get_map().values()):
        assert isinstance(key.fileobj, socket.socket)
        key.fileobj.close()
    selector.close()
    codes = [(address, results.get(address, errno.ETIMEDOUT)) for address in addresses]
    return [Result(address=a, errno=code, name=errno.errorcode.get(code, "") if code else "") for a, code in codes]


def of_this_rank(rank: int) -> list[Result]:
    """What this process reaches of the other ranks; nothing when all are on this machine."""
    addresses = peers(rank, dict(os.environ))
    return probe(addresses) if addresses else []

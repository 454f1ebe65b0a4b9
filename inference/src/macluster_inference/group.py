"""The ranks as one group: joining it, and the small collectives that keep them in step.

Every method that communicates must be called by all ranks at the same point of the program.
Only `all_sum` is used: each rank adds its own slot of a vector that is zero elsewhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import mlx.core as mx

from .config import RankConfig
from .errors import EngineError, Kind

_CRC_MASK = 0x7FFFFFFF


class Group:
    """The joined ranks; with a world size of one, nothing is ever sent."""

    def __init__(self, rank: int, size: int, handle: mx.distributed.Group | None) -> None:
        self.rank = rank
        self.size = size
        self.handle = handle

    def sum(self, values: Sequence[int]) -> list[int]:
        """Add int32 vectors of equal length over all ranks.

        Raises:
            EngineError: kind `peer-lost`.
        """
        if self.handle is None:
            return list(values)
        vector = mx.array(list(values), dtype=mx.int32)
        try:
            total = mx.distributed.all_sum(vector, group=self.handle, stream=mx.cpu)
            mx.eval(total)
        except RuntimeError as error:
            raise EngineError(Kind.PEER_LOST, f"lost contact with another rank: {error}") from error
        return total.tolist()

    def vote(self, *flags: bool) -> list[list[int]]:
        """For each flag, the ranks that raised it."""
        mine = [[int(flag and rank == self.rank) for rank in range(self.size)] for flag in flags]
        total = self.sum([value for row in mine for value in row])
        rows = [total[i * self.size : (i + 1) * self.size] for i in range(len(flags))]
        return [[rank for rank, raised in enumerate(row) if raised] for row in rows]

    def differing(self, digest: bytes) -> list[int]:
        """The ranks whose digest is not rank 0's."""
        width = len(digest)
        flat = [0] * (width * self.size)
        flat[width * self.rank : width * (self.rank + 1)] = digest
        total = self.sum(flat)
        rows = [total[width * rank : width * (rank + 1)] for rank in range(self.size)]
        return [rank for rank, row in enumerate(rows) if row != rows[0]]

    def share(self, payload: bytes | None, length: int, crc: int) -> bytes:
        """Rank 0's bytes, on every rank. `length` and `crc` were agreed in an earlier `sum`.

        Raises:
            EngineError: kind `internal`, when the bytes arrived damaged (see mlx issue 3149).
        """
        if self.handle is None:
            assert payload is not None
            return payload
        mine = payload if self.rank == 0 and payload is not None else bytes(length)
        received = bytes(self.sum(list(mine)))
        if checksum(received) != crc:
            raise EngineError(Kind.INTERNAL, "a request arrived damaged on this rank; collectives are unsound")
        return received


def lost_peer(error: BaseException) -> bool:
    """Whether MLX's communication failed: its messages begin with the backend's name."""
    return isinstance(error, RuntimeError) and any(name in str(error) for name in ("[ring]", "[jaccl]"))


def checksum(payload: bytes) -> int:
    """CRC-32 cut to what a positive int32 holds."""
    return zlib.crc32(payload) & _CRC_MASK


def join(config: RankConfig) -> Group:
    """Meet the other ranks of the engine; see `join_as`."""
    return join_as(config.rank, config.world_size, config.backend, config.mlx_backend)


def join_as(rank: int, world_size: int, backend: str, mlx_backend: str) -> Group:
    """Meet the other ranks.

    `mx.distributed.init` keeps the interpreter lock until every rank is there, and has no time limit of
    its own on rank 0: the engine process, which is another process, watches the clock.

    Raises:
        EngineError: kind `join-failed` or `world-size`.
    """
    if world_size == 1:
        return Group(0, 1, None)
    try:
        handle = mx.distributed.init(strict=True, backend=mlx_backend)
    except (RuntimeError, ValueError) as error:
        raise EngineError(Kind.JOIN_FAILED, f"backend {backend}: {error}") from error
    if handle.size() != world_size or handle.rank() != rank:
        raise EngineError(
            Kind.WORLD_SIZE,
            f"joined as rank {handle.rank()} of {handle.size()}, expected rank {rank} of {world_size}",
        )
    return Group(rank, world_size, handle)

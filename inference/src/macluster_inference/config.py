"""`rank.json`: what one rank is told, read strictly (an unknown key is an error)."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from .errors import EngineError, Kind

SCHEMA_VERSION = 1
BACKENDS = {"jaccl": "jaccl", "jaccl-ring": "jaccl", "ring": "ring"}
"""What is announced, and what `mx.distributed.init` gets for it."""

MAX_IDLE_SYNC_S = 2.0
"""Ranks must meet often enough for `/health` (5 s) to stay truthful."""


class Parallel(StrEnum):
    """How the ranks share a model."""

    TENSOR = "tensor"
    """Every rank computes a part of every layer."""

    PIPELINE = "pipeline"
    """Every rank computes some of the layers."""


_REQUIRED = {
    "schema_version": int,
    "rack": str,
    "node": str,
    "release": str,
    "rank": int,
    "world_size": int,
    "backend": str,
    "mlx_backend": str,
    "env": dict,
    "model": dict,
    "trust_remote_code": bool,
    "api": (dict, type(None)),
    "start_timeout_s": (int, float),
    "idle_sync_s": (int, float),
}
_OPTIONAL = {"parallel": Parallel.TENSOR.value}
"""Keys that older files lack, and what those mean."""


@dataclass(frozen=True)
class Api:
    """Where rank 0 serves HTTP; always a loopback address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class RankConfig:
    """A checked `rank.json`. Times are in seconds."""

    rack: str
    node: str
    release: str
    rank: int
    world_size: int
    backend: str
    mlx_backend: str
    env: Mapping[str, str]
    model_path: Path
    model_id: str
    trust_remote_code: bool
    parallel: Parallel
    api: Api | None
    start_timeout_s: float
    idle_sync_s: float


def load(path: Path, environ: Mapping[str, str] = os.environ) -> RankConfig:
    """Read and check `rank.json` against itself and against the process environment.

    Raises:
        EngineError: kind `config`, with the offending key in the message.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_no_duplicates)
    except OSError as error:
        raise _error(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise _error(f"{path} is not valid JSON: {error}") from error
    try:
        config = _check(raw)
        _check_environment(config, environ)
    except EngineError as error:
        raise _error(f"{path}: {error}") from error
    return config


def _error(message: str) -> EngineError:
    return EngineError(Kind.CONFIG, message)


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twice!r} appears twice")
    return result


def fields(raw: Any, where: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of one JSON object, all present, none unknown, each of its type."""
    if not isinstance(raw, dict):
        raise _error(f"{where or 'the file'} must be an object")
    prefix = f"{where}." if where else ""
    for key in raw:
        if key not in wanted:
            near = difflib.get_close_matches(key, wanted, n=1)
            hint = f" (did you mean {prefix}{near[0]}?)" if near else ""
            raise _error(f"unknown key {prefix}{key}{hint}")
    for key, types in wanted.items():
        if key not in raw:
            raise _error(f"missing key {prefix}{key}")
        value = raw[key]
        # To Python a bool is an int; to JSON it is not.
        wants_bool = types is bool
        if isinstance(value, bool) != wants_bool or not isinstance(value, types):
            raise _error(f"{prefix}{key} has the wrong type ({type(value).__name__})")
    return raw


def _check(raw: Any) -> RankConfig:
    if isinstance(raw, dict):
        raw = {**_OPTIONAL, **raw}
    top = fields(raw, "", {**_REQUIRED, **{key: type(value) for key, value in _OPTIONAL.items()}})
    if top["schema_version"] != SCHEMA_VERSION:
        raise _error(f"schema_version is {top['schema_version']}, this engine reads {SCHEMA_VERSION}")
    model = fields(top["model"], "model", {"path": str, "id": str})
    rank, world_size = top["rank"], top["world_size"]
    if world_size < 1 or not 0 <= rank < world_size:
        raise _error(f"rank {rank} does not exist in a world of {world_size}")
    if BACKENDS.get(top["backend"]) != top["mlx_backend"]:
        raise _error(f"backend {top['backend']!r} does not go with mlx_backend {top['mlx_backend']!r}")
    if top["parallel"] not in list(Parallel):
        known = " and ".join(repr(str(way)) for way in Parallel)
        raise _error(f"parallel is {top['parallel']!r}, this engine knows {known}")
    for name, value in top["env"].items():
        if not isinstance(value, str):
            raise _error(f"env.{name} must be a string")
    if not model["id"]:
        raise _error("model.id is empty")
    if not Path(model["path"]).is_absolute():
        raise _error(f"model.path must be absolute: {model['path']!r}")
    if top["start_timeout_s"] <= 0:
        raise _error("start_timeout_s must be more than 0")
    if not 0 < top["idle_sync_s"] <= MAX_IDLE_SYNC_S:
        raise _error(f"idle_sync_s must be more than 0 and at most {MAX_IDLE_SYNC_S}")
    return RankConfig(
        rack=top["rack"],
        node=top["node"],
        release=top["release"],
        rank=rank,
        world_size=world_size,
        backend=top["backend"],
        mlx_backend=top["mlx_backend"],
        env=top["env"],
        model_path=Path(model["path"]),
        model_id=model["id"],
        trust_remote_code=top["trust_remote_code"],
        parallel=Parallel(top["parallel"]),
        api=_api(top["api"], rank),
        start_timeout_s=float(top["start_timeout_s"]),
        idle_sync_s=float(top["idle_sync_s"]),
    )


def _api(raw: Any, rank: int) -> Api | None:
    if (raw is None) != (rank != 0):
        raise _error("api belongs to rank 0, and only to it")
    if raw is None:
        return None
    api = fields(raw, "api", {"host": str, "port": int})
    if api["host"] not in ("127.0.0.1", "::1"):
        raise _error(f"api.host must be a loopback address (127.0.0.1 or ::1), not {api['host']!r}")
    if not 0 < api["port"] < 65536:
        raise _error(f"api.port {api['port']} is not a port")
    return Api(api["host"], api["port"])


def _check_environment(config: RankConfig, environ: Mapping[str, str]) -> None:
    """The environment MLX will read must be the one the file announces."""
    if config.world_size == 1 and environ.get("MLX_RANK", "0") != "0":
        raise _error(f"MLX_RANK is {environ['MLX_RANK']!r} in the environment, but world_size is 1")
    if config.world_size > 1 and environ.get("MLX_RANK") != str(config.rank):
        raise _error(f"MLX_RANK is {environ.get('MLX_RANK')!r} in the environment, but rank is {config.rank}")
    for name, value in config.env.items():
        if name.startswith("MLX_") and environ.get(name) != value:
            raise _error(f"env.{name} is {value!r}, but the environment has {environ.get(name)!r}")

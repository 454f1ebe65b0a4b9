"""`rank.json` is read strictly, and against the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engines import Engine, environment, rank_json
from macluster_inference import config
from macluster_inference.errors import EngineError


def write(tmp_path: Path, value: Any) -> Path:
    path = tmp_path / "rank.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def valid(tmp_path: Path, rank: int = 1, world_size: int = 3) -> dict[str, Any]:
    return rank_json(tmp_path, tmp_path, rank, world_size, 8080)


def test_a_good_file(tmp_path: Path) -> None:
    raw = valid(tmp_path, rank=0)
    loaded = config.load(write(tmp_path, raw), raw["env"])
    assert (loaded.rank, loaded.world_size, loaded.node) == (0, 3, "studio-1")
    assert str(loaded.api) == "127.0.0.1:8080"
    assert loaded.model_path == tmp_path


def test_a_file_that_says_nothing_of_it_means_tensor_parallelism(tmp_path: Path) -> None:
    raw = valid(tmp_path)
    assert "parallel" not in raw
    assert config.load(write(tmp_path, raw), raw["env"]).parallel is config.Parallel.TENSOR
    named = {**raw, "parallel": "pipeline"}
    assert config.load(write(tmp_path, named), raw["env"]).parallel is config.Parallel.PIPELINE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wrold_size": 3}, "unknown key wrold_size (did you mean world_size?)"),
        ({"model": {"path": "/m", "id": "m", "digest": ""}}, "unknown key model.digest"),
        ({"schema_version": 2}, "schema_version is 2"),
        ({"rank": 3}, "rank 3 does not exist in a world of 3"),
        ({"rank": True}, "rank has the wrong type (bool)"),
        ({"rank": "1"}, "rank has the wrong type (str)"),
        ({"trust_remote_code": 0}, "trust_remote_code has the wrong type"),
        ({"parallel": "data"}, "parallel is 'data', this engine knows 'tensor' and 'pipeline'"),
        ({"parallel": None}, "parallel has the wrong type (NoneType)"),
        ({"backend": "jaccl"}, "backend 'jaccl' does not go with mlx_backend 'ring'"),
        ({"backend": "mpi", "mlx_backend": "mpi"}, "backend 'mpi'"),
        ({"model": {"path": "models/x", "id": "x"}}, "model.path must be absolute"),
        ({"model": {"path": "/x", "id": ""}}, "model.id is empty"),
        ({"api": {"host": "127.0.0.1", "port": 1}}, "api belongs to rank 0"),
        ({"env": {"MLX_RANK": 1}}, "env.MLX_RANK must be a string"),
        ({"env": {"MLX_RANK": "1", "MLX_JACCL_RING": "1"}}, "env.MLX_JACCL_RING is '1', but the environment has None"),
        ({"start_timeout_s": 0}, "start_timeout_s must be more than 0"),
        ({"idle_sync_s": 10}, "idle_sync_s must be"),
    ],
)
def test_refusals(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    raw = valid(tmp_path)
    with pytest.raises(EngineError) as refused:
        config.load(write(tmp_path, {**raw, **change}), raw["env"])
    assert message in str(refused.value)
    assert refused.value.exit_code == 3


@pytest.mark.parametrize("key", list(config._REQUIRED))
def test_every_key_is_required(tmp_path: Path, key: str) -> None:
    raw = valid(tmp_path)
    env = raw["env"]
    del raw[key]
    with pytest.raises(EngineError, match=f"missing key {key}"):
        config.load(write(tmp_path, raw), env)


@pytest.mark.parametrize("host", ["0.0.0.0", "localhost", "192.168.1.4"])
def test_the_api_is_for_loopback_only(tmp_path: Path, host: str) -> None:
    raw = {**valid(tmp_path, rank=0), "api": {"host": host, "port": 8080}}
    with pytest.raises(EngineError, match="loopback"):
        config.load(write(tmp_path, raw), raw["env"])


@pytest.mark.parametrize("mlx_rank", [None, "0", "one"])
def test_the_environment_must_agree_on_the_rank(tmp_path: Path, mlx_rank: str | None) -> None:
    raw = valid(tmp_path)
    env = {k: v for k, v in {**raw["env"], "MLX_RANK": mlx_rank}.items() if v is not None}
    with pytest.raises(EngineError, match="MLX_RANK"):
        config.load(write(tmp_path, raw), env)


@pytest.mark.parametrize("text", ["{", "[]", '{"rank": 1, "rank": 2}', "null"])
def test_not_even_the_right_json(tmp_path: Path, text: str) -> None:
    with pytest.raises(EngineError):
        config.load(write(tmp_path, text), {})


def test_the_engine_exits_3_with_a_config_error_and_nothing_else(tmp_path: Path) -> None:
    raw = {**valid(tmp_path, rank=0, world_size=1), "colour": "grey"}
    engine = Engine(write(tmp_path, raw), environment({}))
    try:
        assert engine.wait() == 3
    finally:
        engine.end()
    assert [e["event"] for e in engine.events] == ["error", "stopped"]
    assert engine.events[0]["kind"] == "config"
    assert "unknown key colour" in engine.events[0]["message"]
    assert engine.stray == []

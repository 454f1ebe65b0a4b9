"""A model divided by layers: the same numbers, the same guarantees, and no rank holds what is not its own."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from api import Stream, complete
from engines import Cluster, Engine, cluster, environment, rank_json
from macluster_inference import model
from macluster_inference.config import Parallel
from macluster_inference.errors import EngineError, Kind
from test_split import logits
from tiny import copy, write_tiny_deepseek

PROMPT = list(range(65, 65 + 24))
LONG = [65 + n % 26 for n in range(600)]
"""More than two chunks of a prompt."""


def pipeline(folder: Path, weights: Path, world_size: int) -> Any:
    return cluster(folder, weights, world_size, parallel="pipeline")


def loaded(rack: Cluster) -> list[dict[str, Any]]:
    return [engine.all("loaded")[0] for engine in rack.engines]


def check(folder: Path, world_size: int) -> model.Checked:
    return model.check(folder, world_size, trust_remote_code=False, parallel=Parallel.PIPELINE)


# Three ranks hold 2, 1 and 1 layers.
@pytest.mark.parametrize("world_size", [2, 3])
def test_logits_are_those_of_one_process(deepseek: Path, tmp_path: Path, world_size: int) -> None:
    (whole,) = logits(tmp_path / "1", deepseek, 1)
    assert np.std(whole) > 0.5, "the comparison would prove nothing"
    for part in logits(tmp_path / "ranks", deepseek, world_size, parallel="pipeline"):
        np.testing.assert_allclose(part, whole, rtol=0, atol=1e-4)


def test_tokens_are_those_of_one_process_and_each_rank_holds_its_layers(deepseek: Path, tmp_path: Path) -> None:
    answers, held = {}, {}
    for world_size in (1, 2, 3):
        with pipeline(tmp_path / str(world_size), deepseek, world_size) as rack:
            rack.go()
            answers[world_size] = [
                complete(rack.port, prompt, max_tokens=24, temperature=0).text for prompt in (PROMPT, LONG, PROMPT)
            ]
            rack.stop()
            assert [len(engine.all("generated")) for engine in rack.engines] == [3] * world_size
            held[world_size] = loaded(rack)
    assert min(map(len, answers[1])) > 5
    assert answers[1] == answers[2] == answers[3]
    whole = held[1][0]["bytes"]
    # What no layer owns is on every rank: embedding, head and the last norm, in float32.
    shared = 4 * (2 * 260 * 64 + 64)
    for world_size in (2, 3):
        sizes = [event["bytes"] for event in held[world_size]]
        assert sum(sizes) == whole + (world_size - 1) * shared
        # Weights that were read and dropped would show here.
        assert all(event["peak_memory"] < event["bytes"] * 1.2 for event in held[world_size])
    assert [event["bytes"] > held[3][1]["bytes"] for event in held[3]] == [True, False, False]


@pytest.mark.parametrize("told", [0, 2])
def test_a_signal_to_any_one_rank_stops_all_in_the_same_step(deepseek: Path, tmp_path: Path, told: int) -> None:
    with pipeline(tmp_path, deepseek, 3) as rack:
        rack.go()
        stream = Stream(rack.port, "/v1/completions", {"prompt": "talk", "max_tokens": 3000})
        next(stream.events())
        rack[told].signal(signal.SIGTERM)
        assert [engine.wait() for engine in rack.engines] == [0, 0, 0]
        reasons = [engine.all("stopped")[0]["reason"] for engine in rack.engines]
        *_, last = stream.events()
    assert json.loads(last)["error"]["code"] == "stopping"
    assert reasons.pop(told) == "SIGTERM"
    assert set(reasons) == {"another rank was asked to stop"}


def test_a_client_that_leaves_ends_its_request_on_all_ranks(deepseek: Path, tmp_path: Path) -> None:
    with pipeline(tmp_path, deepseek, 2) as rack:
        rack.go()
        stream = Stream(rack.port, "/v1/completions", {"prompt": "talk", "max_tokens": 3000})
        next(stream.events())
        stream.disconnect()
        ends = [engine.wait_for("generated") for engine in rack.engines]
        assert complete(rack.port, PROMPT, max_tokens=3, temperature=0).status == 200
        rack.stop()
    assert [end["finish_reason"] for end in ends] == ["cancelled"] * 2
    assert ends[0]["tokens"] == ends[1]["tokens"] < 3000


@pytest.mark.parametrize("lost", [0, 1])
def test_the_other_of_a_lost_rank_ends_when_it_is_asked(deepseek: Path, tmp_path: Path, lost: int) -> None:
    """In the middle of an answer, when ranks wait for one another within the model.

    It may notice by itself, or MLX's ring lets it wait for ever: agents end all when one has ended.
    """
    with pipeline(tmp_path, deepseek, 2) as rack:
        rack.go()
        stream = Stream(rack.port, "/v1/completions", {"prompt": "talk", "max_tokens": 3000})
        next(stream.events())
        rack[lost].kill_all()
        other = rack[1 - lost]
        other.signal(signal.SIGTERM)
        # By itself with an error; or its worker does not get away from the ring and is ended.
        code = other.wait()
        assert code in (1, 70)
        assert (code == 1) == bool(other.all("error"))


def test_ranks_that_mean_to_divide_differently_do_not_begin(tmp_path: Path) -> None:
    both_ways = write_tiny_deepseek(tmp_path / "model", heads=4)
    with cluster(tmp_path, both_ways, 2, ranks=[0]) as rack:
        value = rank_json(tmp_path, both_ways, 1, 2, rack.port, parallel="pipeline")
        config = tmp_path / "rank-1.json"
        config.write_text(json.dumps(value))
        rack.engines.append(Engine(config, environment(value["env"])))
        for engine in rack.engines:
            engine.wait_for("armed")
        for engine in rack.engines:
            engine.go()
        assert [engine.wait() for engine in rack.engines] == [3, 3]
        errors = [engine.all("error")[0] for engine in rack.engines]
    assert {error["kind"] for error in errors} == {"config"}
    assert all("rank 1 has `parallel: pipeline`" in error["message"] for error in errors)


def test_what_is_no_pipeline_is_refused_by_name(tiny: Path, deepseek: Path, tmp_path: Path) -> None:
    check(tiny, 1)
    check(deepseek, 4)
    for folder, ranks, message in (
        (tiny, 2, "mlx-lm has no pipeline for model_type 'qwen3'; write runtime.parallel: tensor"),
        (deepseek, 5, "4 layers are too few for a pipeline of 5 ranks"),
    ):
        with pytest.raises(EngineError) as refused:
            check(folder, ranks)
        assert refused.value.kind == Kind.DOES_NOT_SPLIT
        assert message in str(refused.value)


def test_layers_of_another_precision_than_the_embedding_are_refused(deepseek: Path, tmp_path: Path) -> None:
    """The receiver would wait for half the bytes, or for twice as many."""
    mixed = copy(deepseek, tmp_path / "mixed")
    for file in mixed.glob("*.safetensors"):
        weights = mx.load(str(file))
        narrow = {k: v.astype(mx.bfloat16) if "embed_tokens" in k else v for k, v in weights.items()}
        mx.eval(narrow)
        mx.save_safetensors(str(file), narrow)
    model.check(mixed, 1, trust_remote_code=False)
    with pytest.raises(EngineError) as refused:
        check(mixed, 2)
    assert refused.value.kind == Kind.DOES_NOT_SPLIT
    assert "the embedding is bfloat16, the layers compute float32" in str(refused.value)

"""What makes a model folder incomplete, each told by name, before anything is loaded."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engines import cluster
from macluster_inference import model, weights
from macluster_inference.errors import EngineError, Kind
from tiny import CONFIG, copy

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"


def check(folder: Path, world_size: int = 1) -> model.Checked:
    return model.check(folder, world_size, trust_remote_code=False)


def edit(path: Path, change: Callable[[Any], None]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def remove(folder: Path) -> None:
    (folder / SECOND).unlink()


def truncate(folder: Path) -> None:
    data = (folder / SECOND).read_bytes()
    (folder / SECOND).write_bytes(data[:-1000])


def cut_in_header(folder: Path) -> None:
    (folder / SECOND).write_bytes((folder / SECOND).read_bytes()[:100])


def empty(folder: Path) -> None:
    (folder / SECOND).write_bytes(b"")


def not_safetensors(folder: Path) -> None:
    (folder / SECOND).write_bytes(struct.pack("<Q", 1 << 60) + b"x" * 100)


def extend(folder: Path) -> None:
    with (folder / SECOND).open("ab") as file:
        file.write(b"more")


def drop_tensor(folder: Path) -> None:
    """Gone from its file, still in the index."""
    tensors = mx.load(str(folder / SECOND))
    del tensors["model.norm.weight"]
    mx.save_safetensors(str(folder / SECOND), tensors)


def drop_tensor_everywhere(folder: Path) -> None:
    """Gone from file and index alike: only the model itself can tell."""
    drop_tensor(folder)
    edit(folder / weights.INDEX_NAME, lambda index: index["weight_map"].pop("model.norm.weight"))


def twice(folder: Path) -> None:
    first, second = mx.load(str(folder / FIRST)), mx.load(str(folder / SECOND))
    mx.save_safetensors(str(folder / FIRST), {**first, "model.norm.weight": second["model.norm.weight"]})


def unindexed(folder: Path) -> None:
    mx.save_safetensors(str(folder / "model-extra.safetensors"), {"surprise": mx.zeros(4)})


def other_shape(folder: Path) -> None:
    tensors = mx.load(str(folder / SECOND))
    tensors["model.norm.weight"] = mx.zeros(63)
    mx.save_safetensors(str(folder / SECOND), tensors)


def index_leads_away(folder: Path) -> None:
    edit(folder / weights.INDEX_NAME, lambda i: i["weight_map"].update({"model.norm.weight": "../x.safetensors"}))


def broken_index(folder: Path) -> None:
    (folder / weights.INDEX_NAME).write_text('{"weight_map": ')


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove, f"{SECOND} is missing"),
        (truncate, f"{SECOND} is truncated"),
        (cut_in_header, f"{SECOND} is truncated within its header"),
        (empty, f"{SECOND} is truncated within its header"),
        (not_safetensors, f"{SECOND} is not a safetensors file"),
        (extend, f"{SECOND} is damaged"),
        (drop_tensor, f"places model.norm.weight in {SECOND}, but no file has it"),
        (drop_tensor_everywhere, "Missing 1 parameters: model.norm.weight"),
        (twice, f"model.norm.weight is in {FIRST} and again in {SECOND}"),
        (unindexed, "model-extra.safetensors holds surprise"),
        (other_shape, "(63,) for parameter model.norm.weight"),
        (index_leads_away, "outside the model folder"),
        (broken_index, "cannot read"),
    ],
)
def test_an_incomplete_folder_is_refused_by_name(
    tiny: Path, tmp_path: Path, damage: Callable[[Path], None], message: str
) -> None:
    folder = copy(tiny, tmp_path / "model")
    check(folder)
    damage(folder)
    with pytest.raises(EngineError) as refused:
        check(folder)
    assert refused.value.kind is Kind.MODEL_INCOMPLETE
    assert message in str(refused.value)


def test_a_missing_folder_and_a_missing_config(tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(EngineError) as refused:
            check(folder)
        assert refused.value.kind is Kind.MODEL_MISSING


def test_an_architecture_mlx_lm_does_not_know(tiny: Path, tmp_path: Path) -> None:
    folder = copy(tiny, tmp_path / "model")
    edit(folder / "config.json", lambda c: c.update(model_type="perceptron"))
    with pytest.raises(EngineError, match="perceptron") as refused:
        check(folder)
    assert refused.value.kind is Kind.MODEL_MISMATCH


def test_a_model_with_its_own_code_is_not_run(tiny: Path, tmp_path: Path) -> None:
    folder = copy(tiny, tmp_path / "model")
    edit(folder / "config.json", lambda c: c.update(model_file="evil.py"))
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(EngineError, match="trust_remote_code") as refused:
        check(folder)
    assert refused.value.kind is Kind.CONFIG
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "world_size", "message"),
    [
        ({}, 3, "8 attention heads cannot be divided among 3 ranks; this model divides into 1, 2, 4"),
        ({}, 8, "4 key/value heads cannot be divided among 8 ranks"),
        # Heads divide, the width of the MLP does not: only mlx-lm's own `shard` can tell.
        ({"intermediate_size": 126}, 4, "4 ranks: "),
        # mlx-lm can run it, but not split it.
        ({"model_type": "gpt2"}, 2, "has no shard()"),
    ],
)
def test_what_does_not_split(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], world_size: int, message: str
) -> None:
    folder = copy(tiny, tmp_path / "model")
    edit(folder / "config.json", lambda c: c.update(change))
    if "intermediate_size" in change:
        tensors = {**mx.load(str(folder / FIRST)), **mx.load(str(folder / SECOND))}
        tensors = {n: a[:126] if ".gate_" in n or ".up_" in n else a for n, a in tensors.items()}
        tensors = {n: a[:, :126] if ".down_" in n else a for n, a in tensors.items()}
        (folder / weights.INDEX_NAME).unlink()
        (folder / SECOND).unlink()
        mx.save_safetensors(str(folder / FIRST), tensors)
    if "model_type" in change:
        monkeypatch.setattr(model, "build", lambda _: object())
    with pytest.raises(EngineError) as refused:
        check(folder, world_size)
    assert refused.value.kind is Kind.DOES_NOT_SPLIT
    assert message in str(refused.value)


def test_the_digest_sees_what_it_promises_to(tiny: Path, tmp_path: Path) -> None:
    folder = copy(tiny, tmp_path / "model")
    before = check(folder).digest
    assert check(tiny).digest == before, "the path is no part of it"
    (folder / "README.md").write_text("not the model")
    assert check(folder).digest == before
    seen = {before}
    for path in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        edit(folder / path, lambda c: c.update(extra=1))
        seen.add(check(folder).digest)
    data = bytearray((folder / SECOND).read_bytes())
    data[-1] ^= 1
    (folder / SECOND).write_bytes(data)
    seen.add(check(folder).digest)
    assert len(seen) == 5


def test_counts(tiny: Path) -> None:
    checked = check(tiny, 2)
    assert checked.tensors == 2 + 2 * 11
    assert checked.context == CONFIG["max_position_embeddings"]


def test_the_rank_that_lacks_a_file_says_so_and_the_other_does_not_hang(tiny: Path, tmp_path: Path) -> None:
    folder = copy(tiny, tmp_path / "damaged")
    remove(folder)
    with cluster(tmp_path, [tiny, folder], 2, start_timeout_s=4) as rack:
        assert rack[1].wait() == 4
        error = rack[1].all("error")[0]
        # Without the barrier: rank 0 is sent on alone, and gives up by itself.
        rack[0].wait_for("armed")
        rack[0].go()
        assert rack[0].wait() == 5
        assert rack[0].all("error")[0]["kind"] in ("timeout", "join-failed")
    assert (error["kind"], error["node"], error["fatal"]) == ("model-incomplete", "studio-2", True)
    assert SECOND in error["message"]
    assert not rack[1].all("armed")


def test_a_file_that_is_damaged_after_the_check_stops_all_ranks(tiny: Path, tmp_path: Path) -> None:
    folder = copy(tiny, tmp_path / "damaged")
    with cluster(tmp_path, [tiny, folder], 2) as rack:
        for engine in rack.engines:
            engine.wait_for("armed")
        truncate(folder)
        for engine in rack.engines:
            engine.go()
        assert [engine.wait() for engine in rack.engines] == [4, 4]
        messages = [engine.all("error")[0]["message"] for engine in rack.engines]
    assert SECOND in messages[1]
    assert "rank 1" in messages[0]
    assert not rack[0].all("ready")


def test_ranks_with_different_models_are_named(tiny: Path, tmp_path: Path) -> None:
    folder = copy(tiny, tmp_path / "other")
    data = bytearray((folder / SECOND).read_bytes())
    data[-1] ^= 1
    (folder / SECOND).write_bytes(data)
    with cluster(tmp_path, [tiny, folder], 2) as rack:
        for engine in rack.engines:
            engine.wait_for("armed")
        for engine in rack.engines:
            engine.go()
        assert [engine.wait() for engine in rack.engines] == [4, 4]
        errors = [engine.all("error")[0] for engine in rack.engines]
    assert {e["kind"] for e in errors} == {"model-mismatch"}
    assert "rank 1 holds other model files than rank 0" in errors[0]["message"]
    assert "rank 1 (this one) holds other model files" in errors[1]["message"]

"""The real model: the same words from one process and from three."""

from __future__ import annotations

from pathlib import Path

from api import chat
from engines import cluster

QUESTION = "What is the capital of France? Answer in one sentence."
ANSWER = "The capital of France is Paris."


def test_one_process_and_three_ranks_give_the_known_answer(smollm2: Path, tmp_path: Path) -> None:
    with cluster(tmp_path / "one", smollm2) as rack:
        rack.go()
        alone = chat(rack.port, QUESTION, temperature=0)
        rack.stop()
        digest = rack[0].all("loaded")[0]["digest"]
    with cluster(tmp_path / "three", smollm2, 3) as rack:
        rack.go()
        together = chat(rack.port, QUESTION, temperature=0)
        rack.stop()
        loaded = [engine.all("loaded")[0] for engine in rack.engines]
        generated = [engine.all("generated")[0] for engine in rack.engines]
    assert alone.text == together.text == ANSWER
    assert (
        alone.json["usage"]
        == together.json["usage"]
        == {
            "prompt_tokens": 42,
            "completion_tokens": 8,
            "total_tokens": 50,
        }
    )
    # Whole on one process; a third of most tensors, and all of the embedding, on each of three.
    assert {one["digest"] for one in loaded} == {digest}
    assert {one["parameters"] for one in loaded} == {63_736_128}
    assert {(g["tokens"], g["finish_reason"]) for g in generated} == {(8, "stop")}
    assert {g["request"] for g in generated} == {together.json["id"]}


def test_two_ranks_do_not_split_nine_heads(smollm2: Path, tmp_path: Path) -> None:
    with cluster(tmp_path, smollm2, 2) as rack:
        codes = [engine.wait() for engine in rack.engines]
        errors = [engine.all("error")[0] for engine in rack.engines]
    assert codes == [4, 4]
    assert {e["kind"] for e in errors} == {"does-not-split"}
    assert "9 attention heads cannot be divided among 2 ranks" in errors[1]["message"]
    assert "divides into 1, 3" in errors[1]["message"]
    assert [e["node"] for e in errors] == ["studio-1", "studio-2"]

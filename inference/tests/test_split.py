"""The same numbers from a model split among ranks as from the whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from api import complete
from engines import WAIT_S, cluster, environment, free_ports, rank_json

PROMPT = list(range(65, 65 + 24))


def logits(folder: Path, model: Path, world_size: int, **changes: str) -> list[np.ndarray]:
    """The logits of each rank, from processes that join and load as the engine does."""
    folder.mkdir()
    ports = free_ports(world_size)
    (folder / "hostfile.json").write_text(json.dumps([[f"127.0.0.1:{port}"] for port in ports]))
    processes = []
    for rank in range(world_size):
        value = rank_json(folder, model, rank, world_size, 1, **changes)
        config = folder / f"rank-{rank}.json"
        config.write_text(json.dumps(value))
        command = [sys.executable, str(Path(__file__).with_name("logits.py")), str(config), json.dumps(PROMPT)]
        pipe = subprocess.PIPE
        processes.append(subprocess.Popen(command, env=environment(value["env"]), stdin=pipe, stdout=pipe))
    try:
        for process in processes:
            assert process.stdout.readline() == b"armed\n"
        for process in processes:
            process.stdin.write(b"go\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=WAIT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    assert [process.returncode for process in processes] == [0] * world_size
    return [np.array(json.loads(output)) for output in outputs]


@pytest.fixture(scope="module")
def whole(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    return logits(tmp_path_factory.mktemp("whole") / "1", tiny, 1)[0]


@pytest.mark.parametrize("world_size", [2, 4])
def test_logits_are_those_of_one_process(tiny: Path, tmp_path: Path, whole: np.ndarray, world_size: int) -> None:
    parts = logits(tmp_path / "ranks", tiny, world_size)
    assert whole.shape == (len(PROMPT), 260)
    assert np.std(whole) > 0.5, "the comparison would prove nothing"
    for part in parts:
        np.testing.assert_allclose(part, whole, rtol=0, atol=1e-3)


def test_tokens_are_those_of_one_process(tiny: Path, tmp_path: Path) -> None:
    answers = {}
    for world_size in (1, 2, 4):
        with cluster(tmp_path / str(world_size), tiny, world_size) as rack:
            rack.go()
            answers[world_size] = complete(rack.port, PROMPT, max_tokens=24, temperature=0).text
            rack.stop()
    assert len(answers[1]) > 5
    assert answers[1] == answers[2] == answers[4]
